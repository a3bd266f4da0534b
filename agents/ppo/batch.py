"""The batch that an update learns from."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from agents.learning.masked import Mask
from agents.policies.actor_critic import States
from agents.policies.inputs import NetworkInputs
from agents.types import NestedTensor


class Targets(NamedTuple):
    """What of a batch depends on the value function; see `Batch`."""

    advantage: tf.Tensor
    target: tf.Tensor
    value: tf.Tensor


class Batch(NamedTuple):
    """Single steps, or sequences of L steps for recurrent networks.

    Shapes are those of a minibatch of M steps. For sequences, read [N, L] for [M].

    Attributes:
      advantage: float32 [M].
      is_first: bool [N, L], whether a step is the first of an episode; () for single steps.
      inputs: Normalized network inputs [M, ...].
      old_log_prob: float32 [M], log-probabilities of the samples before the update.
      old_parameters: Parameters of the policy's distributions before the update, [M, size] each.
      sample: Structure [M, ...], the samples of the policy that acted.
      states: Recurrent state before each sequence, [N, U]; empty for single steps.
      target: float32 [M], normalized value targets.
      value: float32 [M], normalized values before the update.
      valid: bool [M], whether a step has an outcome; its advantage is 0 otherwise, and its target
        means nothing. () if all have one, see `StepResult.restarted`.
      start_parameters: Parameters of the policy's distributions before the update, of `inputs`,
        [M, size] each. `old_parameters` are of inputs with the normalizer's statistics of acting
        time. () without a setting that needs them, see `limits_kl`.
    """

    # Loop variables of the compiled update have this order; changing it changes rounding.
    advantage: tf.Tensor
    is_first: tf.Tensor
    inputs: NetworkInputs
    old_log_prob: tf.Tensor
    old_parameters: tuple[tf.Tensor, ...]
    sample: NestedTensor
    states: States
    target: tf.Tensor
    value: tf.Tensor
    valid: Mask = ()
    start_parameters: tuple[tf.Tensor, ...] = ()
