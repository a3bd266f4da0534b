"""Signs of life of a process through a pipe to its parent, which ends a silent process.

A process that is stopped, or whose interpreter is stuck, keeps its connections and its place; only
its silence shows. The pipe also carries lines that the process reports, such as why it ends.
"""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress

_BEAT_SECONDS = 1.0

# A parent that has not looked for so many seconds was stopped itself: it starts to count again.
_PAUSE_SECONDS = 5.0

_pipe: int | None = None


class HeartbeatMonitor:
    """The parent's side.

    Attributes:
      pipe: Descriptor for the process, which calls `start_heartbeat` with it; closed by `started`.
      is_silent: Whether the process has not been heard of for too long, as of the last `poll`.
    """

    def __init__(self, seconds: float):
        """Makes a pipe; `seconds` after its last sign of life a process is silent."""
        self._seconds = seconds
        self._received, self.pipe = os.pipe()
        os.set_blocking(self._received, False)
        self._unread = b""
        # None until the first sign: loading the interpreter takes as long as the disk likes.
        self._heard: float | None = None
        self._polled = time.monotonic()
        self.is_silent = False

    def started(self) -> None:
        """Closes the end of the pipe that the process has now."""
        os.close(self.pipe)

    def poll(self) -> list[str]:
        """Looks for signs of life; returns the lines that were reported."""
        now, data = time.monotonic(), b""
        with suppress(BlockingIOError):
            data = os.read(self._received, 1 << 16)
        if self._heard is not None and now - self._polled > _PAUSE_SECONDS:
            self._heard += now - self._polled
        self._polled = now
        self._heard = now if data else self._heard
        self.is_silent = self._heard is not None and now - self._heard > self._seconds
        *lines, self._unread = (self._unread + data).split(b"\n")
        return [line.decode(errors="replace") for line in lines if line]

    def close(self) -> None:
        """Closes the pipe."""
        os.close(self._received)


def start_heartbeat(pipe: int) -> None:
    """Lets this process give signs of life, once a second, as long as its interpreter runs."""
    global _pipe
    _pipe = pipe
    os.set_blocking(pipe, False)

    def beat() -> None:
        while True:
            report("")
            time.sleep(_BEAT_SECONDS)

    threading.Thread(target=beat, name="heartbeat", daemon=True).start()


def report(line: str) -> None:
    """Sends a line, of at most some thousand characters, to the parent, if it listens."""
    if _pipe is not None:
        with suppress(OSError):
            os.write(_pipe, line.encode() + b"\n")
