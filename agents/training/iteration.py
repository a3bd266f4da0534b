"""What an iteration returns."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from agents.graph.algorithm import Report


class Iteration(NamedTuple):
    """What an iteration returns, of the environments of all learners.

    Attributes:
      done: bool [T, B], whether a step ended an episode; not where the environment was restarted.
      episode_return: float32 [T, B], valid where `done`.
      episode_length: int32 [T, B], valid where `done`.
      extras: float32 [T, B] by info key.
      report: The algorithm's report.
      is_finite: bool [], whether everything that the algorithm monitors is finite.
      collected: float64 [], when the last rollout was complete, in seconds since 1970; 0 in compiled
        programs, which have no clock.
    """

    done: tf.Tensor
    episode_return: tf.Tensor
    episode_length: tf.Tensor
    extras: dict[str, tf.Tensor]
    report: Report
    is_finite: tf.Tensor
    collected: tf.Tensor
