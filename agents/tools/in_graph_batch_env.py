"""A batch of environments inside of the TensorFlow graph."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf
from gymnasium.vector import AutoresetMode, VectorEnv

from agents.tools.attr_dict import AttrDict
from agents.tools.batch_env import BatchEnv
from agents.tools.spaces import flatten, leaf_spaces, pack


class InGraphBatchEnv:
    """Exposes a vector environment to the graph: its results are variables, stepping and resetting it are operations.

    Attributes:
      num_envs: Number of environments, B.
      observation_space: Gymnasium space of one environment's observations.
      action_space: Gymnasium space of one environment's actions.
      observ: Structure of variables [B, ...], the current observations.
      action: Structure of variables [B, ...], the last actions.
      reward: Variable [B], float32.
      terminated: Variable [B], bool: whether the last step ended an episode in a final state.
      truncated: Variable [B], bool: whether it was cut short, as by a time limit.
      final_observ: Structure of variables [B, ...], the true last observations where `terminated | truncated`, and
        arbitrary elsewhere.
      episode_return: Variable [B], float32: the rewards of the current episodes so far; kept by `simulate()`.
      episode_length: Variable [B], int32: their steps so far; kept by `simulate()`.
    """

    def __init__(self, batch_env: VectorEnv):
        """Makes the variables.

        Args:
          batch_env: A vector environment that resets environments in the step that ends their episode.

        Raises:
          ValueError: The vector environment resets environments at another time.
          UnsupportedSpaceError: A space that is not made of arrays.
        """
        mode = batch_env.metadata.get("autoreset_mode")
        if mode != AutoresetMode.SAME_STEP:
            raise ValueError(
                f"InGraphBatchEnv needs a vector environment with autoreset_mode=AutoresetMode.SAME_STEP, got {mode}: "
                "a reset at another time would be taken for a step of the episode."
            )
        self._batch_env = batch_env
        self._failure: BaseException | None = None
        self.num_envs = batch_env.num_envs
        self.observation_space = batch_env.single_observation_space
        self.action_space = batch_env.single_action_space
        self.observ = self._variables(self.observation_space, "observ")
        self.action = self._variables(self.action_space, "action")
        self.reward = self._variable((), tf.float32, "reward")
        self.terminated = self._variable((), tf.bool, "terminated")
        self.truncated = self._variable((), tf.bool, "truncated")
        self.final_observ = self._variables(self.observation_space, "final_observ")
        self.episode_return = self._variable((), tf.float32, "episode_return")
        self.episode_length = self._variable((), tf.int32, "episode_length")

    def simulate(self, action: Any) -> AttrDict:
        """Steps the environments, as an operation of the graph.

        Args:
          action: Structure of tensors [B, ...] of the action space's types.

        Returns:
          `reward`, `terminated`, `truncated` and `final_observ` of the step, as tensors shaped like the variables.

        Raises:
          InvalidActionError, EnvironmentFailure: As the environments do; inside of `raising()` when called in a graph.
        """
        results = AttrDict(
            observ=self.observ,
            reward=self.reward,
            terminated=self.terminated,
            truncated=self.truncated,
            final_observ=self.final_observ,
        )
        outcome = self._call(self._step, flatten(self.action_space, action), results)
        self._assign(self.action, action)
        self._assign(results, outcome)
        return AttrDict({name: outcome[name] for name in ("reward", "terminated", "truncated", "final_observ")})

    def reset(self, mask: tf.Tensor | None = None, seed: tf.Tensor | None = None) -> Any:
        """Resets environments, as an operation of the graph.

        Args:
          mask: bool [B], which environments; by default all.
          seed: int64 [B], for their random numbers; by default, or where negative, they go on with those they have.

        Returns:
          Structure of tensors [B, ...]: the observations of all environments after that.
        """
        mask = tf.ones([self.num_envs], tf.bool) if mask is None else mask
        seed = tf.fill([self.num_envs], tf.constant(-1, tf.int64)) if seed is None else seed
        results = AttrDict(observ=self.observ)
        observ = self._call(self._reset, [mask, seed], results).observ
        self._assign(self.observ, observ)
        for variable in (self.reward, self.terminated, self.truncated, self.episode_return, self.episode_length):
            variable.assign(tf.where(mask, tf.zeros_like(variable), variable))
        return observ

    @contextlib.contextmanager
    def raising(self) -> Iterator[None]:
        """Raises an environment's own exception where a graph call only says that an unknown error occurred."""
        self._failure = None
        try:
            yield
        except tf.errors.OpError:
            if self._failure is None:
                raise
            raise self._failure from None

    def close(self) -> None:
        """Closes the environments."""
        self._batch_env.close()

    def _variables(self, space: Any, name: str) -> Any:
        return pack(space, (self._variable(leaf.shape, leaf.dtype, name) for leaf in leaf_spaces(space)))

    def _variable(self, shape: tuple[int, ...], dtype: Any, name: str) -> tf.Variable:
        return tf.Variable(tf.zeros((self.num_envs, *shape), dtype), trainable=False, name=name)

    def _assign(self, variables: Any, values: Any) -> None:
        tf.nest.map_structure(lambda variable, value: variable.assign(value), variables, values)

    def _call(self, function: Any, inputs: list[tf.Tensor], results: AttrDict) -> AttrDict:
        """Calls Python from the graph; what it returns has the structure, types and shapes of `results`."""
        variables = tf.nest.flatten(results)
        outputs = tf.numpy_function(function, inputs, [variable.dtype for variable in variables])
        outputs = tf.nest.flatten(outputs)  # A single one comes without a list.
        for output, variable in zip(outputs, variables, strict=True):
            output.set_shape(variable.shape)
        return tf.nest.pack_sequence_as(results, outputs)

    # These run in Python. TensorFlow takes over the arrays that they return without copying, where they are aligned,
    # so they must be fresh ones; those of a BatchEnv are. Their order is that of `tf.nest`, by name.

    def _step(self, *actions: np.ndarray) -> list[np.ndarray]:
        with self._keeping_failure():
            batch_env = self._batch_env
            observ, reward, terminated, truncated, infos = batch_env.step(pack(self.action_space, actions))
            return self._fresh(
                *flatten(self.observation_space, self._final_observ(observ, infos)),
                *flatten(self.observation_space, observ),
                np.asarray(reward, np.float32),
                terminated,
                truncated,
            )

    def _reset(self, mask: np.ndarray, seed: np.ndarray) -> list[np.ndarray]:
        with self._keeping_failure():
            seeds = [None if one < 0 else int(one) for one in seed]
            observ, _ = self._batch_env.reset(seed=seeds, options={"reset_mask": mask})  # type: ignore[arg-type]
            return self._fresh(*flatten(self.observation_space, observ))

    def _fresh(self, *arrays: np.ndarray) -> list[np.ndarray]:
        return list(arrays) if isinstance(self._batch_env, BatchEnv) else [np.array(array) for array in arrays]

    def _final_observ(self, observ: Any, infos: dict[str, Any]) -> Any:
        """Rows of final observations for all environments; Gymnasium's own batches give a list of those there are."""
        final_observ = infos.get("final_obs", observ)
        if getattr(final_observ, "dtype", None) != np.dtype(object):
            return final_observ
        rows = [leaf.copy() for leaf in flatten(self.observation_space, observ)]
        for row in np.flatnonzero(infos["_final_obs"]):
            for leaf, value in zip(rows, flatten(self.observation_space, final_observ[row]), strict=True):
                leaf[row] = value
        return pack(self.observation_space, rows)

    @contextlib.contextmanager
    def _keeping_failure(self) -> Iterator[None]:
        try:
            yield
        except BaseException as failure:  # Ctrl-C as well: it may come while Python runs inside of the graph.
            self._failure = failure
            raise
