"""The simulation loop: an actor and its environments take turns inside the graph."""

from __future__ import annotations

from typing import cast

import tensorflow as tf

from agents.graph.algorithm import Actor, can_act_in_turns
from agents.graph.in_graph_batch_env import InGraphBatchEnv
from agents.graph.in_graph_env import InGraphEnv
from agents.graph.step import Rollout, Turn
from agents.types import NestedTensor


@tf.autograph.experimental.do_not_convert
def simulate(
    batch_env: InGraphEnv, actor: Actor, steps: int, deterministic: bool = False
) -> Rollout:
    """Lets an actor act in its environments for some steps; for use inside of a `tf.function`.

    Each step calls the actor's `perform`, steps the environments, and calls `experience`,
    `end_episode` and `begin_episode`. The observations after the last step are
    `batch_env.observ`; the variables of `batch_env` change at the end, all at once.

    Where `batch_env.wait_for` is below 1, environments need not be at the same step, and the actor's
    `begin_turn` is called before `perform`. The rollout is the same, bit for bit.

    AutoGraph converts neither it nor the actor's methods: these branch with `tf.cond` and `tf.where`.

    Args:
      batch_env: B environments that were reset before their first step.
      actor: Chooses the actions.
      steps: Number of steps of each environment, T.
      deterministic: Passed to the actor's `perform`.

    Returns:
      The rollout, [T, B, ...].

    Raises:
      ValueError: The actor does not act in turns, but `batch_env.wait_for` is below 1.
      UsageError: Its actions have another structure, shape or type than the action space.
    """
    loop = _loop if batch_env.wait_for == 1 else _loop_of_turns
    actor.begin_rollout(steps)
    first_observ, last_action = (
        tf.nest.map_structure(tf.convert_to_tensor, variables)
        for variables in (batch_env.observ, batch_env.action)
    )
    packed, last_action = loop(batch_env, actor, steps, deterministic, first_observ, last_action)
    results = batch_env.unpack(packed)  # [T, B, ...]
    batch_env.keep(last_action, tf.nest.map_structure(lambda leaf: leaf[-1], results))
    observ = tf.nest.map_structure(
        lambda first, later: tf.concat([first[None], later[:-1]], axis=0),
        first_observ,
        results.observ,
    )  # [T, B, ...]
    done = results.terminated | results.truncated  # [T, B]
    sums = batch_env.episode_return, batch_env.episode_length
    episode_return, episode_length, after = _episode_sums(
        results.reward, done, *map(tf.convert_to_tensor, sums)
    )
    for variable, value in zip(sums, after, strict=True):
        variable.assign(value)
    return Rollout(
        observ=observ,
        reward=results.reward,
        terminated=results.terminated,
        truncated=results.truncated,
        done=done,
        final_observ=results.final_observ,
        extras=results.extras,
        episode_return=episode_return,
        episode_length=episode_length,
        restarted=results.restarted,
    )


def complete_episodes(rollout: Rollout) -> tf.Tensor:
    """Marks the last steps of complete episodes, bool [T, B], which no restart has cut."""
    if isinstance(rollout.restarted, tuple):
        return rollout.done
    return rollout.done & ~rollout.restarted


def _loop(
    batch_env: InGraphEnv,
    actor: Actor,
    steps: int,
    deterministic: bool,
    first_observ: NestedTensor,
    last_action: NestedTensor,
) -> tuple[NestedTensor, NestedTensor]:
    """Runs the steps; returns their packed results [T, ...] and the last actions [B, ...]."""

    def one_step(
        step: tf.Tensor, observ: NestedTensor, _: NestedTensor, arrays: NestedTensor
    ) -> tuple[tf.Tensor, NestedTensor, NestedTensor, NestedTensor]:
        action = _perform(batch_env, actor, observ, deterministic)  # [B, ...]
        packed = batch_env.step(action)
        result = batch_env.unpack(packed)  # [B, ...]
        actor.experience(step, result._replace(observ=observ, action=action))
        done = result.terminated | result.truncated  # [B]
        actor.end_episode(done)
        actor.begin_episode(done)
        arrays = tf.nest.map_structure(
            lambda array, value: array.write(step, value), arrays, packed
        )
        return step + 1, result.observ, action, arrays

    arrays = tf.nest.map_structure(
        lambda spec: tf.TensorArray(spec.dtype, steps, element_shape=spec.shape),
        batch_env.packed_spec,
    )
    _, _, last_action, arrays = tf.while_loop(
        lambda step, *_: step < steps,
        one_step,
        (tf.constant(0), first_observ, last_action, arrays),
        maximum_iterations=steps,
    )
    return tf.nest.map_structure(lambda array: array.stack(), arrays), last_action


def _loop_of_turns(
    batch_env: InGraphEnv,
    actor: Actor,
    steps: int,
    deterministic: bool,
    first_observ: NestedTensor,
    last_action: NestedTensor,
) -> tuple[NestedTensor, NestedTensor]:
    """Like `_loop`, but each turn steps the environments that have replied, see `PacedRollout`.

    Each turn computes actions for all environments, and ignores those of environments that have not
    replied: shapes stay static, and a row of a policy depends on no other row.
    """
    if not can_act_in_turns(actor):
        raise ValueError(
            f"{type(actor).__name__} does not act in turns, as wait_for={batch_env.wait_for} needs.\n"
            "Use wait_for=1, or see Actor.acts_in_turns."
        )
    envs = cast(InGraphBatchEnv, batch_env)  # Others have a `wait_for` of 1.

    def one_turn(
        step: tf.Tensor, mask: tf.Tensor, observ: NestedTensor, action: NestedTensor
    ) -> tuple[tf.Tensor, tf.Tensor, NestedTensor, NestedTensor]:
        turn = Turn(tf.minimum(step, steps - 1), mask)
        actor.begin_turn(turn)
        performed = _perform(batch_env, actor, observ, deterministic)
        action = turn.select(performed, action)  # [B, ...]
        packed, next_step = envs.turn(steps, step, action)
        result = envs.unpack(packed)  # [B, ...]
        has_replied = next_step > step  # [B]
        done = has_replied & (result.terminated | result.truncated)  # [B]
        actor.end_episode(done)
        actor.begin_episode(done)
        return next_step, has_replied & (next_step < steps), result.observ, action

    zeros = tf.zeros([envs.num_envs], tf.int32)
    step, _, _, last_action = tf.while_loop(
        lambda step, *_: tf.reduce_any(step < steps),
        one_turn,
        (zeros, tf.ones([envs.num_envs], tf.bool), first_observ, last_action),
    )
    return envs.rollout(steps, step), last_action


def _perform(
    batch_env: InGraphEnv, actor: Actor, observ: NestedTensor, deterministic: bool
) -> NestedTensor:
    """Returns an actor's actions [B, ...] of the action space's types."""
    action = actor.perform(observ, deterministic)
    return batch_env.fit_actions(action, f"{type(actor).__name__}.perform")


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
