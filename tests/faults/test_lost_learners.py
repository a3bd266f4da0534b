"""Learners that are lost, stopped by signals, and started twice; see `lost_learners`."""

import contextlib
import os
import random
import re
import signal
import time

import numpy as np
import pytest

from agents.errors import LEARNER_LOST
from tests.distributed.namespaces import Namespaces, why_unusable
from tests.faults.figures import record
from tests.faults.lost_learners import LIMIT, Learners

SIGNALS = [signal.SIGINT, signal.SIGTERM]
TINY = [
    "--config=pendulum", "--env-backend=tf", "--num-envs=2", "--rollout-length=50",
    "--minibatch-size=50", "--epochs=1", "--layers=4", "--eval-episodes=1",
    "--learning-rate-schedule=constant", "--log-interval=400", "--checkpoint-interval=400",
    "--eval-interval=1000000000", "--histogram-interval=0",
]  # fmt: skip

# A run that is disturbed at moments of each kind.
START_TIMEOUT = 25
MOMENTS = ("start", "training", "evaluation", "checkpoint")
INTERVAL, EVALUATION = 8000, 24_000  # Environment steps.
LONG = [
    "--config=pendulum", "--num-envs=4", "--rollout-length=500", "--minibatch-size=250",
    "--epochs=4", "--layers=300,300", "--eval-episodes=40", "--learning-rate-schedule=constant",
    "--log-interval=2000", f"--checkpoint-interval={INTERVAL}", f"--eval-interval={EVALUATION}",
    "--histogram-interval=0", "--num-processes=1",
]  # fmt: skip

# Its steps do nothing, until a file of the learner's folder says what they do.
MODULE = """
import os, time
import gymnasium
import numpy as np
from gymnasium import spaces

class Disturbed(gymnasium.Env):
    observation_space = spaces.Box(-1, 1, (2,), np.float32)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.steps += 1
        if os.path.exists(os.environ.get("RAISES", "none")):
            raise OSError("the simulator has crashed")
        if os.path.exists(os.environ.get("HANGS", "none")):
            time.sleep(1000)
        return np.zeros(2, np.float32), 0.0, False, self.steps == 50, {}

gymnasium.register("DisturbedLearner-v0", Disturbed)
"""

UNUSABLE = why_unusable()
needs_machines = pytest.mark.skipif(bool(UNUSABLE), reason=UNUSABLE)
PLACES = ["loopback", pytest.param("machines", marks=needs_machines)]


@pytest.fixture
def start(tmp_path):
    """Makes learners on this machine, or on machines of their own, and ends all at the end."""
    with contextlib.ExitStack() as stack:

        def make(where="loopback", settings=TINY, name="learners"):
            machines = stack.enter_context(Namespaces(2)) if where == "machines" else None
            (tmp_path / name).mkdir()
            learners = Learners(tmp_path / name, machines, settings)
            stack.callback(learners.close)
            return learners

        yield make


def train_a_while(learners):
    """Waits for another checkpoint."""
    before = max(learners.checkpoints(), default=0)
    learners.wait_for(lambda: max(learners.checkpoints(), default=0) > before)


def ends(learners, seconds=LIMIT):
    """Waits for the end of all processes; returns the exit codes."""
    _, left = learners.wait_for_end(seconds)
    assert not left, learners.consoles()
    return [command.wait(1) for command in learners.commands]


# Faults.


def test_a_killed_learner_is_started_again(start):
    learners = start()
    learners.start("--restarts=1")
    train_a_while(learners)
    killed = learners.learner(1)
    os.kill(killed, signal.SIGKILL)
    message = f"error: learner 1 on 127.0.0.1 (process {killed}) was killed by SIGKILL\n"
    learners.wait_for(lambda: "Resuming" in learners.console(0))
    train_a_while(learners)
    learners.commands[0].send_signal(signal.SIGTERM)
    assert ends(learners) == [143]
    printed = learners.console(0)
    assert message in printed and printed.count("error") == 1
    assert "Starting 2 learners again from the last checkpoint (restart 1 of 1)" in printed
    last = max(learners.checkpoints())
    assert re.search(f"To resume from step {last:,}: .*--learners=2\n$", printed)
    reference, scheduled = start(name="undisturbed"), last // 400 * 400
    reference.finish(scheduled + 400)
    assert not learners.differences(reference, scheduled)


def wait_for_moment(learners, moment, draw):
    """Waits until a run is at a random moment of a kind."""
    if moment == "start":
        time.sleep(draw.uniform(0.3, 8))
        return

    def last_step():
        return max((row["step"] for row in learners.rows()), default=0)

    def is_evaluating():
        rows, step = learners.rows(), last_step()
        is_done = any("eval/return_mean" in row for row in rows if row["step"] == step)
        return step and step % EVALUATION == 0 and not is_done

    # At least one more checkpoint, so that a chain goes on.
    first = last_step() + INTERVAL
    learners.wait_for(lambda: last_step() > first)
    if moment == "training":
        time.sleep(draw.uniform(0, 1.5))
    elif moment == "evaluation":
        learners.wait_for(is_evaluating)
        time.sleep(draw.uniform(0, 0.1))
    else:
        learners.wait_for(lambda: list(learners.run.checkpoints.glob("step-*.unfinished")))


