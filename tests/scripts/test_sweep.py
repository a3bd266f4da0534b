import functools
import gc
import json
import os
import pickle
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import agents
from agents.errors import NonFiniteError, UsageError
from agents.runs.run_directory import RunDirectory
from agents.scripts import sweep as sweep_script
from agents.scripts import train as train_script
from agents.scripts.sweep import Sweep, load_space
from agents.settings.config_file import load_config
from agents.settings.reports import run
from agents.training.evaluation import EvaluationScore

pytest.importorskip("optuna")

ROOT = Path(agents.__file__).parents[1]
SPACE = """
learning_rate: {low: 1e-4, high: 1e-1, log: true}
rollout_length: {choices: [30, 64]}
minibatch_size: {choices: [16, 50]}
epochs: {low: 1, high: 9}
layers: {choices: [[8], [16, 16]]}
"""
RATES = "learning_rate: {choices: [0.001, 0.01]}"
FAKE = "--config=default", "--num-envs=2", "--steps=1000", "--eval-interval=100"
SMALL = (
    "--config=cartpole", "--env-backend=tf", "--num-envs=2", "--epochs=1", "--layers=4", "--steps=200",
    "--eval-interval=100", "--eval-episodes=2", "--histogram-interval=0",
)  # fmt: skip


# Trainings without TensorFlow: scores are a function of the settings.


def evaluation(run, step, score):
    """Logs a score as training does, and returns it."""
    run.path.mkdir(parents=True, exist_ok=True)
    with run.metrics_file.open("a") as file:
        file.write(json.dumps({"step": step, "eval/return_mean": score}) + "\n")
    return EvaluationScore({"eval/return_mean": score}, step, False, run.path, lambda: None)


def approach(config, run, stop_at=None):
    """Approaches a score that is best for a learning rate of 0.01."""
    run = RunDirectory(run.path)
    run.prepare(config)
    final = -abs(config.learning_rate - 0.01)
    step = evaluated = 0
    while step < config.steps:
        step += config.num_envs * config.rollout_length
        if stop_at is not None and step > stop_at:
            raise KeyboardInterrupt
        if step // config.eval_interval > evaluated or step >= config.steps:
            evaluated = step // config.eval_interval
            yield evaluation(run, step, final * (2 - min(step / config.steps, 1)))


def worsen(config, run, error=None):
    """Each trial is worse than all before."""
    number = int(run.path.name.removeprefix("trial-"))
    try:
        for step in range(100, 1001, 100):
            yield evaluation(run, step, float(-number))
    except GeneratorExit:
        if error:
            raise error from None
        raise


class Command:
    """The command in a folder, with trainings in place of TensorFlow's."""

    def __init__(self, folder, patch, capsys):
        self.logdir, self.patch, self.capsys = folder / "logs", patch, capsys
        self.options = ["--space=" + str(folder / "space.yaml"), *FAKE]
        self.write_space(SPACE)

    def write_space(self, text):
        (self.logdir.parent / "space.yaml").write_text(text)

    def __call__(self, *others, train=approach, path=None):
        """Starts or continues a sweep; returns its folder."""
        self.patch.setattr(sweep_script, "train", train)
        before = set(self.logdir.glob("*"))
        timestamp = [f"--timestamp={RunDirectory(path).timestamp}"] if path else []
        options = [] if path else self.options
        arguments = [f"--logdir={self.logdir}", *options, *timestamp, *others]
        run(sweep_script.main, arguments)
        [path] = [path] if path else set(self.logdir.glob("*")) - before
        return path

    def fails(self, code, *others, **options):
        """Returns what is printed before it exits with a code."""
        with pytest.raises(SystemExit) as caught:
            self(*others, **options)
        printed = self.capsys.readouterr().err
        assert caught.value.code == code, printed
        return printed


@pytest.fixture
def sweep(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sweep_script, "TRIALS_PER_PROCESS", 100)  # Where pytest would end.
    # These take long beside other tests.
    monkeypatch.setattr(os, "fsync", lambda file: None)
    monkeypatch.setattr(gc, "collect", lambda: 0)
    return Command(tmp_path, monkeypatch, capsys)


def trials(path):
    """State, score, last step and settings of each trial."""
    opened = Sweep(path)
    return [
        (trial.state.name, trial.value, trial.last_step, opened.settings(trial))
        for trial in opened.trials()
    ]


