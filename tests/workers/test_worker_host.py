import contextlib
import os
import resource
import signal
import struct
import sys
import time

import cloudpickle
import pytest

from agents.errors import (
    EnvironmentRaisedError,
    WorkerDiedError,
    WorkerMessageError,
    WorkerStartError,
    WorkerTimeoutError,
)
from agents.vector.process_batch import make_batch_env
from agents.workers import channel as channels
from agents.workers import worker
from agents.workers.host import WorkerHost
from tests.faults.processes import holdings, taking_less_than
from tests.faulty_toys import CommandedEnv

# Workers need not be able to import this module.
cloudpickle.register_pickle_by_value(sys.modules[__name__])


@contextlib.contextmanager
def hosting(*constructors, timeout=20):
    with contextlib.closing(WorkerHost(constructors, timeout)) as host:
        host.wait_until_ready()
        yield host


@pytest.fixture(scope="module")
def one():
    """A host of one environment that stays usable."""
    with hosting(CommandedEnv) as host:
        yield host


def test_promises_return_or_raise_the_same_when_called_again(one):
    promise = one.ask("call", 0, "large", (3,), blocking=False)
    first, second = promise(), promise()
    assert first is second and first == bytes(3)
    for method, message in (
        ("complain", "nothing there"),
        ("generator", "could not reply.*pickle"),
    ):
        promise = one.ask("call", 0, method, blocking=False)
        for _ in range(2):
            with pytest.raises(EnvironmentRaisedError, match=message):
                promise()
        assert one.ask("call", 0, "add", (1,)) == 1


def test_an_abandoned_promise_is_not_confused_with_the_next_reply(one):
    slow = one.ask("call", 0, "nap", (0.3, "slow"), blocking=False)
    assert one.ask("call", 0, "nap", (0, "quick")) == "quick"
    with pytest.raises(RuntimeError, match="The result is lost"):
        slow()
    one.ask("call", 0, "complain", blocking=False)
    assert one.ask("call", 0, "add", (1,)) == 1


@pytest.mark.timing
def test_a_process_killed_while_idle_fails_every_request_and_closes():
    with hosting(CommandedEnv, CommandedEnv) as host:
        os.kill(host.pid, signal.SIGKILL)
        for _ in range(2):
            with taking_less_than(50), pytest.raises(WorkerDiedError, match="SIGKILL") as caught:
                host.ask("call", 0, "add", (1,))
            assert (caught.value.exit_code, caught.value.pid) == (-signal.SIGKILL, host.pid)
            assert caught.value.env_index is None  # It is unknown which of them was in use.
        with taking_less_than(50):
            host.close()


@pytest.mark.timing
def test_a_worker_that_stops_while_a_long_message_is_sent():
    with hosting(CommandedEnv, timeout=0.5) as host:
        promise = host.ask("call", 0, "large", (20_000_000,), blocking=False)
        time.sleep(0.3)  # By now it has filled the socket.
        os.kill(host.pid, signal.SIGSTOP)
        with pytest.raises(WorkerTimeoutError, match=r"within 0.5 seconds \(step_timeout\)"):
            promise()
        os.kill(host.pid, signal.SIGCONT)
        host._timeout = 20
        assert promise() == bytes(20_000_000)
        host._timeout = 0.5
        os.kill(host.pid, signal.SIGSTOP)
        with taking_less_than(50), pytest.raises(WorkerTimeoutError):
            host.ask("call", 0, "add", (bytes(20_000_000),))
        os.kill(host.pid, signal.SIGCONT)


class Babbling(CommandedEnv):
    """Replies to a call with any bytes, as after an environment's write to a wrong file."""

    def reply(self, length, data):
        channel = sys._getframe(6).f_locals["channel"]
        sequence = channel.words[channels.PARENT_COUNT]
        channel.words[channels.STATUS], channel.words[channels.LENGTH] = worker.RESULT, -1
        channel.set_count(sequence)
        channel._messages.setblocking(True)
        channel._messages.sendall(struct.pack("<QQ", sequence, length) + data)
        time.sleep(60)


@pytest.mark.timing
@pytest.mark.parametrize(
    ("length", "message"),
    [(50, "invalid message"), (2**64 - 1, "a message of .* bytes; expected at most")],
)
def test_a_reply_of_other_bytes_is_a_typed_error(length, message):
    with hosting(Babbling, timeout=600) as host, taking_less_than(50):
        with pytest.raises(WorkerMessageError, match=message) as caught:
            host.ask("call", 0, "reply", (length, b"\xff" * 50))
        assert (caught.value.env_index, caught.value.pid) == (0, host.pid)
        assert len(str(caught.value).splitlines()) == 1


def test_arguments_that_are_too_long_are_refused_before_they_are_sent(one, monkeypatch):
    monkeypatch.setattr(channels, "MAX_MESSAGE_BYTES", 10_000)
    with pytest.raises(channels.MessageError, match="expected at most 10,000"):
        one.ask("call", 0, "add", (bytes(20_000),))
    assert one.ask("call", 0, "add", (1,)) == 1


@contextlib.contextmanager
def limited_to(spare):
    """Allows so many more open files than there are."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = max(map(int, os.listdir("/proc/self/fd"))) + 1
    holes = [os.open(os.devnull, os.O_RDONLY) for _ in range(used - num_files())]
    resource.setrlimit(resource.RLIMIT_NOFILE, (num_files() + spare, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
        for hole in holes:
            os.close(hole)


def num_files():
    return len(os.listdir("/proc/self/fd")) - 1


def test_too_few_open_files_are_a_typed_error_and_leave_nothing():
    before = holdings()
    for spare in (0, 9):
        with limited_to(spare):
            try:
                make_batch_env([CommandedEnv] * 9, 9)
                pytest.fail("There were enough.")
            except WorkerStartError as error:
                message = str(error).splitlines()
        assert "could not be started (9 were asked for): Too many open files" in message[0]
        assert "`ulimit -n`" in message[1] and "use fewer" in message[2] and len(message) == 3
        assert not {"children", "descriptors"} & holdings().more_than(before).keys()


def test_a_hanging_constructor_is_killed_without_waiting_for_it(tmp_path):
    log = tmp_path / "log"

    def hang():
        signal.signal(signal.SIGTERM, lambda *_: log.write_text("SIGTERM, after the grace period"))
        while True:
            time.sleep(1)

    host = WorkerHost([hang], start_timeout=20)
    while not host.worker.is_busy():
        time.sleep(0.01)
    host._start_timeout = 0.1
    with pytest.raises(WorkerTimeoutError, match=r"within 0.1 seconds \(start_timeout\)"):
        host.wait_until_ready()
    assert host.worker.exit_code() == -signal.SIGKILL
    assert not log.exists()
