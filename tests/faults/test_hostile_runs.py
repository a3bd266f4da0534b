"""Hostile run folders: nothing is executed, nothing outside is touched, and nothing takes long."""

import contextlib
import os
import shutil
import signal
import statistics
import time
import warnings

import pytest

from agents.errors import UsageError
from agents.runs.metrics_file import read_metrics
from agents.runs.run_directory import RunDirectory
from agents.scripts.train import train
from agents.settings.config_file import load_config
from tests.faults.commands import Command, cpu_seconds
from tests.faults.figures import record
from tests.faults.hostile_runs import CASES, Target
from tests.faults.plain_runs import resume, save_steps
from tests.scripts.test_hostile_run_folders import ATTACKS, RUN, Attack, prepare

SECONDS = 2


@contextlib.contextmanager
def time_limit(seconds):
    """Raises TimeoutError in what waits for a pipe."""

    def expire(*_):
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, expire)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def state(folder):
    """Names, contents and times of all that is in a folder."""
    return {
        path: (path.lstat().st_mtime_ns, path.read_bytes() if path.is_file() else None)
        for path in [folder, *folder.rglob("*")]
    }


def attempt(function):
    """Calls it; returns "refused" or "read"."""
    try:
        function()
    except UsageError as error:
        assert len(str(error).splitlines()) <= 3
        return "refused"
    return "read"


def show(run):
    """What `visualize` does with a run's files."""
    run.load_config()
    run.checkpoint("last")
    read_metrics(run.metrics_file)


@pytest.fixture(scope="module")
def intact(tmp_path_factory):
    run = RunDirectory(tmp_path_factory.mktemp("intact") / "20260131T120000-default")
    save_steps(run, range(10, 80, 10))
    resume(run)  # So that the library of events is loaded.
    return run


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_hostile_files_are_refused_or_read(intact, case, tmp_path):
    run = RunDirectory(tmp_path / "logs" / intact.path.name)
    shutil.copytree(intact.path, run.path)
    target = Target(run, tmp_path / "outside")
    case(target)
    before = state(tmp_path / "outside")
    for function in (show, resume, resume):  # Again after the first has cut metrics and events.
        start = time.process_time()
        with time_limit(30):
            attempt(lambda function=function: function(run))
        assert time.process_time() - start < SECONDS
    assert state(tmp_path / "outside") == before
    assert not target.marker.exists()


# Real commands.


class Search:
    """Takes the place of pytest's patches: what a command's environment needs for an attack."""

    def __init__(self, folder):
        self.paths, self.folder = [], folder

    def syspath_prepend(self, path):
        self.paths += [path] if path else []

    def chdir(self, folder):
        self.folder = folder


def run_command(folder, run, paths=()):
    """Resumes a run with a command; returns how that ended, and processor and other seconds."""
    cpu, start = cpu_seconds(), time.monotonic()
    arguments = [f"--logdir={run.path.parent}", f"--timestamp={run.timestamp}"]
    with Command(folder, *arguments, paths=paths) as command:
        code = command.wait(300)
        seconds = time.monotonic() - start
    lines = [line for line in command.printed().splitlines() if line.startswith(("error", " "))]
    assert code in (0, 2), command.printed()
    assert bool(lines) == (code == 2) and len(lines) <= 3, command.printed()
    return "refused" if code else "read", cpu_seconds() - cpu, seconds


def finished_run(folder):
    """A run that has nothing left to do."""
    run = RunDirectory(folder / RUN)
    settings = {"num_envs": 1, "rollout_length": 64, "minibatch_size": 64, "epochs": 1}
    config = load_config(
        "default", **settings, layers=(4,), steps=64, checkpoint_interval=64, eval_episodes=1,
        env_backend="inline",
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        list(train(config, run))
    return run


@pytest.mark.slow
def test_hostile_folders_are_refused_or_read_by_commands(tmp_path):
    intact = finished_run(tmp_path / "intact")
    baseline = max(run_command(tmp_path, intact)[1] for _ in range(3))
    outcomes, cpu, slowest = [], [], 0.0
    for case in [*ATTACKS, *CASES]:
        folder = tmp_path / case.__name__
        folder.mkdir()
        search = Search(folder)
        if case in ATTACKS:
            attack = Attack(folder, search)
            run = prepare(attack, case)
            target = Target(run, folder / "outside")
            target.marker = attack.marker
        else:
            run = RunDirectory(folder / "logs" / RUN)
            shutil.copytree(intact.path, run.path)
            target = Target(run, folder / "outside")
            case(target)
        before = state(folder / "outside")
        outcome, seconds, wall = run_command(search.folder, run, search.paths)
        outcomes.append(outcome)
        cpu.append(seconds)
        slowest = max(slowest, wall)
        assert seconds < baseline + SECONDS, case.__name__
        assert outcome == "refused" or case not in ATTACKS
        assert state(folder / "outside") == before, case.__name__
        assert not target.marker.exists(), case.__name__
        shutil.rmtree(folder, ignore_errors=True)
    refused = [cpu[number] for number, outcome in enumerate(outcomes) if outcome == "refused"]
    record(
        "hostile run folders",
        cases=len(outcomes),
        refused=outcomes.count("refused"),
        read=outcomes.count("read"),
        executions=0,
        files_outside_touched=0,
        start_seconds=round(baseline, 2),
        median_seconds_refused=round(statistics.median(refused), 2),
        most_seconds_beyond_start=round(max(0, max(cpu) - baseline), 2),
        most_seconds_elapsed=round(slowest, 2),
    )
    assert len(outcomes) >= 40 and os.path.exists(intact.path)
