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
from agents.errors import CheckpointError, NonFiniteError, UsageError
from agents.runs.run_directory import RunDirectory
from agents.scripts import sweep as sweep_script
from agents.scripts import train as train_script
from agents.scripts.sweep import Sweep, load_space
from agents.settings.config_file import load_config
from agents.settings.reports import run

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
    "--config=cartpole", "--env-backend=inline", "--num-envs=2", "--epochs=1", "--layers=4", "--steps=200",
    "--eval-interval=100", "--eval-episodes=2", "--histogram-interval=0", "--minibatch-size=25",
)  # fmt: skip


# Trainings without TensorFlow: scores are a function of the settings.


class Score(float):
    """A score that training yields at a step."""


def evaluation(run, step, value):
    """Logs a score as training does, and returns it."""
    run.path.mkdir(parents=True, exist_ok=True)
    with run.metrics_file.open("a") as file:
        file.write(json.dumps({"step": step, "eval/return_mean": value}) + "\n")
    score = Score(value)
    score.step = step
    return score


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


interrupted = functools.partial(approach, stop_at=500)


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


def train_nothing(config, run):
    yield from ()


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
        arguments = [f"--logdir={path.parent if path else self.logdir}", *options, *timestamp]
        run(sweep_script.main, [*arguments, *others])
        [path] = [path] if path else set(self.logdir.glob("*")) - before
        return path

    def fails(self, code, *others, **options):
        """Returns what is printed before it exits with a code."""
        self.capsys.readouterr()
        with pytest.raises(SystemExit) as caught:
            self(*others, **options)
        printed = self.capsys.readouterr().err
        assert caught.value.code == code, printed
        return printed

    def stop(self, *others, train=interrupted):
        """Starts a sweep that is interrupted in its first trial; returns its folder."""
        assert "To continue: " in self.fails(130, *others, train=train)
        return max(self.logdir.iterdir(), key=lambda path: path.stat().st_ctime_ns)


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


@pytest.mark.parametrize("preset", ["default", "sac"])
def test_the_space_of_an_algorithm_varies_its_settings_around_the_defaults(preset):
    defaults = load_config(preset)
    space = load_space(defaults.algorithm)
    assert {"learning_rate", "discount", "layers"} <= space.keys()
    assert not space.keys() & defaults.foreign_settings()
    assert not space.keys() & sweep_script.SHARED
    for name, values in space.items():
        value = getattr(defaults, name)
        if "choices" in values:
            assert value in values["choices"] or list(value) in values["choices"]
        else:  # Ends of logarithmic ranges are above 0.
            assert values["low"] <= value <= values["high"] or (values["log"] and value == 0)


# By space, words of the message.
WRONG_SPACES = {
    "learning_rat: {low: 1, high: 2}": "unknown setting 'learning_rat' in .*; did you mean 'learning_rate'",
    "seed: {low: 0, high: 9}": "seed in .*: all trials share it; set it with --seed",
    "epochs: 3": r"epochs in .*: expected .*\{low: .*, or any values as \{choices: .*\}, got 3",
    "epochs: {low: 1, hihg: 3}": r"epochs in .*: expected .*got \{'low': 1, 'hihg': 3\}",
    "learning_rate: {low: 1e-5, high: 1e-2, log: no}": "learning_rate in .*: expected .*'log': 'no'",
    "epochs: {low: 5, high: 2}": "epochs in .*: `low <= high` must hold",
    "layers: {choices: 8}": r"layers in .*: expected .*got \{'choices': 8\}",
    "activation: {low: 1, high: 2}": "activation in .*: expected .*any values as",
    "learning_rate: {low: 0.1, high: 10}": "learning_rate in .*: expected a number above 0 and at most 1, got 10",
    "layers: {choices: [[8], 8]}": r"layers in .*: expected a list such as \[64, 64\].*got 8",
    "custom_settings: {choices: [{day: 2026-01-01}]}": "custom_settings in .*",
}
WRONG_ARGUMENTS = [
    (["--space=pp"], "can't read pp: No such file"),
    (["--learning-rate=2"], "learning_rate: expected a number above 0"),
    (["--learning-rate=0.1", "--rollout-length=25", "--minibatch-size=50", "--epochs=1", "--layers=4"],
     "no setting is left to vary"),
    (["--env=Pendulumm-v1", "--env-backend=inline"], "Pendulumm"),
    (["--config=sac", "--space=ppo", "--learning-starts=0"],
     "--space: algorithm sac does not read clip_ratio, entropy_coef, "),
    (["--timestamp=2026"], "no such sweep in .*; there are no sweeps"),
]  # fmt: skip


