import contextlib
import functools
import gc
import os
import signal
import sys
import threading
import time

import cloudpickle
import pytest
from gymnasium import spaces
from gymnasium.error import ClosedEnvironmentError, ResetNeeded

from agents import stop_signals
from agents.errors import (
    EnvironmentFailure,
    EnvironmentRaisedError,
    WorkerDiedError,
    WorkerTimeoutError,
)
from agents.vector.batch_env import BatchEnv
from agents.vector.process_batch import make_batch_env
from agents.workers.external_process import ExternalProcess
from agents.workers.host import LocalHost
from tests.faulty_toys import CommandedEnv
from tests.vector.batches import batch_of

# Workers need not be able to import this module.
cloudpickle.register_pickle_by_value(sys.modules[__name__])


def children():
    """Ids of the processes that any thread of this one has started."""
    mine = set()
    for task in os.listdir("/proc/self/task"):
        with (
            contextlib.suppress(FileNotFoundError),
            open(f"/proc/self/task/{task}/children") as file,
        ):
            mine |= set(file.read().split())
    return mine


def test_a_failure_leaves_no_reply_of_another_environment_unread(playground):
    playground.reset()
    with pytest.raises(EnvironmentRaisedError, match="b failed") as caught:
        playground.step([0, CommandedEnv.RAISE, 0])
    assert caught.value.env_index == 1
    with pytest.raises(ResetNeeded):
        playground.step([0, 0, 0])
    with pytest.raises(EnvironmentRaisedError, match="c"):
        playground.reset(options={"raise": "c"})
    with pytest.raises(ResetNeeded):
        playground.step([0, 0, 0])
    assert playground.reset()[0][:, 1].tolist() == [0, 0, 0]
    for count in range(1, 4):
        assert playground.step([0, 0, 0])[0][:, 1].tolist() == [count] * 3


@pytest.mark.parametrize("backend", ["inline", "each"])
def test_the_first_of_several_failures_keeps_the_others(backend):
    with batch_of([lambda name=name: CommandedEnv(name) for name in "abcd"], backend) as batch:
        batch.reset()
        with pytest.raises(EnvironmentRaisedError, match="a failed") as caught:
            batch.step([CommandedEnv.RAISE, 0, CommandedEnv.RAISE, CommandedEnv.RAISE])
        error = caught.value
        assert [error.env_index, *(other.env_index for other in error.others)] == [0, 2, 3]
        assert all(other.others == () for other in error.others)
        message = str(error).splitlines()
        assert message[1] == "Others that failed: 2 environments (ValueError)"
        assert message[-1] == "ValueError: a failed"
        with pytest.raises(ResetNeeded):
            batch.step([0, 0, 0, 0])
        batch.reset()
        assert batch.step([0, 0, 0, 0])[0][:, 1].tolist() == [1, 1, 1, 1]
        with pytest.raises(EnvironmentRaisedError) as caught:
            batch.step([0, CommandedEnv.RAISE, 0, 0])
        assert caught.value.others == () and "Others" not in str(caught.value)


@pytest.mark.filterwarnings("ignore:Environment 3 .* has been in step for 1")
def test_failures_of_different_kinds():
    with batch_of([CommandedEnv] * 4, "each", timeout=2) as batch:
        batch.reset()
        with pytest.raises(EnvironmentFailure) as caught:
            batch.step([0, CommandedEnv.DIE, CommandedEnv.RAISE, CommandedEnv.HANG])
        error = caught.value
        assert {type(failure) for failure in (error, *error.others)} == {
            WorkerDiedError,
            EnvironmentRaisedError,
            WorkerTimeoutError,
        }
        assert {failure.env_index for failure in (error, *error.others)} == {1, 2, 3}
        os.kill(batch[3]._host.pid, signal.SIGKILL)


@pytest.mark.parametrize("backend", ["inline", "each"])
def test_after_an_interrupt_the_batch_must_be_reset(backend):
    def interrupt(*_):
        raise KeyboardInterrupt

    previous = signal.signal(signal.SIGALRM, interrupt)
    try:
        with batch_of([CommandedEnv] * 2, backend, timeout=20) as batch:
            batch.reset()
            signal.setitimer(signal.ITIMER_REAL, 0.1)
            with pytest.raises(KeyboardInterrupt):
                batch.step([CommandedEnv.NAP, 0])
            with pytest.raises(ResetNeeded):
                batch.step([0, 0])
            batch.reset()
            assert batch.step([0, 0])[0][:, 1].tolist() == [1, 1]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)


def test_a_failing_constructor_is_named_by_its_index_in_the_batch_and_all_workers_end():
    before = children()
    with pytest.raises(
        EnvironmentRaisedError, match="constructor raised ZeroDivisionError"
    ) as caught:
        make_batch_env([CommandedEnv, CommandedEnv, CommandedEnv, lambda: 1 / 0], processes=2)
    assert caught.value.env_index == 3
    assert children() <= before


