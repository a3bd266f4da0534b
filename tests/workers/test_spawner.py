import functools
import os
import signal
import subprocess
import sys
import time

import pytest

from agents import stop_signals
from agents.workers import spawner
from agents.workers.external_process import ExternalProcess
from agents.workers.spawner import end_workers, start_worker
from tests.faulty_toys import CommandedEnv


@pytest.mark.timing
def test_workers_that_do_not_exit_are_killed_together():
    workers = [start_worker() for _ in range(3)]
    signals = [signal.SIGSTOP, signal.SIGKILL, signal.SIGSTOP]
    for worker, signum in zip(workers, signals, strict=True):
        while not worker.has_started():  # Until then it has no id of its own.
            time.sleep(0.01)
        os.kill(worker.pid, signum)
    start = time.monotonic()
    end_workers(workers)
    assert [worker.exit_code() for worker in workers] == [-signal.SIGKILL] * 3
    assert time.monotonic() - start < 12


def run(script, tmp_path, **kwargs):
    path = tmp_path / "script.py"
    path.write_text(script)
    return subprocess.run(
        [sys.executable, str(path)], capture_output=True, text=True, timeout=60, **kwargs
    )


def test_a_fork_of_the_parent_leaves_the_worker_alone(tmp_path):
    script = """
import os, sys
import gymnasium
from agents.tools import ExternalProcess
process = ExternalProcess(lambda: gymnasium.make("CartPole-v1"))
child = os.fork()
if child == 0:
    process.close()
    sys.exit(0)  # Runs the handlers at exit.
os.waitpid(child, 0)
print(process.reset(seed=0)[0].shape, ExternalProcess(lambda: gymnasium.make("CartPole-v1")).reset(seed=0)[0].shape)
"""
    result = run(script, tmp_path)
    assert (result.stdout, result.returncode) == ("(4,) (4,)\n", 0), result.stderr


def test_environments_of_a_script_without_a_main_guard(tmp_path):
    script = """
import gymnasium, numpy, os
from agents.tools import ExternalProcess
print("imported")

class Mine(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(0, 1, (2,), numpy.float32)
    action_space = gymnasium.spaces.Discrete(2)
    def __init__(self, level=0):
        self.level = level
    def reset(self, *, seed=None, options=None):
        return numpy.full(2, self.level, numpy.float32), {"pid": os.getpid()}
    def step(self, action):
        return numpy.zeros(2, numpy.float32), helper(action), False, False, {}

def helper(action):
    return action + 0.5

gymnasium.register("Mine-v0", Mine, kwargs={"level": 1}, max_episode_steps=5)
spec = gymnasium.spec("Mine-v0")
for constructor in (Mine, lambda: gymnasium.make(spec)):
    process = ExternalProcess(constructor)
    observ, info = process.reset()
    print(observ, process.step(1)[1], info["pid"] != os.getpid())
"""
    result = run(script, tmp_path)
    assert result.stdout == "imported\n[0. 0.] 1.5 True\n[1. 1.] 1.5 True\n", result.stderr
    assert (result.stderr, result.returncode) == ("", 0)


def test_an_interrupt_of_the_process_group_leaves_workers_and_their_replies_intact(tmp_path):
    script = """
import os, signal, time
import gymnasium
from agents.tools import ExternalProcess

class Slow(gymnasium.Env):
    observation_space = action_space = gymnasium.spaces.Discrete(9)
    def reset(self, **kwargs):
        return 0, {}
    def step(self, action):
        time.sleep(0.5)
        return int(action), 0.0, False, False, {}

process, starting = ExternalProcess(Slow), ExternalProcess(Slow, blocking=False)
process.reset()
promise = process.step(4, blocking=False)
time.sleep(0.1)
try:
    os.killpg(0, signal.SIGINT)
    time.sleep(10)
except KeyboardInterrupt:
    print("interrupted")
print(promise()[0], process.step(5)[0])
try:
    process.step(6, blocking=False)
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    signal.signal(signal.SIGALRM, lambda *_: os.killpg(0, signal.SIGINT))
    process.step(7)
except KeyboardInterrupt:
    print("interrupted")
print(process.step(8)[0])
starting.wait_until_ready()
print(starting.reset()[0])
"""
    result = run(script, tmp_path, start_new_session=True)
    assert result.stdout == "interrupted\n4 5\ninterrupted\n8\n0\n", result.stderr
    assert (result.stderr, result.returncode) == ("", 0)


class Slow(CommandedEnv):
    """Takes its time to close."""

    def close(self):
        time.sleep(0.6)
        super().close()


@pytest.mark.timing
def test_after_a_stop_request_only_environments_that_return_are_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr(spawner, "GRACE_SECONDS", 600)
    log = tmp_path / "log"
    hung, closing = (ExternalProcess(functools.partial(Slow, name, log)) for name in ("a", "b"))
    for process in (hung, closing):
        process.reset()
    hung.step(CommandedEnv.HANG, blocking=False)
    while not hung.host.worker.is_busy():
        time.sleep(0.01)
    with stop_signals.handling("it stops"):
        os.kill(os.getpid(), signal.SIGTERM)
        stop_signals.take()
        start = time.monotonic()
        hung.close()
        assert time.monotonic() - start < 60  # A quarter of a second on an idle machine.
        closing.close()
    assert [process.host.worker.exit_code() for process in (hung, closing)] == [-signal.SIGKILL, 0]
    assert log.read_text() == "b closed\n"
