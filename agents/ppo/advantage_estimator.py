"""Values, advantages and value targets of a rollout, under the value function as it is."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from agents.graph.transition import Rollout
from agents.learning.masked import is_mask, masked, outcome_mask, steps_before
from agents.learning.normalization import ValueNormalizer
from agents.learning.returns import generalized_advantages, successor_values
from agents.policies.actor_critic import States
from agents.policies.inputs import NetworkInputs
from agents.policies.policy import Policy
from agents.policies.recurrent_cells import reset_state
from agents.policies.sequences import flatten_time
from agents.settings.config import Config


class Observed(NamedTuple):
    """What the value function sees of a rollout, and the rewards.

    Attributes:
      rollout: The rollout, [T, B, ...].
      inputs: Normalized network inputs of its observations, [T, B, ...].
      final_inputs: Those of the final observations before normalization, [T, B, ...].
      last_inputs: Those of the observations after the rollout before normalization, [B, ...].
      reward: Normalized rewards, float32 [T, B].
      is_first: bool [T, B], whether a step is the first of an episode that starts in the rollout.
      start_states: Recurrent state before the rollout, [B, U].
    """

    rollout: Rollout
    inputs: NetworkInputs
    final_inputs: NetworkInputs
    last_inputs: NetworkInputs
    reward: tf.Tensor
    is_first: tf.Tensor
    start_states: States


class Estimates(NamedTuple):
    """What is estimated of a rollout.

    Attributes:
      value: float32 [T, B], V(observ).
      advantage: float32 [T, B].
      target: Value targets, float32 [T, B].
      states: The value function's recurrent state after each step, [T, B, U].
      last_states: That before the next rollout, [B, U].
    """

    value: tf.Tensor
    advantage: tf.Tensor
    target: tf.Tensor
    states: States
    last_states: States


class AdvantageEstimator:
    """Estimates advantages by a value function that bootstraps what a rollout leaves open."""

    def __init__(self, policy: Policy, value_normalizer: ValueNormalizer, config: Config):
        """Estimates with the value function of a policy, whose values are normalized."""
        self._policy, self._network, self._config = policy, policy.network, config
        self._value_normalizer = value_normalizer

    def estimate(self, observed: Observed) -> Estimates:
        """Estimates values, advantages and value targets with the weights of the moment."""
        normalized, states = self._network.values(
            observed.inputs, observed.start_states, observed.is_first
        )
        value = self._value_normalizer.denormalize(normalized)  # [T, B]
        rollout, done = observed.rollout, observed.rollout.done
        # Before any reset: the final observation continues the episode that ended.
        final_value = self._final_values(observed, states)  # [T, B]
        last_states = {
            name: reset_state(tuple(part[-1] for part in state), done[-1])
            for name, state in states.items()
        }  # [B, U]
        last_value = self._value_of(observed.last_inputs, last_states)  # [B]
        next_value = successor_values(
            value, final_value, last_value, rollout.terminated, rollout.truncated
        )  # [T, B]
        valid = outcome_mask(rollout.restarted)  # [T, B]
        # Cut before a step without an outcome, too: V(observ) of that step is the bootstrap.
        cut = done | steps_before(rollout.restarted) if is_mask(valid) else done  # [T, B]
        decay = self._config.discount, self._config.gae_lambda
        advantage = generalized_advantages(observed.reward, value, next_value, cut, *decay)
        advantage = masked(advantage, valid)  # [T, B]
        return Estimates(value, advantage, advantage + value, states, last_states)

    def _value_of(self, inputs: NetworkInputs, states: States) -> tf.Tensor:
        """Values [N] of inputs before normalization [N, ...]."""
        normalized = self._network.value(self._policy.normalize(inputs), states)
        return self._value_normalizer.denormalize(normalized)

    def _final_values(self, observed: Observed, states: States) -> tf.Tensor:
        """Values [T, B] of final observations; those of images only where an episode was cut.

        Elsewhere values of final observations do not count. Programs of XLA need fixed shapes, but
        images do without XLA, and a convolution of each takes long.
        """
        truncated = observed.rollout.truncated  # [T, B]
        inputs, states = flatten_time((observed.final_inputs, states))  # [T * B, ...]
        if not self._network.convolves:
            return tf.reshape(self._value_of(inputs, states), truncated.shape)
        # And one: TensorFlow's convolutions in sequence fail without any image.
        cut = tf.where(tf.reshape(truncated, [-1]) | (tf.range(tf.size(truncated)) == 0))  # [K, 1]
        inputs, states = tf.nest.map_structure(
            lambda leaf: tf.gather_nd(leaf, cut), (inputs, states)
        )  # [K, ...]
        zeros = tf.zeros([truncated.shape.num_elements()])
        values = tf.tensor_scatter_nd_update(zeros, cut, self._value_of(inputs, states))  # [T * B]
        return tf.reshape(values, truncated.shape)
