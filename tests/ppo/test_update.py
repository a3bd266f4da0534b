import keras
import numpy as np
import pytest
import tensorflow as tf

from agents.attr_dict import AttrDict
from agents.learning.optimizers import Optimizer
from agents.learning.schedules import Constant
from agents.ppo.update import Update

RATE, EPSILON = 0.01, 1e-5
START = tf.constant(0.0)


class Regression:
    """Squared error of a linear model, and which rows were seen."""

    scalars = ("error", "approx_kl")

    def __init__(self, size=3):
        self.weights = tf.Variable(tf.zeros([size]))
        self.bias = tf.Variable(0.5)
        self.seen = tf.Variable(tf.zeros([1000], tf.int32), trainable=False)

    def __call__(self, minibatch, progress):
        self.seen.assign(
            tf.tensor_scatter_nd_add(self.seen, minibatch.row[:, None], tf.ones_like(minibatch.row))
        )
        error = tf.linalg.matvec(minibatch.inputs, self.weights) + self.bias - minibatch.target
        loss = tf.reduce_mean(error**2)
        return loss, {"error": loss, "approx_kl": tf.zeros([])}

    def after_update(self, batch):
        error = tf.linalg.matvec(batch.inputs, self.weights) + self.bias - batch.target
        return {"after/error": tf.reduce_mean(error**2)}

    def variables(self):
        return {"weights": self.weights, "bias": self.bias}


def make_batch(size):
    random = np.random.default_rng(0)
    return AttrDict(
        inputs=tf.constant(random.normal(size=(size, 3)), tf.float32),
        target=tf.constant(random.normal(size=size), tf.float32),
        row=tf.range(size),
    )


def make_update(loss, epochs=1, minibatch_size=4, max_gradient_norm=0.0, **kwargs):
    adam = keras.optimizers.Adam(epsilon=EPSILON, name="adam")
    optimizer = Optimizer(loss.variables(), adam, Constant(RATE), max_gradient_norm)
    generator = tf.random.Generator.from_seed(1)
    return Update(loss.variables(), [optimizer], loss, generator, epochs, minibatch_size, **kwargs)


def numpy_gradients(batch, rows, weights, bias):
    inputs, target = (
        batch.inputs.numpy().astype(np.float64)[rows],
        batch.target.numpy().astype(np.float64)[rows],
    )
    error = inputs @ weights + bias - target
    return np.append(2 * error @ inputs, 2 * error.sum()) / len(rows), np.mean(error**2)


class Adam:
    """Kingma and Ba (2014), with epsilon as in the paper's remark before section 2.1, which is
    Keras's."""

    def __init__(self, size):
        self.first, self.second, self.steps = np.zeros(size), np.zeros(size), 0

    def step(self, gradient):
        self.steps += 1
        self.first = 0.9 * self.first + 0.1 * gradient
        self.second = 0.999 * self.second + 0.001 * gradient**2
        rate = RATE * np.sqrt(1 - 0.999**self.steps) / (1 - 0.9**self.steps)
        return -rate * self.first / (np.sqrt(self.second) + EPSILON)


