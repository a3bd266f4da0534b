"""TensorFlow's log lines on stderr."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import tempfile
from collections.abc import Iterator

# TensorFlow 2.21 writes information in spite of the level while it is imported.
_INFORMATION = re.compile(rb"I\d{4} |WARNING: All log messages before absl::InitializeLog")


@contextlib.contextmanager
def quiet_tensorflow() -> Iterator[None]:
    """Suppresses TensorFlow's start-up log lines, unless the user sets TF_CPP_MIN_LOG_LEVEL=0.

    Other lines on stderr appear at the end.
    """
    # Only fatal errors: at each start, XLA and CUDA log errors that are none.
    if os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3") == "0":
        yield
        return
    with contextlib.ExitStack() as stack:
        try:
            stderr = os.dup(2)
            stack.callback(os.close, stderr)
            held = stack.enter_context(tempfile.TemporaryFile())
        except OSError:  # Closed, as in a daemon; or no folder can be written.
            yield
            return
        sys.stderr.flush()
        os.dup2(held.fileno(), 2)
        try:
            yield
        finally:
            sys.stderr.flush()
            os.dup2(stderr, 2)
            held.seek(0)
            with contextlib.suppress(OSError):  # Closed, or a full disk.
                for line in held:
                    if not _INFORMATION.match(line):
                        os.write(2, line)
