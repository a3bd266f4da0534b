"""The update: epochs of minibatches, from a batch to new weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import keras
import tensorflow as tf

from agents.tools.attr_dict import AttrDict

Tensors = list[tf.Tensor]


class Loss(Protocol):
    """What is minimised.

    Attributes:
      scalars: Names of the numbers that it reports.
    """

    scalars: tuple[str, ...]

    def __call__(self, minibatch: AttrDict) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
        """From leaves [M, ...] to the loss [] and the numbers to report, [] each."""


class Update:
    """Trains variables on a batch, in shuffled minibatches, for some epochs; made to be compiled as one XLA program.

    Computing gradients, reducing them over workers and applying them are three functions, so that several workers can
    put a reduction in between.
    """

    def __init__(
        self,
        variables: dict[str, tf.Variable],
        optimizer: keras.optimizers.Optimizer,
        loss: Loss,
        generator: tf.random.Generator,
        epochs: int,
        minibatch_size: int,
        max_gradient_norm: float = 0.0,
        reduce: Callable[[Tensors], Tensors] = lambda gradients: gradients,
    ):
        """Ties together what is trained, how, and on how much at a time.

        Args:
          variables: What is trained, by name.
          optimizer: A Keras optimizer; it is built here.
          loss: What is minimised.
          generator: Shuffles.
          epochs: How often each element of the batch is used.
          minibatch_size: M; it must divide the batch.
          max_gradient_norm: Longer gradients are shortened to this; 0 for no limit.
          reduce: Combines the gradients of several workers.
        """
        self._variables = list(variables.values())
        self._optimizer, self._loss, self._generator = optimizer, loss, generator
        self._epochs, self._minibatch_size = epochs, minibatch_size
        self._max_gradient_norm, self._reduce = max_gradient_norm, reduce
        optimizer.build(self._variables)

    def __call__(self, batch: AttrDict) -> tuple[dict[str, tf.Tensor], Tensors]:
        """Runs all epochs.

        Args:
          batch: Tensors [N, ...].

        Returns:
          What the loss reports and the norm of the gradient before it was shortened, averaged over all minibatches; and
          the last minibatch's gradients, one a variable.
        """
        minibatches = self.shuffled(next(iter(batch.values())).shape[0])  # [epochs * N / M, M]

        def one_minibatch(index: tf.Tensor, totals: dict[str, tf.Tensor], _: Tensors) -> tuple:
            minibatch = tf.nest.map_structure(lambda tensor: tf.gather(tensor, minibatches[index]), batch)
            gradients, scalars = self.gradients(minibatch)
            scalars["gradient_norm"] = self.apply(gradients)
            return index + 1, {name: totals[name] + scalars[name] for name in totals}, gradients

        number = minibatches.shape[0]
        _, totals, gradients = tf.while_loop(
            lambda index, *_: index < number,
            one_minibatch,
            (
                tf.constant(0),
                {name: tf.zeros([]) for name in (*self._loss.scalars, "gradient_norm")},
                [tf.zeros_like(variable) for variable in self._variables],
            ),
            maximum_iterations=number,
        )
        return {name: total / number for name, total in totals.items()}, gradients

    def shuffled(self, size: int) -> tf.Tensor:
        """Indices [epochs * N / M, M] into a batch of `size` N; every epoch is a permutation of its own."""
        order = tf.argsort(self._generator.uniform([self._epochs, size]), axis=1)
        return tf.reshape(order, [-1, self._minibatch_size])

    def gradients(self, minibatch: AttrDict) -> tuple[Tensors, dict[str, tf.Tensor]]:
        """Gradients of the loss, one a variable, reduced over workers, and what the loss reports; leaves [M, ...]."""
        with tf.GradientTape() as tape:
            loss, scalars = self._loss(minibatch)
        return self._reduce(tape.gradient(loss, self._variables)), dict(scalars)

    def apply(self, gradients: Tensors) -> tf.Tensor:
        """Makes one step of the optimizer, and returns the norm that the gradients had before they were shortened."""
        norm = tf.linalg.global_norm(gradients)
        if self._max_gradient_norm:
            gradients, _ = tf.clip_by_global_norm(gradients, self._max_gradient_norm, use_norm=norm)
        self._optimizer.apply(gradients, self._variables)
        return norm