@pytest.mark.parametrize("max_gradient_norm", [0.0, 0.1, 100.0])
def test_an_update_equals_plain_numpy(max_gradient_norm):
    loss, batch = Regression(), make_batch(12)
    update = make_update(loss, epochs=3, max_gradient_norm=max_gradient_norm)
    shuffler = make_update(Regression(), epochs=3)  # Its generator is seeded alike.
    minibatches = tf.function(
        lambda: shuffler.shuffled(12), autograph=False, jit_compile=True
    )().numpy()
    parameters, adam = np.array([0.0, 0.0, 0.0, 0.5]), Adam(4)
    norms, errors = [], []
    for rows in minibatches:
        gradient, error = numpy_gradients(batch, rows, parameters[:3], parameters[3])
        norms.append(np.linalg.norm(gradient))
        errors.append(error)
        if max_gradient_norm:
            gradient = gradient * min(1, max_gradient_norm / norms[-1])
        parameters = parameters + adam.step(gradient)
    scalars, gradients = tf.function(
        lambda: update(batch, START), autograph=False, jit_compile=True
    )()
    np.testing.assert_allclose(loss.weights, parameters[:3], atol=1e-5)
    np.testing.assert_allclose(loss.bias, parameters[3], atol=1e-5)
    np.testing.assert_allclose(scalars["losses/gradient_norm"], np.mean(norms), rtol=1e-4)
    np.testing.assert_allclose(scalars["losses/error"], np.mean(errors), rtol=1e-4)
    errors = numpy_gradients(batch, np.arange(12), parameters[:3], parameters[3])[1]
    np.testing.assert_allclose(scalars["after/error"], errors, rtol=1e-4)
    assert scalars["losses/epochs"] == 3
    assert scalars["schedule/learning_rate"] == np.float32(RATE)
    last, _ = numpy_gradients(batch, minibatches[-1], parameters[:3], parameters[3])
    assert {name: gradient.shape for name, gradient in gradients.items()} == {
        "weights": [3],
        "bias": [],
    }
    assert np.linalg.norm(gradients["weights"]) == pytest.approx(np.linalg.norm(last[:3]), rel=0.1)


def test_every_epoch_uses_every_row_once_in_an_order_of_its_own():
    update = make_update(Regression(), epochs=5)
    indices = update.shuffled(24).numpy()
    assert indices.shape == (5 * 6, 4)
    epochs = indices.reshape(5, 24)
    np.testing.assert_array_equal(np.sort(epochs, axis=1), np.tile(np.arange(24), [5, 1]))
    assert len({tuple(epoch) for epoch in epochs}) == 5
    assert (update.shuffled(24).numpy() != indices).any()


def test_a_call_uses_every_row_as_often_as_there_are_epochs():
    loss = Regression()
    make_update(loss, epochs=5)(make_batch(24), START)
    np.testing.assert_array_equal(loss.seen[:24], 5)
    np.testing.assert_array_equal(loss.seen[24:], 0)


def test_gradients_are_reduced_before_they_are_applied():
    batch, rows = make_batch(4), np.arange(4)
    expected, _ = numpy_gradients(batch, rows, np.zeros(3), 0.5)
    loss = Regression()
    update = make_update(
        loss,
        reduce=lambda gradients: tf.nest.map_structure(lambda gradient: 2 * gradient, gradients),
    )
    scalars, gradients = update(batch, START)
    np.testing.assert_allclose(
        scalars["losses/gradient_norm"], 2 * np.linalg.norm(expected), rtol=1e-5
    )
    np.testing.assert_allclose(gradients["weights"], 2 * expected[:3], rtol=1e-4)


def test_gradients_and_their_application_can_be_called_apart():
    loss, batch = Regression(), make_batch(8)
    update = make_update(loss, max_gradient_norm=0.5)
    gradients, scalars = update.gradients(batch, START)
    expected, error = numpy_gradients(batch, np.arange(8), np.zeros(3), 0.5)
    np.testing.assert_allclose(
        np.append(gradients["weights"], gradients["bias"]), expected, rtol=1e-4
    )
    np.testing.assert_allclose(scalars["error"], error, rtol=1e-5)
    np.testing.assert_array_equal(loss.weights, np.zeros(3))  # Nothing has changed so far.
    norm = update.apply(
        {"weights": tf.constant([30.0, 0.0, 0.0]), "bias": tf.constant(40.0)}, START
    )
    assert float(norm) == pytest.approx(50)
    np.testing.assert_allclose(loss.weights, [Adam(1).step(np.array([0.3]))[0], 0, 0], rtol=1e-4)
    np.testing.assert_allclose(loss.bias, 0.5 + Adam(1).step(np.array([0.4]))[0], rtol=1e-5)


def test_a_variable_without_a_gradient_is_named():
    loss = Regression()
    loss.variables = lambda: {"weights": loss.weights, "bias": loss.bias, "spare": tf.Variable(1.0)}
    with pytest.raises(ValueError, match="does not depend on spare"):
        make_update(loss)(make_batch(4), START)
