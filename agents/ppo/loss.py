"""What an update minimises: a sum of terms, each a small object that the configuration chooses."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from agents.config import Config
from agents.networks.inputs import MASK
from agents.ppo import objectives
from agents.ppo.schedules import Constant, make_schedule
from agents.tools.attr_dict import AttrDict

Scalars = dict[str, tf.Tensor]


class Term:
    """A part of the loss.

    Attributes:
      scalars: Names of the numbers that it reports of every minibatch.
    """

    scalars: tuple[str, ...] = ()

    def __call__(self, data: AttrDict, progress: tf.Tensor) -> tuple[tf.Tensor, Scalars]:
        """From a minibatch, see `Loss`, with `policy`, `log_prob` [M] and `new_value` [M] to a loss and reports, []."""
        raise NotImplementedError

    def after_update(self, batch: AttrDict) -> Scalars:
        """Adapts to what the update has led to for the whole batch, and reports on that, with tags."""
        return {}

    def variables(self) -> dict[str, tf.Variable]:
        """What a checkpoint holds of it, by name."""
        return {}


class ClippedRatio(Term):
    """See `objectives.clipped_policy_loss`."""

    scalars = ("policy", "clip_fraction")

    def __init__(self, clip_ratio: Constant):
        """Takes the schedule of the clipping range."""
        self._clip_ratio = clip_ratio

    def __call__(self, data: AttrDict, progress: tf.Tensor) -> tuple[tf.Tensor, Scalars]:
        """See `Term`."""
        clip_ratio = self._clip_ratio(progress)
        loss = objectives.clipped_policy_loss(data.log_prob, data.old_log_prob, data.advantage, clip_ratio)
        outside = objectives.clip_fraction(data.log_prob, data.old_log_prob, clip_ratio)
        return loss, {"policy": loss, "clip_fraction": outside}


class PlainRatio(Term):
    """See `objectives.policy_loss`."""

    scalars = ("policy",)

    def __call__(self, data: AttrDict, progress: tf.Tensor) -> tuple[tf.Tensor, Scalars]:
        """See `Term`."""
        loss = objectives.policy_loss(data.log_prob, data.old_log_prob, data.advantage)
        return loss, {"policy": loss}


class KLPenalty(Term):
    """Penalty on the exact KL divergence from the policy that acted, adapted after every update.

    See `objectives.kl_penalty` and `objectives.adapted_penalty`. The cutoff is looked at for the mean of a minibatch,
    which has no whole episodes; the original did so for every episode.
    """

    def __init__(self, network: Any, config: Config):
        """Takes what evaluates batches, and the `kl_` settings."""
        self._network, self._kl_target = network, config.kl_target
        self._cutoff, self._cutoff_coef = config.kl_cutoff_factor * config.kl_target, config.kl_cutoff_coef
        self._penalty = tf.Variable(config.kl_init_penalty, trainable=False)

    def __call__(self, data: AttrDict, progress: tf.Tensor) -> tuple[tf.Tensor, Scalars]:
        """See `Term`."""
        penalty = tf.convert_to_tensor(self._penalty)
        return objectives.kl_penalty(self._kl(data, data.policy), penalty, self._cutoff, self._cutoff_coef), {}

    def after_update(self, batch: AttrDict) -> Scalars:
        """See `Term`."""
        kl = tf.reduce_mean(self._kl(batch, self._network.evaluate(batch)[0]))
        self._penalty.assign(objectives.adapted_penalty(tf.convert_to_tensor(self._penalty), kl, self._kl_target))
        return {"losses/kl": kl, "schedule/kl_penalty": tf.convert_to_tensor(self._penalty)}

    def variables(self) -> dict[str, tf.Variable]:
        """See `Term`."""
        return {"kl_penalty": self._penalty}

    def _kl(self, data: AttrDict, policy: Any) -> tf.Tensor:
        """KL(old || new) in every state, [M]."""
        return self._network.family.distribution(data.old_parameters, data.observ.get(MASK)).kl(policy)


class SquaredValueError(Term):
    """See `objectives.value_loss`; weighted in the loss, but not in the report."""

    scalars = ("value",)

    def __init__(self, coef: float, value_clip: float):
        """Takes the weight, and how far values may move."""
        self._coef, self._value_clip = coef, value_clip

    def __call__(self, data: AttrDict, progress: tf.Tensor) -> tuple[tf.Tensor, Scalars]:
        """See `Term`."""
        loss = objectives.value_loss(data.new_value, data.value, data.target, self._value_clip)
        return self._coef * loss, {"value": loss}


class EntropyBonus(Term):
    """The policy's mean entropy, negated and weighted; reported as it is."""

    scalars = ("entropy",)

    def __init__(self, coef: Constant):
        """Takes the schedule of the weight."""
        self._coef = coef

    def __call__(self, data: AttrDict, progress: tf.Tensor) -> tuple[tf.Tensor, Scalars]:
        """See `Term`."""
        entropy = tf.reduce_mean(data.policy.entropy())
        return -self._coef(progress) * entropy, {"entropy": entropy}


class Loss:
    """A sum of terms, for minibatches.

    A minibatch has what the network evaluates, and of every element the `sample`, its `old_log_prob`, the old `value`,
    `advantage` and `target`; for a KL penalty also `old_parameters` and, where actions are masked, `mask`.

    Attributes:
      scalars: Names of the numbers that it reports of every minibatch.
    """

    def __init__(self, network: Any, terms: list[Term], normalize_advantages: bool):
        """Takes what evaluates minibatches, the terms, and whether advantages are standardised in each minibatch."""
        self._network, self._terms, self._normalize_advantages = network, terms, normalize_advantages
        self.scalars = (*(name for term in terms for name in term.scalars), "approx_kl")

    def __call__(self, minibatch: AttrDict, progress: tf.Tensor) -> tuple[tf.Tensor, Scalars]:
        """From leaves [M, ...] to the loss [] and the numbers to report, [] each."""
        policy, value = self._network.evaluate(minibatch)
        log_prob = policy.log_prob(minibatch.sample)
        data = AttrDict(minibatch, policy=policy, log_prob=log_prob, new_value=value)
        if self._normalize_advantages:
            data["advantage"] = objectives.standardize(minibatch.advantage)
        losses, scalars = zip(*(term(data, progress) for term in self._terms), strict=True)
        approx_kl = objectives.approximate_kl(log_prob, minibatch.old_log_prob)
        reports = {name: value for report in scalars for name, value in report.items()}
        return tf.add_n(losses), {**reports, "approx_kl": approx_kl}

    def after_update(self, batch: AttrDict) -> Scalars:
        """Adapts terms to what the update has led to for the whole batch, and reports on that, with tags."""
        return {tag: value for term in self._terms for tag, value in term.after_update(batch).items()}

    def variables(self) -> dict[str, tf.Variable]:
        """What a checkpoint holds of it, by name."""
        return {name: variable for term in self._terms for name, variable in term.variables().items()}


def make_loss(network: Any, config: Config) -> Loss:
    """The loss that the configuration describes, for a network with `evaluate` and `family`."""
    clip_ratio = make_schedule(config.clip_ratio_schedule, config.clip_ratio)
    ratio = PlainRatio() if config.objective == "kl" else ClippedRatio(clip_ratio)
    penalty = [] if config.objective == "clip" else [KLPenalty(network, config)]
    value = SquaredValueError(config.value_coef, config.value_clip)
    entropy = EntropyBonus(make_schedule(config.entropy_coef_schedule, config.entropy_coef))
    return Loss(network, [ratio, *penalty, value, entropy], config.normalize_advantages)
