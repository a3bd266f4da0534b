"""Batches of toys on every kind of host."""

import contextlib

from agents.vector.batch_env import BatchEnv
from agents.vector.process_batch import make_batch_env

BACKENDS = "inline", "one", "hybrid"


@contextlib.contextmanager
def batch_of(constructors, backend, **kwargs):
    """Yields a batch.

    Args:
      constructors: One per environment.
      backend: "inline" for this process, "one" for one worker, "each" for one worker each, "hybrid"
        for the last environment in this process and one worker for each of the others.
      **kwargs: Of `make_batch_env`.
    """
    if backend == "inline":
        batch = BatchEnv([constructor() for constructor in constructors], blocking=True)
    else:
        processes, own = 1 if backend == "one" else len(constructors), backend == "hybrid"
        batch = make_batch_env(constructors, processes, inline_share=own, **kwargs)
    with contextlib.closing(batch):
        yield batch
