"""From a rollout to the batch that an update learns from."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

from agents.graph.step import Rollout
from agents.learning.grouped_variables import grouped
from agents.learning.normalization import RewardNormalizer, ValueNormalizer
from agents.learning.reduction import SINGLE_LEARNER, Mask, Reducer, is_mask, masked
from agents.learning.returns import generalized_advantages, successor_values
from agents.policies.actor_critic import States
from agents.policies.inputs import CRITIC, NetworkInputs
from agents.policies.policy import Policy
from agents.policies.recurrent_cells import reset_state
from agents.policies.sequences import flatten_time, states_before, to_elements
from agents.settings.config import Config, limits_kl, sequence_length
from agents.types import NestedTensor

Tensors = dict[str, tf.Tensor]


class Batch(NamedTuple):
    """Single steps, or sequences of L steps for recurrent networks.

    Shapes are those of a minibatch of M steps; for recurrent networks it has N sequences of L
    steps, [N, L] in place of [M].

    Attributes:
      advantage: float32 [M].
      is_first: bool [N, L], whether a step is the first of an episode; () for single steps.
      inputs: Normalized network inputs [M, ...].
      old_log_prob: float32 [M], log-probabilities of the samples under the policy that acted.
      old_parameters: Parameters of the distributions of the policy that acted, [M, size] each.
      sample: Structure [M, ...], the samples of the policy that acted.
      states: Recurrent state before each sequence, [N, U]; empty for single steps.
      target: float32 [M], normalized value targets.
      value: float32 [M], normalized values before the update.
      valid: bool [M], whether a step has an outcome; otherwise its advantage is 0 and its target
        is meaningless. () if all have one, see `Step.restarted`.
      start_log_prob: float32 [M], log-probabilities of the samples under the policy before the
        update, for the same `inputs`. `old_log_prob` is for inputs normalized with the statistics
        of acting time. () unless `limits_kl`.
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
    start_log_prob: tf.Tensor | tuple[()] = ()


