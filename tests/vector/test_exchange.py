import contextlib
import os
import signal
import sys
import time

import cloudpickle
import pytest

from agents import stop_signals
from agents.errors import EnvironmentRaisedError, WorkerDiedError, WorkerTimeoutError
from agents.vector.process_batch import make_batch_env
from tests.faulty_toys import CommandedEnv
from tests.vector.batches import batch_of

# Workers need not be able to import this module.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

HANG, NAP = CommandedEnv.HANG, CommandedEnv.NAP


class Stubborn(CommandedEnv):
    """Ignores SIGTERM."""

    def __init__(self):
        super().__init__()
        signal.signal(signal.SIGTERM, signal.SIG_IGN)


@contextlib.contextmanager
def taking(low, high):
    start = time.monotonic()
    yield
    assert low <= time.monotonic() - start < high


def failures_of(error):
    return {failure.env_index: type(failure) for failure in (error, *error.others)}


@pytest.mark.filterwarnings("ignore:Environment.* has been in step")  # After a second.
@pytest.mark.timing
def test_workers_that_hang_together_fail_and_close_together():
    with batch_of([Stubborn] * 6, "each", timeout=0.9) as batch:
        batch.reset()
        # For the second one the time limits run again, together.
        for request in (lambda: batch.step([HANG] * 6), batch.reset):
            with taking(0.9, 4.5), pytest.raises(WorkerTimeoutError) as caught:
                request()
            assert failures_of(caught.value) == dict.fromkeys(range(6), WorkerTimeoutError)
        with taking(0, 60):
            batch.close()


class Slow(CommandedEnv):
    """Takes a third of the time limit for each step and each reset."""

    def reset(self, **kwargs):
        time.sleep(0.5)
        return super().reset(**kwargs)

    def step(self, action):
        time.sleep(0.5)
        return super().step(action)


@pytest.mark.timing
@pytest.mark.filterwarnings("ignore:Environment 3 .* has been in step")
def test_the_time_limit_is_that_of_each_environment():
    with batch_of([Slow] * 4, "one", timeout=1.5) as batch:
        with taking(2.0, 60):
            batch.reset()
        with taking(4.0, 60):
            batch.step([CommandedEnv.END] * 4)  # And a reset each.
        with taking(3.0, 60), pytest.raises(WorkerTimeoutError, match="environment 3") as caught:
            batch.step([0, 0, 0, HANG])
        assert failures_of(caught.value) == {3: WorkerTimeoutError}


@pytest.mark.slow
def test_the_time_limit_of_constructors_is_that_of_each():
    def construct():
        time.sleep(4)
        return CommandedEnv()

    with taking(12, 120), contextlib.closing(make_batch_env([construct] * 3, 1, start_timeout=9)):
        pass


@pytest.mark.timing
def test_late_replies_are_discarded_while_another_worker_hangs():
    with batch_of([CommandedEnv] * 3, "each", timeout=0.4) as batch:
        batch.reset()
        with pytest.raises(WorkerTimeoutError) as caught:
            batch.step([HANG, NAP, NAP])
        assert failures_of(caught.value) == dict.fromkeys(range(3), WorkerTimeoutError)
        with pytest.raises(WorkerTimeoutError) as caught:
            batch.reset()
        assert failures_of(caught.value) == {0: WorkerTimeoutError}
        assert batch._arrays.observ[0][1:].tolist() == [[1, 0], [1, 0]]
        os.kill(batch[0]._host.pid, signal.SIGKILL)
        with taking(0, 60), pytest.raises(WorkerDiedError, match="SIGKILL"):
            batch.reset()


@pytest.mark.timing
def test_a_requested_stop_ends_the_wait(monkeypatch):
    with batch_of([CommandedEnv] * 2, "each", timeout=30) as batch:
        batch.reset()
        batch[0].call("nap", 0.2, None, blocking=False)
        monkeypatch.setattr(stop_signals, "requested", signal.SIGINT)
        with taking(0, 60), pytest.raises(stop_signals.StopRequested):
            batch.step([0, NAP])
        monkeypatch.undo()
        batch.reset()
        assert batch.step([0, 0])[0][:, 1].tolist() == [1, 1]
        signal.signal(signal.SIGALRM, lambda *_: monkeypatch.setattr(stop_signals, "requested", 2))
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        with taking(0.1, 60), pytest.raises(stop_signals.StopRequested):
            batch.step([HANG, HANG])
        monkeypatch.undo()
        with taking(0, 60):
            batch.close()


def hang():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(60)


@pytest.mark.timing
@pytest.mark.parametrize(
    ("constructors", "error", "message"),
    [
        ([CommandedEnv, hang, hang], WorkerTimeoutError, "within 1.2 seconds"),
        ([hang, lambda: 1 / 0], EnvironmentRaisedError, "ZeroDivisionError.*environment 1"),
        ([hang, lambda: os._exit(7)], WorkerDiedError, "exit code 7"),
    ],
    ids=["hang", "raise", "exit"],
)
def test_constructors_share_a_deadline_and_a_failing_one_ends_the_wait(
    constructors, error, message
):
    start_timeout = 1.2 if error is WorkerTimeoutError else 120
    with taking(0, 40), pytest.raises(error, match=message):
        make_batch_env(constructors, len(constructors), start_timeout=start_timeout)
