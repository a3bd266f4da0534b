"""Batches of toys on every kind of host."""

import contextlib

from agents.vector.batch_env import BatchEnv
from agents.vector.process_batch import make_batch_env

BACKENDS = "inline", "one", "each"


@contextlib.contextmanager
def batch_of(constructors, backend, **kwargs):
    """Yields environments in this process ("inline"), in one worker ("one"), or in one worker each."""
    if backend == "inline":
        batch = BatchEnv([constructor() for constructor in constructors], blocking=True)
    else:
        batch = make_batch_env(constructors, 1 if backend == "one" else len(constructors), **kwargs)
    with contextlib.closing(batch):
        yield batch
