import itertools
from typing import NamedTuple

import keras
import numpy as np
import pytest
import tensorflow as tf

from agents.learning.optimizers import Optimizer
from agents.learning.reduction import SINGLE_LEARNER, Reducer
from agents.learning.schedules import Constant
from agents.ppo.kl_limits import KLStop
from agents.ppo.update import Update
from tests.fingerprint import fingerprint
from tests.tensor_toys import LearnerGroup, PlainGraphReducer

RATE, EPSILON = 0.01, 1e-5
START = tf.constant(0.0)


class Rows(NamedTuple):
    """A batch: inputs [N, 3], targets [N], indices [N], KL divergences [N] and advantages [N]."""

    inputs: tf.Tensor
    target: tf.Tensor
    row: tf.Tensor
    kl: tf.Tensor
    advantage: tf.Tensor


class Regression:
    """Squared error of a linear model, plus advantages; counts how often it saw each row."""

    scalars = ("error", "approx_kl")

    def __init__(self):
        self.weights = tf.Variable(tf.zeros([3]))
        self.bias = tf.Variable(0.5)
        self.seen = tf.Variable(tf.zeros([1000], tf.int32), trainable=False)

    def advantages(self, batch, minibatches):
        return tf.gather(batch.advantage, minibatches)

    def compute(self, minibatch, progress):
        counts = tf.tensor_scatter_nd_add(
            self.seen, minibatch.row[:, None], tf.ones_like(minibatch.row)
        )
        self.seen.assign(counts)
        loss = self._error(minibatch)
        return loss, {"error": loss, "approx_kl": tf.reduce_mean(minibatch.kl)}

    def after_update(self, batch):
        return {"after/error": self._error(batch)}

    def variables(self):
        return {"weights": self.weights, "bias": self.bias}

    def _error(self, rows):
        error = tf.linalg.matvec(rows.inputs, self.weights) + self.bias - rows.target
        error += rows.advantage
        return tf.reduce_mean(error**2)


def make_batch(size, seed=0, kl=0.0):
    random = np.random.default_rng(seed)
    return Rows(
        inputs=tf.constant(random.normal(size=(size, 3)), tf.float32),
        target=tf.constant(random.normal(size=size), tf.float32),
        row=tf.range(size),
        kl=tf.fill([size], kl),
        advantage=tf.zeros([size]),
    )


def make_update(loss, epochs=1, minibatch_size=4, max_gradient_norm=0.0, **kwargs):
    adam = keras.optimizers.Adam(epsilon=EPSILON, name="adam")
    optimizer = Optimizer(loss.variables(), adam, Constant(RATE), max_gradient_norm)
    generator = tf.random.Generator.from_seed(1)
    return Update(loss.variables(), [optimizer], loss, generator, epochs, minibatch_size, **kwargs)


def numpy_gradients(batch, rows, weights, bias):
    """Gradient [4] of weights and bias, and the loss."""
    inputs, target = (
        leaf.numpy().astype(np.float64)[rows] for leaf in (batch.inputs, batch.target)
    )
    error = inputs @ weights + bias - target
    return np.append(2 * error @ inputs, 2 * error.sum()) / len(rows), np.mean(error**2)


class NumpyAdam:
    """Kingma and Ba (2014), with Keras's epsilon: as in the remark before section 2.1."""

    def __init__(self, size):
        self.first, self.second, self.iteration = np.zeros(size), np.zeros(size), 0

    def change(self, gradient):
        self.iteration += 1
        self.first = 0.9 * self.first + 0.1 * gradient
        self.second = 0.999 * self.second + 0.001 * gradient**2
        rate = RATE * np.sqrt(1 - 0.999**self.iteration) / (1 - 0.9**self.iteration)
        return -rate * self.first / (np.sqrt(self.second) + EPSILON)


