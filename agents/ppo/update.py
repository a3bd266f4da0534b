"""The update: epochs of minibatches, from a batch to new weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import tensorflow as tf

from agents.learning.optimizers import Optimizer
from agents.learning.reduction import SINGLE_LEARNER, Reducer
from agents.ppo.batch import Batch
from agents.ppo.kl_stop import KLStop, NeverStop

Tensors = dict[str, tf.Tensor]


class MinibatchLoss(Protocol):
    """A loss of minibatches.

    Attributes:
      scalars: Names of the metrics of each minibatch; one of them is `approx_kl`.
    """

    scalars: tuple[str, ...]

    def advantages(self, batch: Batch, minibatches: tf.Tensor) -> tf.Tensor:
        """Advantages [minibatches, M, ...] for `compute`; int32 [minibatches, M] are the elements."""

    def compute(self, minibatch: Batch, progress: tf.Tensor) -> tuple[tf.Tensor, Tensors]:
        """The loss of M elements, float32 [], and metrics by name, float32 [] each."""

    def after_update(self, batch: Batch) -> Tensors:
        """Adapts to the finished update; returns metrics by tag."""


class Update:
    """Trains variables on shuffled minibatches for some epochs.

    The loop compiles as one XLA program. Where the reducer does not compile, call `run` in a
    plain graph: computing and applying gradients are compiled programs then.
    """

    def __init__(
        self,
        variables: dict[str, tf.Variable],
        optimizers: Sequence[Optimizer],
        loss: MinibatchLoss,
        generator: tf.random.Generator,
        epochs: int,
        minibatch_size: int,
        kl_stop: KLStop | None = None,
        reducer: Reducer = SINGLE_LEARNER,
    ):
        """Combines the parts.

        Args:
          variables: Variables to train, by name.
          optimizers: Optimizers, each of some of the variables.
          loss: The loss to minimize.
          generator: Shuffles the elements.
          epochs: Passes over the batch.
          minibatch_size: Elements of a minibatch, M; must divide the batch.
          kl_stop: Stops updates early; by default never.
          reducer: Combines gradients and KL divergences of several learners.
        """
        self._variables, self._optimizers = variables, optimizers
        self._loss, self._generator = loss, generator
        self._epochs, self._minibatch_size = epochs, minibatch_size
        self._kl_stop, self._reducer = kl_stop or NeverStop(), reducer
        self._gradients, self._apply = self.gradients, self.apply
        if not reducer.compiles:
            self._gradients = tf.function(self.gradients, jit_compile=True, autograph=False)
            self._apply = tf.function(self.apply, jit_compile=True, autograph=False)

    def run(self, batch: Batch, progress: tf.Tensor) -> tuple[Tensors, Tensors]:
        """Runs all epochs, or fewer where the update is stopped.

        Args:
          batch: N elements.
          progress: Fraction of the training that is over, float32 [].

        Returns:
          Metrics by tag, averaged over the applied minibatches, and the gradient norm before
          clipping; and the last minibatch's gradients by name.
        """
        minibatches = self.shuffle(tf.nest.flatten(batch)[0].shape[0])  # [epochs * N / M, M]
        num_minibatches = minibatches.shape[0]
        # Of all minibatches at once, as several learners have to agree on their moments.
        advantages = self._loss.advantages(batch, minibatches)  # [epochs * N / M, M, ...]
        per_epoch = num_minibatches // self._epochs

        def one_minibatch(
            index: tf.Tensor, _: tf.Tensor, totals: Tensors, __: Tensors
        ) -> tuple[tf.Tensor, tf.Tensor, Tensors, Tensors]:
            minibatch = tf.nest.map_structure(
                lambda tensor: tf.gather(tensor, minibatches[index]), batch
            )  # [M, ...]
            minibatch = minibatch._replace(advantage=advantages[index])
            ends_epoch = (index + 1) % per_epoch == 0
            return self._train_minibatch(minibatch, progress, index, ends_epoch, totals)

        num_applied, _, totals, gradients = tf.while_loop(
            lambda index, proceed, *_: (index < num_minibatches) & proceed,
            one_minibatch,
            (
                tf.constant(0),
                tf.constant(True),
                {name: tf.zeros([]) for name in (*self._loss.scalars, "gradient_norm")},
                {name: tf.zeros_like(variable) for name, variable in self._variables.items()},
            ),
            maximum_iterations=num_minibatches,
        )
        metrics = self._metrics(totals, tf.cast(num_applied, tf.float32), per_epoch, progress)
        return {**metrics, **self._loss.after_update(batch)}, gradients

    def shuffle(self, num_elements: int) -> tf.Tensor:
        """Indices [epochs * N / M, M] into N elements; each epoch is a permutation."""
        keys = self._generator.uniform([self._epochs, num_elements])  # [epochs, N]
        order = tf.argsort(keys, axis=1)
        return tf.reshape(order, [-1, self._minibatch_size])

    def gradients(self, minibatch: Batch, progress: tf.Tensor) -> tuple[Tensors, Tensors]:
        """Computes the gradients of one learner's loss.

        Args:
          minibatch: M elements, with advantages of the loss.
          progress: Fraction of the training that is over, float32 [].

        Returns:
          Gradients by name, and metrics of the minibatch by name, float32 [] each.

        Raises:
          ValueError: The loss does not depend on some of the variables.
        """
        with tf.GradientTape() as tape:
            loss, metrics = self._loss.compute(minibatch, progress)
        gradients: Tensors = tape.gradient(loss, self._variables)
        missing = [name for name, gradient in gradients.items() if gradient is None]
        if missing:
            raise ValueError(
                f"The loss does not depend on {', '.join(missing)}: expected a gradient for every "
                "trained variable. Use them in the network's policy or value function, or remove "
                "them from its variables."
            )
        return gradients, dict(metrics)

    def apply(self, gradients: Tensors, progress: tf.Tensor) -> tf.Tensor:
        """Applies the gradients; returns their global norm before clipping, float32 []."""
        norms = [optimizer.apply(gradients, progress) for optimizer in self._optimizers]
        return tf.linalg.global_norm(norms)

    def variables(self) -> dict[str, tf.Variable]:
        """The state of the optimizers that a checkpoint holds, by name."""
        variables: dict[str, tf.Variable] = {}
        for optimizer in self._optimizers:
            variables |= optimizer.variables()
        return variables

    def _train_minibatch(
        self,
        minibatch: Batch,
        progress: tf.Tensor,
        index: tf.Tensor,
        ends_epoch: tf.Tensor,
        totals: Tensors,
    ) -> tuple[tf.Tensor, tf.Tensor, Tensors, Tensors]:
        """Trains on one minibatch.

        Returns:
          The next minibatch's index, int32 []; whether to continue, bool []; totals of the metrics;
          and the gradients of all learners.
        """
        own_gradients, metrics = self._gradients(minibatch, progress)
        gradients, approx_kl = self._reducer.mean((own_gradients, metrics["approx_kl"]))
        norm, applied, proceed = self._kl_stop.step(
            approx_kl, ends_epoch, lambda: self._apply(gradients, progress)
        )
        for optimizer in self._optimizers:
            optimizer.learning_rate.observe(approx_kl, ends_epoch | ~proceed)
        metrics = {**metrics, "gradient_norm": norm}
        totals = {
            name: total + tf.where(applied, metrics[name], 0.0) for name, total in totals.items()
        }
        return index + tf.cast(applied, tf.int32), proceed, totals, gradients

    def _metrics(
        self, totals: Tensors, num_applied: tf.Tensor, per_epoch: int, progress: tf.Tensor
    ) -> Tensors:
        """Means over the applied minibatches, the number of epochs, and learning rates, by tag."""
        metrics = {
            f"losses/{name}": total / tf.maximum(num_applied, 1.0) for name, total in totals.items()
        }
        metrics["losses/epochs"] = num_applied / per_epoch
        for optimizer in self._optimizers:
            rate = optimizer.learning_rate.value(progress)
            metrics[f"schedule/{optimizer.rate_name}"] = rate
        return metrics
