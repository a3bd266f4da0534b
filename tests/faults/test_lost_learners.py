"""Learners that are lost, stopped by signals, and started twice; see `lost_learners`."""

import contextlib
import os
import re
import signal
import time

import numpy as np
import pytest

from agents.errors import LEARNER_LOST
from tests.distributed.namespaces import Namespaces, why_unusable
from tests.faults.figures import record
from tests.faults.lost_learners import FAULTS, LIMIT, Learners, differences, finish, run_faults
from tests.runs.conftest import small_disk  # noqa: F401 - A fixture.

SIGNALS = [signal.SIGINT, signal.SIGTERM]
TINY = [
    "--config=pendulum", "--env-backend=tf", "--num-envs=2", "--rollout-length=50",
    "--minibatch-size=50", "--epochs=1", "--layers=4", "--eval-episodes=1",
    "--learning-rate-schedule=constant", "--log-interval=1000", "--checkpoint-interval=1000",
    "--eval-interval=1000000000", "--histogram-interval=0",
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

        def make(where="loopback", settings=TINY, count=2):
            machines = stack.enter_context(Namespaces(count)) if where == "machines" else None
            learners = Learners(tmp_path, machines, settings)
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


def test_a_killed_learner_is_started_again(start, tmp_path):
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
    assert f"To resume from step {last:,}: " in printed and printed.rstrip().endswith(
        "--learners=2"
    )
    (tmp_path / "undisturbed").mkdir()
    reference = Learners(tmp_path / "undisturbed", settings=TINY)
    scheduled = last // 1000 * 1000
    finish(reference, scheduled + 1000)
    assert not differences(learners, reference, scheduled)


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("where", PLACES)
def test_20_runs_that_have_lost_a_learner_resume(where, fault, tmp_path):
    if where == "loopback" and fault == "cut off":
        pytest.skip("the loopback interface has no end to be cut off at")
    cases, differing = run_faults(tmp_path, fault, 20, where == "machines")
    seconds = [case.seconds for case in cases]
    record(
        f"learners: {fault}, {where}",
        cases=len(cases),
        problems=sum(bool(case.problems) for case in cases),
        median_seconds_to_last_end=round(float(np.median(seconds)), 1),
        most_seconds_to_last_end=round(max(seconds), 1),
        checkpoints_that_differ=len(differing),
    )
    assert not [case for case in cases if case.problems] and not differing


@pytest.mark.slow
@pytest.mark.parametrize("where", PLACES)
@pytest.mark.parametrize("fault", [signal.SIGKILL, signal.SIGSTOP])
@pytest.mark.parametrize("rank", [0, 1])
def test_the_group_starts_again(where, fault, rank, start):
    learners = start(where)
    learners.start("--restarts=2")
    for number in (1, 2):
        train_a_while(learners)
        os.kill(learners.learner(rank), fault)
        learners.wait_for(lambda: learners.console(0).count("Resuming") == number)  # noqa: B023
    train_a_while(learners)
    assert not [text for text in learners.consoles().splitlines() if "Traceback" in text]
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
@pytest.mark.parametrize("where", PLACES)
@pytest.mark.parametrize("whom", ["chief", "group", "follower"])
def test_a_signal_to_any_command_stops_all(whom, where, signum, start):
    learners = start(where)
    if whom == "follower" and where == "loopback":
        pytest.skip("there is one command")
    learners.start()
    train_a_while(learners)
    command = learners.commands[-1 if whom == "follower" else 0]
    if whom == "group":
        os.killpg(command.pid, signum)
    else:
        command.send_signal(signum)
    assert set(ends(learners)) == {128 + signum}, learners.consoles()
    printed = learners.console(0)
    signalled = learners.console(1 if whom == "follower" else 0)
    assert signalled.count(f"Received {signum.name}: training stops") == 1
    assert printed.count("Interrupted.") == 1 and "error" not in learners.consoles()
    step = int(re.search("To resume from step ([0-9,]+): ", printed)[1].replace(",", ""))
    assert step == max(learners.checkpoints())


@pytest.mark.slow
@pytest.mark.parametrize("signum", SIGNALS)
@pytest.mark.parametrize("where", PLACES)
@pytest.mark.parametrize("seconds", [0.0, 0.3, 1.0, 3.0, 6.0])
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
    if seconds <= 1:
        assert not learners.run
    if learners.run:  # Some train after three seconds.
        last = max(learners.checkpoints())
        assert f"To resume from step {last:,}: " in learners.console(0)


@pytest.mark.slow
@pytest.mark.parametrize("where", PLACES)
def test_a_second_signal_stops_at_once(where, start, tmp_path):
    (tmp_path / "disturbed.py").write_text(MODULE)
    learners = start(where, [*TINY, "--env=disturbed:DisturbedLearner-v0", "--env-backend=inline"])
    (tmp_path / "now").touch()
    variables = {rank: {"HANGS": str(tmp_path / "now")} for rank in (0, 1)}
    os.environ.pop("HANGS", None)
    learners.start("--start-timeout=60", variables=variables)
    learners.wait_for(lambda: "Training in" in learners.console(0))
    time.sleep(1)
    start_time = time.monotonic()
    for _ in range(2):
        for command in learners.commands:
            command.send_signal(signal.SIGTERM)
        time.sleep(0.2)
    assert set(ends(learners)) == {143}, learners.consoles()
    assert time.monotonic() - start_time < 60


@pytest.mark.slow
@pytest.mark.parametrize("where", PLACES)
@pytest.mark.parametrize("whom", [0, -1])
def test_learners_end_with_their_launcher(whom, where, start):
    if whom and where == "loopback":
        pytest.skip("there is one command")
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
def test_the_same_learners_started_twice_are_refused(start, tmp_path):
    learners = start("machines")
    learners.start()
    train_a_while(learners)
    again = Learners(tmp_path, learners.machines, TINY)
    again._started = 1
    again.start("--start-timeout=10")
    try:
        assert [command.wait(2 * LIMIT) for command in again.commands] == [2, 2]
        for index in (0, 1):
            assert "can't start TensorFlow's server" in again.console(index)
            assert len(again.console(index).splitlines()) <= 3
    finally:
        for command in again.commands:
            command.kill()
    assert len(list(tmp_path.glob("logs/*"))) == 1
    train_a_while(learners)  # It does not notice.
    learners.commands[0].send_signal(signal.SIGINT)
    assert ends(learners) == [130, 130]


@pytest.mark.slow
@pytest.mark.parametrize("where", PLACES)
def test_a_full_disk_of_the_chief_stops_nobody(where, start, tmp_path, small_disk):  # noqa: F811
    (tmp_path / "logs").symlink_to(small_disk)
    learners = start(where)
    learners.start()
    train_a_while(learners)
    with contextlib.suppress(OSError), (small_disk / "fill").open("wb", 0) as file:
        while True:
            file.write(bytes(1024))
    learners.wait_for(lambda: "could not be saved" in learners.console(0))
    (small_disk / "fill").unlink()
    train_a_while(learners)
    learners.commands[0].send_signal(signal.SIGINT)
    assert set(ends(learners)) == {130}, learners.consoles()


@pytest.mark.slow
@needs_machines
@pytest.mark.parametrize("backend", ["process", "inline"])
def test_the_chief_tells_why_the_environment_of_another_has_failed(backend, start, tmp_path):
    (tmp_path / "disturbed.py").write_text(MODULE)
    environment = ["--env=disturbed:DisturbedLearner-v0", f"--env-backend={backend}"]
    learners = start("machines", [*TINY, *environment])
    learners.start(variables={1: {"RAISES": str(tmp_path / "now")}})
    train_a_while(learners)
    (tmp_path / "now").touch()
    assert ends(learners) == [LEARNER_LOST, 1]
    [line] = [line for line in learners.console(0).splitlines() if line.startswith("error")]
    address = learners.machines.addresses[1]
    assert line.startswith(f"error: learner 1 on {address} failed: ")
    assert "the simulator has crashed" in line
    assert "the simulator has crashed" in learners.console(1)


@pytest.mark.slow
@needs_machines
def test_the_chief_tells_that_the_environment_of_another_hangs(start, tmp_path):
    (tmp_path / "disturbed.py").write_text(MODULE)
    environment = ["--env=disturbed:DisturbedLearner-v0", "--env-backend=process"]
    learners = start("machines", [*TINY, *environment])
    learners.start("--step-timeout=5", variables={1: {"HANGS": str(tmp_path / "now")}})
    train_a_while(learners)
    (tmp_path / "now").touch()
    assert ends(learners) == [LEARNER_LOST, 1]
    address = learners.machines.addresses[1]
    assert f"error: learner 1 on {address} failed: " in learners.console(0)
    assert "did not" in learners.console(0)


@pytest.mark.slow
def test_20_starts_in_a_row_train(tmp_path):
    """Learners do not race with each other when they start."""
    seconds = []
    for number in range(20):
        (tmp_path / str(number)).mkdir()
        learners = Learners(
            tmp_path / str(number), settings=[*TINY, "--num-envs=4", "--minibatch-size=100"]
        )
        start_time = time.monotonic()
        finish(learners, 400, num_learners=4)
        seconds.append(time.monotonic() - start_time)
    record(
        "starts of 4 learners in a row",
        starts=20,
        failed=0,
        median_seconds=round(float(np.median(seconds)), 1),
        most_seconds=round(max(seconds), 1),
    )
