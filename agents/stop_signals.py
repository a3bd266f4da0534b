"""SIGINT, SIGTERM and SIGHUP: they stop a command soon, whatever its main thread is doing.

Python calls signal handlers between two instructions of the main thread: not while it is inside of
a graph call, and in the middle of anything else. So a signal is a request here, which the main
thread takes where nothing is left half done: at the start of a section (`interruptible`,
`graph_call`), where it waits for worker processes or steps environments (`check`), and anywhere
inside of interruptible sections. A thread that the interpreter wakes up for every signal announces
the stop. If the main thread stays inside of a section, the thread calls its `rescue` function
instead and ends the process; it also does so after a second signal, without rescue.
"""

from __future__ import annotations

import contextlib
import dis
import os
import select
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from types import FrameType

from agents.errors import EnvironmentFailure, printable

# Seconds for the main thread to leave a section by itself.
GRACE_SECONDS = 0.4

_POLL_SECONDS = 0.02

# What follows a signal within so many seconds is the same one: GNU's `timeout` and others send theirs
# to a process and then to its group.
_ECHO_SECONDS = 0.05

# The last one is that of a terminal that was closed.
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

# The signal that a stop was requested with; 0 before, and once the main thread has taken it.
requested = 0


class StopRequested(KeyboardInterrupt):
    """A signal asked this process to stop.

    Attributes:
      signum: The signal's number.
    """

    def __init__(self, signum: int):
        """Stores the signal's number."""
        super().__init__(signal.Signals(signum).name)
        self.signum = signum


def check() -> None:
    """Raises StopRequested if a stop was requested that the main thread has not taken yet.

    For loops that wait or step environments, in any thread; takes tens of nanoseconds.
    """
    if requested:
        raise StopRequested(requested)


def exit_code(interrupt: KeyboardInterrupt) -> int:
    """Returns the exit code of a command that was interrupted: 128 and the number of the signal."""
    return 128 + (interrupt.signum if isinstance(interrupt, StopRequested) else signal.SIGINT)


def is_interrupt(error: BaseException) -> bool:
    """Whether a signal has raised an exception, as Ctrl-C does, and not the code that it stopped.

    A handler in Python is a frame of the traceback. Python's own, which has no frame, raises
    KeyboardInterrupt between instructions of the main thread, code does by a `raise`.
    """
    if isinstance(error, Exception):
        return False
    handlers = [signal.getsignal(signum) for signum in signal.valid_signals()]
    codes = [getattr(handler, "__code__", None) for handler in handlers]
    instruction = ""
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        if code in codes:
            return True
        instruction = dis.opname[code.co_code[trace.tb_lasti]]
        trace = trace.tb_next
    is_default = signal.default_int_handler in handlers and isinstance(error, KeyboardInterrupt)
    is_main = threading.current_thread() is threading.main_thread()
    return isinstance(error, StopRequested) or (
        is_default and is_main and instruction not in ("", "RAISE_VARARGS")
    )


def is_echo(signum: int, first: int, seconds: float) -> bool:
    """Whether a signal belongs to the `first` one (0 before), which came `seconds` before.

    A terminal that is closed sends SIGHUP several times, and a shell once more.
    """
    return bool(first) and (
        signum == signal.SIGHUP or (signum == first and seconds < _ECHO_SECONDS)
    )


def is_stopping() -> bool:
    """Whether a stop was requested, also once the main thread has taken it: cleaning up is short."""
    return _watcher is not None and _watcher.is_stopping


def request(signum: int) -> None:
    """Stops this process like a signal, unless it is stopping; for learners on other machines.

    Who stops them signals all machines, so the signal to this one may come before or later. It is
    not a second one.
    """
    if _watcher is None:
        os.kill(os.getpid(), signum)
    elif not (_watcher.is_stopping or _watcher.may_repeat):
        _watcher.may_repeat = True
        os.kill(os.getpid(), signum)


