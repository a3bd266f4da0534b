"""From a rollout to a training batch: log-probabilities, values, advantages and value targets."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

from agents.distributions.distribution import Distribution
from agents.graph.transition import Rollout
from agents.learning.masked import outcome_mask
from agents.learning.normalization import RewardNormalizer, ValueNormalizer
from agents.learning.reduction import SINGLE_LEARNER, Reducer
from agents.policies.actor_critic import States
from agents.policies.inputs import CRITIC, NetworkInputs
from agents.policies.policy import Policy
from agents.policies.sequences import flatten_time, states_before, to_elements
from agents.ppo.advantage_estimator import (
    AdvantageEstimator,
    Estimates,
    Observed,
)
from agents.ppo.batch import Batch, Targets
from agents.settings.config import Config
from agents.settings.derived import limits_kl, sequence_length
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
    """The policy that acted, evaluated on a rollout.

    Attributes:
      distribution: Its distributions [T, B].
      parameters: Their parameters, [T, B, size] each, or [size] if the same for all steps.
      log_prob: float32 [T, B], log-probabilities of the samples.
      states: Its recurrent state after each step, [T, B, U].
    """

    distribution: Distribution
    parameters: list[tf.Tensor]
    log_prob: tf.Tensor
    states: States


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
    ):
        """Starts without statistics.

        Args:
          policy: The policy that learns.
          num_envs: Number of environments of this learner, B.
          config: The experiment's settings.
          reducer: Combines the normalizers' statistics of several learners.
        """
        self._policy, self._network, self._config = policy, policy.network, config
        self._reward_normalizer = RewardNormalizer(
            num_envs, config.discount, config.reward_clip, config.normalize_reward, reducer
        )
        self._value_normalizer = ValueNormalizer(config.normalize_value, reducer)
        self._reducer = reducer
        self._length = sequence_length(config) if self._network.recurrent else 0
        self._estimator = AdvantageEstimator(policy, self._value_normalizer, config)
        zero_states = self._network.zero_states(num_envs * reducer.num_learners)
        self.value_states = {
            name: tuple(tf.Variable(zeros, trainable=False) for zeros in state)
            for name, state in zero_states.items()
            if name == "value"
        }

    def process(self, experience: Experience) -> tuple[Batch, Arrays, Callable[[], Targets]]:
        """Turns a rollout into a training batch.

        Args:
          experience: The rollout as the policy saw it, [T, B, ...].

        Returns:
          A batch of T * B steps, or of T * B / L sequences; arrays for histograms by tag; and what
          estimates the batch's `Targets` again, with the value function as trained by then.
        """
        rollout = experience.rollout
        # Recurrent states before the rollout are known, so that no step needs a reset at its start.
        is_first = tf.concat([tf.zeros_like(rollout.done[:1]), rollout.done[:-1]], axis=0)  # [T, B]
        acting = self._evaluate(experience, is_first)
        # The policy acted with the statistics of that time; the update uses the new ones (as Brax).
        self._policy.update_normalizers(flatten_time(experience.inputs))
        inputs = self._policy.normalize(experience.inputs)  # [T, B, ...]
        valid = outcome_mask(rollout.restarted)  # [T, B]
        value_states = tf.nest.map_structure(self._own, self.value_states)
        observed = Observed(
            rollout=rollout,
            inputs=inputs,
            final_inputs=experience.final_inputs,
            last_inputs=experience.last_inputs,
            reward=self._reward_normalizer.normalize(rollout.reward, rollout.done, valid),
            is_first=is_first,
            start_states={**value_states, **experience.states},
        )
        estimates = self._estimator.estimate(observed)
        self._keep_states(estimates.last_states)
        self._value_normalizer.update(estimates.target, valid)
        steps = Batch(
            is_first=(),
            inputs=inputs,
            old_log_prob=acting.log_prob,
            old_parameters=tuple(
                _broadcast_to_steps(parameter, rollout.done) for parameter in acting.parameters
            ),
            sample=experience.sample,
            states={},
            **self._targets(estimates)._asdict(),
            valid=valid,
        )
        arrays = self._arrays(experience, steps, estimates, acting.distribution)
        states = {**acting.states, **estimates.states}  # [T, B, U]
        batch = self._to_elements(steps, states, observed.start_states, is_first)
        if limits_kl(self._config):
            parameters = self._network.parameters(batch.inputs, batch.states, batch.is_first)
            batch = batch._replace(
                start_parameters=tuple(
                    _broadcast_to_steps(parameter, batch.advantage) for parameter in parameters
                )
            )
        return batch, arrays, functools.partial(self._estimate_again, observed)

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

    def _evaluate(self, experience: Experience, is_first: tf.Tensor) -> Acting:
        """Evaluates the policy, with the normalizer's statistics as they are."""
        network, inputs = self._network, self._policy.normalize(experience.inputs)  # [T, B, ...]
        parameters, states = network.policies(inputs, experience.states, is_first)
        distribution = network.distribution(parameters, inputs)
        log_prob = distribution.log_prob(experience.sample)  # [T, B]
        return Acting(distribution, parameters, log_prob, states)

    def _own(self, states: tf.Variable) -> tf.Tensor:
        return self._reducer.own(tf.convert_to_tensor(states))

    def _keep_states(self, last_states: States) -> None:
        """Keeps the value function's recurrent state for the next rollout."""
        for name, variables in self.value_states.items():
            for variable, part in zip(variables, last_states[name], strict=True):
                variable.assign(self._reducer.gather(part))

    def _estimate_again(self, observed: Observed) -> Targets:
        return to_elements(self._targets(self._estimator.estimate(observed)), self._length)

    def _targets(self, estimates: Estimates) -> Targets:
        normalize = self._value_normalizer.normalize
        return Targets(estimates.advantage, normalize(estimates.target), normalize(estimates.value))

    def _to_elements(
        self, steps: Batch, states: States, start_states: States, is_first: tf.Tensor
    ) -> Batch:
        """Reshapes leaves [T, B, ...] to the elements that minibatches are drawn from."""
        length = self._length
        if not length:
            return to_elements(steps)
        sequences = to_elements(steps._replace(is_first=is_first), length)
        return sequences._replace(states=states_before(states, start_states, is_first, length))

    def _arrays(
        self,
        experience: Experience,
        steps: Batch,
        estimates: Estimates,
        distribution: Distribution,
    ) -> Arrays:
        """Arrays for histograms by tag.

        Of images only those of the last step are reported, since copying all takes long.
        """
        others = {
            "reward": experience.rollout.reward,
            "value": estimates.value,
            "return": estimates.target,
            **distribution.statistics(),
        }
        inputs = experience.inputs
        vectors: Arrays = {}
        for name, kind in (("vector", "observ"), (f"{CRITIC}vector", f"{CRITIC}observ")):
            if name in inputs:
                vectors |= {kind: inputs[name], f"normalized_{kind}": steps.inputs[name]}
        images = {name: inputs[name][-1] for name in inputs if "image" in name}
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


def _broadcast_to_steps(parameter: tf.Tensor, steps: tf.Tensor) -> tf.Tensor:
    """A distribution's parameter as [*steps.shape, size], also where it is [size] for all steps."""
    return tf.broadcast_to(parameter, [*steps.shape, parameter.shape[-1]])
