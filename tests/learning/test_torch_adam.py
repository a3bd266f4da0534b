import keras
import numpy as np
import pytest
import tensorflow as tf

from agents.learning.optimizers import make_optimizers
from agents.learning.torch_adam import TorchAdam
from agents.settings.config_file import load_config

RATE, EPSILON, STEPS = 1e-2, 1e-3, 5
SHAPES = [(3, 2), (2,)]


def gradients_of(step):
    """Gradients of which some are as small as epsilon, where it matters most."""
    generator = np.random.default_rng(step)
    return [
        (generator.normal(size=shape) * 10.0 ** generator.uniform(-5, 1, shape)).astype(np.float32)
        for shape in SHAPES
    ]


def weights_after(optimizer):
    variables = [tf.Variable(tf.ones(shape)) for shape in SHAPES]
    optimizer.build(variables)
    apply = tf.function(optimizer.apply, jit_compile=True)
    for step in range(STEPS):
        apply([tf.constant(gradient) for gradient in gradients_of(step)], variables)
    return [variable.numpy() for variable in variables]


def algorithm_1(beta_1=0.9, beta_2=0.999):
    """A plain loop over steps, in double precision."""
    weights = [np.ones(shape) for shape in SHAPES]
    first, second = ([np.zeros(shape) for shape in SHAPES] for _ in range(2))
    for step in range(1, STEPS + 1):
        for index, gradient in enumerate(gradients_of(step - 1)):
            first[index] = beta_1 * first[index] + (1 - beta_1) * gradient
            second[index] = beta_2 * second[index] + (1 - beta_2) * gradient.astype(float) ** 2
            mean, square = first[index] / (1 - beta_1**step), second[index] / (1 - beta_2**step)
            weights[index] = weights[index] - RATE * mean / (np.sqrt(square) + EPSILON)
    return weights


def test_weights_are_those_of_algorithm_1():
    optimizer = TorchAdam(RATE, epsilon=EPSILON)
    for ours, expected in zip(weights_after(optimizer), algorithm_1(), strict=True):
        np.testing.assert_allclose(ours, expected, atol=1e-6)
    assert optimizer.epsilon == EPSILON


def test_weights_are_those_of_pytorch():
    torch = pytest.importorskip("torch")
    parameters = [torch.nn.Parameter(torch.ones(shape)) for shape in SHAPES]
    optimizer = torch.optim.Adam(parameters, RATE, eps=EPSILON)
    for step in range(STEPS):
        for parameter, gradient in zip(parameters, gradients_of(step), strict=True):
            parameter.grad = torch.from_numpy(gradient)
        optimizer.step()
    ours = weights_after(TorchAdam(RATE, epsilon=EPSILON))
    for weights, parameter in zip(ours, parameters, strict=True):
        np.testing.assert_allclose(weights, parameter.detach().numpy(), atol=1e-6)


def test_weights_are_not_those_of_keras():
    ours = weights_after(TorchAdam(RATE, epsilon=EPSILON))
    other = weights_after(keras.optimizers.Adam(RATE, epsilon=EPSILON))
    assert max(np.abs(one - two).max() for one, two in zip(ours, other, strict=True)) > 1e-3


@pytest.mark.parametrize("preset", ["cleanrl_continuous", "cleanrl_atari", "sb3", "skrl"])
def test_presets_of_libraries_on_pytorch_have_it(preset):
    variables = {"policy/kernel": tf.Variable([1.0])}
    (optimizer,) = make_optimizers(variables, load_config(preset))
    assert isinstance(optimizer._optimizer, TorchAdam)
    assert set(optimizer.variables()) >= {"torch_adam/policy/kernel/momentum"}
