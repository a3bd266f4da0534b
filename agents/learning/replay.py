"""Replay: the last steps of B environments, in variables of the graph."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from agents.errors import UsageError
from agents.spaces import leaf_spaces, num_dimensions
from agents.types import NestedTensor, Space

# Draws of a row before an element of a minibatch is given up, see `Replay.draw`.
_TRIES = 8

# Content of a row: an observation that no step starts from, one that a step starts from, and one that
# a step starts from which terminates its episode.
_LAST, _STEP, _TERMINATED = 0, 1, 2


class Rows(NamedTuple):
    """Places in a replay, int32 [..., M] each.

    Attributes:
      row: Index of the row.
      env: Index of the environment.
    """

    row: tf.Tensor
    env: tf.Tensor


class Transitions(NamedTuple):
    """M transitions over up to n steps (Sutton, 1988).

    Attributes:
      observ: Structure [M, ...], the observations that the first steps started from.
      action: float32 [M, A], the first steps' actions.
      reward: float32 [M], sum of the discounted rewards.
      next_observ: Structure [M, ...], the observations after the last steps.
      discount: float32 [M], factor of the value of `next_observ`, 0 where the episode terminated.
      weight: float32 [M], 1; 0 for elements without a transition.
    """

    observ: NestedTensor
    action: tf.Tensor
    reward: tf.Tensor
    next_observ: NestedTensor
    discount: tf.Tensor
    weight: tf.Tensor


class Replay:
    """A ring of steps for each environment.

    A row has an observation, and the action, reward and end of the step that starts from it. The next
    observation is that of the next row: nothing is stored twice. Where an episode ends, its last
    observation gets a row of its own, from which no step starts. So does the current observation of
    an environment, which is the ring's newest row.

    Attributes:
      num_rows: Rows of an environment.
      row_bytes: Bytes of a row by the name of an array.
    """

    def __init__(self, capacity: int, observ: NestedTensor, action_size: int):
        """Creates the variables.

        Args:
          capacity: Number of rows, of all environments together.
          observ: Structure of tensors [B, ...], observations of the environments.
          action_size: Numbers of an action, A.
        """
        (num_envs,) = {leaf.shape[0] for leaf in tf.nest.flatten(observ)}
        self.num_rows = capacity // num_envs + 1

        # One axis for rows and environments: TensorFlow then reads and writes variables in place.
        def variable(shape: list[int], dtype: tf.DType) -> tf.Variable:
            shape = [self.num_rows * num_envs, *shape]
            return tf.Variable(tf.zeros(shape, dtype), trainable=False)

        self._observ = tf.nest.map_structure(
            lambda leaf: variable(leaf.shape[1:].as_list(), leaf.dtype), observ
        )
        self._action = variable([action_size], tf.float32)
        self._reward = variable([], tf.float32)
        self._content = variable([], tf.uint8)
        leaves = tf.nest.flatten(self._observ)
        self._arrays = {
            **{f"observ/{index}": leaf for index, leaf in enumerate(leaves)},
            "action": self._action,
            "reward": self._reward,
            "content": self._content,
        }
        self.row_bytes: Mapping[str, int] = {
            name: math.prod(array.shape[1:]) * array.dtype.size
            for name, array in self._arrays.items()
        }
        # Rows written so far; the current observation is that of the next one.
        self._written = tf.Variable(tf.zeros([num_envs], tf.int64), trainable=False)
        self._written_by_cut = np.array([])  # [B], by the last `cut`; empty before.

    def add(
        self,
        observ: NestedTensor,
        action: tf.Tensor,
        reward: tf.Tensor,
        terminated: tf.Tensor,
        done: tf.Tensor,
        next_observ: NestedTensor,
        valid: tf.Tensor,
        last_observ: NestedTensor,
    ) -> None:
        """Adds T steps of each environment.

        Args:
          observ: Structure [T, B, ...], the observations that steps started from.
          action: float32 [T, B, A].
          reward: float32 [T, B].
          terminated: bool [T, B].
          done: bool [T, B], terminated or truncated.
          next_observ: Structure [T, B, ...], the observations after the steps; where an episode
            ended, its last one.
          valid: bool [T, B]; other steps have no outcome, and only their `observ` is kept.
          last_observ: Structure [B, ...], the current observations after the steps.
        """
        num_envs = reward.shape[1]
        ends = tf.cast(done & valid, tf.int64)  # [T, B]
        steps = self._written + tf.cumsum(1 + ends, axis=0, exclusive=True)  # [T, B]
        self._written.assign_add(tf.reduce_sum(1 + ends, axis=0))
        current = tf.convert_to_tensor(self._written)  # [B]
        envs = tf.range(num_envs, dtype=tf.int64)  # [B]

        def write(variable: tf.Variable, rows: tf.Tensor, values: tf.Tensor) -> None:
            places = self._places(Rows(rows % self.num_rows, envs))
            variable.scatter_update(tf.IndexedSlices(values, places))

        # The next step overwrites its own start, unless an episode ended in between.
        tf.nest.map_structure(
            lambda variable, leaf: write(variable, steps + 1, leaf), self._observ, next_observ
        )
        tf.nest.map_structure(
            lambda variable, leaf: write(variable, steps, leaf), self._observ, observ
        )
        tf.nest.map_structure(
            lambda variable, leaf: write(variable, current, leaf), self._observ, last_observ
        )
        write(self._action, steps, action)
        write(self._reward, steps, reward)
        content = tf.where(terminated, _TERMINATED, _STEP)  # [T, B]
        for rows in (steps + 1, current):
            write(self._content, rows, tf.fill(rows.shape, tf.constant(_LAST, tf.uint8)))
        write(self._content, steps, tf.cast(tf.where(valid, content, _LAST), tf.uint8))

    def cut(self) -> None:
        """Ends the running episodes: their current observations are their last ones.

        The rows after them are the current ones, from which no step starts until they are written.
        """
        row = self._written.assign_add(tf.ones_like(self._written)) % self.num_rows  # [B]
        places = self._places(Rows(row, tf.range(self._written.shape[0], dtype=tf.int64)))
        last = tf.fill(places.shape, tf.constant(_LAST, tf.uint8))
        self._content.scatter_update(tf.IndexedSlices(last, places))
        self._written_by_cut = self._written.numpy()

    def draw(self, generator: tf.random.Generator, shape: list[int]) -> tuple[Rows, tf.Tensor]:
        """Draws rows from which steps start, with replacement: an environment, then one of its rows.

        Each is uniform. Until the ring is full, environments of shorter episodes have more rows, and
        their steps are drawn a little less often.

        A row that no step starts from is drawn again, up to 7 times. Only where episodes have about
        one step, some draws are in vain.

        Args:
          generator: Draws the numbers.
          shape: Shape of the result.

        Returns:
          Rows [*shape], and whether a step starts from each of them, bool [*shape].
        """
        num_envs = self._written.shape[0]
        env = generator.uniform([*shape, _TRIES], 0, num_envs, tf.int64)
        size = tf.minimum(self._written, self.num_rows - 1)  # [B], without the current rows
        # 53 bits, so that all rows are equally likely.
        age = generator.uniform([*shape, _TRIES], dtype=tf.float64) * tf.cast(
            tf.gather(size, env), tf.float64
        )
        row = (tf.gather(self._written, env) - 1 - tf.cast(age, tf.int64)) % self.num_rows
        content = self._read(self._content, Rows(row, env))
        starts = (content != _LAST) & (tf.gather(size, env) > 0)  # [*shape, tries]
        first = tf.argmax(starts, axis=-1)[..., None]  # [*shape, 1]
        rows = Rows(
            *(tf.gather(index, first, batch_dims=len(shape))[..., 0] for index in (row, env))
        )
        return rows, tf.reduce_any(starts, axis=-1)

    def transitions(
        self, rows: Rows, valid: tf.Tensor, discount: float, num_steps: int
    ) -> Transitions:
        """Reads transitions over n steps, or fewer where an episode or the ring ends before.

        Args:
          rows: Rows [M] from which steps start.
          valid: bool [M], whether they are such rows, see `draw`.
          discount: Discount factor per step.
          num_steps: n.
        """
        start, now = rows, rows
        goes_on = valid
        reward = tf.zeros(tf.shape(rows.row))  # [M]
        factor = tf.ones_like(reward)  # [M]
        for _ in range(num_steps):
            content = self._read(self._content, now)  # [M]
            goes_on &= content != _LAST
            reward += tf.where(goes_on, factor * self._read(self._reward, now), 0.0)
            factor *= tf.where(goes_on, discount, 1.0)
            factor *= tf.where(goes_on & (content == _TERMINATED), 0.0, 1.0)
            next_row = (now.row + 1) % self.num_rows
            now = now._replace(row=tf.where(goes_on, next_row, now.row))
            goes_on &= content != _TERMINATED

        def read(variable: tf.Variable, at: Rows) -> tf.Tensor:
            values = self._read(variable, at)  # [M, ...]
            if not values.dtype.is_floating:
                return values
            # Other rows may hold NaN or infinities, which a weight of 0 does not remove.
            is_valid = tf.reshape(valid, [-1, *[1] * (len(values.shape) - 1)])
            return tf.where(is_valid, values, tf.zeros_like(values))

        return Transitions(
            observ=tf.nest.map_structure(lambda leaf: read(leaf, start), self._observ),
            action=read(self._action, start),
            reward=reward,
            next_observ=tf.nest.map_structure(lambda leaf: read(leaf, now), self._observ),
            discount=factor,
            weight=tf.cast(valid, tf.float32),
        )

    def num_written(self) -> tf.Tensor:
        """Rows in the ring without the current ones, int64 []: its steps, and ends of episodes."""
        return tf.reduce_sum(tf.minimum(self._written, self.num_rows - 1))

    # Files, see `agents.runs.replay_files`.

    def written(self) -> np.ndarray:
        """Rows written so far, int64 [B], as of before a cut that no step has followed.

        A process that resumes cuts the episodes itself.
        """
        written: np.ndarray = self._written.numpy()
        is_cut = np.array_equal(written, self._written_by_cut)
        return written - 1 if is_cut else written

    def read(self, start: np.ndarray, stop: np.ndarray) -> dict[str, np.ndarray]:
        """Arrays [N, ...] by name: rows `start` to before `stop`, int64 [B], by environment."""
        rows = self._rows(start, stop)
        return {name: self._read(array, rows).numpy() for name, array in self._arrays.items()}

    def write(self, start: np.ndarray, stop: np.ndarray, arrays: Mapping[str, np.ndarray]) -> None:
        """Writes what `read` returned; the last row is the current one from then on."""
        places = self._places(self._rows(start, stop))  # [N]
        for name, array in self._arrays.items():
            numbers = arrays[name].reshape(-1).view(array.dtype.as_numpy_dtype)
            numbers = numbers.reshape([len(places), *array.shape[1:]])
            array.scatter_update(tf.IndexedSlices(numbers, places))
        self._written.assign(stop - 1)
        self._written_by_cut = np.array([])

    def _rows(self, start: np.ndarray, stop: np.ndarray) -> Rows:
        """Places of rows counted from the first one, [N]."""
        counts = stop - start  # [B]
        env = np.repeat(np.arange(len(start)), counts)
        row = np.concatenate([np.arange(*pair) for pair in zip(start, stop, strict=True)])
        return Rows(tf.constant(row % self.num_rows), tf.constant(env))

    def _read(self, variable: tf.Variable, rows: Rows) -> tf.Tensor:
        return tf.gather(variable, self._places(rows))  # [..., M, ...]

    def _places(self, rows: Rows) -> tf.Tensor:
        """Indices of rows in the variables, int64."""
        return rows.row * self._written.shape[0] + rows.env


def check_memory(capacity: int, observation_space: Space, action_space: Space) -> int:
    """Returns the bytes that a replay takes; see `Replay`.

    Raises:
      UsageError: The machine, or the container, has less memory.
    """
    observ = sum(
        math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in leaf_spaces(observation_space)
    )
    action = 4 * num_dimensions(action_space)
    num_bytes = capacity * int(observ + action + 4 + 1)
    memory = _memory_limit()
    if num_bytes > memory:
        raise UsageError(
            f"replay_capacity: {capacity:,} steps take {num_bytes / 1e9:,.1f} GB, and this process may "
            f"use {memory / 1e9:,.1f} GB of memory\n"
            f"expected {capacity * memory // num_bytes:,} or fewer"
        )
    return num_bytes


def _memory_limit() -> int:
    """Returns the bytes that this process may use: the machine's, or fewer in a container or a job."""
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    # By controller, in versions 2 and 1 of Linux's control groups.
    files = {
        "": ("/sys/fs/cgroup", "memory.max"),
        "memory": ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
    }
    groups = Path("/proc/self/cgroup")
    for line in groups.read_text().splitlines() if groups.is_file() else []:
        _, controller, group = line.split(":", 2)
        if controller not in files:
            continue
        mount, name = files[controller]
        # The limits of all groups around it hold, too. A container may see the outermost one only.
        for path in (Path(group), *Path(group).parents):
            file = Path(f"{mount}{path}", name)
            limit = file.read_text().strip() if file.is_file() else "max"
            if limit != "max":
                limits.append(int(limit))
    return min(limits)
