"""Groups of real processes, which are killed and stopped."""

import contextlib
import os
import signal
import subprocess
import sys
import time

import pytest

from agents.distributed.cluster import Address, listen
from agents.distributed.shared_exchange import shared_bytes
from agents.shared_memory.shared_block import create_anonymous_file
from tests.distributed.exchanges import KINDS

SILENCE = 1.5

# Arguments: rank, number of learners, calls, port, descriptors of the chief's socket and of memory or
# -1, seconds. It prints a line when it trains, and how it has ended.
LEARNER = """
import contextlib, os, sys
import numpy as np
from agents.distributed import group as groups
from agents.distributed.cluster import Address
from agents.distributed.rendezvous import Place
from agents.settings.config_file import load_config

groups.BEAT_SECONDS, groups.SILENCE_SECONDS = 0.1, float(sys.argv.pop())
rank, num_learners, calls, port, listener, memory = map(int, sys.argv[1:])
place = Place(
    rank, num_learners, Address("127.0.0.1", port), "127.0.0.1", b"key",
    listener=listener if rank == 0 else None, memory=None if memory < 0 else memory,
)
group = groups.Group(place, load_config("default", num_envs=12, minibatch_size=12))
group.start()
error, number = None, 0
try:
    with groups.passing_signals(group) if rank else contextlib.nullcontext():
        while number != calls:
            group.exchange.sum([np.ones(1000, np.float32)])
            number += 1
            if number == 5:
                print("trains", flush=True)
except BaseException as raised:
    error = raised
group.leave(error)
print(f"{type(error).__name__}: {error}", flush=True)
os._exit(0)
"""


@contextlib.contextmanager
def started(kind, num_learners=3, calls=-1):
    """Yields processes of learners that train."""
    listener = listen(Address("127.0.0.1", 0))
    memory = create_anonymous_file(shared_bytes(num_learners)) if kind == "shared" else -1
    port = listener.getsockname()[1]
    descriptors = [one for one in (listener.fileno(), memory) if one >= 0]
    processes = []
    try:
        for rank in range(num_learners):
            arguments = [rank, num_learners, calls, port, listener.fileno(), memory, SILENCE]
            processes.append(
                subprocess.Popen(
                    [sys.executable, "-c", LEARNER, *map(str, arguments)],
                    stdout=subprocess.PIPE,
                    pass_fds=descriptors if rank == 0 else descriptors[1:],
                    text=True,
                )
            )
        listener.close()
        for process in processes:
            assert process.stdout.readline() == "trains\n"
        yield processes
    finally:
        if memory >= 0:
            os.close(memory)
        for process in processes:
            process.kill()
            process.communicate()


def check_ends(kind, rank, signum, stops_before=False):
    """Sends a signal to a learner, and reads what the others say."""
    with started(kind) as processes:
        start = time.monotonic()
        if stops_before:
            processes[rank].send_signal(signal.SIGSTOP)
            time.sleep(SILENCE / 4)  # Until there is something that it will not read.
        processes[rank].send_signal(signum)
        others = [process for process in processes if process is not processes[rank]]
        lines = [process.stdout.readline() for process in others]
        assert time.monotonic() - start < 25
    name = f"learner {rank}{' (the chief)' if rank == 0 else ''} on 127.0.0.1"
    is_killed = signum == signal.SIGKILL
    cause = "closed its connection" if is_killed else f"has not answered for {SILENCE} s"
    assert set(lines) == {f"LearnerLostError: {name} {cause}\n"}


@pytest.mark.parametrize(
    ("kind", "rank", "signum"), [("ring", 1, signal.SIGKILL), ("shared", 0, signal.SIGSTOP)]
)
def test_a_process_that_ends_or_hangs_ends_all_others(kind, rank, signum):
    check_ends(kind, rank, signum)


@pytest.mark.slow
@pytest.mark.parametrize("rank", [0, 1])
def test_a_process_that_ends_before_it_has_read_everything_has_closed_its_connection(rank):
    check_ends("ring", rank, signal.SIGKILL, stops_before=True)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rank", [0, 1, 2])
@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGSTOP])
def test_any_process_that_ends_or_hangs_ends_all_others(kind, rank, signum):
    check_ends(kind, rank, signum)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_processes_that_are_stopped_for_a_while_go_on(kind):
    with started(kind) as processes:
        for process in processes:
            process.send_signal(signal.SIGSTOP)
            time.sleep(SILENCE / 5)
            process.send_signal(signal.SIGCONT)
        # All at once, as by a batch system: nobody was there to fall silent.
        for process in processes:
            process.send_signal(signal.SIGSTOP)
        time.sleep(1.5 * SILENCE)
        for process in processes:
            process.send_signal(signal.SIGCONT)
        time.sleep(1.5 * SILENCE)
        processes[2].kill()
        assert "learner 2 on 127.0.0.1 closed" in processes[0].stdout.readline()


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_processes_that_make_their_last_call_end_quietly(kind):
    for calls in range(10, 15):
        with started(kind, num_learners=4, calls=calls) as processes:
            assert [process.stdout.readline() for process in processes] == ["NoneType: None\n"] * 4


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_interrupting_any_process_stops_all(kind):
    with started(kind) as processes:
        processes[1].send_signal(signal.SIGINT)
        assert processes[0].stdout.readline() == "KeyboardInterrupt: \n"
        for process in processes[1:]:
            assert process.stdout.readline() == "StopRequested: SIGINT\n"
