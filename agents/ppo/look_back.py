"""From a rollout to what is learned from it: normalised inputs, log-probabilities, advantages and returns."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from agents.config import Config
from agents.networks.actor_critic import States
from agents.networks.inputs import MASK
from agents.networks.recurrent import reset_state
from agents.parts.normalize import RewardNormalizer, ValueNormalizer
from agents.parts.returns import generalized_advantages, successor_values
from agents.ppo.policy import Policy
from agents.ppo.sequences import flatten_time, sequence_length, states_before, to_sequences
from agents.tools.attr_dict import AttrDict


class LookBack:
    """Looks back at a rollout, all of it at once, and takes it into the statistics of the normalisers.

    Attributes:
      states: Structure of variables [B, ...]: what the value function remembers, if anything.
    """

    def __init__(self, policy: Policy, num_envs: int, config: Config):
        """Starts without statistics, for rollouts of B environments by `policy`."""
        self._policy, self._network, self._config = policy, policy.network, config
        self._normalize_reward = RewardNormalizer(
            num_envs, config.discount, config.reward_clip, config.normalize_reward
        )
        self._normalize_value = ValueNormalizer(config.normalize_value)
        zero_states = self._network.zero_states(num_envs)
        zero_states = {name: state for name, state in zero_states.items() if name == "value"}  # The policy has its own.
        self.states = tf.nest.map_structure(lambda zeros: tf.Variable(zeros, trainable=False), zero_states)

    def __call__(self, rollout: AttrDict) -> tuple[AttrDict, dict[str, tf.Tensor]]:
        """From a rollout to a batch.

        Args:
          rollout: What `simulate` returned, [T, B, ...]; `sample`, the policy's actions, likewise; `last_observ`
            [B, ...], the observations after it; `states`, what the policy remembered before it, [B, ...].

        Returns:
          `observ`, `sample`, `old_log_prob`, `old_parameters`, `value`, `advantage` and `target` of single steps,
          [T * B, ...], or of sequences, [T / L * B, L, ...], with what a network with a memory needs besides; and
          arrays for histograms by name.
        """
        done = rollout.terminated | rollout.truncated
        begins = tf.concat([tf.zeros_like(done[:1]), done[:-1]], axis=0)  # States before the rollout are in `states`.
        raw = self._policy.inputs(rollout.observ)  # [T, B, ...]
        # The policy that acted saw observations with the statistics of that time; the update goes on with the new ones.
        observ = self._policy.normalized(raw)
        parameters, policy_states = self._network.policies(observ, rollout.states, begins)
        old_policy = self._network.distribution(parameters, observ)
        old_log_prob = old_policy.log_prob(rollout.sample)  # [T, B]
        if "vector" in raw:
            self._policy.normalize_observ.update(flatten_time(raw["vector"]))
        observ = self._policy.normalized(raw)
        value_states = tf.nest.map_structure(tf.convert_to_tensor, self.states)
        start = {**value_states, **rollout.states}
        normalized_value, states = self._network.values(observ, start, begins)
        states = {**policy_states, **states}
        value = self._normalize_value.restore(normalized_value)  # [T, B]
        advantage = self._advantages(rollout, value, done, states)
        target = advantage + value
        self._normalize_value.update(target)
        batch = AttrDict(
            observ=observ,
            sample=rollout.sample,
            old_log_prob=old_log_prob,
            old_parameters=tuple(_for_each_step(parameter, done) for parameter in parameters),
            value=self._normalize_value(value),
            advantage=advantage,
            target=self._normalize_value(target),
        )
        report = {"reward": rollout.reward, "value": value, "return": target, **old_policy.statistics()}
        return self._as_elements(batch, states, start, begins), self._arrays(raw, batch, report)

    def begin_anew(self) -> None:
        """Forgets what belongs to episodes under way, when all environments are reset."""
        self._normalize_reward.begin_anew()
        tf.nest.map_structure(lambda variable: variable.assign(tf.zeros_like(variable)), self.states)

    def variables(self) -> dict[str, tf.Variable]:
        """The state, by name."""
        groups = {
            "normalize_reward": self._normalize_reward.variables(),
            "normalize_value": self._normalize_value.variables(),
            "value_states": {str(index): state for index, state in enumerate(tf.nest.flatten(self.states))},
        }
        return {f"{group}/{name}": variable for group, named in groups.items() for name, variable in named.items()}

    def _advantages(self, rollout: AttrDict, value: tf.Tensor, done: tf.Tensor, states: States) -> tf.Tensor:
        """Advantages [T, B] of normalised rewards; `states` are those after each step but before any reset."""

        def value_of(observ: Any, states: States) -> tf.Tensor:
            inputs = self._policy.normalized(self._policy.inputs(observ))
            return self._normalize_value.restore(self._network.value(inputs, states))

        final_value = value_of(flatten_time(rollout.final_observ), flatten_time(states))
        last_states = {name: reset_state(_last(state), done[-1]) for name, state in states.items()}
        last_value = value_of(rollout.last_observ, last_states)  # [B]
        for name, variables in self.states.items():
            tf.nest.map_structure(lambda variable, state: variable.assign(state), variables, last_states[name])
        final_value = tf.reshape(final_value, value.shape)  # [T, B]
        reward = self._normalize_reward(rollout.reward, done)
        next_value = successor_values(value, final_value, last_value, rollout.terminated, rollout.truncated)
        return generalized_advantages(reward, value, next_value, done, self._config.discount, self._config.gae_lambda)

    def _as_elements(self, batch: AttrDict, states: States, start: States, begins: tf.Tensor) -> AttrDict:
        """From leaves [T, B, ...] to those that minibatches are drawn from."""
        if not self._network.recurrent:
            return flatten_time(batch)
        length = sequence_length(self._config)
        before = {name: states_before(states[name], start[name], begins, length) for name in states}
        return AttrDict(to_sequences(AttrDict(batch, begins=begins), length), states=before)

    def _arrays(self, raw: dict[str, tf.Tensor], batch: AttrDict, report: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Arrays for histograms by name; of images those of the last step, since all of them take long to copy."""
        images = {name: value[-1] for name, value in raw.items() if name not in ("vector", MASK)}
        vectors = {"observ": raw["vector"], "normalized_observ": batch.observ["vector"]} if "vector" in raw else {}
        samples = tf.nest.flatten(batch.sample)
        actions = {"action" if index == 0 else f"action_{index}": sample for index, sample in enumerate(samples)}
        report = {**report, **vectors, **actions, "log_prob": batch.old_log_prob, "advantage": batch.advantage}
        normalizers = (self._policy.normalize_observ, self._normalize_reward, self._normalize_value)
        statistics = {name: array for each in normalizers for name, array in each.statistics().items()}
        report = {f"rollout/{name}": array for name, array in {**images, **flatten_time(report)}.items()}
        return {**report, **{f"normalizers/{name}": array for name, array in statistics.items()}}


def _last(state: Any) -> Any:
    return tf.nest.map_structure(lambda leaf: leaf[-1], state)


def _for_each_step(parameter: tf.Tensor, done: tf.Tensor) -> tf.Tensor:
    """A distribution's parameter as [T, B, size], also where it is the same for all steps, [size]."""
    return tf.broadcast_to(parameter, [*done.shape, parameter.shape[-1]])