def strike(learners, fault, rank, moment, draw):
    """Starts or resumes a run, lets a fault happen to a learner, and waits for the end.

    Returns:
      Seconds until the last process has ended, and what is not as it should be.
    """
    learners.start(f"--start-timeout={START_TIMEOUT}")
    try:
        wait_for_moment(learners, moment, draw)
        pid = learners.wait_for(lambda: learners.learner(rank))
        if fault == "cut off":
            learners.machines.cut_off(rank)
        else:
            os.kill(pid, {"kill": signal.SIGKILL, "hang": signal.SIGSTOP}[fault])
        seconds, left = learners.wait_for_end()
        problems = [f"{len(left)} processes are left"] if left else []
    finally:
        learners.close()
        if fault == "cut off":
            learners.machines.reconnect(rank)
    # Until all have joined, the others wait for one that is started again.
    if seconds > LIMIT + (START_TIMEOUT if moment == "start" else 0):
        problems.append(f"it took {seconds:.0f} s")
    for index, command in enumerate(learners.commands):
        text = learners.console(index)
        lines = [line for line in text.splitlines() if "error:" in line]
        if command.returncode not in {LEARNER_LOST, *([2] if moment == "start" else [])}:
            problems.append(f"exit code {command.returncode} of command {index}")
        if "Traceback" in text or len(lines) != 1:
            problems.append(f"console {index}: {text[-2000:]}")
        elif not (learners.machines and index == rank):
            if f"learner {rank}" not in lines[0] and "the chief" not in lines[0]:
                problems.append(f"named another: {lines[0]}")
    return seconds, problems


@pytest.mark.slow
@pytest.mark.parametrize(("where", "fault"), [
    ("loopback", "kill"), ("loopback", "hang"),
    *(pytest.param("machines", fault, marks=needs_machines) for fault in ("kill", "hang", "cut off")),
])  # fmt: skip
def test_20_runs_that_have_lost_a_learner_resume(where, fault, start):
    """Each resumes from the one before, and the last one equals a run that was never disturbed."""
    # Environments in worker processes, and in the graph.
    settings = [*LONG, *(["--env-backend=tf"] if where == "machines" else [])]
    learners, reference = start(where, settings, "struck"), start(where, settings, "undisturbed")
    draw, seconds, problems = random.Random(f"{fault} 0"), [], []
    for number in range(20):
        # The first is late enough that there is a checkpoint to resume from.
        moment = MOMENTS[(number + 1) % len(MOMENTS)]
        case = strike(learners, fault, draw.randrange(2), moment, draw)
        seconds.append(case[0])
        problems += case[1]
    step = max(learners.checkpoints())
    for num_learners in (1, 2):  # Nothing is broken.
        learners.finish(max(learners.checkpoints()) + INTERVAL, num_learners=num_learners)
    reference.finish(step + INTERVAL)
    differing = learners.differences(reference, step)
    record(
        f"learners: {fault}, {where}",
        cases=len(seconds),
        problems=len(problems),
        median_seconds_to_last_end=round(float(np.median(seconds)), 1),
        most_seconds_to_last_end=round(max(seconds), 1),
        checkpoints_that_differ=len(differing),
    )
    assert not problems and not differing


@pytest.mark.slow
@pytest.mark.parametrize("where", PLACES)
@pytest.mark.parametrize("fault", [signal.SIGKILL, signal.SIGSTOP])
def test_the_group_starts_again(where, fault, start):
    learners = start(where)
    learners.start("--restarts=2")
    for rank in (0, 1):
        train_a_while(learners)
        os.kill(learners.learner(rank), fault)
        learners.wait_for(lambda: learners.console(0).count("Resuming") == rank + 1)  # noqa: B023
    train_a_while(learners)
    assert "Traceback" not in learners.consoles()
    learners.commands[0].send_signal(signal.SIGINT)
    assert set(ends(learners)) == {130}, learners.consoles()


@pytest.mark.slow
@needs_machines
def test_a_machine_that_comes_back_takes_part_again(start):
    learners = start("machines")
    learners.start("--restarts=1")
    train_a_while(learners)
    learners.machines.cut_off(1)
    learners.wait_for(lambda: "Starting" in learners.console(0))
    learners.wait_for(lambda: "Starting" in learners.console(1))
    learners.machines.reconnect(1)
    train_a_while(learners)
    assert learners.learner(1)
    learners.commands[0].send_signal(signal.SIGINT)
    assert ends(learners) == [130, 130]


# Signals.


