"""Start, watch and restart the learners of a run."""

from __future__ import annotations

import functools
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence, Set
from contextlib import suppress
from typing import Any, Protocol

from agents.distributed.cluster import Cluster
from agents.distributed.shared_exchange import EndedLearner, shared_bytes
from agents.errors import (
    LEARNER_LOST,
    USAGE_ERROR,
    LearnerLostError,
    UsageError,
    describe_exit,
)
from agents.stop_signals import handled_by, is_echo
from agents.workers.channel import ORDERED_WRITES
from agents.workers.heartbeat import HeartbeatMonitor
from agents.workers.reaper import KILL, LAST_SECONDS, held_interrupts
from agents.workers.shared_block import create_anonymous_file

# Seconds for the other learners to end by themselves when one has failed, and when the chief has
# ended as it should.
STOP_SECONDS = 9.0
END_SECONDS = 5.0

# Seconds after which a learner is killed that gives no sign of life. Some part of `start_timeout` if
# that is more: while libraries load from a slow disk, none are given.
SILENCE_SECONDS = 20.0
_PART_OF_START = 1 / 6

_POLL_SECONDS = 0.05

# What a learner reports while it waits for the others in TensorFlow, where it gives no sign of life;
# once it has joined them; and when all is done, and saved.
JOINING, JOINED, DONE = "joining", "joined", "done"

# Signals end it at once before it handles them.
_LEARNER_CODE = (
    "import os, sys; sys.path[:] = {path!r}; sys.argv[:] = [{program!r}]; "
    "from agents.workers.reaper import guard, release_interrupts; "
    "guard({parent}, terminates=False); release_interrupts(); "
    "from agents.workers.heartbeat import report, start_heartbeat; "
    "start_heartbeat({pipe}); report(str(os.getpid())); "
    "from agents.scripts.learner import main; main()"
)


class LearnerProcess(Protocol):
    """Interface of a started learner.

    Attributes:
      name: Its name in messages.
      host: Name or address of its machine.
      pid: Its process id.
      failure: Why it was killed for its silence; empty if it was not.
      loss: Its message about a lost learner, as of the last `poll`; empty without one.
    """

    name: str
    host: str
    pid: int
    failure: str
    loss: str

    def poll(self) -> int | None:
        """Returns the exit code, negative for the signal that killed it; None while it runs."""

    def send_signal(self, signum: int) -> None:
        """Sends a signal."""

    def kill(self) -> None:
        """Ends the process by force."""


