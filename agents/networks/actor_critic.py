"""A policy and a value function: torsos, a memory after them or none, and a last layer for each."""

from __future__ import annotations

import contextlib
import random
import re
from collections.abc import Iterator, Sequence
from typing import Any

import keras
import tensorflow as tf

from agents.config import Config
from agents.distributions.action_family import ActionFamily
from agents.distributions.distribution import Distribution
from agents.networks.inputs import MASK
from agents.networks.recurrent import Recurrent, State
from agents.networks.torsos import find_torso
from agents.tools.attr_dict import AttrDict

Inputs = dict[str, tf.Tensor]
# By branch, `policy` and `value`; nothing for those without a memory, or that share the policy's.
States = dict[str, State]


class ActorCritic:
    """Policy and value function, with torsos of their own or a shared one.

    Last layers are initialised orthogonally, as in Huang et al., "The 37 Implementation Details of PPO" (2022).

    Attributes:
      family: Of the policy's distributions.
      recurrent: Whether it remembers earlier observations.
      convolves: Whether it sees images. XLA takes 40 times as long for convolutions inside of a loop on the CPU.
    """

    def __init__(self, shapes: dict[str, tuple[int, ...]], family: ActionFamily, config: Config, seed: int = 0):
        """Makes the weights.

        Args:
          shapes: Of the inputs, by name; see `agents.networks.inputs`.
          family: Of the policy's distributions.
          config: See `agents.config`.
          seed: Of the initial weights.

        Raises:
          UsageError: The configuration names no torso, or one that does not fit the inputs.
        """
        self.family, self.recurrent = family, config.recurrent != "none"
        self.convolves = set(shapes) != {"vector"}
        value_config = config.model_copy(update={"layers": config.value_layers or config.layers})
        with _reproducible_weights(seed):
            self._policy = _Branch("policy", shapes, config)
            self._value = self._policy if config.shared_torso else _Branch("value", shapes, value_config)
            dependent = [parameter for parameter in family.parameters if not parameter.independent]
            self._sizes = [parameter.size for parameter in dependent]
            self._policy_head = _last_layer(self._policy.size, sum(self._sizes), gain=0.01)
            self._value_head = _last_layer(self._value.size, 1, gain=1.0)
        initial = [tf.fill([parameter.size], parameter.initial) for parameter in dependent]
        self._policy_head.bias.assign(tf.concat(initial, axis=0))
        self._independent = {
            parameter.name: tf.Variable(tf.fill([parameter.size], parameter.initial), name=parameter.name)
            for parameter in family.parameters
            if parameter.independent
        }

    # One step at a time.

    def policy(self, inputs: Inputs, states: States) -> tuple[Distribution, States]:
        """Distributions over actions for inputs [N, ...] and what was remembered, and what is remembered then."""
        features, state = self._policy.step(inputs, states.get("policy", ()))
        policy = self.distribution(self._parameters(features), inputs)
        return policy, {**states, "policy": state} if self.recurrent else states

    def value(self, inputs: Inputs, states: States) -> tf.Tensor:
        """State values [N] for inputs [N, ...] and what was remembered."""
        features, _ = self._value.step(inputs, states.get(self._value.name, ()))
        return self._value_head(features)[..., 0]

    def distribution(self, parameters: Sequence[tf.Tensor], inputs: Inputs) -> Distribution:
        """Distributions [...] from their parameters and the inputs [...], which may say what actions are valid."""
        return self.family.distribution(parameters, inputs.get(MASK))

    def zero_states(self, number: int) -> States:
        """What is remembered at the beginning of episodes, in `number` environments, by branch."""
        branches = {branch.name: branch for branch in (self._policy, self._value)}
        return {name: branch.memory.zero_state(number) for name, branch in branches.items() if branch.memory}

    # Whole sequences: L steps of N environments; `begins` [L, N] says which are the first of an episode.

    def policies(self, inputs: Inputs, states: States, begins: tf.Tensor) -> tuple[Sequence[tf.Tensor], States]:
        """Parameters of distributions [L, N, size], and what is remembered after each step, [L, N, ...]."""
        features, after = self._policy.unroll(inputs, states.get("policy", ()), begins)
        return self._parameters(features), {"policy": after} if self.recurrent else {}

    def values(self, inputs: Inputs, states: States, begins: tf.Tensor) -> tuple[tf.Tensor, States]:
        """State values [L, N], and what is remembered after each step, [L, N, ...]."""
        features, after = self._value.unroll(inputs, states.get(self._value.name, ()), begins)
        return self._value_head(features)[..., 0], {self._value.name: after} if self.recurrent else {}

    def evaluate(self, batch: AttrDict) -> tuple[Distribution, tf.Tensor]:
        """Distributions and values of a minibatch.

        Args:
          batch: `observ`, inputs [M, ...]; where there is a memory, sequences [N, L, ...], with `begins` [N, L] and the
            `states` before them, [N, ...].

        Returns:
          Distributions and values [M], or [N, L].
        """
        features, value_features = self._features(batch)
        policy = self.distribution(self._parameters(features), batch.observ)
        return policy, self._value_head(value_features)[..., 0]

    def variables(self) -> dict[str, tf.Variable]:
        """All weights, by name; all are trained. Names of those that only the value depends on begin with `value/`."""
        layers: dict[str, Any] = {branch.name: branch.layers for branch in (self._policy, self._value)}
        layers["policy"] = {**layers["policy"], "output": self._policy_head}
        layers["value"] = {**layers.get("value", {}), "output": self._value_head}
        weights = {
            f"{branch}/{name}/{weight.name}": weight.value
            for branch, named in layers.items()
            for name, layer in named.items()
            for weight in layer.weights
        }
        return weights | {f"policy/{name}": variable for name, variable in self._independent.items()}

    def _features(self, batch: AttrDict) -> tuple[tf.Tensor, tf.Tensor]:
        """Features for policy and value, [M, F] or [N, L, F]."""
        shared = self._value is self._policy
        if not self.recurrent:
            features, _ = self._policy.step(batch.observ, ())
            return features, features if shared else self._value.step(batch.observ, ())[0]
        inputs = {name: swap_first_axes(value) for name, value in batch.observ.items()}
        begins = swap_first_axes(batch.begins)
        both = {
            branch.name: swap_first_axes(branch.unroll(inputs, batch.states[branch.name], begins)[0])
            for branch in ([self._policy] if shared else [self._policy, self._value])
        }
        return both["policy"], both[self._value.name]

    def _parameters(self, features: tf.Tensor) -> list[tf.Tensor]:
        """What makes distributions: [..., size] each, or [size] where it is the same for all observations."""
        outputs = self._policy_head(features)
        dependent = iter([outputs] if len(self._sizes) == 1 else tf.split(outputs, self._sizes, axis=-1))
        independent = self._independent
        return [
            tf.convert_to_tensor(independent[parameter.name]) if parameter.independent else next(dependent)
            for parameter in self.family.parameters
        ]