def take() -> None:
    """Takes the request, so that cleaning up is not interrupted; for the main thread.

    Never returns if the process is being ended by the thread that watches for signals.
    """
    if _watcher is not None:
        _watcher.take()


class graph_call:  # noqa: N801 - A context.
    """A section in which the main thread may be inside of a graph call for long.

    It raises StopRequested at its start if a stop was requested before, and at its end in place of
    an exception that arrives together with a request, and likely follows from the signal.
    """

    def __init__(self, rescue: Callable[[], object] | None = None):
        """Prepares the section.

        Args:
          rescue: Called before the process ends if the main thread stays inside after a signal. It
            runs in another thread and must not use what the section changes.
        """
        self._rescue = rescue or _no_rescue
        is_main = threading.current_thread() is threading.main_thread()
        self._watcher = _watcher if is_main else None

    def __enter__(self) -> None:
        if self._watcher is not None:
            self._watcher.enter(self._rescue)

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if self._watcher is None:
            return
        if isinstance(error, EnvironmentFailure):
            # Terminals and service managers signal whole groups of processes: workers may be first.
            time.sleep(5 * _POLL_SECONDS)
        signum = requested if error is not None else 0
        self._watcher.leave(takes=bool(signum))
        if signum and isinstance(error, Exception):
            raise StopRequested(signum) from error


@contextlib.contextmanager
def interruptible(rescue: Callable[[], object] | None = None) -> Iterator[None]:
    """A section that signals may interrupt anywhere, such as preparations; see `graph_call`."""
    with graph_call(rescue), python_code():
        yield


class python_code:  # noqa: N801 - A context, called for every step; takes half a microsecond.
    """A part of a section in which signals may interrupt Python code of the main thread anywhere.

    For environments, which may run for long without calling `check`. TensorFlow calls them in
    threads of its own, where only `is_in_python_code` shows that one is stuck.
    """

    __slots__ = ("_before",)

    def __enter__(self) -> None:
        global _may_raise
        if requested:
            check()
        self._before, _may_raise = _may_raise, True

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        global _may_raise
        _may_raise = self._before


def is_in_python_code() -> bool:
    """Whether a thread is inside of `python_code`; once a stop is requested, none enters it."""
    return _may_raise


@contextlib.contextmanager
def handling(announcement: str, farewell: Callable[[], Sequence[str]] = tuple) -> Iterator[None]:
    """Handles the signals as this module says; for commands.

    Signals that the process was started to ignore stay ignored. Without effect outside of the main
    thread, and inside of another such context.

    Args:
      announcement: What the first signal does, such as "training stops".
      farewell: Returns lines to print where the process ends after a rescue.
    """
    global _watcher, requested, _may_raise
    if _watcher is not None or threading.current_thread() is not threading.main_thread():
        yield
        return
    requested, _may_raise = 0, False
    _watcher = _Watcher(announcement, farewell)
    try:
        yield
    finally:
        _watcher.close()
        _watcher, requested = None, 0


