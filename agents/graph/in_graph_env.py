"""A batch of environments in the graph: the interface that all backends share."""

from __future__ import annotations

import abc
import contextlib
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from agents.errors import UsageError
from agents.graph.step import Step
from agents.spaces import leaf_spaces, pack
from agents.types import NestedTensor, NestedVariable, Space
from agents.vector.restarts import Restart


class InGraphEnv(abc.ABC):
    """A batch of environments whose results are variables and whose steps are operations.

    Attributes:
      compiles: Whether XLA can compile these operations.
      num_envs: Number of environments, B.
      observation_space: Gymnasium space of one environment's observations.
      action_space: Gymnasium space of one environment's actions.
      observ: Structure of variables [B, ...], the current observations.
      action: Structure of variables [B, ...], the last actions.
      reward: Variable [B], float32.
      terminated: Variable [B], bool, whether the last step ended an episode in a terminal state.
      truncated: Variable [B], bool, whether it was cut, as by a time limit.
      final_observ: Structure of variables [B, ...], the last observations of episodes that ended,
        arbitrary in other rows.
      extras: Variables [B], float32, by info key; NaN where the last step's info lacks the key.
      restarted: Variable [B], bool, whether the environment was restarted in the last step; () where
        environments are not restarted.
      episode_return: Variable [B], float32, rewards of the current episodes so far; kept by
        `agents.simulate` alone, 0 in a loop of one's own.
      episode_length: Variable [B], int32, their steps so far; see `episode_return`.
      info_names: Names seen in infos so far; not those of every step.
      packed_spec: Structure of `tf.TensorSpec` that `step` returns.
      wait_for: Fraction of the processes under way that a turn of a rollout waits for; 1 where all
        environments make each step together.
      seconds: Time that steps of the environments took, apart from the graph.
    """

    compiles = False
    wait_for = 1.0
    seconds = 0.0

    def __init__(
        self,
        num_envs: int,
        observation_space: Space,
        action_space: Space,
        info_keys: Sequence[str] = (),
        restarts: bool = False,
    ):
        """Creates the variables.

        Args:
          num_envs: Number of environments, B.
          observation_space: Space of one environment's observations.
          action_space: Space of one environment's actions.
          info_keys: Names of numbers in the environments' infos to return for every step.
          restarts: Whether environments that fail are restarted.

        Raises:
          UnsupportedSpaceError: A space is not made of arrays.
        """
        self.num_envs = num_envs
        self.info_names: set[str] = set()
        self.observation_space = observation_space
        self.action_space = action_space
        self.observ = self._variables(self.observation_space, "observ")
        self.action = self._variables(self.action_space, "action")
        self.reward = self._variable((), tf.float32, "reward")
        self.terminated = self._variable((), tf.bool, "terminated")
        self.truncated = self._variable((), tf.bool, "truncated")
        self.final_observ = self._variables(self.observation_space, "final_observ")
        self.extras = {
            key: tf.Variable(tf.fill([num_envs], np.nan), trainable=False, name=key)
            for key in info_keys
        }
        self.restarted = self._variable((), tf.bool, "restarted") if restarts else ()
        self.packed_spec: NestedTensor = tf.nest.map_structure(
            lambda variable: tf.TensorSpec(variable.shape, variable.dtype), self._results()
        )
        self.episode_return = self._variable((), tf.float32, "episode_return")
        self.episode_length = self._variable((), tf.int32, "episode_length")

    @tf.autograph.experimental.do_not_convert  # AutoGraph would replace errors by its own.
    def simulate(self, action: NestedTensor) -> Step:
        """Steps the environments and assigns the results to the variables.

        Args:
          action: Structure of tensors [B, ...] of the action space's types.

        Returns:
          The results of the step, shaped like the variables.

        Raises:
          UsageError: The actions have another structure, type or shape than the action space.
        """
        action = self.fit_actions(action, "simulate")
        result = self.unpack(self.step(action))  # [B, ...]
        self.keep(action, result)
        return result

    def fit_actions(self, action: NestedTensor, source: str) -> NestedTensor:
        """Returns actions as tensors with the static shapes of the variables.

        Args:
          action: Structure of tensors, some of whose dimensions may be unknown.
          source: Function that takes or returns the actions, for the message.

        Raises:
          UsageError: They have another structure, type or shape than the action space.
        """
        tensors = tf.nest.map_structure(tf.convert_to_tensor, action)

        def fit(tensor: tf.Tensor, variable: tf.Variable) -> tf.Tensor:
            if not tf.TensorSpec(variable.shape, variable.dtype).is_compatible_with(tensor):
                raise ValueError
            known = tensor.shape.is_fully_defined()
            return tensor if known else tf.ensure_shape(tensor, variable.shape)

        try:
            return tf.nest.map_structure(fit, tensors, self.action)
        except (TypeError, ValueError):
            expected, got = (
                tf.nest.map_structure(lambda leaf: f"{leaf.dtype.name}{leaf.shape}", leaves)
                for leaves in (self.action, tensors)
            )
            raise UsageError(f"{source}: expected actions {expected}, got {got}") from None

    # The parts of `simulate`, for loops that assign the variables once after many steps.

    @abc.abstractmethod
    def step(self, action: NestedTensor) -> NestedTensor:
        """Steps the environments without assigning the variables, unlike `simulate`.

        Returns:
          The results in the backend's packed format.
        """

    def unpack(self, packed: NestedTensor) -> Step:
        """Unpacks results of one step or of many: [..., *as in `packed_spec`] to [..., B, ...]."""
        assert isinstance(packed, Step)
        return packed

    def keep(self, action: NestedTensor, result: Step) -> None:
        """Assigns a step's action and unpacked results [B, ...] to the variables."""
        self._assign(self._results(), result)
        self._assign(self.action, action)

    def reset(self, mask: tf.Tensor | None = None, seed: tf.Tensor | None = None) -> NestedTensor:
        """Resets environments, as an operation of the graph.

        Args:
          mask: bool [B], which environments to reset; by default all.
          seed: int64 [B], seeds of their random numbers; where negative, and by default, the
            environments continue with the generators they have.

        Returns:
          Structure of tensors [B, ...], the observations of all environments afterwards.
        """
        mask = tf.ones([self.num_envs], tf.bool) if mask is None else mask  # [B]
        if seed is None:
            seed = tf.fill([self.num_envs], tf.constant(-1, tf.int64))  # [B]
        return self._reset(mask, seed)

    @abc.abstractmethod
    def _reset(self, mask: tf.Tensor, seed: tf.Tensor) -> NestedTensor:
        """See `reset`."""

    def raising(self) -> contextlib.AbstractContextManager[None]:
        """Context that raises an environment's own exception instead of TensorFlow's."""
        return contextlib.nullcontext()

    def take_restarts(self) -> list[Restart]:
        """Returns the restarts of environments since the last call."""
        return []

    def close(self) -> None:  # noqa: B027 - Most have nothing to close.
        """Closes the environments that live outside of the graph."""

    def _results(self) -> Step:
        """The variables that hold the results of the last step."""
        return Step(
            observ=self.observ,
            reward=self.reward,
            terminated=self.terminated,
            truncated=self.truncated,
            final_observ=self.final_observ,
            extras=self.extras,
            restarted=self.restarted,
        )

    def _clear(self, mask: tf.Tensor) -> None:
        """Clears the results and episode statistics of environments; `mask` is bool [B]."""
        for variable in (
            self.reward,
            self.terminated,
            self.truncated,
            self.episode_return,
            self.episode_length,
        ):
            variable.assign(tf.where(mask, tf.zeros_like(variable), variable))
        for variable in self.extras.values():
            variable.assign(tf.where(mask, np.nan, variable))

    def _variables(self, space: Space, name: str) -> NestedVariable:
        leaves = leaf_spaces(space)
        return pack(space, (self._variable(leaf.shape, leaf.dtype, name) for leaf in leaves))

    def _variable(
        self, shape: tuple[int, ...], dtype: np.typing.DTypeLike, name: str
    ) -> tf.Variable:
        zeros = tf.zeros((self.num_envs, *shape), dtype)  # [B, ...]
        return tf.Variable(zeros, trainable=False, name=name)

    def _assign(self, variables: NestedVariable, values: NestedTensor) -> None:
        tf.nest.map_structure(lambda variable, value: variable.assign(value), variables, values)