def states(path):
    return [trial.state.name for trial in Sweep(path).trials()]


# What is searched.


def test_the_space_of_ppo_varies_known_settings_around_the_defaults():
    space, defaults = load_space("ppo"), load_config("default")
    assert {"learning_rate", "discount", "minibatch_size", "layers"} <= space.keys()
    assert not space.keys() & sweep_script.SHARED
    for name, values in space.items():
        value = getattr(defaults, name)
        if "choices" in values:
            assert value in values["choices"] or list(value) in values["choices"]
        else:  # Ends of logarithmic ranges are above 0.
            assert values["low"] <= value <= values["high"] or (values["log"] and value == 0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("learning_rat: {low: 1, high: 2}", "unknown setting 'learning_rat' in .*; did you mean 'learning_rate'"),
        ("seed: {low: 0, high: 9}", "seed in .*: all trials share it; set it with --seed"),
        ("epochs: 3", r"epochs in .*: expected .*\{low: .*, or any values as \{choices: .*\}, got 3"),
        ("epochs: {low: 1, hihg: 3}", r"epochs in .*: expected .*got \{'low': 1, 'hihg': 3\}"),
        ("epochs: {low: 5, high: 2}", "epochs in .*: `low <= high` must hold"),
        ("layers: {choices: 8}", r"layers in .*: expected .*got \{'choices': 8\}"),
        ("activation: {low: 1, high: 2}", "activation in .*: expected .*any values as"),
        ("learning_rate: {low: 0.1, high: 10}", "learning_rate in .*: expected a number above 0 and at most 1, got 10"),
        ("layers: {choices: [[8], 8]}", r"layers in .*: expected a list such as \[64, 64\].*got 8"),
        ("custom_settings: {choices: [{day: 2026-01-01}]}", "custom_settings in .*"),
    ],
)  # fmt: skip
def test_mistakes_in_a_space_are_named_before_anything_starts(sweep, text, message):
    sweep.write_space(text)
    printed = sweep.fails(2)
    assert re.search(message, printed) and len(printed.splitlines()) <= 3
    assert not sweep.logdir.exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--space=pp"], "can't read pp: No such file"),
        (["--learning-rate=2"], "learning_rate: expected a number above 0"),
        (["--learning-rate=0.1", "--rollout-length=25", "--minibatch-size=50", "--epochs=1", "--layers=4"],
         "has a value for each"),
        (["--env=Pendulumm-v1", "--env-backend=inline"], "Pendulumm"),
        (["--timestamp=2026"], "no such sweep in .*; there are no sweeps"),
    ],
)  # fmt: skip
def test_mistakes_leave_no_folder(sweep, arguments, message):
    printed = sweep.fails(2, *arguments)
    assert re.search(message, printed) and len(printed.splitlines()) <= 3
    assert not sweep.logdir.exists()