class LocalProcess:
    """A learner on this machine; it ends with this process. See `LearnerProcess`."""

    def __init__(
        self,
        task: dict[str, Any],
        cluster: Cluster,
        is_quiet: bool,
        show: Callable[[str], object] | None = None,
        variables: Mapping[str, str] | None = None,
    ):
        """Starts it.

        Args:
          task: What it trains, for `agents.scripts.learner`.
          cluster: The learners.
          is_quiet: Whether only its warnings and errors are shown, with its name.
          show: Gets these lines in another thread; by default they go to standard error.
          variables: Environment variables besides those of this process.
        """
        self.name, self.host = f"learner {cluster.rank}", cluster.host(cluster.rank)
        self._rank = cluster.rank
        self._ended = None if cluster.memory is None else EndedLearner(cluster.memory)
        self._show = show or self._print
        self.failure = self.loss = ""
        self._is_done, self._is_joining, self._kill_deadline = False, False, float("inf")
        self._signum = 0  # It was killed instead of getting this signal.
        self._limit = max(SILENCE_SECONDS, task["config"]["start_timeout"] * _PART_OF_START)
        self._monitor = HeartbeatMonitor(self._limit)
        pipe = self._monitor.pipe
        descriptors = [pipe] if cluster.memory is None else [pipe, cluster.memory]
        code = _LEARNER_CODE.format(
            path=sys.path, program=sys.argv[0], parent=os.getpid(), pipe=pipe
        )
        environment = {name: os.environ[name] for name in os.environ if name != "TF_CONFIG"}
        environment.update(variables or {})
        with held_interrupts():
            self._process = subprocess.Popen(
                [sys.executable, "-c", code],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL if is_quiet else None,
                stderr=subprocess.PIPE if is_quiet else None,
                pass_fds=descriptors,
                env=environment,
            )
        self._monitor.started()
        self.pid = self._process.pid
        assert self._process.stdin
        with suppress(BrokenPipeError):  # `poll` tells how it has ended.
            content = {**task, "cluster": cluster._asdict(), "is_quiet": is_quiet}
            self._process.stdin.write(json.dumps(content).encode())
            self._process.stdin.close()
        if is_quiet:
            threading.Thread(target=self._show_errors, daemon=True).start()

    def poll(self) -> int | None:
        """See `LearnerProcess`."""
        code = self._process.poll()
        for line in self._monitor.poll():
            if line == DONE:
                self._is_done = True
            elif line in (JOINING, JOINED):
                self._is_joining = line == JOINING
            elif line.isdigit():  # Its id; that of its reaper is known from the start.
                self.pid = int(line)
            else:
                self.loss = str(LearnerLostError(*json.loads(line)))
        if code is None and time.monotonic() > self._kill_deadline:
            self._process.kill()  # Its reaper is stopped.
        if code is not None and self._ended:
            self._ended.note(self._rank)
        is_silent = self._monitor.is_silent and not self._is_joining
        if code is None and is_silent and not self.failure:
            self.failure = f"did not answer for {self._limit:g} s; see --start-timeout"
            self.kill()
        if code == -signal.SIGKILL and self._signum:
            return -self._signum
        # Its interpreter gives no signs of life while it ends, which takes long on a busy machine.
        return 0 if self._is_done and code == -signal.SIGKILL else code

    def send_signal(self, signum: int) -> None:
        """See `LearnerProcess`; it is killed where TensorFlow would take the signal."""
        if self._is_joining:
            self._signum = signum
            self.kill()
        else:
            self._process.send_signal(signum)

    def kill(self) -> None:
        """See `LearnerProcess`."""
        self._process.send_signal(KILL)
        self._kill_deadline = time.monotonic() + 2 * LAST_SECONDS

    def _show_errors(self) -> None:
        assert self._process.stderr
        with self._process.stderr as lines:
            for line in lines:
                self._show(line.decode(errors="replace"))

    def _print(self, line: str) -> None:
        sys.stderr.write(f"{self.name}: {line}")
        sys.stderr.flush()


def start_on_this_machine(task: dict[str, Any], num_learners: int) -> list[LearnerProcess]:
    """Starts learners that share memory; the first one is the chief.

    Raises:
      UsageError: Processes can't share memory on this processor.
    """
    if not ORDERED_WRITES:
        raise UsageError(
            "--learners needs an x86-64 processor: its learners share memory\n"
            "expected --learners=1, or a TF_CONFIG with the learners of this machine"
        )
    memory = create_anonymous_file(shared_bytes(num_learners))
    started: list[LearnerProcess] = []
    try:
        for rank in range(num_learners):
            cluster = Cluster(rank, num_learners, memory=memory)
            started.append(LocalProcess(task, cluster, is_quiet=rank > 0))
        return started
    except BaseException:
        for process in started:
            process.kill()
        raise
    finally:
        os.close(memory)