class RolloutProcessor:
    """Turns rollouts into batches; keeps normalizers and the value function's recurrent state.

    Attributes:
      value_states: Recurrent state of the value function before the next rollout, variables
        [B, U], of the environments of all learners; empty without one, or where the policy's is
        shared.
    """

    def __init__(
        self, policy: Policy, num_envs: int, config: Config, reducer: Reducer = SINGLE_LEARNER
    ):
        """Starts without statistics.

        Args:
          policy: The policy that acts and learns.
          num_envs: Number of environments of this learner, B.
          config: The experiment's settings.
          reducer: Combines the normalizers' statistics of several learners.
        """
        self._policy, self._network, self._config = policy, policy.network, config
        self._reducer = reducer
        num_envs *= reducer.num_learners
        self._reward_normalizer = RewardNormalizer(
            num_envs, config.discount, config.reward_clip, config.normalize_reward
        )
        self._value_normalizer = ValueNormalizer(config.normalize_value)
        self._length = sequence_length(config) if self._network.recurrent else 0
        zeros = self._network.zero_states(num_envs).get("value")
        state = tuple(tf.Variable(part, trainable=False) for part in zeros or ())
        self.value_states = {"value": state} if state else {}

    def process(
        self, rollout: Rollout, last_observ: NestedTensor, sample: NestedTensor, states: States
    ) -> tuple[Batch, Tensors, Callable[[], Tensors]]:
        """Turns a rollout into a batch.

        Args:
          rollout: The rollout, [T, B, ...].
          last_observ: Structure [B, ...], the observations after it.
          sample: Structure [T, B, ...], the policy's samples.
          states: The policy's recurrent state before the rollout, [B, U].

        Returns:
          A batch of T * B steps, or of T * B / L sequences; arrays for histograms by tag; and a
          function that estimates `advantage`, `target` and `value` of the batch again, with the
          current weights.
        """
        policy, network, config = self._policy, self._network, self._config
        convert = functools.partial(policy.inputs.convert, critic=True)
        observed = convert(rollout.observ)  # [T, B, ...]
        final_inputs, last_inputs = convert(rollout.final_observ), convert(last_observ)
        done, restarted = rollout.done, rollout.restarted  # [T, B]
        valid = ~restarted if is_mask(restarted) else ()  # [T, B]
        # Not of step 0: the state before the rollout was reset where its episode began.
        is_first = tf.concat([tf.zeros_like(done[:1]), done[:-1]], axis=0)  # [T, B]

        # The policy acted with the statistics of that time; the update uses the new ones (as Brax).
        inputs = policy.normalize(observed)  # [T, B, ...]
        parameters, policy_states = network.policies(inputs, states, is_first)
        distribution = network.distribution(parameters, inputs)
        old_log_prob = distribution.log_prob(sample)  # [T, B]
        policy.update_normalizers(flatten_time(observed), self._reducer)
        inputs = policy.normalize(observed)  # [T, B, ...]

        start_states = {**tf.nest.map_structure(self._own, self.value_states), **states}  # [B, U]
        reward = self._reward_normalizer.update_and_normalize(
            rollout.reward, done, valid, self._reducer
        )  # [T, B]

        def estimate() -> tuple[tf.Tensor, tf.Tensor, States, States]:
            """Values and advantages [T, B], and recurrent states of the value function.

            The latter are those after each step, [T, B, U], and before the next rollout, [B, U].
            """
            normalized, value_states = network.values(inputs, start_states, is_first)
            value = self._value_normalizer.denormalize(normalized)  # [T, B]
            # Before any reset: the final observation continues the episode that ended.
            final_value = self._final_values(rollout.truncated, final_inputs, value_states)
            last_states = {
                name: reset_state(tuple(part[-1] for part in state), done[-1])
                for name, state in value_states.items()
            }  # [B, U]
            last_value = self._values(last_inputs, last_states)  # [B]
            next_value = successor_values(
                value, final_value, last_value, rollout.terminated, rollout.truncated
            )  # [T, B]
            cut = done  # [T, B]
            # A restarted step has no reward: advantages end with the step before it.
            if is_mask(restarted):
                cut |= tf.concat([restarted[1:], tf.zeros_like(restarted[:1])], axis=0)
            decay = config.discount, config.gae_lambda
            advantage = generalized_advantages(reward, value, next_value, cut, *decay)
            return value, masked(advantage, valid), value_states, last_states

        value, advantage, value_states, last_states = estimate()
        target = advantage + value  # [T, B]
        for name, variables in self.value_states.items():
            for variable, part in zip(variables, last_states[name], strict=True):
                variable.assign(self._reducer.gather(part))
        self._value_normalizer.update(target, valid, self._reducer)

        def targets(value: tf.Tensor, advantage: tf.Tensor) -> Tensors:
            """Fields of the batch that depend on the value function, [T, B]."""
            normalize = self._value_normalizer.normalize
            target = normalize(advantage + value)
            return {"advantage": advantage, "target": target, "value": normalize(value)}

        steps = Batch(
            is_first=(),
            inputs=inputs,
            old_log_prob=old_log_prob,
            old_parameters=tuple(
                # Some are [size], the same for all steps.
                tf.broadcast_to(parameter, [*done.shape, parameter.shape[-1]])
                for parameter in parameters
            ),
            sample=sample,
            states={},
            **targets(value, advantage),
            valid=valid,
        )
        others = {"reward": rollout.reward, "value": value, "return": target}
        arrays = self._arrays(observed, steps, {**others, **distribution.statistics()})
        if self._length:
            after = {**policy_states, **value_states}  # [T, B, U]
            batch = to_elements(steps._replace(is_first=is_first), self._length)._replace(
                states=states_before(after, start_states, is_first, self._length)
            )
        else:
            batch = to_elements(steps)
        if limits_kl(config):
            policy_before, _ = network.evaluate(batch.inputs, batch.states, batch.is_first)
            batch = batch._replace(start_log_prob=policy_before.log_prob(batch.sample))
        return batch, arrays, lambda: to_elements(targets(*estimate()[:2]), self._length)

    def reset_episode_state(self) -> None:
        """Clears running sums and recurrent state after all environments were reset."""
        self._reward_normalizer.reset_episode_state()
        for variable in tf.nest.flatten(self.value_states):
            variable.assign(tf.zeros_like(variable))

    def variables(self) -> dict[str, tf.Variable]:
        """The state that a checkpoint holds, by name."""
        states = tf.nest.flatten(self.value_states)
        return grouped(
            normalize_reward=self._reward_normalizer.variables(),
            normalize_value=self._value_normalizer.variables(),
            value_states={str(index): state for index, state in enumerate(states)},
        )

    def _own(self, states: tf.Variable) -> tf.Tensor:
        return self._reducer.own(tf.convert_to_tensor(states))

    def _values(self, inputs: NetworkInputs, states: States) -> tf.Tensor:
        """Values [N] of inputs before normalization [N, ...]."""
        normalized = self._network.value(self._policy.normalize(inputs), states)
        return self._value_normalizer.denormalize(normalized)

    def _final_values(
        self, truncated: tf.Tensor, inputs: NetworkInputs, states: States
    ) -> tf.Tensor:
        """Values [T, B] of final observations; those of images only where an episode was cut.

        Elsewhere values of final observations do not count. Programs of XLA need fixed shapes, but
        images do without XLA, and a convolution of each takes long.
        """
        inputs, states = flatten_time((inputs, states))  # [T * B, ...]
        if not self._network.convolves:
            return tf.reshape(self._values(inputs, states), truncated.shape)
        # And one: TensorFlow's convolutions in sequence fail without any image.
        truncated_rows = tf.where(
            tf.reshape(truncated, [-1]) | (tf.range(tf.size(truncated)) == 0)
        )  # [N, 1]
        inputs, states = tf.nest.map_structure(
            lambda leaf: tf.gather_nd(leaf, truncated_rows), (inputs, states)
        )  # [N, ...]
        zeros = tf.zeros([truncated.shape.num_elements()])
        values = self._values(inputs, states)  # [N]
        values = tf.tensor_scatter_nd_update(zeros, truncated_rows, values)  # [T * B]
        return tf.reshape(values, truncated.shape)

    def _arrays(self, observed: NetworkInputs, steps: Batch, others: Tensors) -> Tensors:
        """Arrays for histograms by tag; of images only the last step, since copying takes long.

        Args:
          observed: Network inputs before normalization, [T, B, ...].
          steps: The batch as it was collected, [T, B, ...].
          others: Further arrays [T, B, ...] by name.
        """
        vectors: Tensors = {}
        for name, kind in (("vector", "observ"), (f"{CRITIC}vector", f"{CRITIC}observ")):
            if name in observed:
                vectors |= {kind: observed[name], f"normalized_{kind}": steps.inputs[name]}
        images = {name: observed[name][-1] for name in observed if "image" in name}
        samples = tf.nest.flatten(steps.sample)
        actions = {f"action_{index}" if index else "action": s for index, s in enumerate(samples)}
        update = {"log_prob": steps.old_log_prob, "advantage": steps.advantage}
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