def numpy_update(batch, minibatches, max_gradient_norm):
    """Parameters [4] after minibatches of rows, and norms and losses of each of them."""
    parameters, adam = np.array([0.0, 0.0, 0.0, 0.5]), NumpyAdam(4)
    norms, errors = [], []
    for rows in minibatches:
        gradient, error = numpy_gradients(batch, rows, parameters[:3], parameters[3])
        norms.append(np.linalg.norm(gradient))
        errors.append(error)
        if max_gradient_norm:
            gradient = gradient * min(1, max_gradient_norm / norms[-1])
        parameters = parameters + adam.change(gradient)
    return parameters, norms, errors


@pytest.mark.parametrize("max_gradient_norm", [0.0, 0.1, 100.0])
def test_an_update_equals_plain_numpy(max_gradient_norm):
    loss, batch = Regression(), make_batch(12)
    update = make_update(loss, epochs=3, max_gradient_norm=max_gradient_norm)
    shuffler = make_update(Regression(), epochs=3)  # Its generator has the same seed.
    minibatches = tf.function(lambda: shuffler.shuffle(12), autograph=False, jit_compile=True)()
    parameters, norms, errors = numpy_update(batch, minibatches.numpy(), max_gradient_norm)
    metrics, gradients = tf.function(
        lambda: update.run(batch, START), autograph=False, jit_compile=True
    )()
    np.testing.assert_allclose(loss.weights, parameters[:3], atol=1e-5)
    np.testing.assert_allclose(loss.bias, parameters[3], atol=1e-5)
    np.testing.assert_allclose(metrics["losses/gradient_norm"], np.mean(norms), rtol=1e-4)
    np.testing.assert_allclose(metrics["losses/error"], np.mean(errors), rtol=1e-4)
    error = numpy_gradients(batch, np.arange(12), parameters[:3], parameters[3])[1]
    np.testing.assert_allclose(metrics["after/error"], error, rtol=1e-4)
    assert metrics["losses/epochs"] == 3
    assert metrics["schedule/learning_rate"] == np.float32(RATE)
    last, _ = numpy_gradients(batch, minibatches[-1].numpy(), parameters[:3], parameters[3])
    assert {name: gradient.shape for name, gradient in gradients.items()} == {
        "weights": [3],
        "bias": [],
    }
    assert np.linalg.norm(gradients["weights"]) == pytest.approx(np.linalg.norm(last[:3]), rel=0.1)


def test_every_epoch_is_another_permutation():
    update = make_update(Regression(), epochs=5)
    indices = update.shuffle(24).numpy()
    assert indices.shape == (5 * 6, 4)
    epochs = indices.reshape(5, 24)
    np.testing.assert_array_equal(np.sort(epochs, axis=1), np.tile(np.arange(24), [5, 1]))
    assert len({tuple(epoch) for epoch in epochs}) == 5
    assert (update.shuffle(24).numpy() != indices).any()


def test_every_row_is_used_once_per_epoch():
    loss = Regression()
    make_update(loss, epochs=5).run(make_batch(24), START)
    np.testing.assert_array_equal(loss.seen[:24], 5)
    np.testing.assert_array_equal(loss.seen[24:], 0)


def test_gradients_and_their_application_can_be_called_separately():
    loss, batch = Regression(), make_batch(8)
    update = make_update(loss, max_gradient_norm=0.5)
    gradients, metrics = update.gradients(batch, START)
    expected, error = numpy_gradients(batch, np.arange(8), np.zeros(3), 0.5)
    np.testing.assert_allclose(
        np.append(gradients["weights"], gradients["bias"]), expected, rtol=1e-4
    )
    np.testing.assert_allclose(metrics["error"], error, rtol=1e-5)
    np.testing.assert_array_equal(loss.weights, np.zeros(3))  # Nothing has been applied so far.
    norm = update.apply(
        {"weights": tf.constant([30.0, 0.0, 0.0]), "bias": tf.constant(40.0)}, START
    )
    assert float(norm) == pytest.approx(50)
    weight, bias = (NumpyAdam(1).change(np.array([one]))[0] for one in (0.3, 0.4))
    np.testing.assert_allclose(loss.weights, [weight, 0, 0], rtol=1e-4)
    np.testing.assert_allclose(loss.bias, 0.5 + bias, rtol=1e-5)


