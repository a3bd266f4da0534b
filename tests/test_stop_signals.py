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

# A main thread that waits for a lock does not notice handlers that do not raise.
STUCK = """
    import os, signal, sys, threading, time
    from agents import stop_signals
    from agents.stop_signals import graph_call, handling, request

    stop_signals._ECHO_SECONDS = float(sys.argv[2])

    def pass_on():
        for line in sys.stdin:
            request(signal.SIGTERM)

    def rescue():
        os.write(1, b"rescued ")
        time.sleep(float(sys.argv[1]))
        os.write(1, b"completely ")

    lock = threading.Lock()
    lock.acquire()
    threading.Thread(target=pass_on, daemon=True).start()
    with handling("it stops", lambda: ["farewell"]), graph_call(rescue):
        print("ready", flush=True)
        lock.acquire()
    """


def kill(signum):
    os.kill(os.getpid(), signum)


def start_stuck(seconds, echo_seconds=0.05):
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(STUCK), str(seconds), str(echo_seconds)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(agents.__file__).parents[1])},
    )
    assert process.stdout.readline() == "ready\n"
    return process


@SIGNALS
def test_interruptible_sections_are_interrupted_at_once(signum):
    with pytest.raises(StopRequested) as raised, handling("it stops"), interruptible():
        kill(signum)
        time.sleep(600)
        pytest.fail("it was not interrupted")
    assert raised.value.signum == signum
    assert isinstance(raised.value, KeyboardInterrupt)
    assert stop_signals.exit_code(raised.value) == 128 + signum


@SIGNALS
def test_the_first_signal_is_announced_in_one_line(signum, capfd):
    with pytest.raises(StopRequested), handling("training stops"), interruptible():
        kill(signum)
    printed = ""
    while not printed:
        printed = capfd.readouterr().err
    name = signal.Signals(signum).name
    assert printed == f"Received {name}: training stops; a second signal stops at once.\n"


def test_code_outside_of_sections_finishes_first():
    done = []
    with pytest.raises(StopRequested), handling("it stops"):
        with graph_call():
            pass
        kill(signal.SIGINT)
        time.sleep(0.6)  # Longer than a section would be given.
        done.append("saved")
        with graph_call():
            done.append("continued")
    assert done == ["saved"]


def test_graph_calls_that_end_soon_are_not_cut():
    done = []
    with pytest.raises(StopRequested), handling("it stops"):
        with graph_call():
            kill(signal.SIGINT)
            time.sleep(0.1)
            done.append("iteration")
        done.append("logged")
        with graph_call():
            done.append("continued")
    assert done == ["iteration", "logged"]


def test_check_raises_until_the_request_is_taken():
    check()
    with handling("it stops"):
        kill(signal.SIGTERM)
        for _ in range(2):
            with pytest.raises(StopRequested):
                check()
        stop_signals.take()
        check()
        with interruptible():
            pass
    check()


def test_a_failure_together_with_a_request_is_its_consequence():
    with pytest.raises(StopRequested) as raised, handling("it stops"), graph_call():
        threading.Timer(0.02, kill, [signal.SIGTERM]).start()
        raise EnvironmentFailure("A worker process was killed by SIGTERM")
    assert isinstance(raised.value.__cause__, EnvironmentFailure)


def test_failures_are_raised_as_they_are():
    for section in (graph_call, interruptible):
        with pytest.raises(EnvironmentFailure), handling("it stops"), section():
            raise EnvironmentFailure("It broke")


@SIGNALS
def test_a_main_thread_that_is_stuck_is_rescued(signum):
    process = start_stuck(0)
    start = time.monotonic()
    process.send_signal(signum)
    out, err = process.communicate()
    assert time.monotonic() - start > 0.3
    assert process.returncode == 128 + signum
    assert out == "rescued completely "
    assert err.splitlines()[1:] == ["farewell"]


@SIGNALS
def test_a_signal_to_a_process_and_to_its_group_is_one(signum):
    """As GNU's timeout sends it."""
    process = start_stuck(0, echo_seconds=60)
    for _ in range(2):
        process.send_signal(signum)
    out, err = process.communicate()
    assert (process.returncode, out) == (128 + signum, "rescued completely ")
    assert len(err.splitlines()) == 2


@pytest.mark.parametrize("first", stop_signals.SIGNALS)
def test_hangups_are_no_second_signal(first):
    """As where a terminal is closed: the kernel and the shell send one each, or more."""
    process = start_stuck(0.5)
    for signum in (first, signal.SIGHUP, signal.SIGHUP):
        process.send_signal(signum)
        time.sleep(0.1)
    with process:
        process.stderr.close()
        out = process.stdout.read()
    assert (process.returncode, out) == (128 + first, "rescued completely ")


def stop(process, order):
    """Signals a process (s), or requests a stop in it (r), every tenth of a second."""
    for each in order:
        if each == "s":
            process.send_signal(signal.SIGTERM)
        else:
            process.stdin.write("stop\n")
            process.stdin.flush()
        time.sleep(0.1)


@pytest.mark.parametrize("order", ["r", "rs", "sr", "rrs", "rsr"])
def test_a_request_and_a_signal_are_one(order):
    """As where the learners of several machines are signalled: the others pass theirs on."""
    process = start_stuck(0)
    stop(process, order)
    out, err = process.communicate()
    assert (process.returncode, out) == (128 + signal.SIGTERM, "rescued completely ")
    assert len(err.splitlines()) == 2


@pytest.mark.parametrize("order", ["rss", "srs"])
def test_a_second_signal_beside_a_request_ends_the_process_at_once(order):
    process = start_stuck(600)
    stop(process, order)
    out, _ = process.communicate()
    assert process.returncode == 128 + signal.SIGTERM and "completely" not in out


@pytest.mark.parametrize("delay", [0.1, 1.0], ids=["before the rescue", "during the rescue"])
def test_a_second_signal_ends_the_process_at_once(delay):
    process = start_stuck(600)
    process.send_signal(signal.SIGTERM)
    time.sleep(delay)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate()
    assert process.returncode == 128 + signal.SIGTERM
    assert "completely" not in out


def test_handlers_descriptors_and_threads_are_as_before_afterwards():
    def state():
        handlers = [signal.getsignal(signum) for signum in stop_signals.SIGNALS]
        return handlers, len(os.listdir("/proc/self/fd")), threading.active_count()

    before = state()
    for _ in range(20):
        with handling("it stops"), handling("nested"):
            assert state() != before
    assert state() == before
    descriptor = signal.set_wakeup_fd(-1)
    assert descriptor == -1


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


def test_checking_costs_little():
    section = stop_signals.python_code()
    start = time.process_time()
    for _ in range(10_000):
        with section:
            pass
    assert time.process_time() - start < 0.02 * 10  # 2 us each on an idle machine, at most.
