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
from agents.tools.shared_arrays import Field, Layout, Results, aligned_empty
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
        # A BatchEnv has the block of bytes already.
        self._stepper = batch_env.step_packed if isinstance(batch_env, BatchEnv) else self._step_any
        self.num_envs = batch_env.num_envs
        self.observation_space = batch_env.single_observation_space
        self.action_space = batch_env.single_action_space
        self._layout = Layout(self.num_envs, self.observation_space, self.action_space)
        self.packed_spec = tf.TensorSpec([self._layout.size], tf.uint8)
        self.observ = self._variables(self.observation_space, "observ")
        self.action = self._variables(self.action_space, "action")
        self.reward = self._variable((), tf.float32, "reward")
        self.terminated = self._variable((), tf.bool, "terminated")
        self.truncated = self._variable((), tf.bool, "truncated")
        self.final_observ = self._variables(self.observation_space, "final_observ")
        self.episode_return = self._variable((), tf.float32, "episode_return")
        self.episode_length = self._variable((), tf.int32, "episode_length")

    def simulate(self, action: Any) -> AttrDict:
        """Steps the environments and keeps what they gave in the variables, as an operation of the graph.

        Args:
          action: Structure of tensors [B, ...] of the action space's types.

        Returns:
          `reward`, `terminated`, `truncated` and `final_observ` of the step, as tensors shaped like the variables.

        Raises:
          InvalidActionError, EnvironmentFailure: As the environments do; inside of `raising()` when called in a graph.
        """
        outcome = self.unpack(self.step(action))
        self.keep(action, outcome)
        return AttrDict({name: outcome[name] for name in ("reward", "terminated", "truncated", "final_observ")})

    # What `simulate()` is made of. The loop over many steps uses these: it keeps only its last step in the variables.

    def step(self, action: Any) -> tf.Tensor:
        """Steps the environments, and returns what they gave as one block of bytes, uint8 [size]; see `unpack`.

        One array and not five: each that comes back from Python costs as much as a layer of a small network.
        """
        packed = tf.numpy_function(self._step, flatten(self.action_space, action), tf.uint8)
        packed.set_shape(self.packed_spec.shape)
        return packed

    def unpack(self, packed: tf.Tensor) -> AttrDict:
        """From blocks, uint8 [..., size], to `observ`, `reward`, `terminated`, `truncated` and `final_observ`."""
        layout = self._layout
        observ, final_observ = (
            pack(self.observation_space, [_read(field, packed) for field in fields])
            for fields in (layout.observ, layout.final_observ)
        )
        return AttrDict(
            observ=observ,
            reward=tf.cast(_read(layout.reward, packed), tf.float32),
            terminated=_read(layout.terminated, packed),
            truncated=_read(layout.truncated, packed),
            final_observ=final_observ,
        )

    def keep(self, action: Any, outcome: AttrDict) -> None:
        """Assigns a step's action and what `unpack` gave for it to the variables."""
        variables = AttrDict({name: getattr(self, name) for name in outcome}, action=self.action)
        self._assign(variables, AttrDict(outcome, action=action))

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
        packed = tf.numpy_function(self._reset, [mask, seed], tf.uint8)
        packed.set_shape(self.packed_spec.shape)
        observ = self.unpack(packed).observ
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

    # These run in Python. TensorFlow takes over the block that they return without copying, so it must be a fresh one.

    def _step(self, *actions: np.ndarray) -> np.ndarray:
        try:
            return self._stepper(pack(self.action_space, actions))
        except BaseException as failure:  # Ctrl-C as well: it may come while Python runs inside of the graph.
            self._failure = failure
            raise

    def _reset(self, mask: np.ndarray, seed: np.ndarray) -> np.ndarray:
        seeds = [None if one < 0 else int(one) for one in seed]
        try:
            observ, _ = self._batch_env.reset(seed=seeds, options={"reset_mask": mask})  # type: ignore[arg-type]
        except BaseException as failure:
            self._failure = failure
            raise
        return self._packed(observ)

    def _step_any(self, action: Any) -> np.ndarray:
        """Steps a vector environment that does not give blocks by itself."""
        observ, reward, terminated, truncated, infos = self._batch_env.step(action)
        block = self._packed(observ)
        results = Results(self._layout, block)
        results.reward[:], results.terminated[:], results.truncated[:] = reward, terminated, truncated
        # Gymnasium's own batches give an array of objects, with final observations in some rows.
        final_observ = infos.get("final_obs")
        if isinstance(final_observ, np.ndarray) and final_observ.dtype == object:
            for row in np.flatnonzero(infos["_final_obs"]):
                self._write(results.final_observ, row, final_observ[row])
        elif final_observ is not None:
            self._write(results.final_observ, slice(None), final_observ)
        return block

    def _packed(self, observ: Any) -> np.ndarray:
        """A block with observations of a batch, which also stand for the final ones."""
        block = aligned_empty(self._layout.size)
        results = Results(self._layout, block)
        self._write(results.observ, slice(None), observ)
        self._write(results.final_observ, slice(None), observ)
        return block

    def _write(self, arrays: list[np.ndarray], rows: Any, observ: Any) -> None:
        for array, leaf in zip(arrays, flatten(self.observation_space, observ), strict=True):
            array[rows] = leaf


def _read(field: Field, packed: tf.Tensor) -> tf.Tensor:
    """An array [..., *field.shape] of blocks, uint8 [..., size]."""
    count = int(np.prod(field.shape))
    raw = packed[..., field.offset : field.offset + count * field.dtype.itemsize]
    shape = [*packed.shape[:-1], *field.shape]
    if field.dtype == np.bool_:
        return tf.cast(tf.reshape(raw, shape), tf.bool)
    if field.dtype.itemsize == 1:
        return tf.bitcast(tf.reshape(raw, shape), field.dtype)
    return tf.bitcast(tf.reshape(raw, [*shape, field.dtype.itemsize]), field.dtype)
