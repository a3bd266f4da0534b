"""Returns and lengths of the episodes in a rollout."""

from __future__ import annotations

import tensorflow as tf

from agents.graph.in_graph_env import InGraphEnv


def track_episodes(
    batch_env: InGraphEnv, reward: tf.Tensor, done: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns and lengths of episodes up to each step; those of running episodes stay in variables.

    Args:
      batch_env: B environments, whose `episode_return` and `episode_length` are assigned.
      reward: float32 [T, B].
      done: bool [T, B].

    Returns:
      Returns, float32 [T, B], and lengths, int32 [T, B], including each step.
    """
    variables = batch_env.episode_return, batch_env.episode_length
    returns, lengths, after = _episode_sums(reward, done, *map(tf.convert_to_tensor, variables))
    for variable, value in zip(variables, after, strict=True):
        variable.assign(value)
    return returns, lengths


# A loop of small operations: compiled it takes no time beside the environments' steps.
@tf.function(jit_compile=True, autograph=False)
def _episode_sums(
    reward: tf.Tensor, done: tf.Tensor, returns: tf.Tensor, lengths: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor, list[tf.Tensor]]:
    """Running return and length of every environment, restarted after the end of an episode.

    Args:
      reward: float32 [T, B].
      done: bool [T, B].
      returns: float32 [B], returns so far of the episodes running at the start.
      lengths: int32 [B], their lengths so far.

    Returns:
      Returns [T, B] and lengths [T, B] including each step, and [returns, lengths] [B] to start the
      next rollout with.
    """

    def add_step(
        sums: tuple[tf.Tensor, ...], step: tuple[tf.Tensor, tf.Tensor]
    ) -> tuple[tf.Tensor, ...]:
        _, _, returns, lengths = sums
        reward, done = step
        returns, lengths = returns + reward, lengths + 1
        return returns, lengths, tf.where(done, 0.0, returns), tf.where(done, 0, lengths)

    returns, lengths, *after = tf.scan(add_step, (reward, done), (returns, lengths) * 2)
    return returns, lengths, [sums[-1] for sums in after]
