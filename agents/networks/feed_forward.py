"""Feed-forward policies and value functions."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from gymnasium import spaces

from agents.parts.distributions import Categorical, DiagonalGaussian, Distribution
from agents.tools.spaces import bounds, check_action_space


class FeedForward:
    """Separate networks for policy and value.

    Initialised orthogonally, as in Huang et al., "The 37 Implementation Details of PPO" (2022).

    Attributes:
      action_size: Numbers an action has, A; for a discrete one, how many actions there are.
    """

    def __init__(
        self,
        feature_count: int,
        action_space: spaces.Space,
        layers: tuple[int, ...] = (64, 64),
        activation: str = "tanh",
        initial_log_std: float = 0.0,
        seed: int = 0,
    ):
        """Makes the networks and their weights.

        Args:
          feature_count: Length of the vectors that come in, O.
          action_space: Box of floats for a diagonal Gaussian with a deviation that is the same in all states, or
            Discrete for a categorical distribution.
          layers: Units of the hidden layers.
          activation: Name of a Keras activation.
          initial_log_std: Logarithm of the initial standard deviation, in units of the action.
          seed: Of the initial weights.

        Raises:
          UnsupportedSpaceError: Another action space; the message names it.
        """
        check_action_space(action_space)
        space: Any = action_space
        self._action_space, self._discrete = space, isinstance(space, spaces.Discrete)
        self.action_size = int(space.n if self._discrete else np.prod(space.shape))
        seeds = iter(np.random.SeedSequence(seed).generate_state(2 * len(layers) + 2))
        self._actor = _dense_layers("policy", feature_count, layers, activation, self.action_size, 0.01, seeds)
        self._critic = _dense_layers("value", feature_count, layers, activation, 1, 1.0, seeds)
        self._log_std = tf.Variable(tf.fill([self.action_size], initial_log_std), name="log_std")

    def policy(self, features: tf.Tensor) -> Distribution:
        """Distribution over actions for features [N, O]."""
        outputs = self._actor(features)  # [N, A]
        return Categorical(outputs) if self._discrete else DiagonalGaussian(outputs, self._log_std)

    def noise(self, generator: tf.random.Generator, batch_shape: list[int]) -> tf.Tensor:
        """What is random about actions, for a batch of them; see `Distribution.noise`."""
        kind = Categorical if self._discrete else DiagonalGaussian
        return kind.noise(generator, [*batch_shape, self.action_size])

    def value(self, features: tf.Tensor) -> tf.Tensor:
        """State values [N] for features [N, O]."""
        return self._critic(features)[..., 0]

    def to_environment(self, action: tf.Tensor) -> tf.Tensor:
        """Actions of the policy as the environments get them: of their space's shape and type, within its bounds.

        For NaN they get the lower bound, so that a rollout goes on to its end and it can be told where that came from.
        """
        space = self._action_space
        if isinstance(space, spaces.Discrete):
            return tf.cast(action, space.dtype) + int(space.start)
        low, high = bounds(space)
        action = tf.cast(tf.reshape(action, [-1, *space.shape]), space.dtype)
        return tf.where(action >= low, tf.minimum(action, high), low)

    def variables(self) -> dict[str, tf.Variable]:
        """All weights, by name; all are trained."""
        models = {"policy": self._actor, "value": self._critic}
        weights = {
            f"{name}/{layer.name}/{weight.name}": weight.value
            for name, model in models.items()
            for layer in model.layers
            for weight in layer.weights
        }
        return weights if self._discrete else {**weights, "policy/log_std": self._log_std}


def _dense_layers(
    name: str,
    inputs: int,
    hidden: tuple[int, ...],
    activation: str,
    outputs: int,
    output_gain: float,
    seeds: Iterator[int],
) -> keras.Sequential:
    def dense(units: int, gain: float, activation: str | None, name: str) -> keras.layers.Layer:
        orthogonal = keras.initializers.Orthogonal(gain, seed=int(next(seeds)))
        return keras.layers.Dense(units, activation, kernel_initializer=orthogonal, name=name)

    layers = [dense(units, math.sqrt(2), activation, f"hidden_{index}") for index, units in enumerate(hidden)]
    return keras.Sequential([keras.Input([inputs]), *layers, dense(outputs, output_gain, None, "output")], name=name)
