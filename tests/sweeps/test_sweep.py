import contextlib
import functools
import json
import os
import re
import shutil
import subprocess
import sys

import pytest

from agents.errors import UsageError
from agents.settings.config_file import load_config
from agents.sweeps.search_space import load_space
from agents.sweeps.sweep import MAX_STARTS, Sweep, trial_run
from agents.sweeps.trial_result import COMPLETE, FAILED, RUNNING
from tests.sweeps.fake_training import SPACE, new_sweep, train, train_trials

CLAIM = """
import sys
from agents.sweeps.sweep import Sweep

sweep = Sweep(sys.argv[1])
with sweep.claimed(int(sys.argv[2])) as trial:
    print(trial and trial.number, flush=True)
    sys.stdin.readline()
"""
TRAIN = """
import sys, time
from agents.sweeps.sweep import Sweep
from tests.sweeps.fake_training import train, train_trials

def slow(config, run):
    for score in train(config, run):
        time.sleep(0.02)
        yield score

train_trials(Sweep(sys.argv[1]), int(sys.argv[2]), slow)
"""


@contextlib.contextmanager
def python(code, *arguments):
    """A process that is killed at the end, if it is still running."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, stderr=subprocess.DEVNULL, **pipes) as process:
        try:
            yield process
        finally:
            process.kill()


def settings(sweep):
    return [result.settings for result in sweep.results()]


def test_the_folder_holds_the_settings_and_the_space(tmp_path):
    sweep = new_sweep(tmp_path, learning_rate=0.5)
    assert re.fullmatch(r"\d{8}T\d{6}-sweep-default", sweep.path.name)
    assert sweep.config.learning_rate == 0.5 and sweep.space.as_data() == SPACE.as_data()
    again = Sweep.existing(tmp_path, sweep.timestamp, "default")
    assert again.path == sweep.path and again.config == sweep.config
    for options, message in (
        ((tmp_path, "2026"), f"no such sweep in .*; it has {sweep.path.name}$"),
        ((tmp_path, sweep.timestamp, "pendulum"), "with --config=pendulum: no such sweep"),
    ):
        with pytest.raises(UsageError, match=message):
            Sweep.existing(*options)
    (tmp_path / "20260101T000000-pendulum").mkdir()
    with pytest.raises(UsageError, match="is not a sweep"):
        Sweep.existing(tmp_path, "20260101T000000")


def test_minibatches_divide_rollouts_in_all_trials(tmp_path):
    sweep = new_sweep(tmp_path)
    train_trials(sweep, 8, train)
    tried = settings(sweep)
    assert {60 % item["minibatch_size"] for item in tried if item["rollout_length"] == 30} == {0}
    assert {128 % item["minibatch_size"] for item in tried if item["rollout_length"] == 64} == {0}
    # Not the ones of the space, 50 and 16, but the nearest.
    assert {(item["rollout_length"], item["minibatch_size"]) for item in tried} == {
        (30, 15), (30, 60), (64, 16), (64, 64)
    }  # fmt: skip
    assert {result.state for result in sweep.results()} <= {"complete", "pruned"}


def test_each_trial_is_a_run_with_a_seed_of_its_own(tmp_path):
    sweep = new_sweep(tmp_path)
    train_trials(sweep, 3, train)
    configs = [trial_run(sweep.path, number).load_config() for number in range(3)]
    assert len({config.seed for config in configs}) == 3
    for config, tried in zip(configs, settings(sweep), strict=True):
        assert config == load_config(config_path(sweep), **tried, seed=config.seed)
    with pytest.raises(UsageError, match="--trial=3: .*it has trial-0000 to trial-0002"):
        trial_run(sweep.path, 3)
    with pytest.raises(UsageError, match="is not a sweep"):
        trial_run(tmp_path, 0)


def config_path(sweep):
    return sweep.path / "settings.yaml"


def test_a_sweep_of_one_process_depends_on_its_seed_only(tmp_path):
    one, same, other = (new_sweep(tmp_path, seed=seed, eval_interval=500) for seed in (1, 1, 2))
    for sweep, num_trials in ((one, 11), (same, 11), (other, 1)):  # The last one is not random.
        train_trials(sweep, num_trials, train)
    assert one.results() == same.results()
    assert one.results()[0].settings != other.results()[0].settings
    seeds = [trial_run(sweep.path, 0).load_config().seed for sweep in (one, same, other)]
    assert seeds[0] == seeds[1] != seeds[2]


def test_an_interrupted_trial_is_resumed_and_the_sweep_equals_one_that_never_stopped(tmp_path):
    whole, stopped = (new_sweep(tmp_path) for _ in range(2))
    train_trials(whole, 4, train)
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            train_trials(Sweep(stopped.path), 4, functools.partial(train, stop_at=500))
        assert [result.state for result in stopped.results()][-1] == RUNNING
        train_trials(Sweep(stopped.path), len(stopped.results()), train)
    train_trials(stopped, 4, train)
    assert stopped.results() == whole.results()
    assert len(whole.results()) == 4


def test_processes_train_different_trials_and_reach_the_total_together(tmp_path):
    sweep = new_sweep(tmp_path)
    with python(TRAIN, sweep.path, 8) as one, python(TRAIN, sweep.path, 8) as other:
        assert (one.wait(300), other.wait(300)) == (0, 0)
    results = sweep.results()
    assert len(results) == 8
    assert {result.state for result in results} <= {"complete", "pruned"}
    assert len({json.dumps(tried) for tried in settings(sweep)}) == 8
    for number in range(8):  # Nothing was trained twice.
        lines = sweep.run(number).metrics_file.read_text().splitlines()
        steps = [json.loads(line)["step"] for line in lines]
        assert steps == sorted(set(steps))


def test_trials_of_a_killed_process_are_taken_over_and_those_of_others_are_not(tmp_path):
    sweep = new_sweep(tmp_path)
    with python(CLAIM, sweep.path, 2) as one, python(CLAIM, sweep.path, 2) as other:
        numbers = [int(process.stdout.readline()) for process in (one, other)]
        assert sorted(numbers) == [0, 1]
        with sweep.claimed(2) as trial:
            assert trial is None  # There are two.
        one.kill()
        one.wait()
        before = settings(sweep)
        with sweep.claimed(2) as trial:
            assert trial.number == numbers[0]
            assert trial.settings == before[trial.number]
            sweep.finish(trial.number, COMPLETE, 1.5)
        assert sweep.results()[numbers[0]].score == 1.5


def test_a_trial_that_ends_its_processes_fails(tmp_path):
    sweep = new_sweep(tmp_path)
    for _ in range(MAX_STARTS):
        with python(CLAIM, sweep.path, 1) as process:
            assert process.stdout.readline() == "0\n"
    with sweep.claimed(1) as trial:
        assert trial is None
    [result] = sweep.results()
    assert result.state == FAILED and "killed" in result.cause


def start_and_end(sweep):
    """Claims the only trial and ends without a word, as if the process were killed."""
    with pytest.raises(ZeroDivisionError), sweep.claimed(1) as trial:
        assert trial.number == 0
        raise ZeroDivisionError


def save_checkpoint(sweep, step):
    folder = sweep.run(0).checkpoints
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"step-{step}.npz").touch()


def test_only_starts_without_progress_count(tmp_path):
    sweep = new_sweep(tmp_path)
    for step in range(1, 2 * MAX_STARTS):
        start_and_end(sweep)
        save_checkpoint(sweep, step)
    for _ in range(MAX_STARTS):  # The first one starts from the last checkpoint.
        start_and_end(sweep)
    with sweep.claimed(1) as trial:
        assert trial is None
    [result] = sweep.results()
    assert result.state == FAILED and "killed" in result.cause


def test_a_trial_whose_settings_were_not_stored_fails(tmp_path):
    sweep = new_sweep(tmp_path)
    sweep.study.ask(sweep.space, 0)  # As if the process were killed then, or the disk full.
    with sweep.claimed(1) as trial:
        assert trial is None
    [result] = sweep.results()
    assert result.state == FAILED and "not stored" in result.cause


def test_interrupts_do_not_count_as_kills(tmp_path):
    sweep = new_sweep(tmp_path)
    for _ in range(MAX_STARTS + 1):
        with pytest.raises(KeyboardInterrupt), sweep.claimed(1) as trial:
            assert trial.number == 0
            raise KeyboardInterrupt


def test_a_process_killed_with_the_journals_lock_holds_up_nobody(tmp_path):
    sweep = new_sweep(tmp_path)
    code = f"""
