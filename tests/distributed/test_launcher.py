"""Supervision of learners: exit codes, messages, restarts and signals; the learners are scripted."""

import itertools
import os
import signal
import threading
import time

import pytest

from agents import stop_signals
from agents.distributed import launcher
from agents.distributed.cluster import Cluster
from agents.distributed.launcher import supervise
from agents.distributed.shared_exchange import EndedLearner, shared_bytes
from agents.errors import LEARNER_LOST, USAGE_ERROR
from agents.workers.shared_block import create_anonymous_file

STAYS = None
KILLED = -signal.SIGKILL
HINT = "To resume: do it"
LOST = "learner 1 on 10.0.0.2 has not answered for 10 s"
OTHER = "learner 1 on 10.0.0.2 failed: unknown environment"


class Learner:
    """A process that ends after some polls, or when it is killed; see `LearnerProcess`."""

    def __init__(self, rank, code, polls=1, loss="", failure="", on_signal=None):
        self.name, self.host, self.pid = f"learner {rank}", "10.0.0.9", 1000 + rank
        self.failure, self.loss, self.signals, self.was_killed = "", "", [], False
        self._code, self._polls, self._script = code, polls, (loss, failure)
        self._on_signal, self.stays = on_signal or {}, code is STAYS

    def poll(self):
        self._polls -= 1
        if self._code is STAYS or self._polls >= 0:
            return None
        self.loss, self.failure = self._script
        return self._code

    def send_signal(self, signum):
        self.signals.append(signum)
        self._code, self._polls = self._on_signal.get(signum, self._code), 2

    def kill(self):
        self.was_killed = True
        self._code, self._polls = KILLED, 0


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(launcher, "STOP_SECONDS", 0.3)
    monkeypatch.setattr(launcher, "END_SECONDS", 0.3)
    monkeypatch.setattr(launcher, "_POLL_SECONDS", 0.001)


def run(*attempts, restarts=0, fewer=lambda number: number):
    """Supervises scripted learners, a list for each attempt; returns the exit code."""
    started = []

    def start(num_learners, attempt):
        started.append(attempt)
        return attempts[attempt]

    code = supervise(start, len(attempts[0]), restarts, fewer, lambda: [HINT])
    assert started == list(range(len(attempts)))
    return code


def lost(loss=LOST):
    return Learner(0, LEARNER_LOST, loss=loss)


# A lost learner is named once, in whatever order the learners notice.
ORDERS = [
    [
        Learner(0, LEARNER_LOST, order[0], "learner 1 closed its connection"),
        Learner(1, KILLED, order[1]),
        Learner(2, LEARNER_LOST, order[2], "learner 0 closed its connection"),
    ]
    for order in itertools.permutations([1, 4, 8])
]
NAMED = "error: learner 1 on 10.0.0.9 (process 1001) "


@pytest.mark.parametrize(("learners", "code", "lines"), [
    ([Learner(0, 0), Learner(1, 0, polls=5)], 0, []),
    ([Learner(0, 0), Learner(1, STAYS)], 0, []),
    *((learners, LEARNER_LOST, [f"{NAMED}was killed by SIGKILL", HINT]) for learners in ORDERS),
    ([Learner(0, LEARNER_LOST), Learner(1, KILLED, failure="did not answer")], LEARNER_LOST,
     [f"{NAMED}did not answer", HINT]),
    ([lost(), Learner(1, STAYS)], LEARNER_LOST, [f"error: {LOST}", HINT]),
    ([lost()], LEARNER_LOST, [f"error: {LOST}", HINT]),
    # A failed learner has printed its error. The chief has told how to resume, unless it is lost.
    ([Learner(0, 1), Learner(1, LEARNER_LOST, loss=LOST)], 1, []),
    ([lost(), Learner(1, 1)], 1, [HINT]),
    ([lost(OTHER), Learner(1, USAGE_ERROR)], USAGE_ERROR, [f"error: {OTHER}", HINT]),
    ([Learner(0, USAGE_ERROR), Learner(1, USAGE_ERROR)], USAGE_ERROR, []),
    ([Learner(0, USAGE_ERROR), Learner(1, LEARNER_LOST, loss=LOST)], USAGE_ERROR, []),
])  # fmt: skip
def test_how_learners_end(learners, code, lines, capsys):
    stay = [learner for learner in learners if learner.stays]
    assert run(learners, restarts=0 if code == LEARNER_LOST else 3) == code
    assert capsys.readouterr().err.splitlines() == lines
    assert all(learner.was_killed for learner in stay)


