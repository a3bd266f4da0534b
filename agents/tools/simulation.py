"""The loop in the graph: environments and an algorithm take turns."""

from __future__ import annotations

from typing import Any, Protocol

import tensorflow as tf

from agents.tools.attr_dict import AttrDict
from agents.tools.in_graph_env import InGraphEnv


class Algorithm(Protocol):
    """What `simulate` asks of an algorithm. Masks are bool [B]; all methods are operations of the graph.

    One that has a method `begin_rollout(steps)` gets a call of it before each loop, as one operation of many steps.
    """

    def begin_episode(self, mask: tf.Tensor) -> None:
        """Called for the environments that have just begun an episode."""

    def perform(self, observ: Any, deterministic: bool) -> Any:
        """Returns actions for the environments: a structure [B, ...] of the action space's types."""

    def experience(self, step: tf.Tensor, transition: AttrDict) -> None:
        """Takes in what one step gave, in all environments; see `simulate` for what it is."""

    def end_episode(self, mask: tf.Tensor) -> None:
        """Called for the environments whose episode has just ended."""


def simulate(batch_env: InGraphEnv, algorithm: Algorithm, steps: int, deterministic: bool = False) -> AttrDict:
    """Lets an algorithm act in its environments for some steps; to be used inside of a `tf.function`.

    In every step `experience` gets the step's number in this call (int32) and a transition of tensors: `observ` and
    `action` [B, ...], `reward`, `terminated` and `truncated` [B], `final_observ` [B, ...], whose rows are the true last
    observations where an episode ended and arbitrary elsewhere, and, if there are info keys, `extras` [B] by name. The
    observation after a step is the next step's `observ`, or `batch_env.observ` after the last one. An algorithm that
    learns from whole rollouts need not remember these: they are returned.

    The variables of `batch_env` change at the end, all at once.

    Args:
      batch_env: B environments that were reset before their first step.
      algorithm: See `Algorithm`.
      steps: How many steps each environment makes, T.
      deterministic: Handed to the algorithm's `perform`.

    Returns:
      `observ`, `reward`, `terminated`, `truncated`, `final_observ` (and `extras`) of all steps, [T, B, ...]; of the
      episodes that ended in them, `ended` bool [T, B], `episode_return` float32 [T, B] and `episode_length` int32
      [T, B], the latter two valid where one ended.
    """

    def one_step(step: tf.Tensor, observ: Any, _: Any, given: Any) -> tuple[Any, ...]:
        action = algorithm.perform(observ, deterministic)
        packed = batch_env.step(action)
        outcome = batch_env.unpack(packed)
        algorithm.experience(step, AttrDict({**outcome, "observ": observ}, action=action))
        ended = outcome.terminated | outcome.truncated  # [B]
        algorithm.end_episode(ended)
        algorithm.begin_episode(ended)
        given = tf.nest.map_structure(lambda array, value: array.write(step, value), given, packed)
        return step + 1, outcome.observ, action, given

    if hasattr(algorithm, "begin_rollout"):
        algorithm.begin_rollout(steps)
    first_observ, action = (
        tf.nest.map_structure(tf.convert_to_tensor, variables) for variables in (batch_env.observ, batch_env.action)
    )
    given = tf.nest.map_structure(
        lambda spec: tf.TensorArray(spec.dtype, steps, element_shape=spec.shape), batch_env.packed_spec
    )
    _, _, action, given = tf.while_loop(
        lambda step, *_: step < steps, one_step, (tf.constant(0), first_observ, action, given), maximum_iterations=steps
    )
    rollout = batch_env.unpack(tf.nest.map_structure(lambda array: array.stack(), given))
    batch_env.keep(action, tf.nest.map_structure(lambda leaf: leaf[-1], rollout))
    observ = tf.nest.map_structure(
        lambda first, later: tf.concat([first[None], later[:-1]], axis=0), first_observ, rollout.observ
    )
    return AttrDict({**rollout, "observ": observ}, **_count_episodes(batch_env, rollout))


def _count_episodes(batch_env: InGraphEnv, rollout: AttrDict) -> AttrDict:
    """Return and length of the episodes of a rollout; those of the episodes under way are kept in the variables."""
    ended = rollout.terminated | rollout.truncated
    variables = batch_env.episode_return, batch_env.episode_length
    returns, lengths, after = _episode_sums(rollout.reward, ended, *map(tf.convert_to_tensor, variables))
    for variable, value in zip(variables, after, strict=True):
        variable.assign(value)
    return AttrDict(ended=ended, episode_return=returns, episode_length=lengths)


# A loop of small operations: compiled it costs nothing beside the steps themselves.
@tf.function(jit_compile=True, autograph=False)
def _episode_sums(reward: tf.Tensor, ended: tf.Tensor, returns: tf.Tensor, lengths: tf.Tensor) -> tuple[Any, ...]:
    """Running return and length of every environment; they start anew after the end of an episode.

    Args:
      reward: [T, B].
      ended: [T, B].
      returns: [B], of the episodes that are under way at the start.
      lengths: [B], likewise.

    Returns:
      Returns [T, B] and lengths [T, B] with each step counted in, and what to start the next call with.
    """

    def count_in(sums: tuple[Any, ...], step: tuple[Any, ...]) -> tuple[Any, ...]:
        _, _, returns, lengths = sums
        reward, ended = step
        returns, lengths = returns + reward, lengths + 1
        return returns, lengths, tf.where(ended, 0.0, returns), tf.where(ended, 0, lengths)

    returns, lengths, *after = tf.scan(count_in, (reward, ended), (returns, lengths, returns, lengths))
    return returns, lengths, [sums[-1] for sums in after]
