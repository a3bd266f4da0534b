"""The update: epochs of minibatches, from a batch to new weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import tensorflow as tf

from agents.ppo.optimizers import Optimizer
from agents.ppo.stops import Stop, never_stop
from agents.tools.attr_dict import AttrDict

Tensors = dict[str, tf.Tensor]


class Loss(Protocol):
    """What is minimised.

    Attributes:
      scalars: Names of the numbers that it reports; one of them is `approx_kl`.
    """

    scalars: tuple[str, ...]

    def __call__(self, minibatch: AttrDict, progress: tf.Tensor) -> tuple[tf.Tensor, Tensors]:
        """From leaves [M, ...] and the training's progress [] to the loss [] and the numbers to report, [] each."""

    def after_update(self, batch: AttrDict) -> Tensors:
        """Adapts to what the update has led to for the whole batch, and reports on that, with tags."""


class Update:
    """Trains variables on a batch, in shuffled minibatches, for some epochs; made to be compiled as one XLA program.

    Computing gradients, reducing them over workers and applying them are three functions, so that several workers can
    put a reduction in between.
    """

    def __init__(
        self,
        variables: dict[str, tf.Variable],
        optimizers: list[Optimizer],
        loss: Loss,
        generator: tf.random.Generator,
        epochs: int,
        minibatch_size: int,
        stop: Stop = never_stop,
        reduce: Callable[[Tensors], Tensors] = lambda gradients: gradients,
    ):
        """Ties together what is trained, how, and on how much at a time.

        Args:
          variables: What is trained, by name.
          optimizers: Make the steps, each for some of the variables.
          loss: What is minimised.
          generator: Shuffles.
          epochs: How often each element of the batch is used.
          minibatch_size: M; it must divide the batch.
          stop: Decides when to end earlier; by default never.
          reduce: Combines the gradients of several workers.
        """
        self._variables, self._optimizers = variables, optimizers
        self._loss, self._generator = loss, generator
        self._epochs, self._minibatch_size = epochs, minibatch_size
        self._stop, self._reduce = stop, reduce

    def __call__(self, batch: AttrDict, progress: tf.Tensor) -> tuple[Tensors, Tensors]:
        """Runs all epochs, or less where it is stopped.

        Args:
          batch: Structures of tensors [N, ...].
          progress: Of the training, from 0 at the start to 1 at the last step, float32 [].

        Returns:
          By tag, what the loss reports and the norm of the gradient before it was shortened, averaged over the
          minibatches whose step was made, how many epochs those are, and the last learning rates; and by name the last
          minibatch's gradients.
        """
        minibatches = self.shuffled(tf.nest.flatten(batch)[0].shape[0])  # [epochs * N / M, M]
        number = minibatches.shape[0]
        epoch = number // self._epochs

        def one_minibatch(index: tf.Tensor, _: tf.Tensor, totals: Tensors, __: Tensors) -> tuple:
            minibatch = tf.nest.map_structure(lambda tensor: tf.gather(tensor, minibatches[index]), batch)
            gradients, scalars = self.gradients(minibatch, progress)
            approx_kl, ends_epoch = scalars["approx_kl"], (index + 1) % epoch == 0
            norm, applied, go_on = self._stop(approx_kl, ends_epoch, lambda: self.apply(gradients, progress))
            for optimizer in self._optimizers:
                optimizer.learning_rate.observe(approx_kl, ends_epoch | ~go_on)
            scalars["gradient_norm"] = norm
            totals = {name: total + tf.where(applied, scalars[name], 0.0) for name, total in totals.items()}
            return index + tf.cast(applied, tf.int32), go_on, totals, gradients

        done, _, totals, gradients = tf.while_loop(
            lambda index, go_on, *_: (index < number) & go_on,
            one_minibatch,
            (
                tf.constant(0),
                tf.constant(True),
                {name: tf.zeros([]) for name in (*self._loss.scalars, "gradient_norm")},
                {name: tf.zeros_like(variable) for name, variable in self._variables.items()},
            ),
            maximum_iterations=number,
        )
        done = tf.cast(done, tf.float32)
        report = {f"losses/{name}": total / tf.maximum(done, 1.0) for name, total in totals.items()}
        report["losses/epochs"] = done / epoch
        rates = {f"schedule/{optimizer.rate_name}": optimizer.learning_rate(progress) for optimizer in self._optimizers}
        return {**report, **rates, **self._loss.after_update(batch)}, gradients

    def shuffled(self, size: int) -> tf.Tensor:
        """Indices [epochs * N / M, M] into a batch of `size` N; every epoch is a permutation of its own."""
        order = tf.argsort(self._generator.uniform([self._epochs, size]), axis=1)
        return tf.reshape(order, [-1, self._minibatch_size])

    def gradients(self, minibatch: AttrDict, progress: tf.Tensor) -> tuple[Tensors, Tensors]:
        """Gradients of the loss by name, reduced over workers, and what the loss reports; leaves [M, ...].

        Raises:
          ValueError: The loss does not depend on some of the variables.
        """
        with tf.GradientTape() as tape:
            loss, scalars = self._loss(minibatch, progress)
        gradients = tape.gradient(loss, self._variables)
        missing = [name for name, gradient in gradients.items() if gradient is None]
        if missing:
            raise ValueError(
                f"The loss does not depend on {', '.join(missing)}: expected a gradient for every variable that is "
                "trained. Use them in the network's policy or value, or leave them out of its variables."
            )
        return self._reduce(gradients), dict(scalars)

    def apply(self, gradients: Tensors, progress: tf.Tensor) -> tf.Tensor:
        """Makes a step of each optimizer; returns the norm [] that all gradients had before they were shortened."""
        return tf.linalg.global_norm([optimizer.apply(gradients, progress) for optimizer in self._optimizers])

    def variables(self) -> dict[str, tf.Variable]:
        """What a checkpoint holds of its optimizers, by name."""
        return {name: variable for optimizer in self._optimizers for name, variable in optimizer.variables().items()}