def test_without_optuna_the_extra_is_named(sweep, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert re.search(r"package optuna, .*\n.*install .*\[sweep\]'", sweep.fails(2))


# What is trained.


def test_trials_are_runs_with_seeds_of_their_own_and_minibatches_that_fit(sweep):
    path = sweep("--trials=8")
    assert re.fullmatch(r"\d{8}T\d{6}-sweep-default", path.name)
    tried = [settings for _, _, _, settings in trials(path)]
    # Not those of the space, 50 and 16, but the nearest.
    assert {(item["rollout_length"], item["minibatch_size"]) for item in tried} <= {
        (30, 15), (30, 60), (64, 16), (64, 64)
    }  # fmt: skip
    configs = [Sweep(path).run(number).load_config() for number in range(8)]
    assert len({config.seed for config in configs}) == 8
    for config, settings in zip(configs, tried, strict=True):
        assert config == load_config(path / "settings.yaml", **settings, seed=config.seed)


def test_scores_are_those_of_the_last_evaluation_and_the_best_trial_is_named(sweep):
    path = sweep("--trials=3")
    printed = sweep.capsys.readouterr()
    scores = []
    for state, score, _, settings in trials(path):
        assert state == "COMPLETE"
        assert score == pytest.approx(-abs(settings["learning_rate"] - 0.01))
        scores.append(score)
    best = int(np.argmax(scores))
    assert (
        f"Best trial {best} complete with score {scores[best]:.5g}, with learning_rate"
        in printed.out
    )
    assert f"--config={path}/trial-{best:04d}/config.yaml" in printed.out.splitlines()[-1]
    assert "Trial 2 complete" in printed.err and f"(best: trial {best}" in printed.err


@pytest.mark.parametrize("options", [(), ("--sampler=random", "--pruner=none")])
def test_a_sweep_of_one_process_depends_on_its_seed_only(sweep, options):
    one, same, other = (sweep("--trials=6", f"--seed={seed}", *options) for seed in (1, 1, 2))
    assert trials(one) == trials(same) != trials(other)
    seeds = [Sweep(path).run(0).load_config().seed for path in (one, same, other)]
    assert seeds[0] == seeds[1] != seeds[2]


def test_bad_trials_are_pruned_after_a_third_of_their_steps(sweep):
    sweep.write_space(RATES)
    path = sweep("--trials=7", train=worsen)
    assert [(state, step) for state, _, step, _ in trials(path)[5:]] == [("PRUNED", 400)] * 2
    assert states(path)[:5] == ["COMPLETE"] * 5
    assert states(sweep("--trials=7", "--pruner=none", train=worsen)) == ["COMPLETE"] * 7


def test_trials_with_other_rollout_lengths_are_compared_at_the_same_steps(sweep):
    """Evaluations of rollouts of 128 and 60 steps happen at 128, 256, ... and 120, 240, ..."""
    pruned = [trial for trial in trials(sweep("--trials=20")) if trial[0] == "PRUNED"]
    assert {settings["rollout_length"] for _, _, _, settings in pruned} == {30, 64}
    assert {step for _, _, step, _ in pruned} <= set(range(400, 1000, 100))


def test_settings_that_contradict_each_other_are_pruned(sweep):
    sweep.write_space(
        "shared_torso: {choices: [true, false]}\ncritic_learning_rate: {choices: [0.0, 0.001]}"
    )
    path = sweep("--trials=12", "--seed=3")
    for state, _, step, settings in trials(path):
        is_bad = settings["shared_torso"] and settings["critic_learning_rate"] > 0
        assert (state == "PRUNED" and step is None) == is_bad
    assert "PRUNED" in states(path)


def test_a_failed_trial_has_a_cause_and_the_sweep_continues(sweep):
    def failing(config, run):
        for score in approach(config, run):
            yield score
            if run.path.name == "trial-0001":
                raise NonFiniteError("The loss is nan.\nMore.")

    path = sweep("--trials=3", train=failing)
    assert states(path) == ["COMPLETE", "FAIL", "COMPLETE"]
    assert re.search(r"Trial 1 failed .*: The loss is nan\. \(best:", sweep.capsys.readouterr().err)
    assert "NonFiniteError: The loss is nan." in Sweep(path).run(1).error_file.read_text()


def test_three_failures_before_any_score_end_the_sweep(sweep):
    def failing(config, run):
        raise UsageError("no policy for these spaces")
        yield

    printed = sweep.fails(2, "--trials=10", train=failing)
    assert "The first trials have all failed." in printed and "no policy" in printed
    [path] = sweep.logdir.iterdir()
    assert states(path) == ["FAIL"] * 3
    sweep("--trials=5", path=path)  # It was mended.
    assert states(path) == ["FAIL"] * 3 + ["COMPLETE"] * 2


# Sweeps that are continued.


def test_an_interrupted_trial_is_resumed_and_the_sweep_equals_one_that_never_stopped(sweep):
    whole = sweep("--trials=4")
    assert "To continue: " in sweep.fails(
        130, "--trials=4", train=functools.partial(approach, stop_at=500)
    )
    [path] = set(sweep.logdir.iterdir()) - {whole}
    assert states(path) == ["RUNNING"]
    sweep("--trials=2", path=path)
    sweep.fails(130, "--trials=4", path=path, train=functools.partial(approach, stop_at=500))
    sweep("--trials=4", path=path)
    assert trials(path) == trials(whole)


def test_an_interrupt_while_a_pruned_trial_ends_leaves_it_to_be_resumed(sweep):
    sweep.write_space(RATES)
    interrupted = functools.partial(worsen, error=KeyboardInterrupt())
    sweep.fails(130, "--trials=7", train=interrupted)
    [path] = sweep.logdir.iterdir()
    assert states(path) == ["COMPLETE"] * 5 + ["RUNNING"]
    sweep("--trials=7", path=path, train=worsen)
    assert states(path) == ["COMPLETE"] * 5 + ["PRUNED"] * 2


def test_a_trial_that_was_complete_when_its_process_was_killed_gets_its_score(sweep):
    def killed(config, run):
        yield from approach(config, run)
        raise KeyboardInterrupt

    sweep.fails(130, "--trials=1", train=killed)
    [path] = sweep.logdir.iterdir()
    sweep("--trials=1", path=path, train=lambda config, run: (yield from ()))
    [(state, score, _, settings)] = trials(path)
    assert (state, score) == ("COMPLETE", pytest.approx(-abs(settings["learning_rate"] - 0.01)))


def test_a_complete_trial_without_any_score_fails(sweep):
    path = sweep("--trials=1", train=lambda config, run: (yield from ()))
    assert states(path) == ["FAIL"]
    assert "has no evaluation" in sweep.capsys.readouterr().err


def test_a_trial_that_ends_its_processes_without_progress_fails(sweep):
    def killed(config, run, step=None):
        run.checkpoints.mkdir(parents=True, exist_ok=True)
        if step:
            (run.checkpoints / f"step-{step}.npz").touch()
        raise KeyboardInterrupt
        yield

    sweep.fails(130, "--trials=1", train=killed)
    [path] = sweep.logdir.iterdir()
    for step in (1, 2, 3, 4, None, None, None):  # With progress, and without.
        sweep.fails(130, "--trials=1", path=path, train=functools.partial(killed, step=step))
    assert states(path) == ["RUNNING"]
    sweep("--trials=1", path=path)
    assert states(path) == ["FAIL"]


def test_settings_and_space_of_a_sweep_can_not_change(sweep):
    path = sweep("--trials=1")
    sweep("--trials=2", *sweep.options, path=path)  # The same ones.
    assert states(path) == ["COMPLETE"] * 2
    for option, name in (
        ("--steps=2000", "steps"),
        ("--learning-rate=0.01", "learning_rate"),
        ("--space=ppo", "--space"),
    ):
        assert re.search(f"{name}: trials .*\n.*start a new", sweep.fails(2, option, path=path))


def test_a_sweep_that_was_moved_is_continued(sweep, tmp_path):
    path = sweep("--trials=1")
    sweep.logdir = tmp_path / "there"
    moved = Path(shutil.move(path, sweep.logdir / path.name))
    sweep("--trials=2", path=moved)
    assert states(moved) == ["COMPLETE"] * 2


def test_train_names_a_sweep_that_it_can_not_resume(sweep):
    path = sweep("--trials=1")
    timestamp = RunDirectory(path).timestamp
    with pytest.raises(UsageError, match="is a sweep\ncontinue it with agents sweep"):
        train_script.main([f"--logdir={sweep.logdir}", f"--timestamp={timestamp}"])


# The journal.


def pickled():
    class Evil:
        def __reduce__(self):
            return os.mkdir, ("executed",)

    return pickle.dumps(Evil())


DAMAGES = {
    "no JSON": lambda text: text[:50] + b"{\n" + text[50:],
    "missing values": lambda text: text + b'{"op_code": 4, "worker_id": ""}\n',
    "binary without lines": lambda text: b"\xff\x00" * 50,
    "pickle without lines": lambda text: pickled(),
    "empty": lambda text: b"",
    "deep": lambda text: b"[" * 100_000 + b"\n{}\n",
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_journal_is_named_and_kept(sweep, damage, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = sweep("--trials=1")
    sweep.capsys.readouterr()
    damaged = DAMAGES[damage]((path / "journal.jsonl").read_bytes())
    (path / "journal.jsonl").write_bytes(damaged)
    printed = sweep.fails(2, path=path)
    assert "journal.jsonl is damaged" in printed and len(printed.splitlines()) <= 3
    assert (path / "journal.jsonl").read_bytes() == damaged
    assert not Path("executed").exists()


def test_a_line_that_a_killed_process_or_a_full_disk_left_is_cut_off(sweep):
    path = sweep("--trials=1")
    with (path / "journal.jsonl").open("a") as file:
        file.write('{"op_code": 4, "worker')
    sweep("--trials=3", path=path)
    assert states(path) == ["COMPLETE"] * 3


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a full device")
def test_a_full_disk_ends_the_sweep_and_the_trial_is_resumed(sweep, monkeypatch):
    def filling(config, run):
        for score in approach(config, run):
            yield score
            monkeypatch.setattr(os, "fsync", lambda file: Path("/dev/full").write_bytes(b" "))

    printed = sweep.fails(2, "--trials=1", train=filling)
    assert re.search("can't write .*journal.jsonl: No space left.*\n.*To continue", printed)
    monkeypatch.undo()
    [path] = sweep.logdir.iterdir()
    assert states(path) == ["RUNNING"]
    sweep("--trials=1", path=path)
    assert states(path) == ["COMPLETE"]


# Folders of strangers.

TRAPS = {
    "settings": "settings.yaml",
    "space": "space.yaml",
    "journal": "journal.jsonl",
    "lock of the journal": "journal.jsonl.lock",
    "lock of a trial": "trial-0000.lock",
    "trial": "trial-0000",
}


@pytest.mark.timing
@pytest.mark.parametrize("kind", ["link", "dangling link", "pipe", "hard link"])
@pytest.mark.parametrize("name", TRAPS.values(), ids=TRAPS)
def test_nothing_waits_and_nothing_is_written_outside_of_a_sweeps_folder(
    sweep, tmp_path, name, kind
):
    interrupt = functools.partial(approach, stop_at=500)
    sweep.fails(130, "--trials=1", train=interrupt)
    [path] = sweep.logdir.iterdir()
    outside = tmp_path / "outside"
    outside.mkdir()
    trap = path / name
    if kind == "hard link" and (name == "trial-0000" or name.endswith(".yaml")):
        pytest.skip("a folder has no hard links; files that are read only may have")
    if trap.exists():
        shutil.move(trap, outside / name)
    if kind == "link":
        trap.symlink_to(outside / name)
    elif kind == "dangling link":
        trap.symlink_to(outside / "missing")
    elif kind == "pipe":
        os.mkfifo(trap)
    else:
        (outside / name).touch()
        trap.hardlink_to(outside / name)
    before = {file: file.read_bytes() for file in outside.rglob("*") if file.is_file()}
    start = time.monotonic()
    printed = sweep.fails(2, "--trials=1", path=path)
    assert time.monotonic() - start < 20
    assert name in printed and len(printed.splitlines()) <= 4
    assert {file: file.read_bytes() for file in outside.rglob("*") if file.is_file()} == before
    assert not (outside / "missing").exists()


def test_the_users_own_file_names_modules_of_the_current_folder(sweep, tmp_path, monkeypatch):
    (tmp_path / "my_sweep_module.py").write_text("def network(inputs, config): pass")
    (tmp_path / "mine.yaml").write_text("network: my_sweep_module:network\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    sweep.options = [*sweep.options, "--config=mine.yaml"]
    assert states(sweep("--trials=1")) == ["COMPLETE"]


@pytest.mark.parametrize(
    ("option", "file"),
    [("config", "trial-0000/config.yaml"), ("config", "settings.yaml"), ("space", "space.yaml")],
)
def test_files_of_another_sweep_name_nothing_that_lies_beside_it(sweep, monkeypatch, option, file):
    name = f"evil_{Path(file).parts[0].partition('.')[0].replace('-', '_')}"
    sweep.write_space(f"network: {{choices: ['{name}:f']}}\nepochs: {{choices: [1]}}")
    path = sweep("--trials=1")
    (path / "settings.yaml").write_text(f"network: {name}:f\n")
    (sweep.logdir / f"{name}.py").write_text(f"import os; os.mkdir({str(path / 'executed')!r})")
    monkeypatch.syspath_prepend(sweep.logdir)
    sweep.capsys.readouterr()
    sweep.options = [f"--{option}={path / file}"]
    printed = sweep.fails(2, "--trials=3", train=train_script.train)
    assert name in printed and "a folder of runs" in printed
    assert not (path / "executed").exists()


# Processes.


def start(folder, *arguments, code="from agents.scripts.main import main; main()"):
    return subprocess.Popen(
        [sys.executable, "-c", code, "sweep", *arguments], stderr=subprocess.PIPE,
        stdout=subprocess.PIPE, text=True, cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip


def wait_for(process, text):
    while text not in (line := process.stderr.readline()):
        assert line, process.wait()


SLOW = """
import sys, time
from agents.scripts import sweep
from tests.scripts.test_sweep import approach

def slow(config, run):
    for score in approach(config, run):
        time.sleep(0.05)
        yield score

sweep.train = slow
sweep.main(sys.argv[2:])
"""


def test_three_processes_share_a_sweep_and_the_trial_of_a_killed_one_is_resumed(sweep):
    path = sweep("--trials=1")
    options = [f"--logdir={sweep.logdir}", f"--timestamp={RunDirectory(path).timestamp}"]
    processes = [start(ROOT, *options, "--trials=12", code=SLOW) for _ in range(4)]
    wait_for(processes[0], "Trial ")
    processes[0].kill()
    for process in processes:
        process.communicate(timeout=300)
    assert [process.returncode for process in processes] == [-signal.SIGKILL, 0, 0, 0]
    sweep("--trials=12", path=path)
    assert len(states(path)) == 12 and set(states(path)) <= {"COMPLETE", "PRUNED"}
    assert len({json.dumps(settings) for _, _, _, settings in trials(path)}) == 12
    numbers = [trial.number for trial in Sweep(path).trials()]
    assert numbers == list(range(12))


def test_a_process_killed_with_the_lock_of_the_journal_holds_up_nobody(sweep):
    path = sweep("--trials=1")
    code = f"""
import os, signal
from pathlib import Path
from agents.scripts.sweep import Sweep
with Sweep(Path({str(path)!r})).exclusive():
    os.kill(os.getpid(), signal.SIGKILL)
"""
    with start(ROOT, code=code) as process:
        assert process.wait(60) == -signal.SIGKILL
    sweep("--trials=2", path=path)
    assert states(path) == ["COMPLETE"] * 2


@pytest.fixture(scope="module")
def small_space(tmp_path_factory):
    path = tmp_path_factory.mktemp("space") / "small.yaml"
    path.write_text(
        "learning_rate: {low: 1e-4, high: 1e-2, log: true}\nrollout_length: {choices: [25, 50]}"
    )
    return f"--space={path}"


def test_a_trial_is_trained_again_and_compared_like_any_run(small_space, tmp_path, capsys):
    run(
        sweep_script.main,
        [f"--logdir={tmp_path}", small_space, *SMALL, "--minibatch-size=25", "--trials=1"],
    )
    [path] = tmp_path.iterdir()
    assert {file.name for file in path.iterdir()} == {
        "settings.yaml", "space.yaml", "journal.jsonl", "journal.jsonl.lock", "trial-0000", "trial-0000.lock",
    }  # fmt: skip
    trial = Sweep(path).run(0)
    assert trial.checkpoint("last").name == "step-200"
    again = capsys.readouterr().out.splitlines()[-1]
    assert again.startswith("Train its settings again: ")
    train_script.main([*again.split("agents.scripts.train ")[1].split(), "--steps=100"])
    [other] = tmp_path.glob("*-trial-0000")
    expected = trial.load_config().model_copy(update={"steps": 100, "seed": 1})
    assert RunDirectory(other).load_config() == expected


@pytest.mark.slow
def test_a_signal_saves_a_checkpoint_and_ends_the_sweep(small_space, tmp_path):
    long = [f"--logdir={tmp_path}", small_space, *SMALL, "--minibatch-size=25", "--steps=1000000"]
    with start(tmp_path, *long, "--eval-interval=1000", "--trials=2") as process:
        wait_for(process, "evaluation")
        process.send_signal(signal.SIGHUP)
        _, printed = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGHUP
    [path] = tmp_path.glob("*-sweep-cartpole")
    assert f"--timestamp={RunDirectory(path).timestamp} --trials=2" in printed
    assert states(path) == ["RUNNING"]
    assert Sweep(path).run(0).checkpoint("last")


@pytest.mark.slow
def test_the_program_restarts_itself_and_imports_nothing_of_the_current_folder(
    small_space, tmp_path
):
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "__init__.py").write_text("open('executed', 'w')")
    code = (
        "import sys; sys.path.remove(''); from agents.scripts import sweep; "
        "sweep.TRIALS_PER_PROCESS = 1; sweep.main(sys.argv[2:])"
    )
    arguments = [small_space, *SMALL, "--minibatch-size=25", "--trials=2"]
    with start(tmp_path, f"--logdir={tmp_path / 'logs'}", *arguments, code=code) as process:
        printed, _ = process.communicate(timeout=300)
    assert process.returncode == 0
    assert printed.count("join or continue it with") == 3
    [path] = tmp_path.glob("logs/*-sweep-cartpole")
    assert states(path) == ["COMPLETE"] * 2
    assert not (tmp_path / "executed").exists()