class _Watcher:
    """A thread that the interpreter wakes up for every signal."""

    def __init__(self, announcement: str, farewell: Callable[[], Sequence[str]]):
        """Installs the handlers and starts the thread."""
        self._announcement, self._farewell = announcement, farewell
        self._signum, self._signal_time = 0, 0.0  # Of the first signal.
        self.may_repeat = False  # Whether one more signal belongs to the first, see `request`.
        # Which thread ends the process, "main" or "watcher", once one does.
        self.owner = ""
        self._lock = threading.Lock()  # For the owner and the depth.
        self._depth = 0
        self._rescue: Callable[[], object] = _no_rescue
        # Standard error as it is now: it is redirected for a while when TensorFlow starts.
        self._stderr = os.dup(2)
        self._wakeup, self._received = socket.socketpair()
        self._wakeup.setblocking(False)
        self._descriptor = signal.set_wakeup_fd(self._wakeup.fileno(), warn_on_full_buffer=False)
        self._handlers = {
            signum: signal.signal(signum, _handle)
            for signum in SIGNALS
            if signal.getsignal(signum) is not signal.SIG_IGN
        }
        self._thread = threading.Thread(target=self._run, name="stop-signals", daemon=True)
        self._thread.start()

    @property
    def is_stopping(self) -> bool:
        """See the function `is_stopping`."""
        # The owner, because this thread may not have been woken up yet when the request is taken.
        return bool(self._signum or self.owner or requested)

    def enter(self, rescue: Callable[[], object]) -> None:
        """Starts a section; the rescue function of the outermost one counts."""
        if signum := requested:
            self.take()
            raise StopRequested(signum)
        with self._lock:
            if self._depth == 0:
                self._rescue = rescue
            self._depth += 1

    def leave(self, takes: bool) -> None:
        """Ends a section; never returns if the process is being ended."""
        with self._lock:
            self._depth -= 1
        if takes or self.owner == "watcher":
            self.take()

    def take(self) -> None:
        """See the function `take`."""
        global requested, _may_raise
        with self._lock:
            self.owner = self.owner or ("main" if requested else "")
            if self.owner == "main":
                requested, _may_raise = 0, False
        while self.owner == "watcher":
            time.sleep(1)

    def close(self) -> None:
        """Restores the handlers and ends the thread."""
        for signum, handler in self._handlers.items():
            signal.signal(signum, handler)
        signal.set_wakeup_fd(self._descriptor)
        self._wakeup.close()
        self._thread.join(1)
        self._received.close()
        os.close(self._stderr)

    def _run(self) -> None:
        """Waits for signals until `close`, or ends the process."""
        inside_since = 0.0
        while True:
            waits = bool(self._signum) and not self.owner
            readable, _, _ = select.select(
                [self._received], [], [], _POLL_SECONDS if waits else None
            )
            if readable:
                numbers = self._received.recv(1)
                if not numbers:
                    return
                if numbers[0] in SIGNALS:
                    self._receive(numbers[0])
                    inside_since = time.monotonic()
            elif self._depth == 0:
                inside_since = time.monotonic()  # The next section takes the request.
            elif time.monotonic() - inside_since > GRACE_SECONDS:
                self._end_process()

    def _receive(self, signum: int) -> None:
        """Requests a stop; at the second signal ends the process."""
        global requested
        now = time.monotonic()
        if is_echo(signum, self._signum, now - self._signal_time):
            return
        if self._signum and self.may_repeat:
            self.may_repeat = False
            return
        if self._signum:
            os._exit(128 + self._signum)
        self._signum, self._signal_time = signum, now
        with self._lock:
            if not self.owner:
                requested = signum
        name = signal.Signals(signum).name
        self._print(f"Received {name}: {self._announcement}; a second signal stops at once.")

    def _end_process(self) -> None:
        """Calls the rescue function and exits, unless the main thread left the section."""
        with self._lock:
            if self.owner or self._depth == 0:
                return
            self.owner = "watcher"

        def end() -> None:
            try:
                self._rescue()
                self._print(*self._farewell())
            except Exception as error:
                self._print(f"error: {error}")
            finally:
                os._exit(128 + self._signum)

        # In a thread of its own, so that a second signal is noticed.
        threading.Thread(target=end, daemon=True).start()

    def _print(self, *lines: str) -> None:
        """Prints lines without waiting for the locks of streams; the first over a progress bar."""
        clear = "\r\x1b[K" if os.isatty(self._stderr) else ""
        with contextlib.suppress(OSError):
            os.write(
                self._stderr, (clear + "".join(f"{printable(line)}\n" for line in lines)).encode()
            )


def _handle(signum: int, frame: FrameType | None) -> None:
    """Python's handler, in the main thread."""
    global requested
    watcher = _watcher
    if watcher is None or watcher.owner:
        return
    requested = requested or signum
    if _may_raise:
        raise StopRequested(requested)


def _no_rescue() -> None:
    """There is nothing to rescue."""


_watcher: _Watcher | None = None
_may_raise = False
