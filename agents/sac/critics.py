"""Critics: networks that estimate the return of an action, as its mean or its quantiles."""

from __future__ import annotations

import keras
import tensorflow as tf

from agents.policies.actor_critic import (
    OUTPUT,
    Branch,
    critic_config,
    output_layer,
    reproducible_weights,
)
from agents.policies.inputs import Inputs, NetworkInputs
from agents.policies.weights import weights_by_path
from agents.settings.config import Config


class Critic:
    """One critic: features of the observation, joined with the action, and dense layers.

    The setting `network` gives the features; those of `feed_forward` are the observation's numbers.

    Attributes:
      layers: The layers with weights, by path.
    """

    def __init__(self, name: str, inputs: Inputs, action_size: int, config: Config):
        """Creates the weights.

        Args:
          name: Name of its models.
          inputs: Shapes and parts of the inputs.
          action_size: Numbers of an action, A.
          config: The experiment's settings, with the critic's layers.

        Raises:
          UsageError: The network does not fit the inputs.
        """
        self._inputs, self._encoder = inputs, None
        self.layers: dict[str, keras.layers.Layer] = {}
        (size,) = inputs.value_shapes.get("vector", (0,))
        if config.network != "feed_forward":
            encoder = Branch(f"{name}_encoder", inputs.value_shapes, config, inputs.value_parts)
            self._encoder, size = encoder, encoder.size
            self.layers |= {f"encoder/{layer}": encoder.layers[layer] for layer in encoder.layers}
        dense = config.model_copy(update={"network": "feed_forward"})
        self._branch = Branch(name, {"vector": (size + action_size,)}, dense)
        self._output = output_layer(name, self._branch.size, config.num_quantiles, gain=1.0)
        self.layers |= {**self._branch.layers, OUTPUT: self._output}

    def values(self, inputs: NetworkInputs, action: tf.Tensor) -> tf.Tensor:
        """Quantiles of the return [M, K] for normalized inputs [M, ...] and actions [M, A]."""
        inputs = self._inputs.join(inputs)
        features = self._encoder.step(inputs, ())[0] if self._encoder else inputs["vector"]
        joined = tf.concat([tf.cast(features, tf.float32), action], axis=-1)  # [M, F + A]
        features, _ = self._branch.step({"vector": joined}, ())  # [M, F]
        quantiles: tf.Tensor = self._output(features)
        return quantiles


class Critics:
    """C critics of the same structure, each with initial weights of its own.

    Attributes:
      action_size: Numbers of an action, A.
    """

    def __init__(self, inputs: Inputs, action_size: int, config: Config, seed: int):
        """Creates the weights.

        Args:
          inputs: Shapes and parts of the inputs.
          action_size: Numbers of an action, A.
          config: The experiment's settings.
          seed: Seed of the initial weights.

        Raises:
          UsageError: The network does not fit the inputs.
        """
        own = critic_config(config)
        names = [f"critic_{index}" for index in range(config.num_critics)]
        with reproducible_weights(seed):
            self._critics = [Critic(name, inputs, action_size, own) for name in names]
        self._weights = weights_by_path(
            {
                f"{name}/{path}": layer
                for name, critic in zip(names, self._critics, strict=True)
                for path, layer in critic.layers.items()
            }
        )

    def values(self, inputs: NetworkInputs, action: tf.Tensor) -> tf.Tensor:
        """Quantiles of the return [C, M, K] for normalized inputs [M, ...] and actions [M, A]."""
        return tf.stack([critic.values(inputs, action) for critic in self._critics])

    def variables(self) -> dict[str, tf.Variable]:
        """All weights, by name."""
        return {name: weight.variable.value for name, weight in self._weights.items()}

    def trainable_variables(self) -> dict[str, tf.Variable]:
        """The weights that are trained, by name."""
        return {
            name: weight.variable.value
            for name, weight in self._weights.items()
            if weight.trainable
        }

    def follow(self, others: Critics, rate: float) -> None:
        """Moves trained weights towards those of others, by a Polyak average; takes over the rest."""
        targets, trained = self.variables(), others.trainable_variables()
        for name, value in others.variables().items():
            average = (1 - rate) * targets[name] + rate * value if name in trained else value
            targets[name].assign(average)