def test_mistakes_are_named_before_anything_starts(sweep, monkeypatch):
    cases = [(SPACE, arguments, message) for arguments, message in WRONG_ARGUMENTS]
    cases += [(text, [], message) for text, message in WRONG_SPACES.items()]
    for text, arguments, message in cases:
        sweep.write_space(text)
        printed = sweep.fails(2, *arguments)
        assert re.search(message, printed) and len(printed.splitlines()) <= 3, printed
    assert "a sweep trains new weights" in sweep.fails(2, "--initial-weights=run")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert re.search(r"package optuna, .*\n.*install .*\[sweep\]'", sweep.fails(2))
    assert not sweep.logdir.exists()


# What is trained.


def test_trials_are_runs_with_seeds_and_minibatches_that_fit_and_the_best_is_named(sweep):
    path = sweep("--trials=8", "--pruner=none")
    printed = sweep.capsys.readouterr()
    assert re.fullmatch(r"\d{8}T\d{6}-sweep-default", path.name)
    configs = [Sweep(path).run(number).load_config() for number in range(8)]
    assert len({config.seed for config in configs}) == 8
    scores = []
    for config, (state, score, _, settings) in zip(configs, trials(path), strict=True):
        assert config == load_config(path / "settings.yaml", **settings, seed=config.seed)
        # Not those of the space, 50 and 16, but the nearest.
        sizes = settings["rollout_length"], settings["minibatch_size"]
        assert sizes in {(30, 15), (30, 60), (64, 16), (64, 64)}
        assert state == "COMPLETE"  # With the score of the last evaluation.
        assert score == pytest.approx(-abs(settings["learning_rate"] - 0.01))
        scores.append(score)
    best = int(np.argmax(scores))
    described = f"Best trial {best} complete with score {scores[best]:.5g}, with learning_rate"
    assert described in printed.out
    assert f"--config={path}/trial-{best:04d}/config.yaml" in printed.out.splitlines()[-1]
    assert "Trial 7 complete" in printed.err and f"(best: trial {best}" in printed.err


@pytest.mark.parametrize("options", [(), ("--sampler=random", "--pruner=none")])
def test_a_sweep_of_one_process_depends_on_its_seed_only(sweep, options):
    one, same, other = (sweep("--trials=6", f"--seed={seed}", *options) for seed in (1, 1, 2))
    assert trials(one) == trials(same) != trials(other)
    seeds = [Sweep(path).run(0).load_config().seed for path in (one, same, other)]
    assert seeds[0] == seeds[1] != seeds[2]


def test_trials_are_pruned_after_a_third_of_their_steps_at_the_same_steps(sweep):
    """Evaluations of rollouts of 128 and 60 steps happen at 128, 256, ... and 120, 240, ..."""
    pruned = [trial for trial in trials(sweep("--trials=20")) if trial[0] == "PRUNED"]
    assert {settings["rollout_length"] for _, _, _, settings in pruned} == {30, 64}
    assert {step for _, _, step, _ in pruned} <= set(range(400, 1000, 100))
    sweep.write_space(RATES)
    assert states(sweep("--trials=7", "--pruner=none", train=worsen)) == ["COMPLETE"] * 7
    # An interrupt while a pruned trial ends leaves it to be resumed.
    path = sweep.stop("--trials=7", train=functools.partial(worsen, error=KeyboardInterrupt()))
    assert states(path) == ["COMPLETE"] * 5 + ["RUNNING"]
    sweep("--trials=7", path=path, train=worsen)
    assert [(state, step) for state, _, step, _ in trials(path)[5:]] == [("PRUNED", 400)] * 2


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
        for score in (
            train_nothing(config, run) if run.path.name[-1] == "2" else approach(config, run)
        ):
            yield score
            if run.path.name == "trial-0001":
                raise NonFiniteError("The loss is nan.\nMore.")

    path = sweep("--trials=4", train=failing)
    assert states(path) == ["COMPLETE", "FAIL", "FAIL", "COMPLETE"]
    printed = sweep.capsys.readouterr().err
    assert re.search(r"Trial 1 failed .*: The loss is nan\. \(best:", printed)
    assert re.search(r"Trial 2 failed: .* has no evaluation", printed)
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


