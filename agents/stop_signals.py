"""SIGINT, SIGTERM and SIGHUP: the first one asks the process to stop, the second one ends it.

Python calls signal handlers in the main thread only, and not while that is inside of a graph call.
So every signal wakes up a thread, which sets a flag. Sections (`graph_call`, `interruptible`) read it
at their start. Code that waits for workers or steps a batch reads it by `check()`, in any thread. A
signal raises an exception at once in `interruptible` sections only.
"""

from __future__ import annotations

import contextlib
import dis
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType

from agents.errors import EnvironmentFailure

# A process that gets a signal within so many seconds of a worker's failure failed because of it:
# terminals and service managers signal whole groups of processes, workers may be first.
_GROUP_SECONDS = 0.1

# What follows a signal within so many seconds is the same one: GNU's `timeout` and others send theirs
# to a process and then to its group.
_ECHO_SECONDS = 0.05

# The last one is that of a terminal that was closed.
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

# The signal that a stop was requested with; 0 before, and once the main thread has taken it.
requested = 0


class StopRequested(KeyboardInterrupt):
    """A stop signal arrived.

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
    """Returns whether a signal raised an exception, as Ctrl-C does, and not the code itself.

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
    """Returns whether a signal repeats the `first` one (0 before), which came `seconds` before.

    A terminal that is closed sends SIGHUP several times, and a shell once more.
    """
    return bool(first) and (
        signum == signal.SIGHUP or (signum == first and seconds < _ECHO_SECONDS)
    )


def is_stopping() -> bool:
    """Returns whether a stop was requested, also after `take`: cleaning up is short."""
    return bool(requested or _is_taken)


def take() -> None:
    """Takes the request, so that cleaning up is not interrupted; for the main thread."""
    global requested, _is_taken
    _is_taken = is_stopping()
    requested = 0


@contextlib.contextmanager
def graph_call() -> Iterator[None]:
    """A section that may be inside of a graph call for long.

    It raises StopRequested at its start if a stop was requested before, and at its end in place of
    an exception that arrives together with a request, and likely follows from the signal.
    """
    check()
    try:
        yield
    except Exception as error:
        if _is_handling and isinstance(error, EnvironmentFailure):
            time.sleep(_GROUP_SECONDS)
        if requested:
            raise StopRequested(requested) from error
        raise


@contextlib.contextmanager
def postponed() -> Iterator[None]:
    """A section that the first signal does not interrupt; it stops the next section instead."""
    global _postpones, _postponed, requested
    _postpones = _is_handling
    try:
        yield
    finally:
        _postpones = False
        requested, _postponed = requested or _postponed, 0


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """A section that signals may interrupt anywhere, such as preparations; see `graph_call`."""
    global _may_raise
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    with graph_call():
        before, _may_raise = _may_raise, True
        try:
            check()
            yield
        finally:
            _may_raise = before


@contextlib.contextmanager
def handling(announcement: str) -> Iterator[None]:
    """Handles the signals as this module describes; for commands.

    Signals that the process was started to ignore stay ignored. Without effect outside of the main
    thread, and inside of another such context.

    Args:
      announcement: What the first signal does, such as "training stops".
    """
    global requested, _is_handling, _is_taken
    if _is_handling or threading.current_thread() is not threading.main_thread():
        yield
        return
    _is_handling = True
    wakeup, received = socket.socketpair()
    wakeup.setblocking(False)
    # Standard error as it is now: it is redirected for a while when TensorFlow starts.
    stderr = os.dup(2)
    thread = threading.Thread(
        target=_receive, args=(received, stderr, announcement), name="stop-signals", daemon=True
    )
    thread.start()
    descriptor = signal.set_wakeup_fd(wakeup.fileno(), warn_on_full_buffer=False)
    try:
        with handled_by(_handle):
            yield
    finally:
        signal.set_wakeup_fd(descriptor)
        wakeup.close()
        thread.join(1)
        received.close()
        os.close(stderr)
        requested, _is_handling, _is_taken = 0, False, False


@contextlib.contextmanager
def handled_by(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Context in which a handler gets the signals that this process was not started to ignore."""
    handled = [signum for signum in SIGNALS if signal.getsignal(signum) is not signal.SIG_IGN]
    before = {signum: signal.signal(signum, handler) for signum in handled}
    try:
        yield
    finally:
        for signum, former in before.items():
            signal.signal(signum, former)


def _receive(received: socket.socket, stderr: int, announcement: str) -> None:
    """Requests a stop at the first signal and ends the process at the second; in a thread."""
    first, first_time = 0, 0.0
    while number := received.recv(1):
        signum, now = number[0], time.monotonic()
        if signum not in SIGNALS or is_echo(signum, first, now - first_time):
            continue
        if first:
            os._exit(128 + first)
        first, first_time = signum, now
        _handle(signum, None)
        clear = "\r\x1b[K" if os.isatty(stderr) else ""  # The progress bar.
        name = signal.Signals(signum).name
        line = f"{clear}Received {name}: {announcement}; a second signal stops at once.\n"
        with contextlib.suppress(OSError):
            os.write(stderr, line.encode())


def _handle(signum: int, frame: FrameType | None) -> None:
    """Python's handler, in the main thread; without a frame, in the thread that receives."""
    global requested, _postponed
    if _is_taken:
        return
    if _postpones:
        _postponed = _postponed or signum
        return
    requested = requested or signum
    if _may_raise and frame is not None:
        raise StopRequested(requested)


_is_handling = False
_is_taken = False
_may_raise = False
_postpones, _postponed = False, 0
