"""Starts TensorFlow: its threads, its devices, and the cache of compiled programs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from agents.compilation_cache import use_cache
from agents.errors import UsageError
from agents.tensorflow_messages import quiet_tensorflow

Device = Literal["cpu", "gpu", "any"]


# Threads for operations that wait for other machines.
_WAITING_THREADS = 8


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
        try:
            tf.config.threading.set_intra_op_parallelism_threads(threads)
            tf.config.threading.set_inter_op_parallelism_threads(
                _WAITING_THREADS if join else threads
            )
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
        if join:
            join()
        tf.config.list_logical_devices()
