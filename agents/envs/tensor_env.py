"""What an environment in TensorFlow is."""

from __future__ import annotations

import abc
from typing import Any

import tensorflow as tf
from gymnasium import spaces

from agents.envs.random_numbers import Uniform


class TensorEnv(abc.ABC):
    """An environment as pure functions of a batch; subclass it to write one.

    A state is a `tf.nest` structure of tensors [B, ...], and each row of it is an environment's. The functions do not
    mix rows, keep nothing from call to call, and consist of operations with static shapes, so that XLA can compile
    them. What is random comes from `uniform`: numbers that depend on the environment's seed, its episode and its step.

    Starting the next episode, time limits and repeated actions are not their business: see `InGraphTensorEnv`.

    Attributes:
      observation_space: Gymnasium space of one environment's observations.
      action_space: Gymnasium space of one environment's actions.
    """

    observation_space: spaces.Space
    action_space: spaces.Space

    @abc.abstractmethod
    def initial_state(self, uniform: Uniform) -> Any:
        """Returns a state in which episodes begin, as many rows as `uniform` draws."""

    @abc.abstractmethod
    def step(self, state: Any, action: Any, uniform: Uniform) -> tuple[Any, tf.Tensor, tf.Tensor]:
        """Makes one step.

        Args:
          state: What `initial_state` or `step` returned.
          action: Structure of tensors [B, ...] of the action space's types, within its bounds.
          uniform: See `agents.envs.random_numbers.Uniform`.

        Returns:
          The next state; the rewards [B], floating point; and whether that state ends the episode, bool [B].
        """

    @abc.abstractmethod
    def observe(self, state: Any) -> Any:
        """Returns the observations in a state: a structure [B, ...] of the observation space's types."""
