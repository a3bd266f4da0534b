"""Batches of environments in the graph, for tests that parametrize over where they run."""

import contextlib

from gymnasium.vector import AutoresetMode, SyncVectorEnv

from agents.graph.in_graph_batch_env import InGraphBatchEnv
from agents.vector.batch_env import BatchEnv
from agents.vector.process_batch import make_batch_env

BACKENDS = ["process", "gymnasium"]


def make_batch(constructors, backend, info_keys=()):
    """A vector environment: in two processes, in this one, or Gymnasium's own."""
    if backend == "process":
        return make_batch_env(constructors, processes=2, info_keys=info_keys)
    if backend == "inline":
        envs = [constructor() for constructor in constructors]
        return BatchEnv(envs, blocking=True, info_keys=info_keys)
    return SyncVectorEnv(constructors, autoreset_mode=AutoresetMode.SAME_STEP)


@contextlib.contextmanager
def in_graph(constructors, backend="inline", info_keys=()):
    """Yields environments in the graph and closes them."""
    envs = InGraphBatchEnv(make_batch(constructors, backend, info_keys), info_keys)
    with contextlib.closing(envs):
        yield envs
