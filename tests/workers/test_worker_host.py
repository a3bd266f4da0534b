import contextlib
import os
import resource
import signal
import struct
import sys
import time

import cloudpickle
import numpy as np
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
from agents.workers.shared_arrays import BatchArrays, Layout
from tests.faults.processes import holdings, is_running, taking_less_than
from tests.faulty_toys import CommandedEnv

# Workers need not be able to import this module.
cloudpickle.register_pickle_by_value(sys.modules[__name__])


@contextlib.contextmanager
def hosting(*constructors, start=0, num_envs=None, **kwargs):
    """Yields a host that is attached to arrays with infos of all steps, and the arrays."""
    host = WorkerHost(constructors, **kwargs)
    num_envs = num_envs or start + len(constructors)
    layout = Layout(num_envs, CommandedEnv.observation_space, CommandedEnv.action_space)
    arrays = BatchArrays(layout)
    with contextlib.closing(host), contextlib.closing(arrays):
        host.wait_until_ready()
        host.attach(arrays, start, autoreset=False)
        arrays.mask[:], arrays.seed[:] = True, -1
        host.send_reset()
        host.receive()
        yield host, arrays


def send(host, arrays, *actions):
    arrays.action[0][-len(actions) :] = actions
    host.send_step()


def step(host, arrays, *actions):
    """Returns the infos of a step."""
    send(host, arrays, *actions)
    return [info for _, info, _ in host.receive()]


@pytest.fixture(scope="module")
def one():
    """A host of one environment that stays usable."""
    with hosting(CommandedEnv, timeout=20) as (host, _):
        yield host


# Promises.


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


# Failures of a process.


@pytest.mark.timing
@pytest.mark.parametrize("num_envs", [1, 2])
def test_killed_while_idle(num_envs):
    with hosting(*[CommandedEnv] * num_envs) as (host, arrays):
        os.kill(host.pid, signal.SIGKILL)
        with (
            taking_less_than(50),
            pytest.raises(WorkerDiedError, match="was killed by SIGKILL") as caught,
        ):
            step(host, arrays, 0)
        error = caught.value
        assert (error.exit_code, error.pid, error.step) == (-signal.SIGKILL, host.pid, 1)
        assert error.env_index == (0 if num_envs == 1 else None)
        with taking_less_than(50):
            with pytest.raises(WorkerDiedError, match="SIGKILL"):
                host.ask("call", 0, "add", (1,))
            host.close()


@pytest.mark.timing
def test_a_hung_environment_times_out_and_is_closed_by_force():
    class Stubborn(CommandedEnv):
        def __init__(self):
            super().__init__()
            signal.signal(signal.SIGTERM, signal.SIG_IGN)

    with hosting(CommandedEnv, Stubborn, timeout=0.3) as (host, arrays):
        with (
            taking_less_than(50),
            pytest.raises(WorkerTimeoutError, match="within 0.3 seconds") as caught,
        ):
            step(host, arrays, 0, CommandedEnv.HANG)
        assert (caught.value.env_index, caught.value.pid, caught.value.step) == (1, host.pid, 1)
        with taking_less_than(50), pytest.raises(TimeoutError):
            host.ask("call", 0, "add", (1,))
        with taking_less_than(50):
            host.close()
        assert not is_running(host.pid)


def test_a_late_reply_can_be_waited_for_again():
    with hosting(CommandedEnv, timeout=0.4) as (host, arrays):
        send(host, arrays, CommandedEnv.NAP)
        with pytest.raises(WorkerTimeoutError):
            host.receive()
        assert host.receive() == [(0, {"action": CommandedEnv.NAP}, None)]


def test_a_worker_stopped_in_the_middle_of_a_long_reply():
    with hosting(CommandedEnv, timeout=0.5) as (host, _):
        promise = host.ask("call", 0, "large", (20_000_000,), blocking=False)
        time.sleep(0.3)  # By now it has filled the socket.
        os.kill(host.pid, signal.SIGSTOP)
        with pytest.raises(WorkerTimeoutError):
            promise()
        os.kill(host.pid, signal.SIGCONT)
        host._timeout = 20
        assert host.ask("call", 0, "add", (1,)) == 1