def test_a_variable_without_a_gradient_is_named():
    loss = Regression()
    loss.variables = lambda: {"weights": loss.weights, "bias": loss.bias, "spare": tf.Variable(1.0)}
    with pytest.raises(ValueError, match="does not depend on spare"):
        make_update(loss).run(make_batch(4), START)


@pytest.mark.parametrize("reducer", [SINGLE_LEARNER, PlainGraphReducer()])
def test_minibatches_have_the_advantages_of_the_loss(reducer):
    random, batch = np.random.default_rng(2), make_batch(12)
    advantages = random.normal(size=[2 * 3, 4]).astype(np.float32)  # [minibatches, M]
    loss, asked = Regression(), []
    loss.advantages = lambda batch, minibatches: (
        asked.append((batch, minibatches)) or tf.constant(advantages)
    )
    update = make_update(loss, epochs=2, reducer=reducer)
    minibatches = make_update(Regression(), epochs=2).shuffle(12).numpy()
    tf.function(lambda: update.run(batch, START), autograph=False)()
    [(given, elements)] = asked  # Once, for all minibatches.
    assert given is batch and elements.shape == minibatches.shape
    # Each step of the oracle has targets of its own.
    parameters, adam = np.array([0.0, 0.0, 0.0, 0.5]), NumpyAdam(4)
    for rows, advantage in zip(minibatches, advantages, strict=True):
        target = batch.target.numpy()
        target[rows] -= advantage
        shifted = batch._replace(target=tf.constant(target))
        gradient, _ = numpy_gradients(shifted, rows, parameters[:3], parameters[3])
        parameters = parameters + adam.change(gradient)
    np.testing.assert_allclose(loss.weights, parameters[:3], atol=1e-5)
    np.testing.assert_allclose(loss.bias, parameters[3], atol=1e-5)


# Several learners.


class Doubling(Reducer):
    """Doubles what it reduces."""

    compiles = False

    def mean(self, tensors):
        return tf.nest.map_structure(lambda tensor: 2 * tensor, tensors)


def test_gradients_are_reduced_before_they_are_clipped_and_applied():
    batch = make_batch(4)
    expected, _ = numpy_gradients(batch, np.arange(4), np.zeros(3), 0.5)
    loss = Regression()
    update = make_update(loss, max_gradient_norm=1e-6, reducer=Doubling())
    own, _ = update.gradients(batch, START)
    metrics, gradients = update.run(batch, START)
    np.testing.assert_allclose(own["weights"], expected[:3], rtol=1e-4)  # Not reduced.
    np.testing.assert_allclose(gradients["weights"], 2 * expected[:3], rtol=1e-4)
    norm = 2 * np.linalg.norm(expected)
    np.testing.assert_allclose(metrics["losses/gradient_norm"], norm, rtol=1e-5)
    change = NumpyAdam(3).change(expected[:3] * 2e-6 / norm)
    np.testing.assert_allclose(loss.weights, change, rtol=1e-3)


@pytest.mark.parametrize("compiles", [True, False])
def test_learners_apply_the_same_gradients(compiles):
    batches, group = [make_batch(8, seed) for seed in (0, 1)], LearnerGroup()
    losses = [Regression() for _ in batches]
    updates = [
        make_update(loss, epochs=2, reducer=reducer, compiles=compiles)
        for loss, reducer in zip(losses, group.reducers, strict=True)
    ]
    rows = updates[0].shuffle(8).numpy()
    for update in updates:
        update.shuffle = lambda num_elements: tf.constant(rows)
    group.run(lambda: updates[0].run(batches[0], START), lambda: updates[1].run(batches[1], START))
    whole = tf.nest.map_structure(lambda *each: tf.concat(each, axis=0), *batches)
    minibatches = np.concatenate([rows, rows + 8], axis=1)
    parameters, _, _ = numpy_update(whole, minibatches, 0.0)
    for loss in losses:
        np.testing.assert_allclose(loss.weights, parameters[:3], atol=1e-5)
        np.testing.assert_allclose(loss.bias, parameters[3], atol=1e-5)


