"""Starts TensorFlow: its log lines, threads, devices, and the cache of compiled programs."""

from __future__ import annotations

import contextlib
import importlib.abc
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType
from typing import Literal

from agents.compilation_cache import use_cache
from agents.errors import UsageError

Device = Literal["cpu", "gpu", "any"]

# TensorFlow 2.21 writes information in spite of the level while it is imported.
_INFORMATION = re.compile(rb"I\d{4} |WARNING: All log messages before absl::InitializeLog")
# Threads for operations that wait for other machines.
_WAITING_THREADS = 8


class _StartReport(importlib.abc.MetaPathFinder):
    """Prints a line when TensorFlow's import begins, which takes seconds; finds nothing."""

    def __init__(self, stderr: int):
        """Stores the file descriptor to print to."""
        self._stderr = stderr

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> None:
        """Prints the line if TensorFlow is imported."""
        if fullname == "tensorflow":
            with contextlib.suppress(OSError):
                os.write(self._stderr, b"Starting TensorFlow\n")


@contextlib.contextmanager
def quiet_tensorflow(reports: bool = False) -> Iterator[None]:
    """Suppresses TensorFlow's start-up log lines, unless the user sets TF_CPP_MIN_LOG_LEVEL=0.

    Other lines on stderr appear at the end.

    Args:
      reports: Whether to print a line at once if TensorFlow is imported: for commands that have
        printed nothing before.
    """
    if os.environ.get("TF_CPP_MIN_LOG_LEVEL") == "0":
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
        if reports:
            report = _StartReport(stderr)
            sys.meta_path.insert(0, report)
            stack.callback(sys.meta_path.remove, report)
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


def start_tensorflow(
    threads: int,
    device: Device = "any",
    local_rank: int = 0,
    join: Callable[[], None] | None = None,
) -> None:
    """Imports TensorFlow, sets its thread counts and initializes its devices.

    From then on, compiled programs are kept for the next process, see `agents.compilation_cache`.
    Start-up messages are dropped, see `quiet_tensorflow`. No effect if TensorFlow has started
    already.

    Args:
      threads: Threads of a graph call; 0 for one per core.
      device: Whether to leave GPUs alone, to need one, or to use one if there is any.
      local_rank: Which learner of this machine this is: each takes the next GPU.
      join: Joins the learners of other machines, before devices are initialized.

    Raises:
      UsageError: There is no GPU, and one is needed.
    """
    with quiet_tensorflow():
        import tensorflow as tf

        use_cache(threads)
        gpus = tf.config.list_physical_devices("GPU")
        if device == "gpu" and not gpus:
            raise UsageError(
                "device: TensorFlow finds no GPU\nexpected device auto or cpu, or a GPU with "
                "its driver and pip install 'tensorflow[and-cuda]'"
            )
        try:
            tf.config.threading.set_intra_op_parallelism_threads(threads)
            tf.config.threading.set_inter_op_parallelism_threads(
                _WAITING_THREADS if join else threads
            )
            used = [] if device == "cpu" or not gpus else [gpus[local_rank % len(gpus)]]
            tf.config.set_visible_devices(used, "GPU")
            for gpu in used:
                # Otherwise TensorFlow allocates all memory of the GPU.
                tf.config.experimental.set_memory_growth(gpu, True)
        except RuntimeError:
            pass  # TensorFlow has started already.
        if join:
            join()
        tf.config.list_logical_devices()