def test_an_interrupted_sweep_that_was_moved_equals_one_that_never_stopped(sweep, tmp_path):
    whole = sweep("--trials=4")
    path = sweep.stop("--trials=4")
    assert states(path) == ["RUNNING"]
    path = Path(shutil.move(path, tmp_path / path.name))
    sweep("--trials=2", path=path)
    sweep.fails(130, "--trials=4", path=path, train=interrupted)
    sweep("--trials=4", path=path)
    assert trials(path) == trials(whole)


def test_a_trial_that_was_complete_when_its_process_was_killed_gets_its_score(sweep):
    def killed(config, run):
        yield from approach(config, run)
        raise KeyboardInterrupt

    path = sweep.stop("--trials=1", train=killed)
    sweep("--trials=1", path=path, train=train_nothing)
    [(state, score, _, settings)] = trials(path)
    assert (state, score) == ("COMPLETE", pytest.approx(-abs(settings["learning_rate"] - 0.01)))


def test_a_trial_that_ends_its_processes_without_progress_fails(sweep):
    def killed(config, run, step=None):
        run.checkpoints.mkdir(parents=True, exist_ok=True)
        if step:
            (run.checkpoints / f"step-{step}.npz").touch()
        raise KeyboardInterrupt
        yield

    path = sweep.stop("--trials=1", train=killed)
    for step in (1, 2, 3, 4, None, None, None):  # With progress, and without.
        sweep.fails(130, "--trials=1", path=path, train=functools.partial(killed, step=step))
    assert states(path) == ["RUNNING"]
    assert "none has a score" in sweep.fails(1, "--trials=1", path=path)
    assert states(path) == ["FAIL"]


def test_settings_and_space_of_a_sweep_can_not_change(sweep):
    path = sweep("--trials=1")
    sweep("--trials=2", *sweep.options, path=path)  # The same ones.
    assert states(path) == ["COMPLETE"] * 2
    for option in ("--steps=2000", "--learning-rate=0.01", "--space=ppo"):
        name = option.partition("=")[0].lstrip("-").replace("-", "_")
        assert re.search(
            f"{name}: the value differs .*\n.*start a new", sweep.fails(2, option, path=path)
        )
    timestamp = f"--timestamp={RunDirectory(path).timestamp}"
    with pytest.raises(UsageError, match="is a sweep\ncontinue it with agents sweep"):
        train_script.main([f"--logdir={sweep.logdir}", timestamp])


def test_changed_bits_of_settings_and_space_are_noticed(sweep, tmp_path):
    original = sweep("--trials=1")
    for name, old, new in (
        ("settings.yaml", "discount: 0.9", "discount: 0.8"),
        ("space.yaml", "high: 9", "high: 8"),
    ):
        path = shutil.copytree(original, tmp_path / f"changed-{name}" / original.name)
        text = (path / name).read_text()
        assert old in text
        (path / name).write_text(text.replace(old, new, 1))
        assert "its checksum is wrong" in sweep.fails(2, "--trials=2", path=path)


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
    "a lost parameter": lambda text: re.sub(rb'(?m)^{"op_code":5.*\n', b"", text),
    "a huge score": lambda text: re.sub(rb'"values":\[[^]]*', b'"values":[1' + b"0" * 400, text),
}


