"""Interfaces of actors, for the simulation loop, and of algorithms, for the trainer."""

from __future__ import annotations

import abc
from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import tensorflow as tf

from agents.graph.in_graph_env import InGraphEnv
from agents.graph.step import Rollout, Step, Turn
from agents.settings.config import Config
from agents.settings.peer_names import argument_hint
from agents.types import NestedTensor, Space

if TYPE_CHECKING:  # Environments in the graph are useful without Keras.
    from agents.learning.replay import Replay
    from agents.policies.policy import Policy


class Actor(abc.ABC):
    """Chooses actions inside of `agents.simulate`; subclass it and override the methods you need.

    Masks are bool [B]. All methods are operations of the graph.

    Attributes:
      acts_in_turns: Whether it acts in environments that are at different steps of a rollout, after
        `begin_turn`. Then actions and stored samples depend on the environment's own row and step
        only, and `experience` is not overridden. A subclass that overrides how it acts must set
        this itself.
    """

    acts_in_turns: ClassVar[bool] = False

    def begin_rollout(self, steps: int) -> None:  # noqa: B027 - Optional.
        """Prepares a rollout of T = `steps`; the place for one operation instead of T."""

    def begin_turn(self, turn: Turn) -> None:  # noqa: B027 - Optional.
        """Called before `perform` where environments are at different steps of the rollout."""

    def begin_episode(self, mask: tf.Tensor) -> None:  # noqa: B027 - Optional.
        """Called after each step; `mask` has the environments that start an episode, if any."""

    @abc.abstractmethod
    def perform(self, observ: NestedTensor, deterministic: bool) -> NestedTensor:
        """Returns actions [B, ...] of the action space's types for observations [B, ...]."""

    def experience(self, step: tf.Tensor, transition: Step) -> None:  # noqa: B027 - Optional.
        """Receives the transition [B, ...] of step `step`, int32 [], of the rollout.

        Its `observ` are the observations before the step, and its `action` is set, see `Step`.
        """

    def end_episode(self, mask: tf.Tensor) -> None:  # noqa: B027 - Optional.
        """Called after each step; `mask` has the environments whose episode ended, if any."""


def can_act_in_turns(actor: Actor) -> bool:
    """Returns whether an actor's class sets `acts_in_turns`, see `Actor`."""
    if type(actor).experience is not Actor.experience:
        return False
    for kind in type(actor).__mro__:
        if "acts_in_turns" in vars(kind):
            return actor.acts_in_turns
        if vars(kind).keys() & {"begin_rollout", "begin_turn", "perform"}:
            return False
    return False


class Report(NamedTuple):
    """Report of an update.

    Attributes:
      scalars: float32 [] by tag, such as `losses/policy`.
      arrays: Tensors of any shape by tag, for histograms.
      nonfinite: By the name of the monitored tensor (`observ`, `final_observ`, `reward`, `action`,
        `loss`, `gradient`), the first NaN or infinity, float32 [], and its index in the flat [T, B], int32 [],
        -1 where all numbers are finite. See `agents.learning.nonfinite`.
    """

    scalars: dict[str, tf.Tensor]
    arrays: dict[str, tf.Tensor]
    nonfinite: dict[str, tuple[tf.Tensor, tf.Tensor]]


def check_arguments(
    algorithm: str, batch_env: object, config: object, unknown: Iterable[str]
) -> None:
    """Checks what an algorithm is created with: in other libraries a policy, one environment and settings.

    Raises:
      TypeError: They are not environments in the graph and a `Config`, or an argument is unknown.
    """
    if not isinstance(batch_env, InGraphEnv) or not isinstance(config, Config):
        raise TypeError(
            f"{algorithm} expected environments in the graph, such as agents.InGraphBatchEnv(...), and a "
            f"Config, got {batch_env!r} and {config!r}. agents.train(agents.load_config(...)) makes both "
            "and trains."
        )
    for argument in unknown:
        hint = argument_hint(argument, ("batch_env", "config"), Config.model_fields)
        raise TypeError(f"{algorithm} has no argument '{argument}'{hint}")


def check_rollout_length(algorithm: str, expected: int, steps: int) -> None:
    """Raises ValueError if a rollout has other steps than the setting `rollout_length`."""
    if steps != expected:
        raise ValueError(
            f"{algorithm} expected rollouts of {expected} steps (rollout_length), got {steps}. To act with "
            "its policy only, simulate an Actor whose perform calls policy.act."
        )


class Algorithm(Actor):
    """Acts in a batch of environments and learns from rollouts, in `agents.train`.

    The constructor takes the environments to act in (an `InGraphEnv`) and the configuration.

    Attributes:
      policy: The policy that is trained; evaluations and `agents.load_policy` act with it.
      steps: Variable [], int64, the environment steps learned from so far.
    """

    policy: Policy
    steps: tf.Variable

    @classmethod
    def describe(cls, config: Config, observation_space: Space, action_space: Space) -> list[str]:
        """Returns lines on its updates and memory, for `--dry-run`.

        Raises:
          UsageError: The settings do not fit the spaces, or the machine.
        """
        return []

    @property
    def averaged_policy(self) -> Policy | None:
        """A policy with averaged weights for additional evaluations; None without one."""
        return None

    @property
    def replay(self) -> Replay | None:
        """Steps that checkpoints hold in files of their own; None without any."""
        return None

    @abc.abstractmethod
    def train(self, rollout: Rollout) -> Report:
        """Learns from a rollout, as an operation of the graph, and counts its `steps`."""

    def reset_episode_state(self) -> None:  # noqa: B027 - Optional.
        """Clears what `train` keeps of running episodes, after all environments were reset.

        Then `begin_episode` is called for all environments.
        """

    @abc.abstractmethod
    def variables(self) -> dict[str, tf.Variable]:
        """Everything that a checkpoint must hold, by name."""

    def learned_variables(self) -> dict[str, tf.Variable]:
        """The part of `variables` that another run may start from; by default the policy's.

        It does not depend on the number of environments.
        """
        return self.policy.variables()

    def acting_variables(self) -> dict[str, tf.Variable]:
        """Random numbers and recurrent state, which acting changes and checkpoints hold.

        They are copied before every iteration; by default all variables and the policy's generator.
        """
        return {"policy/generator": self.policy.generator.state, **self.variables()}