class _Branch:
    """A torso, and a memory after it or none.

    Attributes:
      name: Of its weights.
      size: Length of its features, F.
      memory: Recurrent cells, or None.
      layers: What has weights, by name.
    """

    def __init__(self, name: str, shapes: dict[str, tuple[int, ...]], config: Config):
        self.name, self._shapes = name, shapes
        inputs = {
            key: keras.Input(shape, dtype="float32" if key == "vector" else "uint8", name=key)
            for key, shape in shapes.items()
        }
        with _precision(config.precision):
            self._torso = keras.Model(inputs, find_torso(config.network)(inputs, config), name=name)
        self.size = int(self._torso.output.shape[-1])
        self.memory = None
        self.layers: dict[str, Any] = _by_name([layer for layer in self._torso.layers if layer.weights])
        if config.recurrent != "none":
            self.memory = Recurrent(config.recurrent, self.size, config.recurrent_units, name)
            self.size = config.recurrent_units
            self.layers[config.recurrent] = self.memory

    def step(self, inputs: Inputs, state: State) -> tuple[tf.Tensor, State]:
        """Features [N, F] for inputs [N, ...]; and the state, before and after."""
        features = self._torso({name: inputs[name] for name in self._shapes})
        features = tf.cast(features, tf.float32)
        return self.memory.step(features, state) if self.memory else (features, ())

    def unroll(self, inputs: Inputs, state: State, begins: tf.Tensor) -> tuple[tf.Tensor, State]:
        """Features [L, N, F] for inputs [L, N, ...], the state before, [N, ...], and after each step, [L, N, ...]."""
        flat = {name: tf.reshape(inputs[name], [-1, *shape]) for name, shape in self._shapes.items()}
        features = tf.cast(self._torso(flat), tf.float32)
        features = tf.reshape(features, [*begins.shape, features.shape[-1]])
        return self.memory.unroll(features, state, begins) if self.memory else (features, ())


def swap_first_axes(tensor: tf.Tensor) -> tf.Tensor:
    """From [L, N, ...] to [N, L, ...], or back."""
    return tf.transpose(tensor, [1, 0, *range(2, len(tensor.shape))])


def _last_layer(features: int, outputs: int, gain: float) -> keras.layers.Layer:
    layer = keras.layers.Dense(outputs, kernel_initializer=keras.initializers.Orthogonal(gain), dtype="float32")
    layer.build([None, features])
    return layer


def _by_name(layers: list[keras.layers.Layer]) -> dict[str, keras.layers.Layer]:
    """Layers by name. Those that Keras numbered through the whole process are numbered anew: checkpoints hold names."""
    named: dict[str, keras.layers.Layer] = {}
    for layer in layers:
        kind = re.sub(r"_\d+$", "", layer.name)
        if kind.replace("_", "") != type(layer).__name__.lower():
            named[layer.name] = layer
            continue
        number = sum(isinstance(other, type(layer)) for other in named.values())
        named[f"{kind}_{number}" if number else kind] = layer
    return named


@contextlib.contextmanager
def _reproducible_weights(seed: int) -> Iterator[None]:
    """Keras takes seeds of initialisers that have none from Python's generator; others draw from that as well."""
    before = random.getstate()
    random.seed(seed)
    try:
        yield
    finally:
        random.setstate(before)


@contextlib.contextmanager
def _precision(precision: str) -> Iterator[None]:
    """Lets layers that are made meanwhile compute in a type, with weights of float32."""
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy("mixed_bfloat16" if precision == "bfloat16" else precision)
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)