def test_lost_learners_start_again_as_often_as_is_allowed_and_fewer_where_that_helps(capsys):
    assert run([lost()], [lost()], [lost()], restarts=2) == LEARNER_LOST
    again = "Starting 1 learner again from the last checkpoint (restart {} of 2)"
    error = f"error: {LOST}"
    lines = [error, again.format(1), error, again.format(2), error, HINT]
    assert capsys.readouterr().err.splitlines() == lines
    attempts = [[lost()] * 4, [Learner(0, 0)] * 2]
    assert run(*attempts, restarts=1, fewer=lambda number: number // 2) == 0
    assert "Starting 2 learners again" in capsys.readouterr().err


# Signals.


@pytest.fixture
def send():
    """Sends signals to this process after some seconds each."""
    threads = []

    def send_signals(*pairs):
        def run_thread():
            for seconds, signum in pairs:
                time.sleep(seconds)
                os.kill(os.getpid(), signum)

        threads.append(threading.Thread(target=run_thread))
        threads[-1].start()

    handlers = {each: signal.getsignal(each) for each in stop_signals.SIGNALS}
    yield send_signals
    for thread in threads:
        thread.join()
    assert {each: signal.getsignal(each) for each in handlers} == handlers


@pytest.mark.parametrize("signum", stop_signals.SIGNALS)
def test_a_signal_stops_the_chief_which_stops_the_others(signum, send, capsys, monkeypatch):
    monkeypatch.setattr(stop_signals, "_ECHO_SECONDS", 60)
    chief = Learner(0, STAYS, on_signal={signum: 128 + signum})
    send((0.05, signum), (0.01, signum))  # The second is an echo.
    assert run([chief, Learner(1, 128 + signum, polls=300)], restarts=3) == 128 + signum
    assert chief.signals == [signum]
    assert capsys.readouterr().err == ""  # The chief has said all.


def test_a_signal_ends_a_chief_that_has_only_started(send, capsys):
    send((0.05, signal.SIGTERM))
    chief, other = Learner(0, STAYS, on_signal={signal.SIGTERM: -signal.SIGTERM}), Learner(1, STAYS)
    assert run([chief, other], restarts=3) == 143
    assert other.was_killed
    assert capsys.readouterr().err.splitlines() == ["Interrupted.", HINT]


def test_hangups_after_a_signal_are_no_second_one(monkeypatch):
    """As where a terminal is closed."""
    monkeypatch.setattr(stop_signals, "_ECHO_SECONDS", 0)
    chief, signals = Learner(0, STAYS), iter([signal.SIGHUP] * 3)
    chief.poll = lambda: next((os.kill(os.getpid(), signum) for signum in signals), 129)
    assert run([chief], restarts=3) == 129
    assert chief.signals == [signal.SIGHUP] and not chief.was_killed


def test_a_second_signal_ends_all_at_once(send, monkeypatch):
    monkeypatch.setattr(launcher, "STOP_SECONDS", 100)
    send((0.05, signal.SIGINT), (0.2, signal.SIGTERM))
    learners = [Learner(0, STAYS), Learner(1, STAYS)]
    assert run(learners, restarts=3) == 130
    assert learners[0].signals == [signal.SIGINT]
    assert all(learner.was_killed for learner in learners)


def test_a_signal_while_learners_start_is_passed_on():
    chief = Learner(0, STAYS, on_signal={signal.SIGTERM: 143})

    def start(num_learners, attempt):
        os.kill(os.getpid(), signal.SIGTERM)
        return [chief]

    assert supervise(start, 1, 3, lambda number: number) == 143
    assert chief.signals == [signal.SIGTERM]


def test_learners_lost_after_a_signal_are_not_started_again(send, capsys):
    chief = Learner(0, STAYS, loss=LOST, on_signal={signal.SIGINT: LEARNER_LOST})
    send((0.05, signal.SIGINT))
    assert run([chief], restarts=3) == LEARNER_LOST
    assert capsys.readouterr().err.splitlines()[0] == f"error: {LOST}"


def test_ignored_signals_stay_ignored(send):
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        chief = Learner(0, 0, polls=100)
        os.kill(os.getpid(), signal.SIGHUP)
        assert run([chief]) == 0 and chief.signals == []
    finally:
        signal.signal(signal.SIGHUP, before)


def test_started_learners_end_when_watching_fails():
    learners = [Learner(0, STAYS), Learner(1, STAYS)]
    learners[1].poll = lambda: 1 / 0 if not learners[1].was_killed else -9
    with pytest.raises(ZeroDivisionError):
        run(learners)
    assert learners[0].was_killed


# Processes.


def start(cluster=Cluster(0, 1), start_timeout=1.0, **options):  # noqa: B008 - Is not changed.
    task = {"config": {"start_timeout": start_timeout}}
    return launcher.LocalProcess(task, cluster, **{"is_quiet": False, **options})


def end(process):
    while process.poll() is None:
        time.sleep(0.01)
    return process.poll()


IMPORTS = (
    "import os, signal, sys, time; sys.path[:] = {path!r}; from agents.workers import heartbeat; "
)
STOPS = "heartbeat.start_heartbeat({pipe}); heartbeat.report('%s'); os.kill(os.getpid(), signal.SIGSTOP)"
JOINS = "heartbeat._pipe = {pipe}; heartbeat.report('joining'); time.sleep(1.5); "
JOINS += "heartbeat.report('joined'); time.sleep(60)"


@pytest.mark.parametrize(("code", "ends_with", "least_seconds"), [
    (STOPS % "", KILLED, 0),
    (STOPS % "done", 0, 0),
    (JOINS, -launcher.KILL, 2),  # It may be silent while it waits for others.
])  # fmt: skip
def test_the_silence_of_a_learner_ends_it(code, ends_with, least_seconds, monkeypatch):
    monkeypatch.setattr(launcher, "SILENCE_SECONDS", 1.0)
    monkeypatch.setattr(launcher, "_LEARNER_CODE", IMPORTS + code)
    started, process = time.monotonic(), start()
    assert end(process) == ends_with
    assert time.monotonic() - started > least_seconds
    assert process.failure == "did not answer for 1 s; see --start-timeout"


def test_the_end_of_a_learner_is_noted_for_the_waiting_ones(monkeypatch):
    monkeypatch.setattr(launcher, "_LEARNER_CODE", "raise SystemExit(0)")
    memory = create_anonymous_file(shared_bytes(2))
    ended, process = EndedLearner(memory), start(Cluster(1, 2, memory=memory))
    os.close(memory)
    assert ended.rank is None
    end(process)
    assert ended.rank == 1


@pytest.mark.parametrize("seconds", [0.01, 0.05, 0.1])
def test_an_interrupt_ends_a_learner_that_starts_without_a_traceback(seconds):
    printed = []
    process = start(start_timeout=100.0, is_quiet=True, show=printed.append)
    time.sleep(seconds)
    process.send_signal(signal.SIGINT)
    assert end(process) == -signal.SIGINT
    time.sleep(0.1)  # The thread that reads has still to see the end.
    assert not printed