def test_closing_ends_the_processes_and_can_be_repeated():
    before = set(children())
    batch = make_batch_env([CommandedEnv] * 2, processes=2)
    assert len(set(children()) - before) == 2
    pids = [host.pid for host in batch._hosts]
    batch.close()
    batch.close()
    assert set(children()) <= before
    assert not any(os.path.exists(f"/proc/{pid}") for pid in pids)
    with pytest.raises(ClosedEnvironmentError, match="close"):
        batch.reset()


def descriptors():
    gc.collect()
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize("backend", ["inline", "each"])
def test_no_descriptor_leaks(backend):
    before = descriptors()
    for closed in (True, False):
        if backend == "inline":
            batch = BatchEnv([CommandedEnv(), CommandedEnv()], blocking=True)
        else:
            batch = make_batch_env([CommandedEnv] * 2, processes=2)
        batch.reset()
        if closed:
            batch.close()
        del batch
    assert descriptors() <= before


def test_a_refused_batch_leaks_no_descriptor():
    before = descriptors()
    spaced = CommandedEnv()
    spaced.action_space = spaces.Discrete(3)
    with pytest.raises(ValueError, match="environment 1"):
        BatchEnv([CommandedEnv(), spaced], blocking=True)
    process = ExternalProcess(CommandedEnv)
    process.close()
    with pytest.raises(RuntimeError, match="closed"):
        BatchEnv([process])
    del process
    assert descriptors() <= before


class Raising(CommandedEnv):
    """Raises an exception in a method: in `reset` for the seed 6, in `step` for the action 8."""

    def __init__(self, method, error):
        super().__init__()
        self.method, self.error = method, error
        self._raise_in("constructor")

    def reset(self, *, seed=None, options=None):
        if seed == 6:
            self._raise_in("reset")
        return super().reset(seed=seed)

    def step(self, action):
        if action == 8:
            self._raise_in("step")
        return super().step(action)

    def render(self):
        self._raise_in("render")

    def _raise_in(self, method):
        if method == self.method:
            raise self.error


@pytest.mark.parametrize(
    ("host", "error"),
    [
        ("inline", KeyboardInterrupt("own")),
        ("inline", GeneratorExit("own")),
        ("inline", BaseException("own")),
        ("one", KeyboardInterrupt("own")),
        ("one", SystemExit("own")),
    ],
    ids=repr,
)
def test_exceptions_of_any_kind_are_errors_of_the_environment(host, error):
    def make(method):
        constructors = [functools.partial(Raising, method, error)] * 2
        if host == "inline":
            return BatchEnv([LocalHost(constructors)], True, restart_limit=9)
        return make_batch_env(constructors, 1, restart_limit=9)

    def errors_of(match, call):
        with pytest.raises(
            EnvironmentRaisedError, match=f"{match} raised {type(error).__name__}: own"
        ) as caught:
            call()
        assert "in _raise_in" in caught.value.traceback_text
        assert caught.value.env_index in (0, 1)

    errors_of("constructor", lambda: make("constructor"))
    with contextlib.closing(make("render")) as batch:
        errors_of(r"render\(\)", batch.render)
    with (
        contextlib.closing(make("step")) as batch,
        pytest.warns(UserWarning, match="restart number 1"),
    ):
        batch.reset()
        *_, infos = batch.step([0, 8])
        assert infos["restarted"].tolist() == [False, True]
    with (
        contextlib.closing(make("reset")) as batch,
        pytest.warns(UserWarning, match="restart number"),
    ):
        errors_of("reset", lambda: batch.reset(seed=[5, 6]))  # As often as the limit allows.


def interrupted_steps(start):
    """Steps a batch of this process that is interrupted by what `start` starts in its second step."""

    class Starting(CommandedEnv):
        def step(self, action):
            if action == 8:
                start()
                while True:
                    time.sleep(1)
            return super().step(action)

    with contextlib.closing(BatchEnv([LocalHost([Starting] * 2)], True, restart_limit=9)) as batch:
        batch.reset()
        batch.step([0, 0])
        try:
            batch.step([0, 8])
        finally:
            assert batch.restarts.count == 0


def timer(signum):
    return lambda: threading.Timer(0.05, os.kill, [os.getpid(), signum]).start()


def test_ctrl_c_is_no_error_of_an_environment():
    with pytest.raises(KeyboardInterrupt):
        interrupted_steps(lambda: signal.raise_signal(signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        interrupted_steps(timer(signal.SIGINT))


def test_signals_that_the_caller_handles_are_no_error_of_an_environment():
    previous = signal.signal(signal.SIGTERM, lambda *_: sys.exit(4))
    try:
        with pytest.raises(SystemExit):
            interrupted_steps(timer(signal.SIGTERM))
    finally:
        signal.signal(signal.SIGTERM, previous)
    with pytest.raises(stop_signals.StopRequested):
        with stop_signals.handling("it stops"), stop_signals.interruptible():
            interrupted_steps(timer(signal.SIGTERM))
