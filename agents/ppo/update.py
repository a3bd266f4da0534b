"""The update: epochs of minibatches, from a batch to new weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import tensorflow as tf

from agents.learning.optimizers import Optimizer
from agents.learning.reduction import SINGLE_LEARNER, Reducer, pack, unpack
from agents.ppo.batch import Batch, Tensors
from agents.ppo.kl_limits import KLStop

# Estimates `advantage`, `target` and `value` of a batch again (Andrychowicz et al., 2020, arXiv
# 2006.05990, section 3.5).
Recompute = Callable[[], Tensors]


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


class Task(NamedTuple):
    """What an update learns from.

    Attributes:
      batch: N elements.
      minibatches: int32 [minibatches, M], the elements of each minibatch.
      advantages: float32 [minibatches, M, ...].
      progress: Fraction of the training that is over, float32 [].
      epochs: Passes over the batch that the minibatches are.
    """

    batch: Batch
    minibatches: tf.Tensor
    advantages: tf.Tensor
    progress: tf.Tensor
    epochs: int

    @property
    def minibatches_per_epoch(self) -> int:
        """Number of minibatches in a pass over the batch."""
        return int(self.minibatches.shape[0]) // self.epochs


class Position(NamedTuple):
    """How far an update is.

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

    The loop compiles as one XLA program. Where the reducer does not compile, call `run` in a plain
    graph: between two reductions there is one compiled program then.
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
        compiles: bool = True,
        reduces_weights: bool = False,
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
          compiles: Whether to compile what is between reductions that do not compile.
          reduces_weights: Whether learners average weights and the optimizers' moments once an
            epoch, instead of the gradients of every minibatch (McMahan et al., 2017, arXiv
            1602.05629).
        """
        self._variables, self._optimizers = variables, optimizers
        self._loss, self._generator = loss, generator
        self._epochs, self._minibatch_size = epochs, minibatch_size
        self._kl_stop, self._reducer = kl_stop or KLStop(), reducer
        self._compiles, self._reduces_weights = compiles, reduces_weights

    def run(
        self, batch: Batch, progress: tf.Tensor, recompute: Recompute | None = None
    ) -> tuple[Tensors, Tensors]:
        """Runs all epochs, or fewer where the update is stopped.

        Args:
          batch: N elements.
          progress: Fraction of the training that is over, float32 [].
          recompute: Called before every epoch but the first; by default, targets stay.

        Returns:
          Metrics by tag, averaged over the applied minibatches, and the gradient norm before
          clipping; and the last minibatch's gradients by name.
        """
        minibatches = self.shuffle(tf.nest.flatten(batch)[0].shape[0])  # [epochs * N / M, M]
        if recompute:
            position, gradients = self._run_recomputing(batch, minibatches, progress, recompute)
        else:
            task = self._task(batch, minibatches, progress, self._epochs)
            position, gradients = self._run_all(task, self._start())
        metrics = self._metrics(position, minibatches.shape[0] // self._epochs, progress)
        return {**metrics, **self._loss.after_update(batch)}, gradients

    def shuffle(self, num_elements: int) -> tf.Tensor:
        """Indices [epochs * N / M, M] into N elements; each epoch is a permutation.

        Numbers are drawn for all learners, so that the next ones do not depend on how many there are.
        """
        num_keys = num_elements * self._reducer.num_learners
        keys = self._generator.uniform([self._epochs, num_keys])
        order = tf.argsort(self._reducer.own(keys, axis=1), axis=1)  # [epochs, N]
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

    def _start(self) -> Position:
        names = (*self._loss.scalars, "gradient_norm")
        totals = {name: tf.zeros([]) for name in names}
        return Position(tf.constant(0), tf.constant(True), totals)

    def _task(self, batch: Batch, minibatches: tf.Tensor, progress: tf.Tensor, epochs: int) -> Task:
        # Of all minibatches at once, as several learners have to agree on their moments.
        return Task(batch, minibatches, self._loss.advantages(batch, minibatches), progress, epochs)

    def _run_recomputing(
        self,
        batch: Batch,
        minibatches: tf.Tensor,
        progress: tf.Tensor,
        recompute: Recompute,
    ) -> tuple[Position, Tensors]:
        """Trains on epoch after epoch, each with targets of its own; see `_run_all`."""
        size = minibatches.shape[0] // self._epochs
        by_epoch = tf.reshape(minibatches, [self._epochs, size, -1])  # [epochs, N / M, M]
        given = {name: getattr(batch, name) for name in ("advantage", "target", "value")}

        def one_epoch(epoch: tf.Tensor, so_far: Position, _: Tensors) -> tuple[object, ...]:
            # The first has those of the batch, which are the same.
            targets = tf.cond(epoch > 0, recompute, lambda: given)
            elements = tf.ensure_shape(tf.gather(by_epoch, epoch), [size, minibatches.shape[1]])
            task = self._task(batch._replace(**targets), elements, progress, epochs=1)
            end, gradients = self._run_all(task, so_far._replace(index=tf.constant(0)))
            return epoch + 1, end._replace(index=so_far.index + end.index), gradients

        zeros = {name: tf.zeros_like(variable) for name, variable in self._variables.items()}
        _, position, gradients = tf.while_loop(
            lambda epoch, position, _: (epoch < self._epochs) & position.proceed,
            one_epoch,
            (tf.constant(0), self._start(), zeros),
            maximum_iterations=self._epochs,
        )
        return position, gradients

    def _run_all(self, task: Task, start: Position) -> tuple[Position, Tensors]:
        """Trains on all minibatches, or until the update stops.

        Returns:
          The end, and the gradients of the last minibatch by name.
        """
        num_minibatches = task.minibatches.shape[0]
        if self._reducer.compiles:
            return self._run(task, start, num_minibatches)
        if self._reduces_weights:
            return self._run_epochs(task, start)
        if self._compiles:
            return self._run_together(task, start)
        return self._run(task, start, num_minibatches, self._reducer)

    def _run(
        self,
        task: Task,
        start: Position,
        end: int | tf.Tensor,
        reducer: Reducer = SINGLE_LEARNER,
    ) -> tuple[Position, Tensors]:
        """Trains on minibatches from a position to an index, on the gradients of all of a reducer."""

        def one_minibatch(position: Position, _: Tensors) -> tuple[Position, Tensors]:
            own, metrics = self._compute(task, position.index)
            gradients, approx_kl = reducer.mean((own, metrics["approx_kl"]))
            return self._apply(task, position, gradients, approx_kl, metrics), gradients

        zeros = {name: tf.zeros_like(variable) for name, variable in self._variables.items()}
        position, gradients = tf.while_loop(
            lambda position, _: (position.index < end) & position.proceed,
            one_minibatch,
            (start, zeros),
            maximum_iterations=task.minibatches.shape[0],
        )
        return position, gradients

    def _run_epochs(self, task: Task, start: Position) -> tuple[Position, Tensors]:
        """Trains one of several learners on its own gradients, and averages weights every epoch."""
        states = {**self._variables, **self.variables()}
        averaged = [one for one in states.values() if one.dtype == tf.float32]
        shapes = [variable.shape for variable in averaged]

        def one_epoch(task: Task, position: Position) -> tuple[Position, Tensors, tf.Tensor]:
            end = position.index + task.minibatches_per_epoch
            position, gradients = self._run(task, position, end)
            return position, gradients, pack([tf.convert_to_tensor(one) for one in averaged])

        if self._compiles:
            one_epoch = tf.function(one_epoch, jit_compile=True, autograph=False)
        position, gradients = start, dict[str, tf.Tensor]()
        for _ in range(task.epochs):
            position, gradients, packed = one_epoch(task, position)
            for variable, value in zip(
                averaged, unpack(self._reducer.mean(packed), shapes), strict=True
            ):
                variable.assign(value)
        return position, gradients

    def _run_together(self, task: Task, start: Position) -> tuple[Position, Tensors]:
        """Trains one of several learners on the gradients of all, with compiled programs.

        What follows a reduction and what leads to the next one are one program: calling a compiled
        program takes as long as a minibatch of a small network.
        """
        num_minibatches = task.minibatches.shape[0]
        shapes = {name: variable.shape for name, variable in self._variables.items()}

        def compute(task: Task, index: tf.Tensor) -> tuple[tf.Tensor, Tensors]:
            gradients, metrics = self._compute(task, index)
            return pack([*gradients.values(), metrics["approx_kl"]]), metrics

        def follow(
            task: Task, position: Position, packed: tf.Tensor, metrics: Tensors
        ) -> tuple[Position, tf.Tensor, Tensors]:
            *gradients, approx_kl = unpack(packed, [*shapes.values(), tf.TensorShape([])])
            by_name = dict(zip(shapes, gradients, strict=True))
            position = self._apply(task, position, by_name, approx_kl, metrics)
            # After the last one, for nothing.
            return position, *compute(task, tf.minimum(position.index, num_minibatches - 1))

        compute = tf.function(compute, jit_compile=True, autograph=False)
        follow = tf.function(follow, jit_compile=True, autograph=False)

        def one_minibatch(
            position: Position, own: tf.Tensor, _: tf.Tensor, metrics: Tensors
        ) -> tuple[Position, tf.Tensor, tf.Tensor, Tensors]:
            reduced = self._reducer.mean(own)
            position, own, metrics = follow(task, position, reduced, metrics)
            return position, own, reduced, metrics

        own, metrics = compute(task, start.index)
        position, _, reduced, _ = tf.while_loop(
            lambda position, *_: (position.index < num_minibatches) & position.proceed,
            one_minibatch,
            (start, own, own, metrics),
            maximum_iterations=num_minibatches,
        )
        gradients = unpack(reduced[:-1], list(shapes.values()))
        return position, dict(zip(shapes, gradients, strict=True))

    def _compute(self, task: Task, index: tf.Tensor) -> tuple[Tensors, Tensors]:
        """This learner's gradients and metrics of a minibatch, by name; `index` is int32 []."""
        # Not `minibatches[index]`, which XLA compiles once for each index.
        elements = tf.gather(task.minibatches, index)  # [M]
        minibatch = tf.nest.map_structure(
            lambda tensor: tf.gather(tensor, elements), task.batch
        )  # [M, ...]
        minibatch = minibatch._replace(advantage=tf.gather(task.advantages, index))
        return self.gradients(minibatch, task.progress)

    def _apply(
        self,
        task: Task,
        position: Position,
        gradients: Tensors,
        approx_kl: tf.Tensor,
        metrics: Tensors,
    ) -> Position:
        """Applies the gradients of a minibatch, unless the update stops before it.

        Args:
          task: What is learned from.
          position: Before the minibatch.
          gradients: Gradients of all learners, by name.
          approx_kl: KL divergence of all learners, float32 [].
          metrics: This learner's metrics by name.

        Returns:
          The position after the minibatch.
        """
        ends_epoch = (position.index + 1) % task.minibatches_per_epoch == 0
        norm, applied, proceed = self._kl_stop.step(
            approx_kl, ends_epoch, lambda: self.apply(gradients, task.progress)
        )
        for optimizer in self._optimizers:
            optimizer.learning_rate.observe(approx_kl, ends_epoch | ~proceed)
        metrics = {**metrics, "gradient_norm": norm}
        totals = {
            name: total + tf.where(applied, metrics[name], 0.0)
            for name, total in position.totals.items()
        }
        return Position(position.index + tf.cast(applied, tf.int32), proceed, totals)

    def _metrics(self, position: Position, per_epoch: int, progress: tf.Tensor) -> Tensors:
        """Means over the applied minibatches, the number of epochs, and learning rates, by tag."""
        num_applied = tf.cast(position.index, tf.float32)
        metrics = {
            f"losses/{name}": total / tf.maximum(num_applied, 1.0)
            for name, total in position.totals.items()
        }
        metrics["losses/epochs"] = num_applied / per_epoch
        for optimizer in self._optimizers:
            rate = optimizer.learning_rate.value(progress)
            metrics[f"schedule/{optimizer.rate_name}"] = rate
        return metrics
