"""Start, watch and restart the learners of a run."""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple, Protocol

from agents.distributed.cluster import Address, listen
from agents.distributed.rendezvous import Place
from agents.distributed.shared_exchange import is_usable, shared_bytes
from agents.errors import LEARNER_LOST, describe_exit
from agents.shared_memory.shared_block import create_anonymous_file

# Seconds for the other learners to end by themselves when one has failed, and when the chief has
# ended as it should.
STOP_SECONDS = 24.0
END_SECONDS = 5.0

_POLL_SECONDS = 0.05

_LEARNER_CODE = (
    "import sys; sys.path[:] = {path!r}; "
    "from agents.processes.process_group import lead_group; lead_group({parent}, {descriptors}); "
    "from agents.scripts.learner import main; main()"
)


class LearnerProcess(Protocol):
    """A learner that was started, wherever it is."""

    name: str
    pid: int

    def poll(self) -> int | None:
        """Returns the exit code, negative for the signal that killed it; None while it runs."""

    def send_signal(self, signum: int) -> None:
        """Sends a signal."""

    def kill(self) -> None:
        """Ends the process by force."""


class LocalProcess:
    """A learner on this machine; it ends with this process.

    Attributes:
      name: The learner's name in messages.
      pid: Its process id.
    """

    def __init__(self, task: dict[str, Any], place: Place, is_quiet: bool):
        """Starts it.

        Args:
          task: What it trains, for `agents.scripts.learner`.
          place: Its place among the learners.
          is_quiet: Whether only its warnings and errors are shown, with its name.
        """
        self.name = f"learner {place.rank}"
        descriptors = [one for one in (place.listener, place.memory) if one is not None]
        code = _LEARNER_CODE.format(path=sys.path, parent=os.getpid(), descriptors=descriptors)
        environment = {name: os.environ[name] for name in os.environ if name != "TF_CONFIG"}
        self._process = subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL if is_quiet else None,
            stderr=subprocess.PIPE if is_quiet else None,
            pass_fds=descriptors,
            env=environment,
        )
        self.pid = self._process.pid
        assert self._process.stdin
        with suppress(BrokenPipeError):  # `poll` tells how it has ended.
            content = {**task, "place": {**place._asdict(), "key": place.key.hex()}}
            self._process.stdin.write(json.dumps(content).encode())
            self._process.stdin.close()
        if is_quiet:
            threading.Thread(target=self._show_errors, daemon=True).start()

    def poll(self) -> int | None:
        """See `LearnerProcess`."""
        return self._process.poll()

    def send_signal(self, signum: int) -> None:
        """See `LearnerProcess`."""
        self._process.send_signal(signum)

    def kill(self) -> None:
        """See `LearnerProcess`."""
        self._process.kill()

    def _show_errors(self) -> None:
        assert self._process.stderr
        for line in self._process.stderr:
            sys.stderr.write(f"{self.name}: {line.decode(errors='replace')}")
            sys.stderr.flush()


def start_on_this_machine(task: dict[str, Any], num_learners: int) -> list[LearnerProcess]:
    """Starts learners that meet on the loopback interface; the first one is the chief."""
    listener = listen(Address("127.0.0.1", 0))
    memory = create_anonymous_file(shared_bytes(num_learners)) if is_usable() else None
    place = Place(
        rank=0,
        num_learners=num_learners,
        chief=Address(*listener.getsockname()[:2]),
        host="127.0.0.1",
        key=secrets.token_bytes(32),
        memory=memory,
    )
    started: list[LearnerProcess] = []
    try:
        for rank in range(num_learners):
            own = listener.fileno() if rank == 0 else None
            started.append(
                LocalProcess(task, place._replace(rank=rank, listener=own), is_quiet=rank > 0)
            )
        return started
    except BaseException:
        for process in started:
            process.kill()
        raise
    finally:
        listener.close()
        if memory is not None:
            os.close(memory)


class Outcome(NamedTuple):
    """How learners have ended.

    Attributes:
      code: The exit code of the command.
      may_restart: Whether a learner was lost, rather than failed.
    """

    code: int
    may_restart: bool


def supervise(
    start: Callable[[int, int], Sequence[LearnerProcess]],
    num_learners: int,
    restarts: int,
    fewer: Callable[[int], int],
) -> int:
    """Starts learners, and starts them again when one of them is lost.

    Signals to this process go to the chief, which stops all.

    Args:
      start: Starts so many learners, given the number of the attempt; the chief is the first.
      num_learners: How many to start.
      restarts: How often they may be started again.
      fewer: Given the number of learners that was lost, how many to start next.

    Returns:
      The exit code of the command.
    """
    attempt = 0
    while True:
        processes = start(num_learners, attempt)
        try:
            with _forwarding_signals(processes[0]) as signals:
                outcome = _watch(processes)
        finally:
            for process in processes:
                if process.poll() is None:
                    process.kill()
        if not outcome.may_restart or attempt >= restarts or signals:
            return outcome.code
        attempt += 1
        num_learners = fewer(num_learners)
        print(
            f"Starting {num_learners} learners again from the last checkpoint "
            f"(restart {attempt} of {restarts})",
            file=sys.stderr,
        )


def _watch(processes: Sequence[LearnerProcess]) -> Outcome:
    """Waits for the end of all learners."""
    deadline: float | None = None
    ended: dict[int, int] = {}
    while len(ended) < len(processes):
        for rank, process in enumerate(processes):
            code = process.poll() if rank not in ended else None
            if code is None:
                continue
            ended[rank] = code
            if code < 0 and deadline is None:
                print(
                    f"error: {process.name} (process {process.pid}) {describe_exit(code)}",
                    file=sys.stderr,
                )
            if code or rank == 0:
                seconds = STOP_SECONDS if code else END_SECONDS
                deadline = min(deadline or float("inf"), time.monotonic() + seconds)
        if deadline is not None and time.monotonic() > deadline:
            for rank, process in enumerate(processes):
                if rank not in ended:
                    process.kill()
                    deadline = float("inf")
        time.sleep(_POLL_SECONDS)
    reported = [code for code in ended.values() if code > 0 and code != LEARNER_LOST]
    is_lost = any(code < 0 or code == LEARNER_LOST for code in ended.values())
    if ended[0] == 0:
        return Outcome(0, False)
    return Outcome((reported or [1])[0], is_lost and not reported)


@contextmanager
def _forwarding_signals(chief: LearnerProcess) -> Iterator[list[int]]:
    """Sends SIGINT and SIGTERM to the chief; yields those that have come."""
    received: list[int] = []

    def forward(signum: int, frame: object) -> None:
        received.append(signum)
        with suppress(ProcessLookupError):
            chief.send_signal(signum)

    before = {signum: signal.signal(signum, forward) for signum in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield received
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)
