"""Policy and value function: torsos, optional recurrent cells, and an output layer for each."""

from __future__ import annotations

import contextlib
import math
import random
from collections.abc import Iterator, Sequence

import keras
import tensorflow as tf

from agents.distributions.distribution import Distribution
from agents.distributions.parametric_distribution import ParametricDistribution
from agents.keras_settings import default_settings, sublayers
from agents.policies.inputs import MASK, Inputs, NetworkInputs, Parts
from agents.policies.recurrent_cells import Recurrent, State
from agents.policies.torsos import make_torso
from agents.policies.weights import numbered, weights_by_path
from agents.settings.config import WITHOUT_VALUES, Config

# Images of a rollout that pass through a torso at a time: its layers' outputs take up to 100 kB an image.
_IMAGES_AT_A_TIME = 512

# Name of the layer that follows a branch.
OUTPUT = "output"

# Recurrent state by branch, `policy` and `value`; empty for feed-forward networks, without `value`
# where the branches are shared.
States = dict[str, State]


class ActorCritic:
    """Policy and value function, with separate or shared torsos.

    Algorithms with critics of their own have the policy only.

    Output layers are initialized orthogonally, as in Huang et al., "The 37 Implementation Details
    of PPO" (2022).

    Attributes:
      action_distribution: Distributions over the action space.
      recurrent: Whether the networks are recurrent.
      convolves: Whether the networks see images. On the CPU, XLA's convolutions in a loop take 40
        times as long as TensorFlow's.
    """

    def __init__(
        self,
        inputs: Inputs,
        action_distribution: ParametricDistribution,
        config: Config,
        seed: int = 0,
    ):
        """Creates the weights.

        Args:
          inputs: Shapes and parts of the inputs.
          action_distribution: Distributions over the action space.
          config: The experiment's settings.
          seed: Seed of the initial weights.

        Raises:
          UsageError: The network does not exist, or does not fit the inputs.
        """
        self.action_distribution = action_distribution
        self.recurrent = config.recurrent != "none"
        self._inputs = inputs
        self.convolves = bool({*inputs.shapes, *inputs.value_shapes} - {"vector"})
        has_values = config.algorithm not in WITHOUT_VALUES
        value_config = critic_config(config)
        if config.layer_norm == "critic":
            config = config.model_copy(update={"layer_norm": "none"})
        parameters = action_distribution.parameters
        predicted = [parameter for parameter in parameters if not parameter.independent]
        self._sizes = [parameter.size for parameter in predicted]
        with reproducible_weights(seed):
            self._policy = self._value = Branch("policy", inputs.shapes, config, inputs.parts)
            if has_values and not config.shared_torso:
                self._value = Branch("value", inputs.value_shapes, value_config, inputs.value_parts)
            self._policy_head = output_layer(
                "policy", self._policy.size, sum(self._sizes), gain=0.01
            )
            if has_values:
                self._value_head = output_layer("value", self._value.size, 1, gain=1.0)
        initial = [tf.fill([parameter.size], parameter.initial) for parameter in predicted]
        self._policy_head.bias.assign(tf.concat(initial, axis=0))
        self._independent = {
            parameter.name: tf.Variable(
                tf.fill([parameter.size], parameter.initial), name=parameter.name
            )
            for parameter in parameters
            if parameter.independent
        }
        layers = {branch.name: branch.layers for branch in (self._policy, self._value)}
        layers["policy"] = {**layers["policy"], OUTPUT: self._policy_head}
        if has_values:
            layers["value"] = {**layers.get("value", {}), OUTPUT: self._value_head}
        self._weights = weights_by_path(
            {
                f"{branch}/{name}": layer
                for branch, named in layers.items()
                for name, layer in named.items()
            }
        )

    # Single steps.

    def policy(self, inputs: NetworkInputs, states: States) -> tuple[Distribution, States]:
        """Computes the distributions over actions.

        Args:
          inputs: Normalized inputs [N, ...].
          states: Recurrent state.

        Returns:
          Distributions [N], and the next recurrent state.
        """
        features, state = self._policy.step(inputs, states.get("policy", ()))  # [N, F]
        policy = self.distribution(self._parameters(features), inputs)
        return policy, {**states, "policy": state} if self.recurrent else states

    def value(self, inputs: NetworkInputs, states: States) -> tf.Tensor:
        """State values [N] for normalized inputs [N, ...] and recurrent state."""
        inputs = self._inputs.join(inputs)
        features, _ = self._value.step(inputs, states.get(self._value.name, ()))  # [N, F]
        return self._value_head(features)[..., 0]

    def distribution(self, parameters: Sequence[tf.Tensor], inputs: NetworkInputs) -> Distribution:
        """Distributions [...] of parameters [..., size], masked where `inputs` hold a mask."""
        return self.action_distribution.distribution(parameters, inputs.get(MASK))

    def zero_states(self, num_envs: int | tf.Tensor) -> States:
        """Recurrent state at the start of episodes in `num_envs` environments, by branch."""
        branches = {branch.name: branch for branch in (self._policy, self._value)}
        return {
            name: branch.memory.zero_state(num_envs)
            for name, branch in branches.items()
            if branch.memory
        }

    # Whole sequences: L steps of N environments.

    def policies(
        self, inputs: NetworkInputs, states: States, is_first: tf.Tensor
    ) -> tuple[list[tf.Tensor], States]:
        """Computes the parameters of the distributions of whole sequences.

        Args:
          inputs: Normalized inputs [L, N, ...].
          states: Recurrent state before the first step, [N, U].
          is_first: bool [L, N], whether a step is the first of an episode.

        Returns:
          Parameters [L, N, size] or [size], and the recurrent state after each step, [L, N, U].
        """
        features, after = self._policy.unroll(inputs, states.get("policy", ()), is_first)
        return self._parameters(features), {"policy": after} if self.recurrent else {}

    def values(
        self, inputs: NetworkInputs, states: States, is_first: tf.Tensor
    ) -> tuple[tf.Tensor, States]:
        """State values [L, N] and recurrent states [L, N, U] of sequences; see `policies`."""
        name, inputs = self._value.name, self._inputs.join(inputs)
        features, after = self._value.unroll(inputs, states.get(name, ()), is_first)
        return self._value_head(features)[..., 0], {name: after} if self.recurrent else {}

    # Minibatches: M single steps, or N sequences of L steps.

    def evaluate(
        self, inputs: NetworkInputs, states: States, is_first: tf.Tensor
    ) -> tuple[Distribution, tf.Tensor]:
        """Computes distributions and values of a minibatch.

        Args:
          inputs: Normalized inputs [M, ...]; for recurrent networks [N, L, ...].
          states: Recurrent state before each sequence, [N, U]; ignored for single steps.
          is_first: bool [N, L]; ignored for single steps.

        Returns:
          Distributions and values, [M] or [N, L].
        """
        features, value_features = self._features(inputs, states, is_first)
        policy = self.distribution(self._parameters(features), inputs)
        return policy, self._value_head(value_features)[..., 0]

    def variables(self) -> dict[str, tf.Variable]:
        """All weights, by name.

        Names of weights that only the value function depends on start with `value/`.
        """
        weights = {name: weight.variable.value for name, weight in self._weights.items()}
        return weights | {f"policy/{name}": value for name, value in self._independent.items()}

    def trainable_variables(self) -> dict[str, tf.Variable]:
        """The weights that are trained, by name."""
        fixed = {name for name, weight in self._weights.items() if not weight.trainable}
        return {name: value for name, value in self.variables().items() if name not in fixed}

    def _features(
        self, inputs: NetworkInputs, states: States, is_first: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Features of policy and value function, [M, F] or [N, L, F]."""
        shared = self._value is self._policy
        if not self.recurrent:
            features, _ = self._policy.step(inputs, ())  # [M, F]
            if shared:
                return features, features
            return features, self._value.step(self._inputs.join(inputs), ())[0]
        by_time = {name: swap_first_axes(value) for name, value in inputs.items()}  # [L, N, ...]
        is_first = swap_first_axes(is_first)  # [L, N]
        features, _ = self._policy.unroll(by_time, states["policy"], is_first)  # [L, N, F]
        value_features = features
        if not shared:
            value_inputs = self._inputs.join(by_time)
            value_features, _ = self._value.unroll(value_inputs, states["value"], is_first)
        return swap_first_axes(features), swap_first_axes(value_features)

    def _parameters(self, features: tf.Tensor) -> list[tf.Tensor]:
        """Parameters of the distributions: [..., size], or [size] if independent of the inputs."""
        outputs = self._policy_head(features)  # [..., sum of sizes]
        split = [outputs] if len(self._sizes) == 1 else tf.split(outputs, self._sizes, axis=-1)
        predicted = iter(split)
        return [
            tf.convert_to_tensor(self._independent[parameter.name])
            if parameter.independent
            else next(predicted)
            for parameter in self.action_distribution.parameters
        ]


class Branch:
    """A torso, followed by a recurrent cell or none.

    Attributes:
      name: Name of its weights, `policy` or `value`.
      size: Size of its features, F.
      memory: The recurrent cell, or None.
      layers: The layers with weights, by name.
    """

    def __init__(
        self, name: str, shapes: dict[str, tuple[int, ...]], config: Config, parts: Parts = None
    ):
        """Creates the weights.

        Args:
          name: Name of its weights.
          shapes: Shapes of the inputs, by name.
          config: The experiment's settings.
          parts: Where the inputs hold the parts of an observation; by default unknown.

        Raises:
          UsageError: The network does not exist, or does not fit the inputs.
        """
        self.name, self._shapes = name, shapes
        inputs = {
            key: keras.Input(shape, dtype="float32" if key == "vector" else "uint8", name=key)
            for key, shape in shapes.items()
        }
        precision = config.precision
        with default_settings("mixed_bfloat16" if precision == "bfloat16" else precision):
            self._model = torso = make_torso(inputs, parts, config, name)
        self.size = int(torso.output.shape[-1])
        self.memory: Recurrent | None = None
        weighted = [layer for layer in torso.layers if layer.weights]
        self.layers = numbered(weighted, taken=(OUTPUT, config.recurrent))
        if config.recurrent != "none":
            self.memory = Recurrent(config.recurrent, self.size, config.recurrent_units, name)
            self.size = config.recurrent_units
            self.layers[config.recurrent] = self.memory.cell

    def _torso(self, inputs: NetworkInputs) -> tf.Tensor:
        """Features [N, F] of inputs [N, ...]."""
        for layer in sublayers(self._model, recursive=True):
            if isinstance(layer, keras.layers.Normalization):
                layer.finalize_state()  # From its weights: a checkpoint may have changed them.
        # Acts and learns alike, so that probabilities before and after an update are comparable.
        return self._model(inputs, training=False)

    def step(self, inputs: NetworkInputs, state: State) -> tuple[tf.Tensor, State]:
        """Features [N, F] of inputs [N, ...], and the next recurrent state."""
        features = self._torso({name: inputs[name] for name in self._shapes})
        features = tf.cast(features, tf.float32)  # [N, F]
        return self.memory.step(features, state) if self.memory else (features, ())

    def unroll(
        self, inputs: NetworkInputs, state: State, is_first: tf.Tensor
    ) -> tuple[tf.Tensor, State]:
        """Features [L, N, F] of inputs [L, N, ...], and recurrent states after each step."""
        flat = {
            name: tf.reshape(inputs[name], [-1, *shape]) for name, shape in self._shapes.items()
        }  # [L * N, ...]
        features = self._features(flat, math.prod(is_first.shape))  # [L * N, F]
        features = tf.reshape(features, [*is_first.shape, features.shape[-1]])  # [L, N, F]
        return self.memory.unroll(features, state, is_first) if self.memory else (features, ())

    def _features(self, inputs: NetworkInputs, number: int) -> tf.Tensor:
        """Features [number, F] of a number of inputs; of many images, in equal parts."""
        limit = number if set(self._shapes) == {"vector"} else min(number, _IMAGES_AT_A_TIME)
        size = next(size for size in range(limit, 0, -1) if number % size == 0)
        if size == number:
            return tf.cast(self._torso(inputs), tf.float32)  # [number, F]
        parts = {
            name: tf.reshape(inputs[name], [-1, size, *shape])
            for name, shape in self._shapes.items()
        }  # [number / size, size, ...]
        features = tf.map_fn(
            lambda part: tf.cast(self._torso(part), tf.float32),
            parts,
            parallel_iterations=1,
            fn_output_signature=tf.float32,
        )  # [number / size, size, F]
        return tf.reshape(features, [number, features.shape[-1]])


def critic_config(config: Config) -> Config:
    """The settings, with those of layers replaced by those of value functions and critics."""
    layer_norm = "none" if config.layer_norm == "none" else "all"
    layers = config.value_layers or config.layers
    return config.model_copy(update={"layers": layers, "layer_norm": layer_norm})


def output_layer(branch: str, features: int, outputs: int, gain: float) -> keras.layers.Layer:
    """A dense layer of float32, initialized orthogonally, that follows a branch's features."""
    orthogonal = keras.initializers.Orthogonal(gain)
    name = f"{branch}_output"
    layer = keras.layers.Dense(outputs, kernel_initializer=orthogonal, dtype="float32", name=name)
    layer.build([None, features])
    return layer


@contextlib.contextmanager
def reproducible_weights(seed: int) -> Iterator[None]:
    """Seeds Python's generator, from which Keras seeds initializers; restores it afterwards."""
    before = random.getstate()
    random.seed(seed)
    try:
        yield
    finally:
        random.setstate(before)


def swap_first_axes(tensor: tf.Tensor) -> tf.Tensor:
    """From [L, N, ...] to [N, L, ...], or back."""
    return tf.transpose(tensor, [1, 0, *range(2, len(tensor.shape))])
