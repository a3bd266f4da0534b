"""A vector environment in the graph."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from typing import cast

import numpy as np
import tensorflow as tf
from gymnasium.error import ResetNeeded

from agents import stop_signals
from agents.graph.in_graph_env import InGraphEnv
from agents.graph.python_call import PythonCall
from agents.graph.step import Step
from agents.spaces import flatten, pack
from agents.types import NestedArray, NestedTensor, VectorEnv
from agents.vector.autoreset import to_same_step
from agents.vector.batch_env import BatchEnv
from agents.vector.paced_rollout import STEP_BYTES, PacedRollout
from agents.vector.packing import PackedSteps
from agents.vector.restarts import Restart
from agents.workers.shared_arrays import Field


class InGraphBatchEnv(InGraphEnv):
    """Exposes a vector environment to the graph.

    `InGraphEnv` lists the variables, which hold the results of the last step.
    """

    def __init__(self, batch_env: VectorEnv, info_keys: Sequence[str] = ()):
        """Creates the variables.

        Args:
          batch_env: Any vector environment that `agents.vector.autoreset.to_same_step` takes: here
            environments are reset in the step that ends their episode.
          info_keys: Names of numbers in its infos to return for every step. A `BatchEnv` has those
            it was created with.

        Raises:
          ValueError: The vector environment can't reset in the same step, or has other `info_keys`.
          UnsupportedSpaceError: A space is not made of arrays.
        """
        self._batch_env: BatchEnv | PackedSteps = (
            batch_env
            if isinstance(batch_env, BatchEnv)
            else PackedSteps(to_same_step(batch_env), info_keys)
        )
        self._layout = self._batch_env.layout
        available = list(self._layout.info)
        if info_keys and list(info_keys) != available:
            raise ValueError(
                f"info_keys are {list(info_keys)}, but the BatchEnv was created with {available}; "
                "pass them to make_batch_env or BatchEnv."
            )
        self._failure: BaseException | None = None
        self._steps_of_call = 0
        # Whether a failed rollout left the variables at an earlier step than the environments.
        self._out_of_sync = False
        self.wait_for = getattr(self._batch_env, "wait_for", 1.0)
        self._step_call = PythonCall(self._step)
        self._turn_call = PythonCall(self._turn)
        self._rollout_call = PythonCall(self._rollout)
        self._paced_rollout: PacedRollout | None = None
        super().__init__(
            batch_env.num_envs,
            batch_env.single_observation_space,
            batch_env.single_action_space,
            available,
            restarts=self._layout.restarted is not None,
        )
        self.info_names = self._batch_env.info_names
        self.packed_spec = tf.TensorSpec([self._layout.size], tf.uint8)

    def step(self, action: NestedTensor) -> tf.Tensor:
        """Steps the environments and returns their results as one block of bytes, uint8 [size].

        One array instead of five: each array that comes back from Python costs as much as a layer
        of a small network.

        Raises:
          InvalidActionError, EnvironmentFailure: As the environments do; in a graph, inside of the
            context `raising()`.
        """
        leaves = flatten(self.action_space, action)
        return self._step_call.operation(leaves, tf.uint8, self.packed_spec.shape)

    def turn(
        self, steps: int, step: tf.Tensor, action: NestedTensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Makes a turn of a rollout: steps environments that are ready, and waits for some.

        Args:
          steps: Length of the rollout, T.
          step: int32 [B], steps of the rollout that environments have made; all 0 to start it.
          action: Structure [B, ...]; those of environments that are not ready are ignored.

        Returns:
          The environments' latest results as `step` returns them, uint8 [size], and the steps that
          they have made now, int32 [B].

        Raises:
          InvalidActionError, EnvironmentFailure: As `step`.
        """
        inputs = [steps, step, *flatten(self.action_space, action)]
        size = self._layout.size
        shape = [size + STEP_BYTES * self.num_envs]
        packed = self._turn_call.operation(inputs, tf.uint8, shape)
        return packed[:size], tf.bitcast(tf.reshape(packed[size:], [-1, STEP_BYTES]), tf.int32)

    def rollout(self, steps: int, step: tf.Tensor) -> tf.Tensor:
        """Returns the results of a rollout whose turns are over, uint8 [T, size].

        Args:
          steps: Its length, T.
          step: The steps that the last turn returned, int32 [B].
        """
        shape = [steps, self._layout.size]
        return self._rollout_call.operation([step], tf.uint8, shape)

    def unpack(self, packed: tf.Tensor) -> Step:
        """Unpacks blocks of bytes, uint8 [..., size]; see `InGraphEnv.unpack`."""
        layout = self._layout
        observ, final_observ = (
            pack(self.observation_space, [_read(field, packed) for field in fields])
            for fields in (layout.observ, layout.final_observ)
        )  # [..., B, ...]
        extras = {
            key: tf.cast(_read(field, packed), tf.float32) for key, field in layout.info.items()
        }  # [..., B]
        return Step(
            observ=observ,
            reward=tf.cast(_read(layout.reward, packed), tf.float32),
            terminated=_read(layout.terminated, packed),
            truncated=_read(layout.truncated, packed),
            final_observ=final_observ,
            extras=extras,
            restarted=_read(layout.restarted, packed) if layout.restarted else (),
        )

    def _reset(self, mask: tf.Tensor, seed: tf.Tensor) -> NestedTensor:
        leaves = tf.nest.flatten(self.observ)
        dtypes = [leaf.dtype for leaf in leaves]
        arrays = tf.numpy_function(self._reset_in_python, [mask, seed], dtypes)
        for variable, array in zip(leaves, tf.nest.flatten(arrays), strict=True):
            variable.assign(tf.ensure_shape(array, variable.shape))
        observ = tf.nest.map_structure(tf.convert_to_tensor, self.observ)  # [B, ...]
        self._clear(mask)
        return observ

    @contextlib.contextmanager
    def raising(self) -> Iterator[None]:
        """See `InGraphEnv.raising`."""
        self._failure, self._steps_of_call = None, 0
        try:
            yield
        except tf.errors.OpError:
            self._out_of_sync = self._out_of_sync or self._steps_of_call > 0
            if self._failure is None:
                raise
            raise self._failure from None

    def take_restarts(self) -> list[Restart]:
        """See `InGraphEnv.take_restarts`."""
        restarts = getattr(self._batch_env, "restarts", None)
        if restarts is None:
            return []
        taken, restarts.records = restarts.records, []
        return list(taken)

    def close(self) -> None:
        """Closes the environments."""
        self._batch_env.close()

    # Called from the graph. TensorFlow adopts the returned arrays without copying: they are fresh.

    def _step(self, *actions: np.ndarray) -> np.ndarray:
        return self._guarded(self._batch_env.step_packed, actions)

    def _turn(self, steps: np.ndarray, step: np.ndarray, *actions: np.ndarray) -> np.ndarray:
        batch_env = self._batch_env
        assert isinstance(batch_env, BatchEnv)

        def make_turn(action: NestedArray) -> np.ndarray:
            if not step.any():
                self._paced_rollout = batch_env.start_rollout(int(steps))
            assert self._paced_rollout
            return batch_env.turn(self._paced_rollout, action)

        return self._guarded(make_turn, actions)

    def _rollout(self, step: np.ndarray) -> np.ndarray:
        assert self._paced_rollout and self._paced_rollout.is_complete
        rollout, self._paced_rollout = self._paced_rollout.results, None
        return rollout

    def _guarded(
        self, step: Callable[[NestedArray], np.ndarray], actions: Sequence[np.ndarray]
    ) -> np.ndarray:
        start = time.perf_counter()
        try:
            if self._out_of_sync:
                raise ResetNeeded(
                    "The last rollout failed: reset all environments before stepping them."
                )
            stop_signals.check()
            packed = step(pack(self.action_space, actions))
            self._steps_of_call += 1
            self.seconds += time.perf_counter() - start
            return packed
        except (
            BaseException
        ) as failure:  # A signal, too, may arrive while Python runs in the graph.
            self._failure = failure
            raise

    def _reset_in_python(self, mask: np.ndarray, seed: np.ndarray) -> list[np.ndarray]:
        # Vector environments with a single generator take no lists of seeds.
        seeds = [None if one < 0 else int(one) for one in seed] if (seed >= 0).any() else None
        options = None if mask.all() else {"reset_mask": mask.copy()}
        try:
            stop_signals.check()
            observ, _ = cast(VectorEnv, self._batch_env).reset(seed=seeds, options=options)  # type: ignore[arg-type]
        except BaseException as failure:
            self._failure = failure
            raise
        self._out_of_sync = self._out_of_sync and not mask.all()
        return [np.array(leaf) for leaf in flatten(self.observation_space, observ)]


def _read(field: Field, packed: tf.Tensor) -> tf.Tensor:
    """Reads an array [..., *field.shape] from blocks, uint8 [..., size]."""
    count = int(np.prod(field.shape))
    raw = packed[..., field.offset : field.offset + count * field.dtype.itemsize]
    shape = [*packed.shape[:-1], *field.shape]  # [..., B, ...]
    if field.dtype == np.bool_:
        return tf.cast(tf.reshape(raw, shape), tf.bool)
    if field.dtype.itemsize == 1:
        return tf.bitcast(tf.reshape(raw, shape), field.dtype)
    return tf.bitcast(tf.reshape(raw, [*shape, field.dtype.itemsize]), field.dtype)