import os, signal
from pathlib import Path
from agents.sweeps.journal import FileLock
FileLock(Path({str(sweep.path / "locks" / "journal")!r})).acquire()
os.kill(os.getpid(), signal.SIGKILL)
"""
    with python(code) as process:
        assert process.wait(60) == -9
    train_trials(sweep, 1, train)


def test_settings_and_space_of_a_sweep_can_not_change(tmp_path):
    sweep = new_sweep(tmp_path)
    sweep.check_shared({}, None)
    sweep.check_shared({"steps": "1000"}, SPACE)
    for overrides, space, message in (
        ({"steps": 2000}, None, "steps: the sweep has 1000, got 2000\n.*start a new one"),
        ({"learning_rate": 0.01}, None, "learning_rate: the sweep varies it"),
        ({}, load_space("ppo"), "--space: .*space.yaml has another one"),
    ):
        with pytest.raises(UsageError, match=message):
            sweep.check_shared(overrides, space)


def test_a_damaged_journal_is_named(tmp_path):
    sweep = new_sweep(tmp_path)
    with (sweep.path / "journal.jsonl").open("a") as file:
        file.write("{\n{}\n")
    with pytest.raises(UsageError, match="journal.jsonl is damaged"):
        Sweep(sweep.path)


def test_without_optuna_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"package optuna, .*\n.*install .*\[sweep\]'"):
        new_sweep(tmp_path)
    assert os.listdir(tmp_path) == []


def test_a_sweep_that_was_moved_can_be_continued(tmp_path):
    sweep = new_sweep(tmp_path / "here")
    train_trials(sweep, 1, train)
    moved = shutil.move(sweep.path, tmp_path / sweep.path.name)
    train_trials(Sweep(moved), 2, train)
    assert len(Sweep(moved).results()) == 2
