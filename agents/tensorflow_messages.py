"""Keeps off stderr what TensorFlow writes there in every process, whatever it is used for."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from typing import IO

# Written at every start, on every machine without a GPU, whatever TensorFlow is used for; the last
# ones at every conversion to TensorFlow Lite.
_START_UP_MESSAGES = re.compile(
    rb"All log messages before absl::InitializeLog|oneDNN custom operations are on"
    rb"|Could not find cuda drivers|optimized to use available CPU instructions"
    rb"|To enable the following instructions|failed call to cuInit|CUDA_ERROR_NO_DEVICE"
    rb"|TF-TRT Warning|computation_placer already registered"
    rb"|Ignored (output_format|drop_control_dependency)"
)

# Written when a program is loaded from XLA's compilation cache: it is looked for in another format
# first, and two preferences of the compiler are not features of any processor.
_LOADING_MESSAGES = re.compile(
    rb"Error parsing text-format tensorflow.XlaSerializedCacheEntry"
    rb"|Target machine feature \+prefer-no-(scatter|gather) is not"
)


@contextlib.contextmanager
def quiet_tensorflow() -> Iterator[None]:
    """Drops start-up messages of TensorFlow from stderr while it is imported.

    Holds back what is written to stderr meanwhile, including by C++, and writes anything but
    start-up messages afterwards.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
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
            _write_others(held, _START_UP_MESSAGES)


@contextlib.contextmanager
def without_loading_messages() -> Iterator[None]:
    """Drops messages of TensorFlow on programs that it loads; holds back others until the end.

    Only what C and C++ write to their `stderr` is held back. Python, and processes that are started
    meanwhile, write to the file descriptor.
    """
    library = ctypes.CDLL(None)
    try:
        stream = ctypes.c_void_p.in_dll(library, "stderr")
    except ValueError:  # Not the C library of GNU.
        yield
        return
    held, own, stderr = _streams()
    stream.value = own
    try:
        yield
    finally:
        stream.value = stderr  # Not what it was before, which may be that of another thread.
        library.fflush(ctypes.c_void_p(own))
        _write_others(held, _LOADING_MESSAGES)


@functools.cache
def _streams() -> tuple[IO[bytes], int, int | None]:
    """A file in memory, a stream of C that writes to it, for ever, and the `stderr` of C."""
    library = ctypes.CDLL(None)
    library.fdopen.restype = ctypes.c_void_p
    file = os.fdopen(os.memfd_create("stderr"), "r+b", buffering=0)
    own = library.fdopen(os.dup(file.fileno()), b"a")
    return file, own, ctypes.c_void_p.in_dll(library, "stderr").value


def _write_others(held: IO[bytes], dropped: re.Pattern[bytes]) -> None:
    """Writes lines that were held back to stderr, without those to be dropped."""
    held.seek(0)
    with contextlib.suppress(OSError):  # Closed, or a full disk.
        for line in held:
            if not dropped.search(line):
                os.write(2, line)
    held.truncate(0)
