"""Rollouts as elements to learn from: single steps, or sequences of them for networks with a memory."""

from __future__ import annotations

import math
from typing import Any

import tensorflow as tf

from agents.config import Config
from agents.networks.recurrent import reset_state


def sequence_length(config: Config) -> int:
    """Steps of the sequences that a network with a memory learns from, L: a divisor of rollouts and minibatches."""
    return config.sequence_length or math.gcd(config.rollout_length, config.minibatch_size)


def flatten_time(structure: Any) -> Any:
    """Leaves [T, B, ...] as single steps, [T * B, ...]."""
    return tf.nest.map_structure(lambda leaf: tf.reshape(leaf, [-1, *leaf.shape[2:]]), structure)


def to_sequences(structure: Any, length: int) -> Any:
    """Leaves [T, B, ...] as sequences, [T / length * B, length, ...]."""

    def cut(leaf: tf.Tensor) -> tf.Tensor:
        steps, envs, *rest = leaf.shape
        chunks = tf.reshape(leaf, [steps // length, length, envs, *rest])
        chunks = tf.transpose(chunks, [0, 2, 1, *range(3, len(chunks.shape))])
        return tf.reshape(chunks, [-1, length, *rest])

    return tf.nest.map_structure(cut, structure)


def states_before(states: Any, start: Any, begins: tf.Tensor, length: int) -> Any:
    """What was remembered before each sequence that `to_sequences` makes.

    Args:
      states: Structure of tensors [T, B, ...], after each step.
      start: Likewise [B, ...], before the first one.
      begins: bool [T, B], whether a step is the first of an episode, with nothing remembered before it.
      length: Of the sequences.

    Returns:
      Structure of tensors [T / length * B, ...].
    """

    def before(after: tf.Tensor, first: tf.Tensor) -> tf.Tensor:
        previous = tf.concat([first[None], after[length - 1 : -1 : length]], axis=0)  # [T / length, B, U]
        (previous,) = reset_state((previous,), begins[::length])
        return tf.reshape(previous, [-1, *previous.shape[2:]])

    return tf.nest.map_structure(before, states, start)