def supervise(
    start: Callable[[int, int], Sequence[LearnerProcess]],
    num_learners: int,
    restarts: int,
    fewer: Callable[[int], int],
    hints: Callable[[], Sequence[str]] = tuple,
) -> int:
    """Starts learners, and starts them again when one of them is lost.

    The first signal to this process goes to the chief, which stops all; the second ends all at once.

    Args:
      start: Starts so many learners, given the number of the attempt; the chief is the first.
      num_learners: How many to start.
      restarts: How often they may be started again.
      fewer: Given the number of learners that was lost, how many to start next.
      hints: Returns lines for users about how to resume, in case that the chief can't.

    Returns:
      The exit code of the command.
    """
    show = functools.partial(print, sep="\n", file=sys.stderr)
    signals = _Signals()
    with handled_by(signals.handle):
        for attempt in range(restarts + 1):
            processes = start(num_learners, attempt)
            signals.forward_to(processes[0])
            try:
                ended, killed = _wait(processes, signals)
            finally:
                for process in processes:
                    if process.poll() is None:
                        process.kill()
            code, message = _outcome(processes, signals, ended, killed)
            if message:
                show(message)
            if code != LEARNER_LOST or attempt == restarts or signals.received:
                break
            num_learners = fewer(num_learners)
            learners = "learners" if num_learners > 1 else "learner"
            show(
                f"Starting {num_learners} {learners} again from the last checkpoint "
                f"(restart {attempt + 1} of {restarts})"
            )
    if ended[0] < 0 or ended[0] == LEARNER_LOST:  # The chief has not told how to resume.
        for hint in hints():
            show(hint)
    return code


class _Signals:
    """Stop signals to this process.

    Attributes:
      received: Their numbers, without echoes.
    """

    def __init__(self) -> None:
        self.received: list[int] = []
        self._chief: LearnerProcess | None = None
        self._time = 0.0

    def forward_to(self, chief: LearnerProcess) -> None:
        """Sends the next signal to a chief, and one that has come before."""
        self._chief = chief
        for signum in self.received:
            self._send(signum)

    def handle(self, signum: int, frame: object) -> None:
        """Handler of signals."""
        before, self._time = self._time, time.monotonic()
        last = self.received[-1] if self.received else 0
        if is_echo(signum, last, self._time - before):
            return
        self.received.append(signum)
        if len(self.received) == 1:
            self._send(signum)

    def _send(self, signum: int) -> None:
        if self._chief:
            with suppress(ProcessLookupError):
                self._chief.send_signal(signum)


def _wait(
    processes: Sequence[LearnerProcess], signals: _Signals
) -> tuple[dict[int, int], set[int]]:
    """Waits until all learners have ended; kills the others some time after the first.

    Returns:
      The exit codes by rank, in the order of time, and the ranks of learners that were killed.
    """
    ended: dict[int, int] = {}
    killed: set[int] = set()
    deadline = float("inf")
    while True:
        for rank, process in enumerate(processes):
            code = process.poll() if rank not in ended else None
            if code is not None:
                ended[rank] = code
                if code or rank == 0:
                    seconds = STOP_SECONDS if code else END_SECONDS
                    deadline = min(deadline, time.monotonic() + seconds)
        if len(ended) == len(processes):
            return ended, killed
        if time.monotonic() > deadline or len(signals.received) > 1:
            for rank, process in enumerate(processes):
                if rank not in ended and rank not in killed:
                    killed.add(rank)
                    process.kill()
        time.sleep(_POLL_SECONDS)


def _outcome(
    processes: Sequence[LearnerProcess],
    signals: _Signals,
    ended: dict[int, int],
    killed: Set[int],
) -> tuple[int, str]:
    """Returns the exit code of the command, and a line for users if no learner has printed all."""
    if ended[0] == 0:
        return 0, ""
    lost = next((process.loss for process in processes if process.loss), "")
    expected = {-signum for signum in signals.received}
    for rank, code in reversed(ended.items()):  # The first one is the cause of the others.
        if code < 0 and rank not in killed and code not in expected:
            process = processes[rank]
            cause = process.failure or describe_exit(code)
            lost = f"{process.name} on {process.host} (process {process.pid}) {cause}"
    failed = [code for code in ended.values() if 0 < code != LEARNER_LOST]
    if failed:
        # Others than the chief print what has failed, unless it is likely to be the same.
        is_told = 0 < ended[0] != LEARNER_LOST
        says_all = is_told or failed[0] != USAGE_ERROR or not lost
        return failed[0], "" if says_all else f"error: {lost}"
    if signals.received and not lost:
        return 128 + signals.received[0], "Interrupted."
    return LEARNER_LOST, f"error: {lost or 'a learner has ended'}"
