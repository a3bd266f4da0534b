"""What an update minimises: policy loss, value loss and entropy bonus, and penalties where there are any."""

from __future__ import annotations

import math
from typing import Any

import tensorflow as tf

from agents.config import Config
from agents.ppo import objectives
from agents.ppo.schedules import Constant, make_schedule
from agents.tools.attr_dict import AttrDict

Scalars = dict[str, tf.Tensor]


class KLPenalty:
    """Penalty on the exact KL divergence from the policy that acted, adapted after every update.

    See `objectives.kl_penalty` and `objectives.adapted_penalty`. The cutoff is looked at for the mean of a minibatch,
    which has no whole episodes; batch-ppo does so for every episode.
    """

    def __init__(self, network: Any, config: Config):
        """Takes what evaluates batches, and the `kl_` settings."""
        self._network, self._config = network, config
        self._penalty = tf.Variable(config.kl_init_penalty, trainable=False)

    def __call__(self, minibatch: AttrDict, policy: Any) -> tf.Tensor:
        """The loss [] of the new policy for a minibatch."""
        cutoff, penalty = self._config.kl_cutoff_factor * self._config.kl_target, tf.convert_to_tensor(self._penalty)
        return objectives.kl_penalty(self._kl(minibatch, policy), penalty, cutoff, self._config.kl_cutoff_coef)

    def after_update(self, batch: AttrDict) -> Scalars:
        """Adapts to the divergence that the update has led to for the whole batch, and reports it, with tags."""
        kl = tf.reduce_mean(self._kl(batch, self._network.evaluate(batch)[0]))
        penalty = objectives.adapted_penalty(tf.convert_to_tensor(self._penalty), kl, self._config.kl_target)
        self._penalty.assign(penalty)
        return {"losses/kl": kl, "schedule/kl_penalty": penalty}

    def variables(self) -> dict[str, tf.Variable]:
        """What a checkpoint holds of it, by name."""
        return {"kl_penalty": self._penalty}

    def _kl(self, batch: AttrDict, policy: Any) -> tf.Tensor:
        """KL(old || new) in every state, [M]."""
        return self._network.distribution(batch.old_parameters, batch.observ).kl(policy)


class Loss:
    """Policy loss, value loss and entropy bonus, weighted, and penalties.

    A minibatch has what the network evaluates, and of every element the `sample`, its `old_log_prob`, the old `value`,
    `advantage` and `target`; for a KL penalty also `old_parameters`.

    Attributes:
      scalars: Names of the numbers that it reports of every minibatch.
    """

    scalars: tuple[str, ...] = ("policy", "value", "entropy", "approx_kl", "clip_fraction")

    def __init__(
        self, network: Any, config: Config, clip_ratio: Constant, entropy_coef: Constant, penalties: list[KLPenalty]
    ):
        """Takes what evaluates minibatches, the settings that stay, schedules of those that may not, and penalties."""
        self._network, self._config = network, config
        self._clip_ratio, self._entropy_coef, self._penalties = clip_ratio, entropy_coef, penalties

    def __call__(self, minibatch: AttrDict, progress: tf.Tensor) -> tuple[tf.Tensor, Scalars]:
        """From leaves [M, ...] and the training's progress [] to the loss [] and the numbers to report, [] each."""
        config, clip_ratio = self._config, self._clip_ratio(progress)
        policy, value = self._network.evaluate(minibatch)
        log_prob, old_log_prob = policy.log_prob(minibatch.sample), minibatch.old_log_prob  # [M]
        advantage = minibatch.advantage
        if config.normalize_advantages:
            advantage = objectives.standardize(advantage)
        policy_loss = objectives.clipped_policy_loss(log_prob, old_log_prob, advantage, clip_ratio)
        value_loss = objectives.value_loss(value, minibatch.value, minibatch.target, config.value_clip)
        entropy = tf.reduce_mean(policy.entropy())
        loss = policy_loss + config.value_coef * value_loss - self._entropy_coef(progress) * entropy
        for penalty in self._penalties:
            loss += penalty(minibatch, policy)
        return loss, {
            "policy": policy_loss,
            "value": value_loss,
            "entropy": entropy,
            "approx_kl": objectives.approximate_kl(log_prob, old_log_prob),
            "clip_fraction": objectives.clip_fraction(log_prob, old_log_prob, clip_ratio),
        }

    def after_update(self, batch: AttrDict) -> Scalars:
        """Adapts penalties to what the update has led to for the whole batch, and reports on that, with tags."""
        return {tag: value for penalty in self._penalties for tag, value in penalty.after_update(batch).items()}

    def variables(self) -> dict[str, tf.Variable]:
        """What a checkpoint holds of it, by name."""
        return {name: variable for penalty in self._penalties for name, variable in penalty.variables().items()}


def make_loss(network: Any, config: Config) -> Loss:
    """The loss that the configuration describes, for a network with `evaluate` and `distribution`."""
    clip_ratio = make_schedule(config.clip_ratio_schedule, config.clip_ratio)
    return Loss(
        network,
        config,
        Constant(math.inf) if config.objective == "kl" else clip_ratio,
        make_schedule(config.entropy_coef_schedule, config.entropy_coef),
        [] if config.objective == "clip" else [KLPenalty(network, config)],
    )
