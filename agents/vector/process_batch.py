"""Batches of environments in worker processes, which are started for them."""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from agents.vector.batch_env import BatchEnv
from agents.vector.exchange import wait_until_ready
from agents.workers.host import LocalHost, WorkerHost, close_hosts
from agents.workers.spawner import explaining_limits

if TYPE_CHECKING:
    from agents.types import EnvConstructor


def make_batch_env(
    constructors: Sequence[EnvConstructor],
    processes: int = 0,
    timeout: float = 60.0,
    info_keys: Sequence[str] = (),
    start_timeout: float = 120.0,
    restart_limit: int = 0,
    restart_window: float = 600.0,
    inline_share: bool = False,
    wait_for: float = 1.0,
) -> BatchEnv:
    """Makes a batch of environments in worker processes, which start in parallel.

    Args:
      constructors: One per environment; anything that cloudpickle takes.
      processes: Number of workers; 0 for the number of cores, and at most one per environment.
      timeout: Seconds that a step or a reset of one environment may take in a worker.
      info_keys: See `BatchEnv`.
      start_timeout: Seconds that a worker may take to start, and that each constructor may take.
      restart_limit: See `BatchEnv`.
      restart_window: See `BatchEnv`.
      inline_share: Whether this process is one of the `processes`: it steps the last environments
        itself while the workers step theirs. Its environments have no `timeout`.
      wait_for: See `BatchEnv`.

    Raises:
      EnvironmentFailure: A worker could not construct its environments, or not be started at all
        (`WorkerStartError`); all workers were closed.
      ValueError: As `BatchEnv`.
    """
    processes = min(processes or available_cores(), len(constructors))
    cuts = [len(constructors) * worker // max(processes, 1) for worker in range(processes + 1)]
    parts = [range(start, stop) for start, stop in itertools.pairwise(cuts)]
    own = parts.pop() if inline_share and parts else None
    workers: list[WorkerHost] = []
    local: list[LocalHost] = []
    try:
        with explaining_limits(processes):
            for part in parts:
                made = constructors[part.start : part.stop]
                workers.append(WorkerHost(made, timeout, start_timeout, part.start))
            if own:  # Constructed while the workers construct theirs.
                local.append(LocalHost(constructors[own.start : own.stop], own.start))
            wait_until_ready(workers)
            blocking = not workers
            limits = restart_limit, restart_window
            return BatchEnv([*workers, *local], blocking, info_keys, *limits, wait_for)
    except BaseException:
        close_hosts([*workers, *local])
        raise


def available_cores() -> int:
    """Returns the number of processors that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
