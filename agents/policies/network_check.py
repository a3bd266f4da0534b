"""Checks of users' networks: every weight is trained, and acting is the same as learning."""

from __future__ import annotations

import weakref
from collections.abc import Mapping

import keras
import numpy as np
import tensorflow as tf

from agents.errors import UsageError
from agents.keras_settings import sublayers
from agents.policies.weights import Weight, numbered, weights_by_path

# Layers with weights in all networks of users, by id; none may be in two.
_USED_LAYERS: weakref.WeakValueDictionary[int, keras.layers.Layer] = weakref.WeakValueDictionary()


def check_network(model: keras.Model, place: str) -> None:
    """Checks that training changes all of a network that it has to, and nothing else.

    Args:
      model: A network of a user, from inputs [N, ...] to features [N, F].
      place: Where it is named, for messages, such as "network 'my_module:wide'".

    Raises:
      UsageError: A layer or weight is of a kind that training does not support; the message names
        it, in at most three lines.
    """
    weights = weights_by_path(numbered([layer for layer in model.layers if layer.weights]))
    generator = np.random.default_rng(0)
    inputs = {
        # Small numbers, which networks may take for categories.
        name: tf.cast(
            generator.uniform(0, 1 if name == "vector" else 2, [2, *tensor.shape[1:]]), tensor.dtype
        )
        for name, tensor in model.input.items()
    }
    problem = (
        _problem_of_weights(weights)
        or _problem_of_gradients(model, inputs, weights)
        or _problem_of_modes(model, inputs, weights)
        or _problem_of_batches(model, inputs)
    )
    if problem:
        raise UsageError(f"{place}: {problem}")


def _problem_of_weights(weights: Mapping[str, Weight]) -> str:
    """Describes the first weight that can't be trained; empty if all can."""
    for path, (variable, layer, trainable) in weights.items():
        if id(layer) in _USED_LAYERS:
            return (
                f"the layer '{layer.name}' is a part of another network already\n"
                "create layers inside of the function, which is called for the policy and for the "
                "value function;\nwith --shared-torso, both share all layers"
            )
        if trainable and (variable.dtype != "float32" or layer.compute_dtype == "float16"):
            return (
                f"expected trained weights of float32 that compute in float32 or bfloat16, got {path} "
                f"of {variable.dtype} in {layer.compute_dtype}\n"
                "use --precision=bfloat16, or dtype='mixed_bfloat16' in some layers"
            )
        if trainable and variable.constraint is not None:
            return f"the weight {path} has a constraint, which training does not apply"
    _USED_LAYERS.update({id(weight.layer): weight.layer for weight in weights.values()})
    return ""


def _problem_of_gradients(
    model: keras.Model, inputs: Mapping[str, tf.Tensor], weights: Mapping[str, Weight]
) -> str:
    """Describes what gradients of the features do not reach; empty if they reach all weights."""
    trained = {path: weight.variable.value for path, weight in weights.items() if weight.trainable}
    watched: list[tf.Variable] = []
    unused: list[str] = []

    # A graph, as training has: layers and their names may fit no graph, and gradients reach all
    # branches of a condition.
    def compute(inputs: Mapping[str, tf.Tensor]) -> list[tf.Tensor]:
        with tf.GradientTape() as tape:
            features = model(inputs, training=False)
        gradients = tape.gradient(features, trained)
        watched[:] = tape.watched_variables()
        unused[:] = [path for path, gradient in gradients.items() if gradient is None]
        return [tf.convert_to_tensor(one) for one in gradients.values() if one is not None]

    compiled = tf.function(compute, jit_compile=True, autograph=False)
    compiled.get_concrete_function(inputs)
    if unused:
        return (
            f"the features do not depend on {len(unused)} of the trained weights: "
            f"{', '.join(unused[:3])}\nleave them out, or set trainable=False for their layer"
        )
    own = {id(weight.variable.value) for weight in weights.values()}
    for variable in watched:
        if id(variable) not in own:
            return (
                f"the variable '{variable.name}' is no weight of a layer and would not be trained\n"
                "create it with self.add_weight, in the build method of a layer"
            )
    if set(inputs) == {"vector"}:  # Others are trained in a plain graph.
        try:
            compiled.experimental_get_compiler_ir(inputs)(stage="hlo")
        except ValueError as error:
            return (
                f"XLA can't compile it ({str(error).splitlines()[0][:200]})\n"
                "use operations that XLA has, and loops with maximum_iterations"
            )
    if model.losses:
        return "its layers have losses, such as regularizers, which the algorithm's loss does not contain"
    return ""


def _problem_of_modes(
    model: keras.Model, inputs: Mapping[str, tf.Tensor], weights: Mapping[str, Weight]
) -> str:
    """Describes a layer that has to compute something else in training; empty without any.

    PPO compares probabilities before and after an update. So networks compute as in inference, and
    statistics, such as those of BatchNormalization, stay as they are.
    """
    features = model(inputs, training=False)
    states = list(model.variables)  # With those of random numbers, which are no weights.
    before = [state.value.numpy() for state in states]
    statistics = {id(weight.variable) for weight in weights.values() if not weight.trainable}

    def compare(training: bool) -> tuple[bool, list[keras.Variable]]:
        """Returns whether features differ from before, and the variables that changed."""
        other = model(inputs, training=training)
        values = zip(states, before, strict=True)
        changed = [state for state, value in values if (state.value.numpy() != value).any()]
        return not np.allclose(features, other, rtol=1e-3, atol=1e-5, equal_nan=True), changed

    def named(changed: list[keras.Variable]) -> str:
        return f"the layer '{_owner(model, changed[0]).name}'" if changed else "a layer"

    differs, changed = compare(training=False)
    if differs or changed:
        return f"{named(changed)} computes something else in each call; leave it out"
    differs, changed = compare(training=True)
    for state, value in zip(states, before, strict=True):
        state.assign(value)
    inert = [state for state in changed if id(state) not in statistics]
    inert = [state for state in inert if _owner(model, state).trainable]
    if inert or (differs and not changed):
        return (
            f"{named(inert)} computes something else in training, which would make probabilities "
            "before and after an update incomparable\n"
            "leave it out, or set trainable=False to have it as in inference"
        )
    return ""


def _problem_of_batches(model: keras.Model, inputs: Mapping[str, tf.Tensor]) -> str:
    """Describes features that depend on the batch; empty if each row has its own.

    Acting and learning have batches of different sizes.
    """
    batch = model(inputs, training=False)
    alone = model({name: tensor[:1] for name, tensor in inputs.items()}, training=False)
    batch, alone = (np.asarray(tf.cast(features, tf.float32)) for features in (batch, alone))
    difference = np.max(np.abs(batch[:1] - alone), initial=0.0)
    if difference > 0.05 * np.max(np.abs(batch), initial=0.0):  # More than bfloat16 rounds.
        return (
            "the features of an observation depend on the others in the batch\n"
            "leave the first axis out of means, sums, softmax and normalization"
        )
    return ""


def _owner(model: keras.Model, state: keras.Variable) -> keras.layers.Layer:
    """The innermost layer that has a variable."""
    layers = sublayers(model, recursive=True)
    return [layer for layer in layers if any(state is own for own in layer.variables)][-1]
