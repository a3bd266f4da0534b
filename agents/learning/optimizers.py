"""Optimizers: Adam or SGD, for all variables or for actor and critic separately."""

from __future__ import annotations

from collections.abc import Sequence

import keras
import tensorflow as tf

from agents.errors import UsageError
from agents.keras_settings import default_settings
from agents.learning.schedules import Schedule, make_schedule
from agents.settings.config import Config
from agents.settings.entry_points import call, load_function


class Optimizer:
    """A Keras optimizer with gradient clipping and a scheduled learning rate.

    Attributes:
      rate_name: Name of its learning rate in reports and checkpoints.
      learning_rate: The schedule.
    """

    def __init__(
        self,
        variables: dict[str, tf.Variable],
        optimizer: keras.optimizers.Optimizer,
        learning_rate: Schedule,
        max_gradient_norm: float = 0.0,
        rate_name: str = "learning_rate",
    ):
        """Builds the optimizer.

        Args:
          variables: Variables to train, by name.
          optimizer: Applies the gradients; its learning rate is overwritten, unless it is a schedule.
          learning_rate: Schedule of the learning rate.
          max_gradient_norm: Global norm to clip the gradients of its variables to; 0 to disable.
          rate_name: Name of its learning rate in reports and checkpoints.
        """
        self.learning_rate, self.rate_name = learning_rate, rate_name
        self._variables, self._optimizer = variables, optimizer
        self._max_gradient_norm = max_gradient_norm
        optimizer.build(list(variables.values()))

    def apply(self, gradients: dict[str, tf.Tensor], progress: tf.Tensor) -> tf.Tensor:
        """Applies the gradients of its variables.

        Args:
          gradients: By name; those of other variables are ignored.
          progress: Fraction of the training that is over, float32 [].

        Returns:
          The global norm before clipping, float32 [].
        """
        own = [gradients[name] for name in self._variables]
        norm = tf.linalg.global_norm(own)
        if self._max_gradient_norm:
            own, _ = tf.clip_by_global_norm(own, self._max_gradient_norm, use_norm=norm)
        if not has_schedule(self._optimizer):
            self._optimizer.learning_rate.assign(self.learning_rate.value(progress))
        self._optimizer.apply(own, list(self._variables.values()))
        return norm

    def rate(self, progress: tf.Tensor) -> tf.Tensor:
        """The learning rate of the next step, float32 []."""
        if has_schedule(self._optimizer):
            return tf.convert_to_tensor(self._optimizer.learning_rate)
        return self.learning_rate.value(progress)

    def variables(self) -> dict[str, tf.Variable]:
        """The state that a checkpoint holds, by name."""
        state = named_state(self._optimizer.variables, self._variables)
        named = {f"{self._optimizer.name}/{name}": state[name] for name in state}
        schedule = self.learning_rate.variables()
        return {**named, **{f"{self.rate_name}/{name}": schedule[name] for name in schedule}}


class TorchAdam(keras.optimizers.Adam):
    """Adam whose epsilon is added after the bias correction.

    That is algorithm 1 of Kingma and Ba, 2015, arXiv 1412.6980, as in PyTorch. Keras' Adam adds epsilon
    before it ("epsilon hat"; end of section 2), where the same number acts 1 / sqrt(1 - beta_2^t)
    times as strong: 32 times in the first step, 1.3 times in the thousandth.

    Attributes:
      epsilon: What is added to the square root of the second moment.
    """

    epsilon: float | tf.Tensor

    def update_step(
        self, gradient: tf.Tensor, variable: keras.Variable, learning_rate: tf.Tensor
    ) -> None:
        """Updates a variable."""
        step = keras.ops.cast(self.iterations + 1, variable.dtype)
        correction = keras.ops.sqrt(1 - keras.ops.power(self.beta_2, step))
        epsilon = self.epsilon
        try:
            self.epsilon = epsilon * correction
            super().update_step(gradient, variable, learning_rate)
        finally:
            self.epsilon = epsilon