def test_a_minibatch_that_is_not_compiled_is_computed_once():
    loss = Regression()
    update = make_update(loss, epochs=2, reducer=PlainGraphReducer(), compiles=False)
    tf.function(lambda: update.run(make_batch(12), START), autograph=False)()
    np.testing.assert_array_equal(loss.seen[:12], 2)


def test_learners_draw_numbers_for_all():
    group = LearnerGroup()
    updates = [make_update(Regression(), epochs=3, reducer=one) for one in group.reducers]
    alone = make_update(Regression(), epochs=3)
    alone.shuffle(16)
    orders = [update.shuffle(8).numpy().reshape(3, 8) for update in updates]
    for order, update in zip(orders, updates, strict=True):
        np.testing.assert_array_equal(np.sort(order, axis=1), np.tile(np.arange(8), [3, 1]))
        np.testing.assert_array_equal(update._generator.state, alone._generator.state)
    assert (orders[0] != orders[1]).any()


def test_learners_average_weights_and_moments_once_an_epoch():
    batches, group, epochs = [make_batch(8, seed) for seed in (0, 1)], LearnerGroup(), 3
    losses = [Regression() for _ in batches]
    updates = [
        make_update(loss, epochs=epochs, reducer=reducer, reduces_weights=True)
        for loss, reducer in zip(losses, group.reducers, strict=True)
    ]
    minibatches = make_update(Regression(), epochs=epochs).shuffle(8).numpy()
    for update in updates:
        update.shuffle = lambda num_elements: tf.constant(minibatches)
    group.run(*(lambda i=i: updates[i].run(batches[i], START) for i in range(2)))
    parameters, adams = np.array([[0.0, 0.0, 0.0, 0.5]] * 2), [NumpyAdam(4) for _ in batches]
    for rows_of_epoch in minibatches.reshape(epochs, 2, 4):
        for i, rows in itertools.product(range(2), rows_of_epoch):
            own = parameters[i]
            gradient, _ = numpy_gradients(batches[i], rows, own[:3], own[3])
            parameters[i] = own + adams[i].change(gradient)
        parameters[:] = parameters.mean(axis=0)
        for moment in ("first", "second"):
            mean = np.mean([getattr(adam, moment) for adam in adams], axis=0)
            for adam in adams:
                setattr(adam, moment, mean)
    for loss in losses:
        np.testing.assert_allclose(loss.weights, parameters[0, :3], atol=1e-5)
        np.testing.assert_allclose(loss.bias, parameters[0, 3], atol=1e-5)
    assert fingerprint(updates[0].variables()) == fingerprint(updates[1].variables())


@pytest.mark.parametrize(("divergences", "applies"), [((0.0, 0.3), False), ((0.0, 0.15), True)])
def test_learners_stop_at_their_mean_divergence(divergences, applies):
    group, losses = LearnerGroup(), [Regression() for _ in divergences]
    updates = [
        make_update(loss, kl_stop=KLStop(0.1), reducer=reducer)
        for loss, reducer in zip(losses, group.reducers, strict=True)
    ]
    batches = [make_batch(4, kl=kl) for kl in divergences]
    results = group.run(
        lambda: updates[0].run(batches[0], START), lambda: updates[1].run(batches[1], START)
    )
    for (metrics, _), loss in zip(results, losses, strict=True):
        assert metrics["losses/epochs"] == applies
        assert np.abs(loss.weights).any() == applies
