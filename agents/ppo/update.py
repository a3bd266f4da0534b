"""The update: epochs of minibatches, from a batch to new weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from agents.learning.optimizers import make_optimizers
from agents.learning.reduction import SINGLE_LEARNER, Reducer
from agents.ppo.batch import Batch, Tensors
from agents.ppo.kl_limits import KLStop
from agents.ppo.loss import Loss
from agents.settings.config import Config, elements_per_minibatch

# Estimates `advantage`, `target` and `value` of a batch again (Andrychowicz et al., 2020, arXiv
# 2006.05990, section 3.5).
Recompute = Callable[[], Tensors]


class Position(NamedTuple):
    """Loop state of an update.

    Attributes:
      index: The next minibatch, int32 [].
      proceed: Whether to go on, bool [].
      totals: Sums of the metrics of the minibatches so far, float32 [] each.
    """

    index: tf.Tensor
    proceed: tf.Tensor
    totals: Tensors


class Update:
    """Trains variables on shuffled minibatches for some epochs.

    XLA compiles `run` as a part of one program; with several learners, its parts between two
    reductions. Networks that see images run in a plain graph.
    """

    def __init__(
        self,
        variables: dict[str, tf.Variable],
        loss: Loss,
        config: Config,
        generator: tf.random.Generator,
        reducer: Reducer = SINGLE_LEARNER,
        compiles: bool = True,
    ):
        """Creates the optimizers of the variables.

        Args:
          variables: Variables to train, by name.
          loss: The loss to minimize.
          config: Its `minibatch_size` is that of all learners. With `reduce_every` epoch, learners
            average weights and the optimizers' moments once an epoch, instead of the gradients of
            every minibatch (McMahan et al., 2017, arXiv 1602.05629).
          generator: Shuffles the elements.
          reducer: Combines gradients and KL divergences of several learners.
          compiles: Whether to compile the programs between reductions that do not compile.
        """
        self._variables, self._optimizers = variables, make_optimizers(variables, config)
        self._loss, self._generator, self._reducer = loss, generator, reducer
        self._epochs = config.epochs
        self._minibatch_size = elements_per_minibatch(config) // reducer.num_learners  # M.
        self._kl_stop = KLStop(config.kl_stop, config.kl_stop_after)
        self._reduces_weights = config.reduce_every == "epoch" and not reducer.compiles
        self._compiles_parts = compiles and not reducer.compiles

    def run(
        self, batch: Batch, progress: tf.Tensor, recompute: Recompute | None = None
    ) -> tuple[Tensors, Tensors]:
        """Runs all epochs, or fewer if the update is stopped.

        Args:
          batch: N elements.
          progress: Fraction of the training that is over, float32 [].
          recompute: Called before every epoch but the first; by default, targets stay.

        Returns:
          Metrics by tag, averaged over the applied minibatches, and the gradient norm before
          clipping; and the last minibatch's gradients by name.
        """
        minibatches = self.shuffle(tf.nest.flatten(batch)[0].shape[0])  # [epochs * N / M, M]
        # Of all minibatches at once: one reduction of moments over learners instead of one for each.
        advantages = None if recompute else self._loss.advantages(batch, minibatches)
        # One loop, unless advantages are estimated or weights averaged between epochs.
        num_loops = self._epochs if recompute or self._reduces_weights else 1

        def part(rows: tf.Tensor, loop: tf.Tensor) -> tf.Tensor:
            return tf.gather(tf.reshape(rows, [num_loops, -1, *rows.shape[1:]]), loop)

        def one_loop(loop: tf.Tensor, before: Position, _: Tensors) -> tuple[object, ...]:
            current = batch
            if recompute:
                # Before the first epoch they would be the same.
                given = {name: getattr(batch, name) for name in ("advantage", "target", "value")}
                current = batch._replace(**tf.cond(loop > 0, recompute, lambda: given))
            elements = part(minibatches, loop)  # [minibatches, M]
            advantage = (
                self._loss.advantages(current, elements)
                if advantages is None
                else part(advantages, loop)
            )  # [minibatches, M, ...]
            start = before._replace(index=tf.constant(0))
            end, gradients = self._run_minibatches(current, elements, advantage, progress, start)
            if self._reduces_weights:
                self._average_weights()
            return loop + 1, end._replace(index=before.index + end.index), gradients

        _, position, gradients = tf.while_loop(
            lambda loop, position, _: (loop < num_loops) & position.proceed,
            one_loop,
            (tf.constant(0), self._start(), self._zero_gradients()),
            maximum_iterations=num_loops,
        )
        num_applied = tf.cast(position.index, tf.float32)
        metrics = {
            f"losses/{name}": total / tf.maximum(num_applied, 1.0)
            for name, total in position.totals.items()
        }
        metrics["losses/epochs"] = num_applied / (minibatches.shape[0] // self._epochs)
        for optimizer in self._optimizers:
            metrics[f"schedule/{optimizer.rate_name}"] = optimizer.rate(progress)
        return {**metrics, **self._loss.after_update(batch)}, gradients

    def shuffle(self, num_elements: int) -> tf.Tensor:
        """Indices [epochs * N / M, M] into N elements; each epoch is a permutation.

        Each learner shuffles its own elements. Numbers are drawn for all learners, so that later ones
        do not depend on how many there are.
        """
        num_keys = num_elements * self._reducer.num_learners
        keys = self._generator.uniform([self._epochs, num_keys])
        order = tf.argsort(self._reducer.own(keys, axis=1), axis=1)  # [epochs, N]
        return tf.reshape(order, [-1, self._minibatch_size])

    def gradients(self, minibatch: Batch, progress: tf.Tensor) -> tuple[Tensors, Tensors]:
        """Computes the gradients of one learner's loss.

        Args:
          minibatch: M elements; their `advantage` is a row of the result of `Loss.advantages`.
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
        # Gradients of embeddings are sparse.
        dense = {name: tf.convert_to_tensor(gradients[name]) for name in gradients}
        return dense, dict(metrics)

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

    def _run_minibatches(
        self,
        batch: Batch,
        minibatches: tf.Tensor,
        advantages: tf.Tensor,
        progress: tf.Tensor,
        start: Position,
    ) -> tuple[Position, Tensors]:
        """Trains on minibatches until the last one, or until the update stops.

        Args:
          batch: N elements.
          minibatches: int32 [minibatches, M], the elements of each minibatch.
          advantages: float32 [minibatches, M, ...].
          progress: Fraction of the training that is over, float32 [].
          start: The position before them.

        Returns:
          The position at the end, and the gradients of the last minibatch by name.
        """
        num_minibatches = minibatches.shape[0]
        per_epoch = tf.nest.flatten(batch)[0].shape[0] // self._minibatch_size

        def compute(index: tf.Tensor) -> tuple[Tensors, Tensors]:
            """This learner's gradients and metrics of a minibatch, by name."""
            # Not `minibatches[index]`, which XLA compiles once for each index.
            elements = tf.gather(minibatches, index)  # [M]
            minibatch = tf.nest.map_structure(
                lambda tensor: tf.gather(tensor, elements), batch
            )  # [M, ...]
            minibatch = minibatch._replace(advantage=tf.gather(advantages, index))
            return self.gradients(minibatch, progress)

        def apply(
            position: Position, gradients: Tensors, approx_kl: tf.Tensor, metrics: Tensors
        ) -> Position:
            """Applies the gradients of all learners, unless the update stops before."""
            ends_epoch = (position.index + 1) % per_epoch == 0
            norm, applied, proceed = self._kl_stop.step(
                approx_kl, ends_epoch, lambda: self.apply(gradients, progress)
            )
            for optimizer in self._optimizers:
                optimizer.learning_rate.observe(approx_kl, ends_epoch | ~proceed)
            metrics = {**metrics, "gradient_norm": norm}
            totals = {
                name: total + tf.where(applied, metrics[name], 0.0)
                for name, total in position.totals.items()
            }
            return Position(position.index + tf.cast(applied, tf.int32), proceed, totals)

        def one_minibatch(position: Position, _: Tensors) -> tuple[Position, Tensors]:
            gradients, metrics = compute(position.index)
            approx_kl = metrics["approx_kl"]
            if not self._reduces_weights:
                gradients, approx_kl = self._reducer.mean((gradients, approx_kl))
            return apply(position, gradients, approx_kl, metrics), gradients

        def all_minibatches(start: Position) -> tuple[Position, Tensors]:
            position, gradients = tf.while_loop(
                lambda position, _: (position.index < num_minibatches) & position.proceed,
                one_minibatch,
                (start, self._zero_gradients()),
                maximum_iterations=num_minibatches,
            )
            return position, gradients

        if self._compiles_parts:  # What lies between two reductions.
            if self._reduces_weights:
                all_minibatches = _compiled(all_minibatches)
            else:
                compute, apply = _compiled(compute), _compiled(apply)
        position, gradients = all_minibatches(start)
        return position, gradients

    def _average_weights(self) -> None:
        """Averages the weights and the optimizers' moments of all learners."""
        states = {**self._variables, **self.variables()}.values()
        averaged = [variable for variable in states if variable.dtype == tf.float32]
        means = self._reducer.mean([tf.convert_to_tensor(variable) for variable in averaged])
        for variable, mean in zip(averaged, means, strict=True):
            variable.assign(mean)

    def _start(self) -> Position:
        names = (*self._loss.scalars, "gradient_norm")
        totals = {name: tf.zeros([]) for name in names}
        return Position(tf.constant(0), tf.constant(True), totals)

    def _zero_gradients(self) -> Tensors:
        return {name: tf.zeros_like(variable) for name, variable in self._variables.items()}


def _compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    compiled: Callable[..., Any] = tf.function(function, jit_compile=True, autograph=False)
    return compiled
