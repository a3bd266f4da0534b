"""Steps, turns and rollouts, which flow between environments and algorithms."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from agents.types import NestedTensor


class Step(NamedTuple):
    """One step of a batch of environments.

    Attributes:
      observ: Structure [B, ...], the next observations: where an episode ended, the first one of
        the next episode. In `Actor.experience` the observations that the step started from.
      reward: float32 [B].
      terminated: bool [B], whether the episode ended in a terminal state.
      truncated: bool [B], whether the episode was cut, as by a time limit.
      final_observ: Structure [B, ...], the last observations of episodes that ended, arbitrary in
        other rows.
      extras: float32 [B] by info key, NaN where an environment's info lacks the key.
      restarted: bool [B], whether the step has no outcome, because the environment failed and was
        restarted: its episode is truncated, `final_observ` is the observation that the step started
        from, and the reward is 0. () where environments are not restarted.
      action: Structure [B, ...], as the environments take it; only in `Actor.experience`.
    """

    observ: NestedTensor
    reward: tf.Tensor
    terminated: tf.Tensor
    truncated: tf.Tensor
    final_observ: NestedTensor
    extras: dict[str, tf.Tensor]
    restarted: tf.Tensor = ()
    action: NestedTensor = ()


class Rollout(NamedTuple):
    """T steps of B environments.

    Attributes:
      observ: Structure [T, B, ...], the observations that steps started from, as the environment
        gives them.
      reward: float32 [T, B].
      terminated: bool [T, B].
      truncated: bool [T, B].
      done: bool [T, B], terminated or truncated.
      final_observ: Structure [T, B, ...], valid where `done`.
      extras: float32 [T, B] by info key.
      episode_return: float32 [T, B], sum of the episode's rewards, valid where `done`.
      episode_length: int32 [T, B], steps of the episode, valid where `done`.
      restarted: bool [T, B], see `Step`; such an episode is no whole one.
    """

    observ: NestedTensor
    reward: tf.Tensor
    terminated: tf.Tensor
    truncated: tf.Tensor
    done: tf.Tensor
    final_observ: NestedTensor
    extras: dict[str, tf.Tensor]
    episode_return: tf.Tensor
    episode_length: tf.Tensor
    restarted: tf.Tensor = ()


class Turn(NamedTuple):
    """The environments that an actor acts in at once, each in its own step of the rollout.

    Attributes:
      step: int32 [B], the step of each environment, in [0, T).
      mask: bool [B], the environments that are ready; the actions of others are ignored.
    """

    step: tf.Tensor
    mask: tf.Tensor

    def read(self, stored: tf.Variable) -> tf.Tensor:
        """Returns the values [B, ...] of the environments' steps in a variable [T, B, ...]."""
        return tf.gather_nd(stored, self._indices())

    def write(self, stored: tf.Variable, values: tf.Tensor) -> None:
        """Writes values [B, ...] to the steps of ready environments in a variable [T, B, ...]."""
        stored.scatter_nd_update(self._indices(), self.select(values, self.read(stored)))

    def select(self, values: NestedTensor, others: NestedTensor) -> NestedTensor:
        """Returns `values` [B, ...] where environments are ready, and `others` elsewhere."""
        return select_rows(self.mask, values, others)

    def _indices(self) -> tf.Tensor:
        return tf.stack([self.step, tf.range(tf.size(self.step))], axis=1)  # [B, 2]


def select_rows(mask: tf.Tensor, if_true: NestedTensor, if_false: NestedTensor) -> NestedTensor:
    """Selects rows of two structures by a mask: bool [B] of [B, ...], or [T, B] of [T, B, ...]."""

    def select(one: tf.Tensor, other: tf.Tensor) -> tf.Tensor:
        rows = tf.reshape(mask, [*mask.shape, *[1] * (len(one.shape) - len(mask.shape))])
        return tf.where(rows, one, other)

    return tf.nest.map_structure(select, if_true, if_false)
