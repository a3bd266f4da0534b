"""Penalties that the PPO loss adds; one class each."""

from __future__ import annotations

import tensorflow as tf

from agents.distributions.distribution import Distribution
from agents.learning.reduction import SINGLE_LEARNER, Reducer
from agents.policies.actor_critic import ActorCritic
from agents.ppo import objectives
from agents.ppo.batch import Batch
from agents.settings.config import Config


class KLPenalty:
    """Adaptive penalty on the exact KL divergence from the policy that acted.

    See `objectives.kl_penalty` and `objectives.adapted_penalty`. The cutoff applies to the mean of
    a minibatch, which has no whole episodes; batch-ppo applies it to each episode.
    """

    def __init__(self, network: ActorCritic, config: Config, reducer: Reducer = SINGLE_LEARNER):
        """Starts with the coefficient `config.kl_init_penalty`."""
        self._network, self._config, self._reducer = network, config, reducer
        self._penalty = tf.Variable(config.kl_init_penalty, trainable=False)

    def loss(self, minibatch: Batch, policy: Distribution) -> tf.Tensor:
        """The penalty of the trained policy's distributions [M], float []."""
        config, penalty = self._config, tf.convert_to_tensor(self._penalty)
        cutoff = config.kl_cutoff_factor * config.kl_target
        kl = self._kl(minibatch, policy)
        return objectives.kl_penalty(kl, penalty, cutoff, config.kl_cutoff_coef)

    def after_update(self, batch: Batch) -> dict[str, tf.Tensor]:
        """Adapts the coefficient to the update's KL divergence; returns both by tag."""
        policy, _ = self._network.evaluate(batch.inputs, batch.states, batch.is_first)
        kl = self._reducer.mean(tf.reduce_mean(self._kl(batch, policy)))
        old_penalty = tf.convert_to_tensor(self._penalty)
        penalty = objectives.adapted_penalty(old_penalty, kl, self._config.kl_target)
        self._penalty.assign(penalty)
        return {"losses/kl": kl, "schedule/kl_penalty": penalty}

    def variables(self) -> dict[str, tf.Variable]:
        """The state that a checkpoint holds, by name."""
        return {"kl_penalty": self._penalty}

    def _kl(self, batch: Batch, policy: Distribution) -> tf.Tensor:
        """KL(old || new) in each state, [M]."""
        return self._network.distribution(batch.old_parameters, batch.inputs).kl(policy)
