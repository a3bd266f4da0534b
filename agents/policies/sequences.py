"""Rollouts as elements to learn from: single steps, or sequences for recurrent networks."""

from __future__ import annotations

from typing import TypeVar

import tensorflow as tf

from agents.policies.actor_critic import States
from agents.policies.recurrent_cells import reset_state

Structure = TypeVar("Structure")


def flatten_time(structure: Structure) -> Structure:
    """Reshapes leaves [T, B, ...] to single steps, [T * B, ...]."""
    flat: Structure = tf.nest.map_structure(
        lambda leaf: tf.reshape(leaf, [-1, *leaf.shape[2:]]), structure
    )
    return flat


def to_elements(structure: Structure, length: int = 0) -> Structure:
    """Reshapes leaves [T, B, ...] to single steps, or to sequences of a length that is not 0.

    Sequences are [T / length * B, length, ...].
    """
    if not length:
        return flatten_time(structure)

    def cut(leaf: tf.Tensor) -> tf.Tensor:
        steps, num_envs, *rest = leaf.shape
        chunks = tf.reshape(leaf, [steps // length, length, num_envs, *rest])  # [T / L, L, B, ...]
        chunks = tf.transpose(chunks, [0, 2, 1, *range(3, len(chunks.shape))])  # [T / L, B, L, ...]
        return tf.reshape(chunks, [-1, length, *rest])

    sequences: Structure = tf.nest.map_structure(cut, structure)
    return sequences


def states_before(states: States, start: States, is_first: tf.Tensor, length: int) -> States:
    """Recurrent states before each of the sequences that `to_elements` makes.

    Args:
      states: After each step, [T, B, U].
      start: Before the first step, [B, U].
      is_first: bool [T, B], whether a step is the first of an episode: its state is zero.
      length: Length of the sequences, L.

    Returns:
      States [T / length * B, U].
    """

    def before(after: tf.Tensor, first: tf.Tensor) -> tf.Tensor:
        previous = tf.concat(
            [first[None], after[length - 1 : -1 : length]], axis=0
        )  # [T / L, B, U]
        (previous,) = reset_state((previous,), is_first[::length])
        return tf.reshape(previous, [-1, *previous.shape[2:]])

    sequence_states: States = tf.nest.map_structure(before, states, start)
    return sequence_states
