"""The simulation loop for environments that are at different steps of a rollout."""

from __future__ import annotations

from typing import cast

import tensorflow as tf

from agents.graph.algorithm import Actor, can_act_in_turns
from agents.graph.in_graph_batch_env import InGraphBatchEnv
from agents.graph.in_graph_env import InGraphEnv
from agents.graph.turn import Turn
from agents.types import NestedTensor


def loop_of_turns(
    batch_env: InGraphEnv,
    actor: Actor,
    steps: int,
    deterministic: bool,
    first_observ: NestedTensor,
    last_action: NestedTensor,
) -> tuple[NestedTensor, NestedTensor]:
    """Lets every environment make its steps, as soon as it has replied; see `PacedRollout`.

    Each turn computes actions for all environments, and ignores those of environments that have not
    replied: shapes stay static, and a row of a policy depends on no other row.

    Args:
      batch_env: B environments in worker processes.
      actor: Acts in turns.
      steps: Number of steps of each environment, T.
      deterministic: Passed to the actor's `perform`.
      first_observ: Structure [B, ...], the observations before the rollout.
      last_action: Structure [B, ...], the actions before the rollout.

    Returns:
      Packed results of the steps, [T, ...], and the last actions, [B, ...].

    Raises:
      ValueError: The actor does not act in turns.
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
        action = turn.select(actor.perform(observ, deterministic), action)  # [B, ...]
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
