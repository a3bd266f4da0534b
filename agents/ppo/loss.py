"""The loss that an update minimizes: policy loss, value loss, entropy bonus and KL penalty."""

from __future__ import annotations

import math

import tensorflow as tf

from agents.distributions.distribution import Distribution
from agents.learning.reduction import SINGLE_LEARNER, Reducer
from agents.learning.returns import standardize
from agents.learning.schedules import Schedule, make_schedule
from agents.policies.actor_critic import ActorCritic
from agents.ppo import objectives
from agents.ppo.batch import Batch
from agents.settings.config import Config


class Loss:
    """Weighted sum of policy loss, value loss, entropy bonus and an adaptive KL penalty.

    The penalty is on the exact KL divergence from the policy that acted, see `objectives.kl_penalty`
    and `objectives.adapted_penalty`. Its cutoff applies to the mean of a minibatch, which has no
    whole episodes; batch-ppo applies it to each episode.

    Attributes:
      network: Evaluates minibatches.
      config: The experiment's settings.
      scalars: Names of the metrics of each minibatch.
    """

    scalars: tuple[str, ...] = ("policy", "value", "entropy", "approx_kl", "clip_fraction")

    def __init__(self, network: ActorCritic, config: Config, reducer: Reducer = SINGLE_LEARNER):
        """Combines the terms that the settings describe.

        Args:
          network: Evaluates minibatches.
          config: The experiment's settings.
          reducer: Combines the advantages' moments of several learners, and their KL divergences.
        """
        self.network, self.config, self._reducer = network, config, reducer
        self._clip_ratio = make_schedule(config.clip_ratio_schedule, config.clip_ratio)
        self._entropy_coef = make_schedule(config.entropy_coef_schedule, config.entropy_coef)
        self._kl_penalty: tf.Variable | None = None
        if config.objective != "clip":
            self._kl_penalty = tf.Variable(config.kl_init_penalty, trainable=False)
        if config.objective == "kl":
            self._clip_ratio = Schedule(math.inf)

    def advantages(self, batch: Batch, minibatches: tf.Tensor) -> tf.Tensor:
        """The advantages of all minibatches, standardized if `normalize_advantages`.

        Args:
          batch: N elements.
          minibatches: int32 [minibatches, M], the elements of each minibatch.

        Returns:
          float32 [minibatches, M], or [minibatches, M, L] for sequences.
        """
        advantage, valid = tf.nest.map_structure(
            lambda tensor: tf.gather(tensor, minibatches), (batch.advantage, batch.valid)
        )  # [minibatches, M, ...]
        if not self.config.normalize_advantages:
            return advantage
        axes = tuple(range(1, len(advantage.shape)))
        min_std = self.config.min_advantage_std
        return standardize(advantage, self._reducer, valid, axes, min_std)

    def compute(
        self, minibatch: Batch, progress: tf.Tensor
    ) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
        """Computes the loss of a minibatch.

        Args:
          minibatch: M elements; their `advantage` is a row of the result of `advantages`.
          progress: Fraction of the training that is over, float32 [].

        Returns:
          The loss, float32 [], and metrics by name, float32 [] each.
        """
        config, clip_ratio = self.config, self._clip_ratio.value(progress)
        policy, value = self.network.evaluate(
            minibatch.inputs, minibatch.states, minibatch.is_first
        )
        log_prob, old_log_prob = policy.log_prob(minibatch.sample), minibatch.old_log_prob  # [M]
        policy_loss = self.policy_loss(log_prob, old_log_prob, minibatch.advantage, clip_ratio)
        value_loss = objectives.value_loss(
            value, minibatch.value, minibatch.target, config.value_clip, minibatch.valid
        )
        # Where the divergence limits the update, it is the change of the weights alone: ratios to the
        # policy that acted also contain the change of the normalizer's statistics.
        start_log_prob = minibatch.start_log_prob
        start_log_prob = old_log_prob if isinstance(start_log_prob, tuple) else start_log_prob
        entropy = tf.reduce_mean(policy.entropy())  # []
        entropy_bonus = self._entropy_coef.value(progress) * entropy
        loss = policy_loss + config.value_coef * value_loss - entropy_bonus
        if self._kl_penalty is not None:
            penalty, kl = tf.convert_to_tensor(self._kl_penalty), self._kl(minibatch, policy)  # [M]
            cutoff = config.kl_cutoff_factor * config.kl_target
            loss += objectives.kl_penalty(kl, penalty, cutoff, config.kl_cutoff_coef)
        return loss, {
            "policy": policy_loss,
            "value": value_loss,
            "entropy": entropy,
            "approx_kl": objectives.approximate_kl(log_prob, start_log_prob),
            "clip_fraction": objectives.clip_fraction(log_prob, old_log_prob, clip_ratio),
        }

    def policy_loss(
        self,
        log_prob: tf.Tensor,
        old_log_prob: tf.Tensor,
        advantage: tf.Tensor,
        clip_ratio: tf.Tensor,
    ) -> tf.Tensor:
        """The policy's term, float32 []; override it to change the objective.

        Arguments are those of `objectives.clipped_policy_loss`. `advantage` is standardized unless
        `normalize_advantages` is false.
        """
        return objectives.clipped_policy_loss(log_prob, old_log_prob, advantage, clip_ratio)

    def after_update(self, batch: Batch) -> dict[str, tf.Tensor]:
        """Adapts the KL penalty to the finished update; returns its metrics by tag."""
        if self._kl_penalty is None:
            return {}
        policy, _ = self.network.evaluate(batch.inputs, batch.states, batch.is_first)
        kl = self._reducer.mean(tf.reduce_mean(self._kl(batch, policy)))
        penalty = tf.convert_to_tensor(self._kl_penalty)
        penalty = objectives.adapted_penalty(penalty, kl, self.config.kl_target)
        self._kl_penalty.assign(penalty)
        return {"losses/kl": kl, "schedule/kl_penalty": penalty}

    def variables(self) -> dict[str, tf.Variable]:
        """The state that a checkpoint holds, by name."""
        return {} if self._kl_penalty is None else {"kl_penalty": self._kl_penalty}

    def _kl(self, batch: Batch, policy: Distribution) -> tf.Tensor:
        """KL(old || new) in each state, [M]."""
        return self.network.distribution(batch.old_parameters, batch.inputs).kl(policy)
