"""The place of a learner in a `Team`, as its process gets it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from agents.distributed.cluster import Cluster
from agents.settings.config import Config
from agents.tensorflow_setup import start_tensorflow
from agents.workers.reaper import guard

if TYPE_CHECKING:
    from agents.distributed.team_reducer import TeamReducer


class Seat(NamedTuple):
    """The number of a learner, and how it finds the others.

    Attributes:
      rank: Its number.
      num_learners: How many there are.
      addresses: Addresses of all for TensorFlow's collective operations; empty for none.
      memory: Path of the memory that they share; empty for none.
      core: The processor that this one runs on; -1 for all.
    """

    rank: int
    num_learners: int
    addresses: list[str]
    memory: str
    core: int

    def take(self) -> None:
        """Ends with the team's process, and moves to the learner's own core if it has one."""
        guard(os.getppid())
        if self.core >= 0:
            os.sched_setaffinity(0, {self.core})

    def make_reducer(self, config: Config) -> TeamReducer:
        """Starts TensorFlow; joins the other learners."""
        cluster = Cluster(self.rank, self.num_learners, tuple(self.addresses))
        if self.memory:
            start_tensorflow(config.threads)
            from agents.distributed.shared_reducer import SharedReducer

            return SharedReducer(cluster._replace(memory=os.open(self.memory, os.O_RDWR)))

        def join() -> None:
            from agents.distributed import collective_reducer

            collective_reducer.join(cluster, config.start_timeout)

        start_tensorflow(config.threads, join=join)
        from agents.distributed.collective_reducer import CollectiveReducer

        return CollectiveReducer(cluster, config)