def test_a_damaged_journal_is_named_and_kept_but_for_a_line_that_was_cut_off(
    sweep, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    path = sweep("--trials=1")
    journal = path / "journal.jsonl"
    whole = journal.read_bytes()
    for name, damage in DAMAGES.items():
        damaged = damage(whole)
        journal.write_bytes(damaged)
        printed = sweep.fails(2, "--trials=1", path=path)
        assert "journal.jsonl is damaged" in printed and len(printed.splitlines()) <= 3, name
        assert journal.read_bytes() == damaged, name
        assert not Path("executed").exists()
    journal.write_bytes(whole + b'{"op_code": 4, "worker')  # Of a killed process or a full disk.
    sweep("--trials=3", path=path)
    assert states(path) == ["COMPLETE"] * 3


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a full device")
@pytest.mark.parametrize("file", ["journal", "last checkpoint"])
def test_a_full_disk_ends_the_sweep_and_the_trial_is_resumed(sweep, monkeypatch, file):
    def filling(config, run):
        for score in approach(config, run):
            yield score
            if file == "journal":
                monkeypatch.setattr(os, "fsync", lambda file: Path("/dev/full").write_bytes(b" "))
        if file == "last checkpoint":
            raise CheckpointError("the checkpoint of the last step could not be saved")

    printed = sweep.fails(2, "--trials=1", train=filling)
    reasons = {
        "journal": "can't write .*journal.jsonl: No space left.*",
        "last checkpoint": "could not be saved",
    }
    assert re.search(f"{reasons[file]}\n.*To continue", printed)
    monkeypatch.undo()
    [path] = sweep.logdir.iterdir()
    assert states(path) == ["RUNNING"]
    sweep("--trials=1", path=path)
    assert states(path) == ["COMPLETE"]


# Folders of strangers.

READ_ONLY = ["settings.yaml", "space.yaml"]
WRITTEN = ["journal.jsonl", "journal.jsonl.lock", "trial-0000.lock"]


def make_link(trap, outside):
    trap.symlink_to(outside / trap.name)


def make_dangling_link(trap, outside):
    trap.symlink_to(outside / "missing")


def make_pipe(trap, outside):
    os.mkfifo(trap)


def make_hard_link(trap, outside):
    (outside / trap.name).touch()
    trap.hardlink_to(outside / trap.name)


@pytest.mark.timing
def test_nothing_waits_and_nothing_is_written_outside_of_a_sweeps_folder(sweep, tmp_path):
    original = sweep.stop("--trials=1")
    makes = make_link, make_dangling_link, make_pipe
    cases = [(name, make) for name in (*READ_ONLY, *WRITTEN, "trial-0000") for make in makes]
    for number, (name, make) in enumerate([*cases, *((name, make_hard_link) for name in WRITTEN)]):
        outside = tmp_path / f"outside-{number}"
        outside.mkdir()
        path = shutil.copytree(original, tmp_path / str(number) / original.name)
        shutil.move(path / name, outside / name)
        make(path / name, outside)
        before = {file: file.read_bytes() for file in outside.rglob("*") if file.is_file()}
        start = time.monotonic()
        printed = sweep.fails(2, "--trials=1", path=path)
        assert time.monotonic() - start < 20
        assert name in printed and len(printed.splitlines()) <= 4
        after = {file: file.read_bytes() for file in outside.rglob("*") if file.is_file()}
        assert after == before, (name, make)


def test_the_users_own_file_names_modules_of_the_current_folder(sweep, tmp_path, monkeypatch):
    (tmp_path / "my_sweep_module.py").write_text("def network(inputs, config): pass")
    (tmp_path / "mine.yaml").write_text("network: my_sweep_module:network\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    sweep.options = [*sweep.options, "--config=mine.yaml"]
    assert states(sweep("--trials=1")) == ["COMPLETE"]


def test_files_of_another_sweep_name_nothing_that_lies_beside_it(sweep, monkeypatch):
    sweep.write_space("network: {choices: ['evil_of_a_sweep:f']}\nepochs: {choices: [1]}")
    path = sweep("--trials=1")
    (path / "settings.yaml").write_text("network: evil_of_a_sweep:f\n")
    evil = f"import os; os.mkdir({str(path / 'executed')!r})"
    (sweep.logdir / "evil_of_a_sweep.py").write_text(evil)
    monkeypatch.syspath_prepend(sweep.logdir)
    for option in ("config=trial-0000/config.yaml", "config=settings.yaml", "space=space.yaml"):
        name, _, file = option.partition("=")
        sweep.options = [f"--{name}={path / file}"]
        printed = sweep.fails(2, "--trials=3", train=train_script.train)
        assert "evil_of_a_sweep" in printed and "a folder of runs" in printed
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
KILLED_WITH_THE_LOCK = """
import os, signal, sys
from pathlib import Path
from agents.scripts.sweep import Sweep
with Sweep(Path(sys.argv[2])).exclusive():
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_three_processes_share_a_sweep_and_the_trial_of_a_killed_one_is_resumed(sweep):
    path = sweep("--trials=1")
    options = [f"--logdir={sweep.logdir}", f"--timestamp={RunDirectory(path).timestamp}"]
    processes = [start(ROOT, *options, "--trials=12", code=SLOW) for _ in range(4)]
    processes.append(start(ROOT, str(path), code=KILLED_WITH_THE_LOCK))
    wait_for(processes[0], "Trial ")
    processes[0].kill()
    for process in processes:
        process.communicate(timeout=300)
    codes = [-signal.SIGKILL, 0, 0, 0, -signal.SIGKILL]
    assert [process.returncode for process in processes] == codes
    sweep("--trials=12", path=path)
    assert len(states(path)) == 12 and set(states(path)) <= {"COMPLETE", "PRUNED"}
    assert len({json.dumps(settings) for _, _, _, settings in trials(path)}) == 12
    numbers = [trial.number for trial in Sweep(path).trials()]
    assert numbers == list(range(12))


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """Options of sweeps that train."""
    path = tmp_path_factory.mktemp("space") / "small.yaml"
    path.write_text(
        "learning_rate: {low: 1e-4, high: 1e-2, log: true}\nrollout_length: {choices: [25, 50]}"
    )
    return [f"--space={path}", *SMALL]


def test_a_trial_is_trained_again_and_compared_like_any_run(small, tmp_path, capsys, monkeypatch):
    run(sweep_script.main, [f"--logdir={tmp_path}", *small, "--trials=1"])
    [path] = tmp_path.iterdir()
    assert {file.name for file in path.iterdir()} == {*READ_ONLY, *WRITTEN, "trial-0000"}
    trial = Sweep(path).run(0)
    assert trial.checkpoint("last").name == "step-200"
    again = capsys.readouterr().out.splitlines()[-1]
    assert again.startswith("Train its settings again: ")
    trained = []
    monkeypatch.setattr(train_script, "train_in_console", lambda *args, **_: trained.append(args))
    train_script.main(again.split("agents.scripts.train ")[1].split())
    [(config, other, *_)] = trained
    assert config == trial.load_config().model_copy(update={"seed": 1})
    assert other.path.parent == tmp_path and other.path.name.endswith("-trial-0000")


@pytest.mark.slow
def test_a_signal_saves_a_checkpoint_and_ends_the_sweep(small, tmp_path):
    long = [f"--logdir={tmp_path}", *small, "--steps=1000000", "--eval-interval=1000"]
    with start(tmp_path, *long, "--trials=2") as process:
        wait_for(process, "evaluation")
        process.send_signal(signal.SIGHUP)
        _, printed = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGHUP
    [path] = tmp_path.glob("*-sweep-cartpole")
    assert f"--timestamp={RunDirectory(path).timestamp} --trials=2" in printed
    assert states(path) == ["RUNNING"]
    assert Sweep(path).run(0).checkpoint("last")


@pytest.mark.slow
def test_the_program_restarts_itself_and_imports_nothing_of_the_current_folder(small, tmp_path):
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "__init__.py").write_text("open('executed', 'w')")
    code = (
        "import sys; sys.path.remove(''); from agents.scripts import sweep; "
        "sweep.TRIALS_PER_PROCESS = 1; sweep.main(sys.argv[2:])"
    )
    arguments = [f"--logdir={tmp_path / 'logs'}", *small, "--trials=2"]
    with start(tmp_path, *arguments, code=code) as process:
        printed, _ = process.communicate(timeout=300)
    assert process.returncode == 0
    assert printed.count("join or continue it with") == 3
    [path] = tmp_path.glob("logs/*-sweep-cartpole")
    assert states(path) == ["COMPLETE"] * 2
    assert not (tmp_path / "executed").exists()
