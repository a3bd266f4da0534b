"""Starts TensorFlow without the lines that it always prints."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import tempfile
from collections.abc import Iterator

# Said at every start, on every machine without a GPU, whatever is done. Anything else is passed on.
_NOISE = re.compile(
    rb"All log messages before absl::InitializeLog|oneDNN custom operations are on|Could not find cuda drivers"
    rb"|optimized to use available CPU instructions|To enable the following instructions"
    rb"|failed call to cuInit|CUDA_ERROR_NO_DEVICE|TF-TRT Warning|computation_placer already registered"
)


def start_tensorflow(threads: int) -> None:
    """Imports TensorFlow, sets its thread counts and finds its devices, all without its start-up lines.

    Args:
      threads: For each of TensorFlow's two thread pools; 0 for as many as there are cores. Where TensorFlow runs
        already, it keeps the threads that it has.
    """
    with quiet_tensorflow():
        import tensorflow as tf

        try:
            tf.config.threading.set_intra_op_parallelism_threads(threads)
            tf.config.threading.set_inter_op_parallelism_threads(threads)
            for gpu in tf.config.list_physical_devices("GPU"):
                tf.config.experimental.set_memory_growth(gpu, True)  # Or TensorFlow takes the whole card.
        except RuntimeError:
            pass  # Its threads run already.
        tf.config.list_logical_devices()


def graph_executor(convolves: bool) -> contextlib.AbstractContextManager[None]:
    """Context for graph calls that are loops: small operations run one after another in a single thread.

    Handing each operation to a pool of threads takes as long as the operation. Large ones are still divided among
    TensorFlow's threads, and a compiled program is a single operation.

    Args:
      convolves: Whether there are convolutions. They are left to TensorFlow's own executor: the one for a single thread
        keeps oneDNN's operations out of loops, without which convolutions take longer, in bfloat16 ten times as long.
    """
    import tensorflow as tf

    return tf.experimental.function_executor_type("" if convolves else "SINGLE_THREADED_EXECUTOR")


@contextlib.contextmanager
def quiet_tensorflow() -> Iterator[None]:
    """For importing TensorFlow: holds back what is written to stderr, by C++ too, and passes on what is not noise."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
    sys.stderr.flush()
    with tempfile.TemporaryFile() as held, contextlib.ExitStack() as stack:
        stderr = os.dup(2)
        stack.callback(os.close, stderr)
        os.dup2(held.fileno(), 2)
        try:
            yield
        finally:
            sys.stderr.flush()
            os.dup2(stderr, 2)
            held.seek(0)
            for line in held:
                if not _NOISE.search(line):
                    os.write(2, line)
