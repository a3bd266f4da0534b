"""A policy whose weights are a moving average of those of a policy that is trained.

Polyak and Juditsky, "Acceleration of Stochastic Approximation by Averaging" (1992); exponential, as in
Morales-Brotons et al., "Exponential Moving Average of Weights in Deep Learning" (2024, arXiv 2411.18704).
"""

from __future__ import annotations

import tensorflow as tf

from agents.policies.policy import Policy

# Of the names of its variables in checkpoints.
_PREFIX = "averaged"


class AveragedPolicy:
    """Averages the weights of a policy, and takes over its normalizers' statistics.

    Attributes:
      policy: The policy with averaged weights; only for acting.
    """

    def __init__(self, policy: Policy, decay: float):
        """Starts without weights to average.

        Args:
          policy: Another policy of the same configuration as the trained one.
          decay: Factor of the older weights in each update, below 1.
        """
        self.policy, self._decay = policy, decay
        self._count = tf.Variable(0, dtype=tf.int64, trainable=False)

    def update(self, trained: Policy, has_learned: tf.Tensor | bool = True) -> None:
        """Adds the weights of the trained policy.

        The first ones are averaged equally, so that the initial weights do not count.

        Args:
          trained: The policy.
          has_learned: Whether its weights are new, bool []; otherwise they do not count, either.
        """
        weights = self.policy.network.variables()
        is_first = self._count == 0
        self._count.assign_add(tf.cast(has_learned, tf.int64))
        count = tf.cast(tf.maximum(self._count, 1), tf.float32)
        share = tf.maximum(1.0 - self._decay, 1.0 / count)  # []
        share = tf.where(is_first | has_learned, share, 0.0)
        is_trained = trained.network.trainable_variables().keys()
        for name, value in trained.network.variables().items():
            average = (1.0 - share) * weights[name] + share * value if name in is_trained else value
            weights[name].assign(average)
        self.policy.assign_statistics(trained)

    def variables(self) -> dict[str, tf.Variable]:
        """The state that a checkpoint holds, by name."""
        variables = averaged_variables(self.policy)
        return {**variables, f"{_PREFIX}/count": self._count}


def averaged_variables(policy: Policy) -> dict[str, tf.Variable]:
    """The variables of a policy, by the names of the averaged ones in a checkpoint."""
    return {f"{_PREFIX}/{name}": variable for name, variable in policy.variables().items()}
