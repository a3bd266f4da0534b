import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

import agents
from agents import stop_signals
from agents.errors import EnvironmentFailure
from agents.stop_signals import StopRequested, check, graph_call, handling, interruptible

SIGNALS = pytest.mark.parametrize("signum", stop_signals.SIGNALS)

# A main thread that waits for a lock stays there while its handlers do not raise.
STUCK = """
    import sys, threading
    from agents import stop_signals
    from agents.stop_signals import graph_call, handling

    stop_signals._ECHO_SECONDS = float(sys.argv[1])

    lock = threading.Lock()
    lock.acquire()
    with handling("it stops"), graph_call():
        print("ready", flush=True)
        lock.acquire()
    """


def kill(signum):
    os.kill(os.getpid(), signum)


@pytest.fixture
def start_stuck():
    started = []

    def start(echo_seconds=0.05):
        process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(STUCK), str(echo_seconds)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(Path(agents.__file__).parents[1])},
        )
        started.append(process)
        assert process.stdout.readline() == "ready\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


@SIGNALS
def test_interruptible_sections_are_interrupted_at_once_with_one_line(signum, capfd):
    with pytest.raises(StopRequested) as raised, handling("training stops"), interruptible():
        kill(signum)
        time.sleep(600)
        pytest.fail("it was not interrupted")
    assert raised.value.signum == signum
    assert isinstance(raised.value, KeyboardInterrupt)
    assert stop_signals.exit_code(raised.value) == 128 + signum
    printed = ""
    while not printed:
        printed = capfd.readouterr().err
    name = signal.Signals(signum).name
    assert printed == f"Received {name}: training stops; a second signal stops at once.\n"


@pytest.mark.parametrize("section", [graph_call, stop_signals.postponed])
def test_sections_and_code_outside_of_them_finish_first(section):
    done = []
    with pytest.raises(StopRequested) as raised, handling("it stops"):
        with section():
            kill(signal.SIGTERM)
            time.sleep(0.1)
            if section is stop_signals.postponed:
                check()
            done.append("iteration")
        assert stop_signals.requested == signal.SIGTERM
        done.append("logged")
        with graph_call():
            done.append("continued")
    assert raised.value.signum == signal.SIGTERM and done == ["iteration", "logged"]


def test_check_raises_until_the_request_is_taken():
    check()
    with handling("it stops"):
        kill(signal.SIGTERM)
        for _ in range(2):
            with pytest.raises(StopRequested):
                check()
        stop_signals.take()
        check()
        assert stop_signals.is_stopping()
        with interruptible():
            pass
    check()
    assert not stop_signals.is_stopping()


def test_a_failure_together_with_a_request_is_its_consequence():
    with pytest.raises(StopRequested) as raised, handling("it stops"), graph_call():
        threading.Timer(0.02, kill, [signal.SIGTERM]).start()
        raise EnvironmentFailure("A worker process was killed by SIGTERM")
    assert isinstance(raised.value.__cause__, EnvironmentFailure)
    for section in (graph_call, interruptible):
        with pytest.raises(EnvironmentFailure), handling("it stops"), section():
            raise EnvironmentFailure("It broke")


@pytest.mark.parametrize(("first", "second", "echo_seconds"), [
    (signal.SIGTERM, signal.SIGTERM, 600),  # As GNU's timeout sends them.
    # Where a terminal is closed, the kernel and the shell send one each, or more.
    (signal.SIGINT, signal.SIGHUP, 0.0),
    (signal.SIGHUP, signal.SIGHUP, 0.0),
])  # fmt: skip
def test_a_second_signal_ends_a_process_that_is_stuck_and_an_echo_does_not(
    first, second, echo_seconds, start_stuck
):
    process = start_stuck(echo_seconds)
    process.send_signal(first)
    assert process.stderr.readline().startswith(f"Received {signal.Signals(first).name}")
    for _ in range(2):
        process.send_signal(second)
        time.sleep(0.1)
    assert process.poll() is None
    process.send_signal(signal.SIGTERM if first == signal.SIGINT else signal.SIGINT)
    assert process.wait(60) == 128 + first


def test_handlers_descriptors_and_threads_are_as_before_afterwards():
    def state():
        handlers = [signal.getsignal(signum) for signum in stop_signals.SIGNALS]
        return handlers, len(os.listdir("/proc/self/fd")), threading.active_count()

    before = state()
    for _ in range(20):
        with handling("it stops"), handling("nested"):
            assert state() != before
    assert state() == before
    assert signal.set_wakeup_fd(-1) == -1


@SIGNALS
def test_ignored_signals_stay_ignored(signum):
    """As SIGHUP after `nohup`."""
    before = signal.signal(signum, signal.SIG_IGN)
    try:
        with handling("it stops"), interruptible():
            kill(signum)
            time.sleep(0.1)
    finally:
        signal.signal(signum, before)


def test_other_threads_are_left_alone():
    errors = []

    def run():
        try:
            with handling("it stops"), interruptible():
                pass
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert not errors