@pytest.mark.timing
def test_a_worker_that_does_not_read_a_long_message():
    with hosting(CommandedEnv, timeout=0.3) as (host, _):
        os.kill(host.pid, signal.SIGSTOP)
        with taking_less_than(50), pytest.raises(WorkerTimeoutError):
            host.ask("call", 0, "add", (bytes(20_000_000),))
        os.kill(host.pid, signal.SIGCONT)


# Starting again.


def test_the_process_can_be_started_again_and_has_the_same_rows():
    with hosting(CommandedEnv, CommandedEnv, start=1, num_envs=4, timeout=20) as (host, arrays):
        send(host, arrays, CommandedEnv.DIE, 0)
        with pytest.raises(WorkerDiedError):
            host.receive()
        dead = host.pid
        host.start()
        host.wait_until_ready()
        assert host.pid != dead and not is_running(dead)
        host.send_reset()
        assert [row for row, _, _ in host.receive()] == [1, 2]
        arrays.action[0][1:3] = 30, 31
        host.send_step()
        assert host.receive() == [(1, {"action": 30}, None), (2, {"action": 31}, None)]
        np.testing.assert_array_equal(arrays.observ[0][:, 1], [0, 1, 1, 0])


def test_a_failed_start_keeps_the_rows(tmp_path):
    broken = tmp_path / "broken"

    def constructor():
        if broken.exists():
            raise FileExistsError("broken")
        return CommandedEnv()

    with hosting(constructor, start=3) as (host, _):
        broken.touch()
        host.start()
        with pytest.raises(EnvironmentRaisedError, match="FileExistsError") as caught:
            host.wait_until_ready()
        assert caught.value.env_index == 3
        assert host.closed and host.arrays is not None
        broken.unlink()
        host.start()
        host.wait_until_ready()
        host.send_reset()
        assert [row for row, _, _ in host.receive()] == [3]
    assert host.arrays is None


# Messages that can't be read.


class Babbling(CommandedEnv):
    """Replies to a call with any bytes, as after an environment's write to a wrong file."""

    def reply(self, make_reply):
        channel = sys._getframe(6).f_locals["channel"]
        sequence = channel.words[channels.PARENT_COUNT]
        channel.words[channels.STATUS], channel.words[channels.LENGTH] = worker.RESULT, -1
        channel.set_count(sequence)
        header, data = make_reply(sequence)
        channel._messages.setblocking(True)
        channel._messages.sendall(header + data)
        time.sleep(60)


@pytest.mark.timing
def test_a_reply_of_other_bytes_is_a_typed_error():
    def make_reply(sequence):
        return struct.pack("<QQ", sequence, 50), b"\xff" * 50

    with hosting(Babbling, timeout=600) as (host, _), taking_less_than(50):
        with pytest.raises(WorkerMessageError, match="invalid message") as caught:
            host.ask("call", 0, "reply", (make_reply,))
        assert (caught.value.env_index, caught.value.pid) == (0, host.pid)
        assert len(str(caught.value).splitlines()) == 1


@pytest.mark.timing
@pytest.mark.parametrize("length", [2**30 + 1, 2**64 - 1])
def test_a_header_of_an_endless_message_is_a_typed_error(length):
    def make_reply(sequence):
        return struct.pack("<QQ", sequence, length), b"start"

    with hosting(Babbling, timeout=600) as (host, _), taking_less_than(50):
        for _ in range(2):
            with pytest.raises(WorkerMessageError, match="a message of .* bytes; expected at most"):
                host.ask("call", 0, "reply", (make_reply,))


def test_arguments_that_are_too_long_are_refused_before_they_are_sent(one, monkeypatch):
    monkeypatch.setattr(channels, "MAX_MESSAGE_BYTES", 10_000)
    with pytest.raises(channels.MessageError, match="expected at most 10,000"):
        one.ask("call", 0, "add", (bytes(20_000),))
    assert one.ask("call", 0, "add", (1,)) == 1


# Limits of the system.


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


@pytest.mark.parametrize("spare", [0, 4, 9, 13])
def test_too_few_open_files_are_a_typed_error_and_leave_nothing(spare):
    before = holdings()
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
    host._deadline = time.monotonic()
    with pytest.raises(WorkerTimeoutError, match="within 20 seconds"):
        host.wait_until_ready()
    assert host.worker.exit_code() == -signal.SIGKILL
    assert not log.exists()
