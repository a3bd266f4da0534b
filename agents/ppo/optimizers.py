"""From gradients to steps: Adam or SGD with momentum, for everything at once or for actor and critic apart."""

from __future__ import annotations

import keras
import tensorflow as tf

from agents.config import Config
from agents.ppo.schedules import Constant, make_schedule


class Optimizer:
    """A Keras optimizer of some variables, whose gradients are shortened and whose learning rate is scheduled.

    Attributes:
      rate_name: What its learning rate is called among those of other optimizers.
      learning_rate: Its schedule.
    """

    def __init__(
        self,
        variables: dict[str, tf.Variable],
        optimizer: keras.optimizers.Optimizer,
        learning_rate: Constant,
        max_gradient_norm: float = 0.0,
        rate_name: str = "learning_rate",
    ):
        """Builds the optimizer.

        Args:
          variables: What it trains, by name.
          optimizer: Makes the steps; its learning rate is overwritten.
          learning_rate: Schedule.
          max_gradient_norm: Longer gradients, of all of its variables together, are shortened to this; 0 for no limit.
          rate_name: What its learning rate is called among those of other optimizers.
        """
        self.learning_rate, self.rate_name = learning_rate, rate_name
        self._variables, self._optimizer, self._max_gradient_norm = variables, optimizer, max_gradient_norm
        optimizer.build(list(variables.values()))

    def apply(self, gradients: dict[str, tf.Tensor], progress: tf.Tensor) -> tf.Tensor:
        """Makes one step for its variables among `gradients`; returns their norm [] before they were shortened."""
        own = [gradients[name] for name in self._variables]
        norm = tf.linalg.global_norm(own)
        if self._max_gradient_norm:
            own, _ = tf.clip_by_global_norm(own, self._max_gradient_norm, use_norm=norm)
        self._optimizer.learning_rate.assign(self.learning_rate(progress))
        self._optimizer.apply(own, list(self._variables.values()))
        return norm

    def variables(self) -> dict[str, tf.Variable]:
        """What a checkpoint holds of it, by name."""
        counters, slots = self._optimizer.variables[:2], self._optimizer.variables[2:]
        names = [name for name in self._variables for _ in range(len(slots) // len(self._variables))]
        # Keras would name slots after variables that it has numbered through the whole process.
        state = {f"{name}/{slot.name.rsplit('_')[-1]}": slot for name, slot in zip(names, slots, strict=True)}
        state |= {counter.name: counter for counter in counters}
        named = {f"{self._optimizer.name}/{name}": variable.value for name, variable in state.items()}
        schedule = {f"{self.rate_name}/{name}": value for name, value in self.learning_rate.variables().items()}
        return {**named, **schedule}


def make_optimizers(variables: dict[str, tf.Variable], config: Config) -> list[Optimizer]:
    """One optimizer of all variables, or with a `critic_learning_rate` one of the actor's and one of the critic's.

    The critic's are those whose name begins with "value/". Its learning rate falls with the actor's where that falls
    linearly; it does not follow the KL divergence, on which the critic has no influence.
    """
    schedule = config.learning_rate_schedule
    rate = make_schedule(schedule, config.learning_rate, config.kl_target)
    if not config.critic_learning_rate:
        return [Optimizer(variables, _keras_optimizer(config.optimizer, config), rate, config.max_gradient_norm)]
    critic = {name: variable for name, variable in variables.items() if name.startswith("value/")}
    actor = {name: variable for name, variable in variables.items() if name not in critic}
    critic_rate = make_schedule("constant" if schedule == "kl" else schedule, config.critic_learning_rate)
    critic_optimizer = _keras_optimizer(f"critic_{config.optimizer}", config)
    return [
        Optimizer(actor, _keras_optimizer(config.optimizer, config), rate, config.max_gradient_norm),
        Optimizer(critic, critic_optimizer, critic_rate, config.max_gradient_norm, "critic_learning_rate"),
    ]


def _keras_optimizer(name: str, config: Config) -> keras.optimizers.Optimizer:
    # With a name, since Keras would otherwise number the optimizers of a process, and checkpoints hold that name.
    if config.optimizer == "adam":
        return keras.optimizers.Adam(epsilon=config.adam_epsilon, name=name)
    return keras.optimizers.SGD(momentum=config.sgd_momentum, name=name)
