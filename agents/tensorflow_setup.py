"""Starts TensorFlow without its start-up messages, and chooses the executor of its graphs."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from typing import Literal

from agents.errors import UsageError

Device = Literal["cpu", "gpu", "any"]

# Written at every start, on every machine without a GPU, whatever TensorFlow is used for; the last
# ones at every conversion to TensorFlow Lite.
_START_UP_MESSAGES = re.compile(
    rb"All log messages before absl::InitializeLog|oneDNN custom operations are on"
    rb"|Could not find cuda drivers|optimized to use available CPU instructions"
    rb"|To enable the following instructions|failed call to cuInit|CUDA_ERROR_NO_DEVICE"
    rb"|TF-TRT Warning|computation_placer already registered"
    rb"|Ignored (output_format|drop_control_dependency)"
)


def start_tensorflow(threads: int, device: Device = "any", local_rank: int = 0) -> None:
    """Imports TensorFlow, sets its thread counts and initializes its devices.

    Start-up messages are dropped, see `quiet_tensorflow`. No effect if TensorFlow has started
    already.

    Args:
      threads: Size of each of TensorFlow's two thread pools; 0 for one thread per core.
      device: Whether to leave GPUs alone, to need one, or to use one if there is any.
      local_rank: Which learner of this machine this is: each takes the next GPU.

    Raises:
      UsageError: There is no GPU, and one is needed.
    """
    with quiet_tensorflow():
        import tensorflow as tf

        try:
            tf.config.threading.set_intra_op_parallelism_threads(threads)
            tf.config.threading.set_inter_op_parallelism_threads(threads)
            gpus = tf.config.list_physical_devices("GPU")
            if device == "gpu" and not gpus:
                raise UsageError(
                    "device: TensorFlow finds no GPU\nexpected device auto or cpu, or a GPU with "
                    "its driver and pip install 'tensorflow[and-cuda]'"
                )
            used = [] if device == "cpu" or not gpus else [gpus[local_rank % len(gpus)]]
            tf.config.set_visible_devices(used, "GPU")
            for gpu in used:
                # Otherwise TensorFlow allocates all memory of the GPU.
                tf.config.experimental.set_memory_growth(gpu, True)
        except RuntimeError:
            pass  # TensorFlow has started already.
        tf.config.list_logical_devices()


def graph_executor(convolves: bool) -> contextlib.AbstractContextManager[None]:
    """Returns a context that runs small operations of graph calls one by one in a single thread.

    Scheduling an operation in a thread pool takes as long as a small operation itself. Large ones
    are still divided among TensorFlow's threads; a compiled program is a single operation.

    Args:
      convolves: Whether the graph has convolutions. It then keeps TensorFlow's default executor:
        the single-threaded one excludes oneDNN's operations from loops, without which convolutions
        take longer, in bfloat16 ten times as long.
    """
    import tensorflow as tf

    executor = "" if convolves else "SINGLE_THREADED_EXECUTOR"
    context: contextlib.AbstractContextManager[None] = tf.experimental.function_executor_type(
        executor
    )
    return context


@contextlib.contextmanager
def quiet_tensorflow() -> Iterator[None]:
    """Drops start-up messages of TensorFlow from stderr while it is imported.

    Holds back what is written to stderr meanwhile, including by C++, and writes anything but
    start-up messages afterwards.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
    try:
        stderr = os.dup(2)
    except OSError:  # It is closed, as in a daemon.
        yield
        return
    sys.stderr.flush()
    with tempfile.TemporaryFile() as held, contextlib.ExitStack() as stack:
        stack.callback(os.close, stderr)
        os.dup2(held.fileno(), 2)
        try:
            yield
        finally:
            sys.stderr.flush()
            os.dup2(stderr, 2)
            held.seek(0)
            for line in held:
                if not _START_UP_MESSAGES.search(line):
                    os.write(2, line)
