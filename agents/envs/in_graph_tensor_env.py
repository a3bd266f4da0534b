"""A batch of environments in TensorFlow, with the interface of those that live outside of the graph."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from agents.envs.random_numbers import Uniform, fold_in
from agents.envs.tensor_env import TensorEnv
from agents.tools.attr_dict import AttrDict
from agents.tools.in_graph_env import InGraphEnv
from agents.tools.spaces import flatten, pack


class InGraphTensorEnv(InGraphEnv):
    """Steps a batch of a `TensorEnv`, and begins the next episode in the step that ends one.

    Random numbers depend on an environment's seed, the number of its episode since it was seeded, and the step in that:
    equal seeds give equal episodes in a batch of any size. Environments begin with an episode that is not seeded: they
    may be stepped before the first reset. Actions are not checked against the bounds of their space: a compiled program
    can't raise.
    """

    compiles = True

    def __init__(self, env: TensorEnv, num_envs: int, max_episode_steps: int = 0, action_repeat: int = 1):
        """Makes the variables.

        Args:
          env: What one environment does.
          num_envs: How many, B.
          max_episode_steps: Steps of the environment after which an episode is cut; 0 for never.
          action_repeat: How often each action is repeated, unless the episode ends; rewards are summed.

        Raises:
          UnsupportedSpaceError: A space that is not made of arrays.
          ValueError: What the environment returns does not fit its observation space.
        """
        super().__init__(num_envs, env.observation_space, env.action_space)
        self._env, self._name = env, type(env).__name__
        self._max_episode_steps, self._action_repeat = max_episode_steps, action_repeat
        seeds = np.random.SeedSequence().generate_state(num_envs, np.uint64) >> 1
        self._seed = tf.Variable(seeds.astype(np.int64), trainable=False)
        self._episode = tf.Variable(tf.fill([num_envs], tf.constant(-1, tf.int64)), trainable=False)
        self._steps = self._variable((), tf.int64, "steps")  # Of the episode, not counting repeated actions as one.
        self._state = tf.nest.map_structure(
            lambda leaf: tf.Variable(leaf, trainable=False, name="state"), self._initial_state(self._keys())
        )
        self._assign(self.observ, self._observe(tf.nest.map_structure(tf.convert_to_tensor, self._state)))

    def step(self, action: Any) -> AttrDict:
        """Steps the environments; what it returns needs no unpacking.

        Raises:
          ValueError: What the environment returns has another structure, shape or type than it should.
        """
        after = self._act(action)
        ended = after.terminated | after.truncated
        self._episode.assign_add(tf.cast(ended, tf.int64))
        self._steps.assign(tf.where(ended, tf.zeros_like(after.steps), after.steps))
        state = _choose(ended, self._initial_state(self._keys()), after.state)
        self._assign(self._state, state)
        return AttrDict(
            observ=self._observe(state),
            reward=after.reward,
            terminated=after.terminated,
            truncated=after.truncated,
            final_observ=self._observe(after.state),
        )

    def _reset(self, mask: tf.Tensor, seed: tf.Tensor) -> Any:
        # A seed begins a new stream of episodes, other resets the next episode of a stream.
        seeded = mask & (seed >= 0)
        self._seed.assign(tf.where(seeded, seed, self._seed))
        zero = tf.zeros_like(seed)
        self._episode.assign(tf.where(seeded, zero, self._episode + tf.cast(mask, tf.int64)))
        self._steps.assign(tf.where(mask, zero, self._steps))
        state = _choose(mask, self._initial_state(self._keys()), self._state)
        self._assign(self._state, state)
        observ = self._observe(state)
        self._assign(self.observ, observ)
        self._forget(mask)
        return observ

    def _act(self, action: Any) -> AttrDict:
        """Takes an action, repeatedly where that is wanted, and stops where the episode ends."""
        keys = self._keys()
        first = self._dynamics(keys, self._state, tf.convert_to_tensor(self._steps), action)
        if self._action_repeat == 1:
            return first

        def again(before: AttrDict) -> list[AttrDict]:
            after = self._dynamics(keys, before.state, before.steps, action)
            after = AttrDict(after, reward=before.reward + after.reward)
            return [_choose(before.terminated | before.truncated, before, after)]

        return tf.while_loop(lambda _: True, again, [first], maximum_iterations=self._action_repeat - 1)[0]

    def _dynamics(self, keys: tf.Tensor, state: Any, steps: tf.Tensor, action: Any) -> AttrDict:
        """One step of the environment: `state`, `steps`, `reward`, `terminated` and `truncated` after it."""
        steps += 1
        state = tf.nest.map_structure(tf.convert_to_tensor, state)
        after, reward, terminated = self._env.step(state, action, Uniform(fold_in(keys, steps)))
        reward = tf.cast(reward, tf.float32)
        self._check("step", "state", after, self._state)
        self._check("step", "reward", reward, self.reward)
        self._check("step", "terminated", terminated, self.terminated)
        limited = self._max_episode_steps > 0
        truncated = steps >= self._max_episode_steps if limited else tf.zeros_like(terminated)
        return AttrDict(state=after, steps=steps, reward=reward, terminated=terminated, truncated=truncated)

    def _keys(self) -> tf.Tensor:
        """One for every environment and episode, uint64 [B]."""
        return fold_in(fold_in(tf.constant(0, tf.uint64), self._seed), self._episode)

    def _initial_state(self, keys: tf.Tensor) -> Any:
        return self._env.initial_state(Uniform(fold_in(keys, 0)))

    def _observe(self, state: Any) -> Any:
        space = self.observation_space
        observ = pack(space, flatten(space, self._env.observe(state)))  # Of the same dictionaries as the variables.
        self._check("observe", "observation", observ, self.observ)
        return observ

    def _check(self, method: str, what: str, values: Any, wanted: Any) -> None:
        """Raises ValueError where structure, shapes or types differ; this happens while the graph is traced."""
        got, expected = (
            tf.nest.map_structure(lambda leaf: f"{leaf.dtype.name} {leaf.shape}", structure)
            for structure in (values, wanted)
        )
        if tf.nest.flatten(got) != tf.nest.flatten(expected):
            raise ValueError(f"{self._name}.{method} returned the {what} {got}, it should be {expected}.")


def _choose(mask: tf.Tensor, chosen: Any, others: Any) -> Any:
    """Rows of one structure [B, ...] where a mask [B] says so, of another elsewhere."""

    def choose(one: tf.Tensor, other: tf.Tensor) -> tf.Tensor:
        return tf.where(tf.reshape(mask, [-1, *[1] * (len(one.shape) - 1)]), one, other)

    return tf.nest.map_structure(choose, chosen, others)
