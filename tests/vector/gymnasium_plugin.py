"""Lets Gymnasium's own tests of vector environments test `BatchEnv`; see test_gymnasium_suite.py.

A plugin of pytest for its checkout: not to be imported here. It replaces Gymnasium's two vector
environments before its tests import them.
"""

import gymnasium
import gymnasium.vector

from agents import BatchEnv, make_batch_env


def in_processes(env_fns, **options):
    """What `AsyncVectorEnv(env_fns, ...)` makes; its options are of how it works."""
    return make_batch_env(env_fns, processes=2)


def in_this_process(env_fns, **options):
    """What `SyncVectorEnv(env_fns, ...)` makes."""
    return BatchEnv([make() for make in env_fns], blocking=True)


gymnasium.vector.AsyncVectorEnv = in_processes
gymnasium.vector.SyncVectorEnv = in_this_process