@pytest.mark.slow
@pytest.mark.parametrize("signum", SIGNALS)
@pytest.mark.parametrize(("where", "whom"), [
    ("loopback", "chief"), ("loopback", "group"),
    *(pytest.param("machines", whom, marks=needs_machines) for whom in ("chief", "group", "follower")),
])  # fmt: skip
def test_a_signal_to_any_command_stops_all(where, whom, signum, start):
    learners = start(where)
    learners.start()
    train_a_while(learners)
    index = -1 if whom == "follower" else 0
    send = os.killpg if whom == "group" else os.kill
    send(learners.commands[index].pid, signum)
    assert set(ends(learners)) == {128 + signum}, learners.consoles()
    printed, signalled = learners.console(0), learners.console(index)
    assert signalled.count(f"Received {signum.name}: training stops") == 1
    assert printed.count("Interrupted.") == 1 and "error" not in learners.consoles()
    assert f"To resume from step {max(learners.checkpoints()):,}: " in printed


@pytest.mark.slow
@pytest.mark.parametrize("where", PLACES)
@pytest.mark.parametrize(
    ("seconds", "signum"), [*zip([0.0, 1.0, 3.0, 3.0], SIGNALS * 2, strict=True)]
)
def test_signals_stop_learners_that_start(seconds, where, signum, start):
    learners = start(where)
    learners.start("--start-timeout=20")
    time.sleep(seconds)
    for command in learners.commands:
        os.killpg(command.pid, signum)
    codes = ends(learners)
    printed = learners.consoles()
    # Python itself handles signals until the command does; it exits with 1 while it starts.
    assert set(codes) <= {128 + signum, -signum, *([] if seconds else [1])}, printed
    if seconds >= 1:
        assert "Traceback" not in printed and "error" not in printed
        assert "Interrupted." in learners.console(0) or learners.run
    if learners.run:  # Some train after three seconds.
        assert seconds > 1
        assert f"To resume from step {max(learners.checkpoints()):,}: " in learners.console(0)


@pytest.mark.slow
@pytest.mark.parametrize(("where", "whom"), [
    ("loopback", 0),
    *(pytest.param("machines", whom, marks=needs_machines) for whom in (0, 1)),
])  # fmt: skip
def test_learners_end_with_their_launcher(where, whom, start):
    learners = start(where)
    learners.start()
    train_a_while(learners)
    learners.commands[whom].kill()
    codes = ends(learners)
    codes.pop(whom)
    assert codes == [LEARNER_LOST] * len(codes), learners.consoles()


# Trouble of other kinds.


@pytest.mark.slow
@needs_machines
def test_the_same_learners_started_twice_are_refused(start):
    learners = start("machines")
    learners.start()
    train_a_while(learners)
    again = Learners(learners.folder / "again", learners.machines, TINY)
    again.folder.mkdir()
    again.start("--start-timeout=10")
    assert ends(again, 2 * LIMIT) == [2, 2]
    for index in (0, 1):
        assert "can't start TensorFlow's server" in again.console(index)
        first, *lines = again.console(index).splitlines()
        assert first == f"Starting learner {index} of 2" and len(lines) <= 3
    assert not again.run
    train_a_while(learners)  # It does not notice.
    learners.commands[0].send_signal(signal.SIGINT)
    assert ends(learners) == [130, 130]


@pytest.mark.slow
@needs_machines
@pytest.mark.parametrize(
    ("variable", "backend", "cause"),
    [
        ("RAISES", "process", "the simulator has crashed"),
        ("RAISES", "inline", "the simulator has crashed"),
        ("HANGS", "process", "did not"),
    ],
)
def test_the_chief_tells_why_the_environment_of_another_has_failed(variable, backend, cause, start):
    environment = ["--env=disturbed:DisturbedLearner-v0", f"--env-backend={backend}"]
    learners = start("machines", [*TINY, *environment])
    (learners.folder / "disturbed.py").write_text(MODULE)
    now = learners.folder / "now"
    learners.start("--step-timeout=5", variables={1: {variable: str(now)}})
    train_a_while(learners)
    now.touch()
    assert ends(learners) == [LEARNER_LOST, 1]
    [line] = [line for line in learners.console(0).splitlines() if line.startswith("error")]
    assert line.startswith(f"error: learner 1 on {learners.machines.addresses[1]} failed: ")
    assert cause in line and cause in learners.console(1)


@pytest.mark.slow
def test_20_starts_in_a_row_train(start):
    """Learners do not race with each other when they start."""
    seconds = []
    for number in range(20):
        learners = start(settings=[*TINY, "--num-envs=4", "--minibatch-size=100"], name=str(number))
        start_time = time.monotonic()
        learners.finish(400, num_learners=4)
        seconds.append(time.monotonic() - start_time)
    record(
        "starts of 4 learners in a row",
        starts=20,
        failed=0,
        median_seconds=round(float(np.median(seconds)), 1),
        most_seconds=round(max(seconds), 1),
    )
