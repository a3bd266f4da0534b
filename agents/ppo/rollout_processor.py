"""From a rollout to a training batch: log-probabilities, values, advantages and value targets."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from agents.distributions.distribution import Distribution
from agents.graph.transition import Rollout
from agents.learning.masked import Mask, is_mask, masked
from agents.learning.normalization import RewardNormalizer, ValueNormalizer
from agents.learning.reduction import SINGLE_LEARNER, Reducer
from agents.learning.returns import (
    Weights,
    generalized_advantages,
    successor_values,
    weighted,
)
from agents.policies.actor_critic import States
from agents.policies.inputs import MASK, NetworkInputs
from agents.policies.policy import Policy
from agents.policies.recurrent_cells import reset_state
from agents.ppo.batch import Batch
from agents.ppo.sequences import flatten_time, states_before, to_sequences
from agents.settings.config import Config
from agents.settings.derived import sequence_length
from agents.types import NestedTensor

Arrays = dict[str, tf.Tensor]


class Experience(NamedTuple):
    """A rollout as the policy saw it.

    Attributes:
      rollout: The rollout, [T, B, ...].
      inputs: Network inputs of its observations before normalization, [T, B, ...].
      final_inputs: Those of the final observations, [T, B, ...].
      last_inputs: Those of the observations after the rollout, [B, ...].
      sample: Structure [T, B, ...], the policy's samples.
      states: The policy's recurrent state before the rollout, [B, U].
    """

    rollout: Rollout
    inputs: NetworkInputs
    final_inputs: NetworkInputs
    last_inputs: NetworkInputs
    sample: NestedTensor
    states: States


class Acting(NamedTuple):
    """The policy that acted, or the one before the update, as seen in a rollout.

    Attributes:
      distribution: Its distributions [T, B].
      parameters: Their parameters, [T, B, size] each, or [size] if the same for all steps.
      log_prob: float32 [T, B], log-probabilities of the samples.
      states: Its recurrent state after each step, [T, B, U].
      importance: See `Batch`, [T, B].
    """

    distribution: Distribution
    parameters: list[tf.Tensor]
    log_prob: tf.Tensor
    states: States
    importance: Weights = ()


class RolloutProcessor:
    """Turns a rollout into a training batch and updates the normalizers.

    Attributes:
      value_states: Recurrent state of the value function before the next rollout, variables
        [B, U], of the environments of all learners; empty without one, or where the policy's is
        shared.
    """

    def __init__(
        self,
        policy: Policy,
        num_envs: int,
        config: Config,
        reducer: Reducer = SINGLE_LEARNER,
        behavior: Policy | None = None,
    ):
        """Starts without statistics.

        Args:
          policy: The policy that learns.
          num_envs: Number of environments of this learner, B.
          config: The experiment's settings.
          reducer: Combines the normalizers' statistics of several learners.
          behavior: The policy that acted; by default the one that learns.
        """
        self._policy, self._network, self._config = policy, policy.network, config
        self._behavior = behavior or policy
        self._reward_normalizer = RewardNormalizer(
            num_envs, config.discount, config.reward_clip, config.normalize_reward, reducer
        )
        self._value_normalizer = ValueNormalizer(config.normalize_value, reducer)
        self._reducer = reducer
        zero_states = self._network.zero_states(num_envs * reducer.num_learners)
        self.value_states = {
            name: tuple(tf.Variable(zeros, trainable=False) for zeros in state)
            for name, state in zero_states.items()
            if name == "value"
        }

    def process(self, experience: Experience) -> tuple[Batch, Arrays]:
        """Turns a rollout into a training batch.

        Args:
          experience: The rollout as the policy saw it, [T, B, ...].

        Returns:
          A batch of T * B steps, or of T * B / L sequences; and arrays for histograms by tag.
        """
        rollout = experience.rollout
        # Recurrent states before the rollout are known, so that no step needs a reset at its start.
        is_first = tf.concat([tf.zeros_like(rollout.done[:1]), rollout.done[:-1]], axis=0)  # [T, B]
        behavior = self._evaluate(self._behavior, experience, is_first)
        # The policy acted with the statistics of that time; the update uses the new ones (as Brax).
        self._policy.update_normalizer(flatten_time(experience.inputs))
        inputs = self._policy.normalize(experience.inputs)  # [T, B, ...]
        acting = self._before_update(behavior, experience, is_first)
        value_states = tf.nest.map_structure(self._own, self.value_states)
        start_states = {**value_states, **experience.states}
        value, value_states = self._values(inputs, start_states, is_first)  # [T, B]
        states = {**acting.states, **value_states}  # [T, B, U]
        advantage = self._advantages(experience, value, states, acting.importance)  # [T, B]
        target = weighted(advantage, acting.importance) + value  # [T, B]
        valid = outcome_mask(rollout)  # [T, B]
        self._value_normalizer.update(target, valid)
        steps = Batch(
            advantage=advantage,
            is_first=(),
            inputs=inputs,
            old_log_prob=acting.log_prob,
            old_parameters=tuple(
                _broadcast_to_steps(parameter, rollout.done) for parameter in acting.parameters
            ),
            sample=experience.sample,
            states={},
            target=self._value_normalizer.normalize(target),
            value=self._value_normalizer.normalize(value),
            valid=valid,
            importance=acting.importance,
        )
        returns = {"reward": rollout.reward, "value": value, "return": target}
        arrays = self._arrays(experience, steps, {**returns, **acting.distribution.statistics()})
        return self._to_elements(steps, states, start_states, is_first), arrays

    def reset_episode_state(self) -> None:
        """Clears running sums and recurrent state after all environments were reset."""
        self._reward_normalizer.reset_episode_state()
        for variable in tf.nest.flatten(self.value_states):
            variable.assign(tf.zeros_like(variable))

    def variables(self) -> dict[str, tf.Variable]:
        """The state that a checkpoint holds, by name."""
        states = tf.nest.flatten(self.value_states)
        groups = {
            "normalize_reward": self._reward_normalizer.variables(),
            "normalize_value": self._value_normalizer.variables(),
            "value_states": {str(index): state for index, state in enumerate(states)},
        }
        return {
            f"{group}/{name}": groups[group][name] for group in groups for name in groups[group]
        }

    def _evaluate(self, policy: Policy, experience: Experience, is_first: tf.Tensor) -> Acting:
        """Evaluates a policy, with the normalizer's statistics as they are."""
        network, inputs = policy.network, policy.normalize(experience.inputs)  # [T, B, ...]
        parameters, states = network.policies(inputs, experience.states, is_first)
        distribution = network.distribution(parameters, inputs)
        log_prob = distribution.log_prob(experience.sample)  # [T, B]
        return Acting(distribution, parameters, log_prob, states)

    def _before_update(
        self, behavior: Acting, experience: Experience, is_first: tf.Tensor
    ) -> Acting:
        """The policy before the update, which ratios and KL divergences refer to.

        That is the policy that acted, or is one update ahead of it. The latter is the proximal policy
        of the decoupled objective (Hilton et al., 2022, arXiv 2110.00641): the update stays near it,
        whatever acted, and weights correct for that, in advantages and value targets, too. They are
        truncated at 1, as those of V-trace (Espeholt et al., 2018, arXiv 1802.01561).
        """
        if self._behavior is self._policy:
            return behavior
        proximal = self._evaluate(self._policy, experience, is_first)
        importance = tf.minimum(tf.exp(proximal.log_prob - behavior.log_prob), 1.0)  # [T, B]
        return proximal._replace(importance=importance)

    def _own(self, states: tf.Variable) -> tf.Tensor:
        return self._reducer.own(tf.convert_to_tensor(states))

    def _values(
        self, inputs: NetworkInputs, start_states: States, is_first: tf.Tensor
    ) -> tuple[tf.Tensor, States]:
        """Values [T, B], and the value function's recurrent state after each step, [T, B, U]."""
        normalized, states = self._network.values(inputs, start_states, is_first)
        return self._value_normalizer.denormalize(normalized), states

    def _value_of(self, inputs: NetworkInputs, states: States) -> tf.Tensor:
        """Values [N] of inputs before normalization [N, ...]."""
        normalized = self._network.value(self._policy.normalize(inputs), states)
        return self._value_normalizer.denormalize(normalized)

    def _advantages(
        self, experience: Experience, value: tf.Tensor, states: States, importance: Weights
    ) -> tf.Tensor:
        """Advantages of normalized rewards, and the recurrent state of the next rollout.

        Args:
          experience: The rollout, [T, B, ...].
          value: float32 [T, B].
          states: Recurrent state after each step, before any reset, [T, B, U]: the final
            observation continues the episode that ended.
          importance: See `Batch`, [T, B].

        Returns:
          float32 [T, B].
        """
        rollout, done = experience.rollout, experience.rollout.done
        final_value = self._final_values(experience, states)  # [T, B]
        last_states = {
            name: reset_state(tuple(part[-1] for part in state), done[-1])
            for name, state in states.items()
        }  # [B, U]
        last_value = self._value_of(experience.last_inputs, last_states)  # [B]
        for name, variables in self.value_states.items():
            for variable, part in zip(variables, last_states[name], strict=True):
                variable.assign(self._reducer.gather(part))
        valid = outcome_mask(rollout)  # [T, B]
        reward = self._reward_normalizer.normalize(rollout.reward, done, valid)  # [T, B]
        next_value = successor_values(
            value, final_value, last_value, rollout.terminated, rollout.truncated
        )  # [T, B]
        # Cut before a step without an outcome, too: V(observ) of that step is the bootstrap.
        cut = done | steps_before(rollout.restarted) if is_mask(valid) else done  # [T, B]
        decay = self._config.discount, self._config.gae_lambda
        advantage = generalized_advantages(reward, value, next_value, cut, *decay, importance)
        return masked(advantage, valid)

    def _final_values(self, experience: Experience, states: States) -> tf.Tensor:
        """Values [T, B] of final observations; those of images only where an episode was cut.

        Elsewhere values of final observations do not count. Programs of XLA need fixed shapes, but
        images do without XLA, and a convolution of each takes long.
        """
        truncated = experience.rollout.truncated  # [T, B]
        inputs, states = flatten_time((experience.final_inputs, states))  # [T * B, ...]
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

    def _to_elements(
        self, steps: Batch, states: States, start_states: States, is_first: tf.Tensor
    ) -> Batch:
        """Reshapes leaves [T, B, ...] to the elements that minibatches are drawn from."""
        if not self._network.recurrent:
            return flatten_time(steps)
        length = sequence_length(self._config)
        sequences = to_sequences(steps._replace(is_first=is_first), length)
        return sequences._replace(states=states_before(states, start_states, is_first, length))

    def _arrays(self, experience: Experience, steps: Batch, others: Arrays) -> Arrays:
        """Arrays for histograms by tag.

        Of images only those of the last step are reported, since copying all takes long.
        """
        inputs = experience.inputs
        images = {name: inputs[name][-1] for name in inputs if name not in ("vector", MASK)}
        vectors: Arrays = {}
        if "vector" in inputs:
            vectors["observ"] = inputs["vector"]
            vectors["normalized_observ"] = steps.inputs["vector"]
        samples = tf.nest.flatten(steps.sample)
        actions = {f"action_{index}" if index else "action": s for index, s in enumerate(samples)}
        update = {"log_prob": steps.old_log_prob, "advantage": steps.advantage}
        if not isinstance(steps.importance, tuple):
            update["importance"] = steps.importance
        rollout = {**images, **flatten_time({**others, **vectors, **actions, **update})}
        arrays = {f"rollout/{name}": array for name, array in rollout.items()}
        for normalizer in (
            self._policy.observ_normalizer,
            self._reward_normalizer,
            self._value_normalizer,
        ):
            statistics = normalizer.statistics()
            arrays |= {f"statistics/{name}": statistics[name] for name in statistics}
        return arrays


def outcome_mask(rollout: Rollout) -> Mask:
    """Which steps have an outcome, bool [T, B]; () if environments are not restarted."""
    return ~rollout.restarted if is_mask(rollout.restarted) else ()


def steps_before(mask: tf.Tensor) -> tf.Tensor:
    """Which steps are followed by one that is set in a mask, bool [T, B]."""
    return tf.concat([mask[1:], tf.zeros_like(mask[:1])], axis=0)


def _broadcast_to_steps(parameter: tf.Tensor, done: tf.Tensor) -> tf.Tensor:
    """A distribution's parameter as [T, B, size], also where it is [size] for all steps."""
    return tf.broadcast_to(parameter, [*done.shape, parameter.shape[-1]])
