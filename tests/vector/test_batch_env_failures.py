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
from gymnasium.error import ResetNeeded

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

RAISE = CommandedEnv.RAISE


def assert_usable_after_a_reset(batch):
    with pytest.raises(ResetNeeded):
        batch.step([0, 0, 0])
    assert batch.reset()[0][:, 1].tolist() == [0, 0, 0]
    for count in range(1, 4):
        assert batch.step([0, 0, 0])[0][:, 1].tolist() == [count] * 3


def test_the_first_failure_keeps_the_others_and_a_reset_makes_the_batch_usable(playground):
    playground.reset()
    with pytest.raises(EnvironmentRaisedError, match="a failed") as caught:
        playground.step([RAISE, 0, RAISE])
    error, message = caught.value, str(caught.value).splitlines()
    assert [error.env_index, *(other.env_index for other in error.others)] == [0, 2]
    assert error.others[0].others == ()
    assert message[1] == "Others that failed: 1 environment (ValueError)"
    assert message[-1] == "ValueError: a failed"
    assert_usable_after_a_reset(playground)
    with pytest.raises(EnvironmentRaisedError, match="b failed") as caught:
        playground.step([0, RAISE, 0])
    assert (caught.value.env_index, caught.value.others) == (1, ())
    assert "that failed" not in str(caught.value)
    assert_usable_after_a_reset(playground)
    with pytest.raises(EnvironmentRaisedError, match="reset raised KeyError: 'c'"):
        playground.reset(options={"raise": "c"})
    assert_usable_after_a_reset(playground)


@pytest.mark.filterwarnings("ignore:Environment.* has been in step")  # After a second.
def test_failures_of_different_kinds():
    with batch_of([CommandedEnv] * 4, "each", timeout=0.9) as batch:
        batch.reset()
        with pytest.raises(EnvironmentFailure) as caught:
            batch.step([0, CommandedEnv.DIE, RAISE, CommandedEnv.HANG])
        errors = (caught.value, *caught.value.others)
        assert {error.env_index: type(error) for error in errors} == {
            1: WorkerDiedError,
            2: EnvironmentRaisedError,
            3: WorkerTimeoutError,
        }
        os.kill(batch[3]._host.pid, signal.SIGKILL)


def test_after_an_interrupt_the_batch_must_be_reset(playground):
    def interrupt(*_):
        raise KeyboardInterrupt

    previous = signal.signal(signal.SIGALRM, interrupt)
    try:
        playground.reset()
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        with pytest.raises(KeyboardInterrupt):
            playground.step([CommandedEnv.NAP, 0, 0])
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    assert_usable_after_a_reset(playground)


def descriptors():
    gc.collect()
    return len(os.listdir("/proc/self/fd"))


def test_batches_of_this_process_and_refused_ones_leak_no_descriptor():
    before = descriptors()
    for closed in (True, False):
        batch = BatchEnv([CommandedEnv(), CommandedEnv()], blocking=True)
        batch.reset()
        if closed:
            batch.close()
        del batch
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

    def __init__(self, error, method=""):
        super().__init__()
        self.error = error
        self.raise_in(method, "constructor")

    def reset(self, *, seed=None, options=None):
        self.raise_in(seed, 6)
        return super().reset(seed=seed)

    def step(self, action):
        self.raise_in(action, 8)
        return super().step(action)

    def render(self):
        self.raise_in("", "")

    def raise_in(self, one, other):
        if one == other:
            raise self.error


@pytest.mark.parametrize(
    ("host", "error"),
    [
        ("inline", KeyboardInterrupt("own")),
        ("inline", BaseException("own")),
        ("one", KeyboardInterrupt("own")),
        ("one", SystemExit("own")),
    ],
    ids=repr,
)
@pytest.mark.filterwarnings("ignore:Environment.* restart number")
def test_exceptions_of_any_kind_are_errors_of_the_environment(host, error):
    def make(*method):
        constructors = [functools.partial(Raising, error, *method)] * 2
        if host == "inline":
            return BatchEnv([LocalHost(constructors)], True, restart_limit=9)
        return make_batch_env(constructors, 1, restart_limit=9)

    def errors_of(match, call):
        message = f"{match} raised {type(error).__name__}: own"
        with pytest.raises(EnvironmentRaisedError, match=message) as caught:
            call()
        assert "in raise_in" in caught.value.traceback_text
        assert caught.value.env_index in (0, 1)

    errors_of("constructor", lambda: make("constructor"))
    with contextlib.closing(make()) as batch:
        errors_of(r"render\(\)", batch.render)
        batch.reset()
        *_, infos = batch.step([0, 8])
        assert infos["restarted"].tolist() == [False, True]
        # As often as the limit allows.
        errors_of("(reset|step)", lambda: batch.reset(seed=[5, 6]))


class Telling(CommandedEnv):
    """Resets with an info that exits where it is copied or unpickled."""

    class Exiting:
        def __init__(self, copies):
            self.copies = copies

        def __deepcopy__(self, memo):
            return self if self.copies else sys.exit("own")

        def __setstate__(self, state):
            sys.exit("own")

    def __init__(self, copies):
        super().__init__()
        self.copies = copies

    def reset(self, *, seed=None, options=None):
        return super().reset(seed=seed)[0], {"tell": Telling.Exiting(self.copies)}


@pytest.mark.parametrize(
    ("copies", "hybrid", "match"),
    [(False, True, "reset raised"), (False, False, "reset raised"), (True, False, "'tell' can't be received:")],
)  # fmt: skip
def test_infos_that_exit_are_errors_of_the_environment(copies, hybrid, match):
    makers = [functools.partial(Telling, copies)] * 2
    with contextlib.closing(make_batch_env(makers, 1, inline_share=hybrid)) as batch:
        with pytest.raises(EnvironmentRaisedError, match=f"{match} SystemExit: own") as caught:
            batch.reset()
        assert (caught.value.env_index, len(caught.value.others)) == (0, 1)


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


def test_signals_that_the_caller_handles_are_no_error_of_an_environment():
    for start in (lambda: signal.raise_signal(signal.SIGINT), timer(signal.SIGINT)):
        with pytest.raises(KeyboardInterrupt):
            interrupted_steps(start)
    previous = signal.signal(signal.SIGTERM, lambda *_: sys.exit(4))
    try:
        with pytest.raises(SystemExit):
            interrupted_steps(timer(signal.SIGTERM))
    finally:
        signal.signal(signal.SIGTERM, previous)
    with pytest.raises(stop_signals.StopRequested):
        with stop_signals.handling("it stops"), stop_signals.interruptible():
            interrupted_steps(timer(signal.SIGTERM))
