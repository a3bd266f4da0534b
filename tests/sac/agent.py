"""SAC in environments of this process, as a `Learner` combines them."""

import tensorflow as tf

from agents.graph.in_graph_batch_env import InGraphBatchEnv
from agents.graph.simulation import simulate
from agents.sac.sac import SAC
from agents.settings.config_file import load_config
from agents.vector.batch_env import BatchEnv


class Agent:
    """SAC and its environments.

    Attributes:
      config: The settings.
      batch_env: The environments in the graph.
      sac: The algorithm.
    """

    def __init__(self, envs, rollout_length=8, **settings):
        """Resets the environments; by default networks are linear."""
        small = {"layers": (), "batch_size": 4, "replay_capacity": 1000, "learning_starts": 0}
        sizes = {"num_envs": len(envs), "rollout_length": rollout_length}
        self.config = load_config("sac", **{**small, **sizes, **settings})
        self.batch_env = InGraphBatchEnv(BatchEnv(envs, blocking=True))
        self.batch_env.reset(seed=tf.range(len(envs), dtype=tf.int64))
        self.sac = SAC(self.batch_env, self.config)
        self._collect = tf.function(
            lambda: simulate(self.batch_env, self.sac, rollout_length), autograph=False
        )

    def iterate(self):
        """Collects a rollout and learns from it; returns both."""
        rollout = self._collect()
        return rollout, self.sac.train(rollout)