def named_state(
    state: Sequence[keras.Variable], trained: dict[str, tf.Variable]
) -> dict[str, tf.Variable]:
    """Names the variables of a Keras optimizer independently of the process.

    Keras names slots after trained variables, which it numbers through the whole process. Their
    order, which Keras does not document, tells them apart instead: the step, the learning rate unless
    it is scheduled, then the slots of each trained variable. Where shapes contradict that order,
    slots are numbered.

    Args:
      state: The optimizer's variables, in Keras' order.
      trained: The variables that it trains, by name, in the order it was built with.

    Returns:
      Variables by names such as `iteration` or `policy/output/kernel/momentum`.
    """
    num_counters = sum(variable.name in ("iteration", "learning_rate") for variable in state[:2])
    counters, slots = state[:num_counters], state[num_counters:]
    per_variable = len(slots) // max(len(trained), 1)
    owners = [name for name in trained for _ in range(per_variable)]
    in_order = len(owners) == len(slots) and all(
        slot.shape == trained[name].shape for name, slot in zip(owners, slots, strict=True)
    )
    if in_order:
        kinds = [slot.name.rsplit("_")[-1] for slot in slots]
        names = [f"{owner}/{kind}" for owner, kind in zip(owners, kinds, strict=True)]
    if not in_order or len(set(names)) < len(slots):
        names = [f"slot_{index}" for index in range(len(slots))]
    named = dict(zip(names, slots, strict=True)) | {counter.name: counter for counter in counters}
    return {name: variable.value for name, variable in named.items()}


def has_schedule(optimizer: keras.optimizers.Optimizer) -> bool:
    """Returns whether the learning rate is a schedule of Keras."""
    return not isinstance(optimizer.learning_rate, keras.Variable)


def make_optimizers(variables: dict[str, tf.Variable], config: Config) -> list[Optimizer]:
    """One optimizer of all variables; with `critic_learning_rate`, one each for actor and critic.

    The critic's variables are those whose names start with `value/`. Its learning rate decreases
    with the actor's linear schedule, but does not follow the KL divergence, on which the critic
    has no influence.
    """
    schedule = config.learning_rate_schedule
    rate = make_schedule(schedule, config.learning_rate, config.kl_target)
    clip = config.max_gradient_norm
    if not config.critic_learning_rate:
        return [Optimizer(variables, make_keras_optimizer(config), rate, clip)]
    critic = {name: variables[name] for name in variables if name.startswith("value/")}
    actor = {name: variables[name] for name in variables if name not in critic}
    critic_schedule = "constant" if schedule == "kl" else schedule
    critic_rate = make_schedule(critic_schedule, config.critic_learning_rate)
    return [
        Optimizer(actor, make_keras_optimizer(config), rate, clip),
        Optimizer(
            critic,
            make_keras_optimizer(config, "critic_"),
            critic_rate,
            clip,
            "critic_learning_rate",
        ),
    ]


def make_keras_optimizer(config: Config, prefix: str = "") -> keras.optimizers.Optimizer:
    """The Keras optimizer of the setting `optimizer`; a prefix tells several apart.

    Raises:
      UsageError: A function of the user does not return one that can be used here.
    """
    # Named, since Keras would number the optimizers of a process, and checkpoints hold that name.
    name = f"{prefix}{config.optimizer}"
    with default_settings():
        if ":" in config.optimizer:
            return _own_optimizer(config, f"{prefix}own")
        if config.optimizer == "sgd":
            return keras.optimizers.SGD(momentum=config.sgd_momentum, name=name)
        adam = TorchAdam if config.optimizer == "torch_adam" else keras.optimizers.Adam
        return adam(epsilon=config.adam_epsilon, name=name)


def _own_optimizer(config: Config, name: str) -> keras.optimizers.Optimizer:
    """The optimizer of a function of the user, after trying one in a compiled step."""
    place = f"optimizer '{config.optimizer}'"
    function = load_function(config.optimizer, "optimizer")

    def make() -> keras.optimizers.Optimizer:
        optimizer = call(function, place, config)
        if not isinstance(optimizer, keras.optimizers.Optimizer):
            got = type(optimizer).__name__
            raise UsageError(f"{place}: expected a Keras optimizer, got {got}")
        if optimizer.built:
            raise UsageError(f"{place}: expected a new optimizer in each call, got the same again")
        if has_schedule(optimizer) and config.learning_rate_schedule == "kl":
            raise UsageError(
                f"{place} has a schedule, which learning_rate_schedule kl would adapt\n"
                "expected a number as its learning rate, or another learning_rate_schedule"
            )
        optimizer.name = name
        return optimizer

    def step() -> None:
        weight = tf.Variable(tf.ones([2, 2]))
        trial = Optimizer({"weight": weight}, make(), Schedule(0.0))
        gradients = {"weight": tf.ones([2, 2])}
        tf.function(trial.apply, autograph=False, jit_compile=True)(gradients, tf.constant(0.0))

    call(step, place)
    return make()
