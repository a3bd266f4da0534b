"""A batch of environments in TensorFlow, with the interface that all backends share."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from agents.errors import UsageError
from agents.graph.in_graph_env import InGraphEnv
from agents.graph.step import Step, select_rows
from agents.graph.tensor_env import TensorEnv, Uniform, fold_in
from agents.spaces import flatten, pack
from agents.types import NestedTensor, NestedVariable


class Dynamics(NamedTuple):
    """Environments after a step, before those whose episode ended are reset.

    Attributes:
      state: Structure of tensors [B, ...].
      steps: int64 [B], steps of the episodes so far.
      reward: float32 [B].
      terminated: bool [B].
      truncated: bool [B].
    """

    state: NestedTensor
    steps: tf.Tensor
    reward: tf.Tensor
    terminated: tf.Tensor
    truncated: tf.Tensor


class InGraphTensorEnv(InGraphEnv):
    """Steps a batch of a `TensorEnv` and resets environments in the same step as an episode ends.

    Random numbers are a function of an environment's seed, the number of its episode since it was
    seeded, and the step of the episode: equal seeds give equal episodes at any batch size. Before
    the first reset, environments are in the initial state of an unseeded episode, and can be
    stepped. Actions are not checked against the bounds of the action space, since a compiled
    program cannot raise.
    """

    compiles = True

    def __init__(
        self, env: TensorEnv, num_envs: int, max_episode_steps: int = 0, action_repeat: int = 1
    ):
        """Creates the variables.

        Args:
          env: The environment to step.
          num_envs: Number of environments, B.
          max_episode_steps: Time limit in environment steps, repeats included, after which an
            episode is truncated; 0 for none.
          action_repeat: Environment steps per action, fewer if the episode ends; their rewards are
            summed.

        Raises:
          UnsupportedSpaceError: A space is not made of arrays.
          UsageError: The environment's observations do not match its observation space.
        """
        super().__init__(num_envs, env.observation_space, env.action_space)
        self._env, self._name = env, type(env).__name__
        self._max_episode_steps, self._action_repeat = max_episode_steps, action_repeat
        seeds = np.random.SeedSequence().generate_state(num_envs, np.uint64) >> 1  # [B]
        self._seed = tf.Variable(seeds.astype(np.int64), trainable=False)
        self._episode = tf.Variable(tf.fill([num_envs], tf.constant(-1, tf.int64)), trainable=False)
        self._steps = self._variable((), tf.int64, "steps")  # Of the episode, repeats included.
        self._state = tf.nest.map_structure(
            lambda leaf: tf.Variable(leaf, trainable=False, name="state"),
            self._initial_state(self._episode_keys()),
        )
        state = tf.nest.map_structure(tf.convert_to_tensor, self._state)
        self._assign(self.observ, self._observe(state))

    def step(self, action: NestedTensor) -> Step:
        """Steps the environments without assigning the variables; the results need no unpacking.

        Args:
          action: Structure of tensors [B, ...] of the action space's dtypes.

        Returns:
          The results, [B, ...].

        Raises:
          UsageError: Results of the environment have unexpected structure, shapes or dtypes.
        """
        after = self._repeat_action(action)
        done = after.terminated | after.truncated  # [B]
        self._episode.assign_add(tf.cast(done, tf.int64))
        self._steps.assign(tf.where(done, tf.zeros_like(after.steps), after.steps))
        state = select_rows(done, self._initial_state(self._episode_keys()), after.state)
        self._assign(self._state, state)
        return Step(
            observ=self._observe(state),
            reward=after.reward,
            terminated=after.terminated,
            truncated=after.truncated,
            final_observ=self._observe(after.state),
            extras={},
        )

    def _reset(self, mask: tf.Tensor, seed: tf.Tensor) -> NestedTensor:
        # A seed starts a new stream of episodes; other resets start the stream's next episode.
        seeded = mask & (seed >= 0)  # [B]
        self._seed.assign(tf.where(seeded, seed, self._seed))
        zero = tf.zeros_like(seed)
        self._episode.assign(tf.where(seeded, zero, self._episode + tf.cast(mask, tf.int64)))
        self._steps.assign(tf.where(mask, zero, self._steps))
        state = select_rows(mask, self._initial_state(self._episode_keys()), self._state)
        self._assign(self._state, state)
        observ = self._observe(state)
        self._assign(self.observ, observ)
        self._clear(mask)
        return observ

    def _repeat_action(self, action: NestedTensor) -> Dynamics:
        """Steps the environments up to `action_repeat` times, each until its episode ends."""
        keys = self._episode_keys()  # [B]
        first = self._step_once(keys, self._state, tf.convert_to_tensor(self._steps), action)
        if self._action_repeat == 1:
            return first

        def repeat(before: Dynamics) -> list[Dynamics]:
            after = self._step_once(keys, before.state, before.steps, action)
            after = after._replace(reward=before.reward + after.reward)
            return [select_rows(before.terminated | before.truncated, before, after)]

        last: Dynamics = tf.while_loop(
            lambda _: True, repeat, [first], maximum_iterations=self._action_repeat - 1
        )[0]
        return last

    def _step_once(
        self, keys: tf.Tensor, state: NestedTensor, steps: tf.Tensor, action: NestedTensor
    ) -> Dynamics:
        """Steps the environments once.

        Args:
          keys: Keys of the episodes, uint64 [B].
          state: Structure of tensors or variables [B, ...].
          steps: Steps of the episodes so far, int64 [B].
          action: Structure of tensors [B, ...].

        Returns:
          The environments after the step, [B, ...].
        """
        steps += 1
        state = tf.nest.map_structure(tf.convert_to_tensor, state)
        after, reward, terminated = self._env.step(state, action, Uniform(fold_in(keys, steps)))
        reward = tf.cast(reward, tf.float32)  # [B]
        self._check_output("step", "state", after, self._state)
        self._check_output("step", "reward", reward, self.reward)
        self._check_output("step", "terminated", terminated, self.terminated)
        has_limit = self._max_episode_steps > 0
        truncated = steps >= self._max_episode_steps if has_limit else tf.zeros_like(terminated)
        return Dynamics(after, steps, reward, terminated, truncated)

    def _episode_keys(self) -> tf.Tensor:
        """Returns a key for each environment and episode, uint64 [B]."""
        return fold_in(fold_in(tf.constant(0, tf.uint64), self._seed), self._episode)

    def _initial_state(self, keys: tf.Tensor) -> NestedTensor:
        return self._env.initial_state(Uniform(fold_in(keys, 0)))

    def _observe(self, state: NestedTensor) -> NestedTensor:
        space = self.observation_space
        # Packed, so that dictionaries have the type and order of those of the variables.
        observ = pack(space, flatten(space, self._env.observe(state)))
        self._check_output("observe", "observation", observ, self.observ)
        return observ

    def _check_output(
        self, method: str, what: str, output: NestedTensor, expected: NestedVariable
    ) -> None:
        """Raises UsageError, while tracing, if structure, shapes or dtypes are not as expected."""
        got, wanted = (
            tf.nest.map_structure(lambda leaf: f"{leaf.dtype.name} {leaf.shape}", structure)
            for structure in (output, expected)
        )
        if tf.nest.flatten(got) != tf.nest.flatten(wanted):
            raise UsageError(f"{self._name}.{method} returned the {what} {got}, expected {wanted}")
