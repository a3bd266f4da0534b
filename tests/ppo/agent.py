"""PPO in environments of this process, as a `Learner` combines them."""

import tensorflow as tf

from agents.graph.in_graph_batch_env import InGraphBatchEnv
from agents.graph.simulation import simulate
from agents.learning.reduction import SINGLE_LEARNER
from agents.ppo.ppo import PPO
from agents.settings.config_file import load_config
from agents.vector.batch_env import BatchEnv

# Rewards, observations and advantages as they are.
UNNORMALIZED = {
    "normalize_observ": False,
    "normalize_reward": False,
    "normalize_advantages": False,
}
# Updates change the weights by less than rounding errors.
FROZEN = {"learning_rate": 1e-12, "learning_rate_schedule": "constant"}


class Agent:
    """PPO and its environments.

    Attributes:
      config: The settings.
      batch_env: The environments in the graph.
      ppo: The algorithm.
      collect: Collects a rollout.
    """

    def __init__(self, envs, rollout_length, reducer=SINGLE_LEARNER, **settings):
        """Resets the environments; by default networks are linear and minibatches rollouts.

        Args:
          envs: The environments; of several learners, its part of them.
          rollout_length: Steps of a rollout.
          reducer: Combines several learners.
          **settings: Of the configuration, of all learners together.
        """
        num_envs = len(envs) * reducer.num_learners
        sizes = {"num_envs": num_envs, "rollout_length": rollout_length, "epochs": 1, "layers": ()}
        sizes["minibatch_size"] = num_envs * rollout_length
        self.config = load_config("default", **{**sizes, **settings})
        self.batch_env = InGraphBatchEnv(BatchEnv(envs, blocking=True))
        seeds = tf.range(len(envs), dtype=tf.int64) + self.config.seed
        self.batch_env.reset(seed=seeds)
        self.ppo = PPO(self.batch_env, self.config, reducer)
        self.collect = tf.function(
            lambda: simulate(self.batch_env, self.ppo, rollout_length), autograph=False
        )

    def iterate(self, compiles=True):
        """The report of one iteration, in numpy; compiling takes longer than a few iterations."""
        rollout = self.collect()
        tf.config.run_functions_eagerly(not compiles)
        try:
            report = self.ppo.train(rollout)
        finally:
            tf.config.run_functions_eagerly(False)
        return tf.nest.map_structure(lambda tensor: tensor.numpy(), report)

    def variables(self):
        """Everything that a checkpoint holds, in numpy."""
        return {name: variable.numpy() for name, variable in self.ppo.variables().items()}
