"""The interface of environments in TensorFlow."""

from __future__ import annotations

import abc

import tensorflow as tf

from agents.tensor_envs.random_numbers import Uniform
from agents.types import NestedTensor, Space


class TensorEnv(abc.ABC):
    """An environment as pure functions of a batch; subclass it to implement one.

    A state is a `tf.nest` structure of tensors [B, ...] with one row per environment. The functions
    process rows independently, have no side effects, and consist of operations of static shapes, so
    that XLA can compile them. Randomness comes from `uniform` only: numbers that depend on the
    environment's seed, its episode and its step.

    `InGraphTensorEnv` implements autoreset, time limits and action repeat.

    Attributes:
      observation_space: Gymnasium space of one environment's observations.
      action_space: Gymnasium space of one environment's actions.
    """

    observation_space: Space
    action_space: Space

    @abc.abstractmethod
    def initial_state(self, uniform: Uniform) -> NestedTensor:
        """Returns initial states of episodes, a structure [B, ...].

        Args:
          uniform: Draws float64 [B, *shape]; see `agents.tensor_envs.random_numbers.Uniform`.
        """

    @abc.abstractmethod
    def step(
        self, state: NestedTensor, action: NestedTensor, uniform: Uniform
    ) -> tuple[NestedTensor, tf.Tensor, tf.Tensor]:
        """Computes one step of every environment.

        Args:
          state: Structure [B, ...] from `initial_state` or `step`.
          action: Structure [B, ...] of the action space's dtypes, within its bounds.
          uniform: Draws float64 [B, *shape]; see `agents.tensor_envs.random_numbers.Uniform`.

        Returns:
          The next states; the rewards, floating point [B]; and whether the next states are
          terminal, bool [B].
        """

    @abc.abstractmethod
    def observe(self, state: NestedTensor) -> NestedTensor:
        """Returns the observations of states, a structure [B, ...] of the space's dtypes."""
