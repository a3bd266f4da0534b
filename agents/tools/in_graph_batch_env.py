"""A batch of environments inside of the TensorFlow graph."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from gymnasium.error import ResetNeeded
from gymnasium.vector import VectorEnv

from agents.tools.attr_dict import AttrDict
from agents.tools.batch_env import BatchEnv
from agents.tools.in_graph_env import InGraphEnv
from agents.tools.packing import Packing
from agents.tools.python_call import PythonCall
from agents.tools.same_step import same_step
from agents.tools.shared_arrays import Field
from agents.tools.spaces import flatten, pack


class InGraphBatchEnv(InGraphEnv):
    """Exposes a vector environment to the graph."""

    def __init__(self, batch_env: VectorEnv, info_keys: Sequence[str] = ()):
        """Makes the variables.

        Args:
          batch_env: Any vector environment, see `same_step`: whenever it resets environments whose episode ended, here
            it happens in the step that ends it.
          info_keys: Names of numbers in its infos. A `BatchEnv` has those that it was made with.

        Raises:
          ValueError: The vector environment can't be brought to that, or has other `info_keys`.
          UnsupportedSpaceError: A space that is not made of arrays.
        """
        self._batch_env = batch_env if isinstance(batch_env, BatchEnv) else Packing(same_step(batch_env), info_keys)
        if info_keys and list(info_keys) != list(self._batch_env.layout.info):
            raise ValueError(
                f"info_keys are {list(info_keys)}, but the BatchEnv was made with {list(self._batch_env.layout.info)}; "
                "hand them to make_batch_env or BatchEnv."
            )
        self._layout = self._batch_env.layout
        self._failure: BaseException | None = None
        self._steps_of_call = 0
        self._behind = False  # Whether the variables are of an earlier step than the environments.
        self._step_call = PythonCall(self._step)
        spaces = batch_env.single_observation_space, batch_env.single_action_space
        super().__init__(batch_env.num_envs, *spaces, list(self._layout.info))
        self.info_names = self._batch_env.info_names
        self.packed_spec = tf.TensorSpec([self._layout.size], tf.uint8)

    def step(self, action: Any) -> tf.Tensor:
        """Steps the environments, and returns what they gave as one block of bytes, uint8 [size].

        One array and not five: each that comes back from Python costs as much as a layer of a small network.

        Raises:
          InvalidActionError, EnvironmentFailure: As the environments do; inside of `raising()` when called in a graph.
        """
        return self._step_call.operation(flatten(self.action_space, action), tf.uint8, self.packed_spec.shape)

    def unpack(self, packed: tf.Tensor) -> AttrDict:
        """From blocks, uint8 [..., size], to tensors; see `InGraphEnv.unpack`."""
        layout = self._layout
        observ, final_observ = (
            pack(self.observation_space, [_read(field, packed) for field in fields])
            for fields in (layout.observ, layout.final_observ)
        )
        extras = {key: tf.cast(_read(field, packed), tf.float32) for key, field in layout.info.items()}
        return AttrDict(
            {"extras": extras} if extras else {},
            observ=observ,
            reward=tf.cast(_read(layout.reward, packed), tf.float32),
            terminated=_read(layout.terminated, packed),
            truncated=_read(layout.truncated, packed),
            final_observ=final_observ,
        )

    def _reset(self, mask: tf.Tensor, seed: tf.Tensor) -> Any:
        leaves = tf.nest.flatten(self.observ)
        arrays = tf.numpy_function(self._reset_in_python, [mask, seed], [leaf.dtype for leaf in leaves])
        for variable, array in zip(leaves, tf.nest.flatten(arrays), strict=True):
            variable.assign(tf.ensure_shape(array, variable.shape))
        observ = tf.nest.map_structure(tf.convert_to_tensor, self.observ)
        self._forget(mask)
        return observ

    @contextlib.contextmanager
    def raising(self) -> Iterator[None]:
        """See `InGraphEnv.raising`."""
        self._failure, self._steps_of_call = None, 0
        try:
            yield
        except tf.errors.OpError:
            self._behind = self._behind or self._steps_of_call > 0
            if self._failure is None:
                raise
            raise self._failure from None

    def close(self) -> None:
        """Closes the environments."""
        self._batch_env.close()

    # These run in Python. TensorFlow takes over the arrays that they return without copying: they must be fresh ones.

    def _step(self, *actions: np.ndarray) -> np.ndarray:
        try:
            if self._behind:
                raise ResetNeeded(
                    "A rollout failed on its way: all environments must be reset before they are stepped."
                )
            packed = self._batch_env.step_packed(pack(self.action_space, actions))
            self._steps_of_call += 1
            return packed
        except BaseException as failure:  # Ctrl-C as well: it may come while Python runs inside of the graph.
            self._failure = failure
            raise

    def _reset_in_python(self, mask: np.ndarray, seed: np.ndarray) -> list[np.ndarray]:
        # Environments that draw all their random numbers from one generator know no lists.
        seeds = [None if one < 0 else int(one) for one in seed] if (seed >= 0).any() else None
        try:
            observ, _ = self._batch_env.reset(seed=seeds, options={"reset_mask": mask})  # type: ignore[arg-type]
        except BaseException as failure:
            self._failure = failure
            raise
        self._behind = self._behind and not mask.all()
        return [np.array(leaf) for leaf in flatten(self.observation_space, observ)]


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
