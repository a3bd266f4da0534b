"""What environments are in the graph, wherever they live."""

from __future__ import annotations

import abc
import contextlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from gymnasium import spaces

from agents.tools.attr_dict import AttrDict
from agents.tools.spaces import leaf_spaces, pack


class InGraphEnv(abc.ABC):
    """A batch of environments: their results are variables, stepping and resetting them are operations.

    Attributes:
      compiles: Whether XLA can compile these operations.
      num_envs: Number of environments, B.
      observation_space: Gymnasium space of one environment's observations.
      action_space: Gymnasium space of one environment's actions.
      observ: Structure of variables [B, ...], the current observations.
      action: Structure of variables [B, ...], the last actions.
      reward: Variable [B], float32.
      terminated: Variable [B], bool: whether the last step ended an episode in a final state.
      truncated: Variable [B], bool: whether it was cut short, as by a time limit.
      final_observ: Structure of variables [B, ...], the true last observations where `terminated | truncated`, and
        arbitrary elsewhere.
      extras: Variables [B], float32, by name: numbers in the infos of the last step, NaN where there was none.
      episode_return: Variable [B], float32: the rewards of the current episodes so far; kept by `simulate()`.
      episode_length: Variable [B], int32: their steps so far; kept by `simulate()`.
      info_names: Names that have come with the infos; not with those of all steps.
      packed_spec: Structure of `tf.TensorSpec`, of what `step` returns.
    """

    compiles = False

    def __init__(
        self,
        num_envs: int,
        observation_space: spaces.Space,
        action_space: spaces.Space,
        info_keys: Sequence[str] = (),
    ):
        """Makes the variables.

        Args:
          num_envs: Number of environments, B.
          observation_space: Of one environment.
          action_space: Of one environment.
          info_keys: Names of numbers in the environments' infos.

        Raises:
          UnsupportedSpaceError: A space that is not made of arrays.
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
        self.extras = {key: tf.Variable(tf.fill([num_envs], np.nan), trainable=False, name=key) for key in info_keys}
        results = {
            name: getattr(self, name) for name in ("observ", "reward", "terminated", "truncated", "final_observ")
        }
        self.packed_spec: Any = tf.nest.map_structure(
            lambda variable: tf.TensorSpec(variable.shape, variable.dtype), AttrDict(results)
        )
        self.episode_return = self._variable((), tf.float32, "episode_return")
        self.episode_length = self._variable((), tf.int32, "episode_length")

    def simulate(self, action: Any) -> AttrDict:
        """Steps the environments and keeps what they gave in the variables, as an operation of the graph.

        Args:
          action: Structure of tensors [B, ...] of the action space's types.

        Returns:
          `reward`, `terminated`, `truncated` and `final_observ` of the step, as tensors shaped like the variables.
        """
        outcome = self.unpack(self.step(action))
        self.keep(action, outcome)
        return AttrDict({name: outcome[name] for name in ("reward", "terminated", "truncated", "final_observ")})

    # What that is made of. A loop over many steps uses these, and keeps its last step in the variables.

    @abc.abstractmethod
    def step(self, action: Any) -> Any:
        """Steps the environments, and returns what they gave in whichever form is quick; see `unpack`."""

    def unpack(self, packed: Any) -> AttrDict:
        """From what `step` returned, of one step or of many, leaves [..., like in `packed_spec`], to tensors.

        Returns:
          `observ`, `reward`, `terminated`, `truncated` and `final_observ`, [..., B, ...]; and `extras` by name,
          if there are any.
        """
        return packed

    def keep(self, action: Any, outcome: AttrDict) -> None:
        """Assigns a step's action and what `unpack` gave for it to the variables."""
        for name, values in AttrDict(outcome, action=action).items():
            self._assign(getattr(self, name), values)

    def reset(self, mask: tf.Tensor | None = None, seed: tf.Tensor | None = None) -> Any:
        """Resets environments, as an operation of the graph.

        Args:
          mask: bool [B], which environments; by default all.
          seed: int64 [B], for their random numbers; by default, or where negative, they go on with those they have.

        Returns:
          Structure of tensors [B, ...]: the observations of all environments after that.
        """
        mask = tf.ones([self.num_envs], tf.bool) if mask is None else mask
        seed = tf.fill([self.num_envs], tf.constant(-1, tf.int64)) if seed is None else seed
        return self._reset(mask, seed)

    @abc.abstractmethod
    def _reset(self, mask: tf.Tensor, seed: tf.Tensor) -> Any:
        """See `reset`."""

    def raising(self) -> contextlib.AbstractContextManager[None]:
        """Raises an environment's own exception where a graph call only says that an unknown error occurred."""
        return contextlib.nullcontext()

    def close(self) -> None:  # noqa: B027 - Most have nothing to do.
        """Ends what belongs to the environments outside of the graph."""

    def _forget(self, mask: tf.Tensor) -> None:
        """Clears what the steps and episodes of some environments gave, bool [B]."""
        for variable in (self.reward, self.terminated, self.truncated, self.episode_return, self.episode_length):
            variable.assign(tf.where(mask, tf.zeros_like(variable), variable))
        for variable in self.extras.values():
            variable.assign(tf.where(mask, np.nan, variable))

    def _variables(self, space: spaces.Space, name: str) -> Any:
        return pack(space, (self._variable(leaf.shape, leaf.dtype, name) for leaf in leaf_spaces(space)))

    def _variable(self, shape: tuple[int, ...], dtype: Any, name: str) -> tf.Variable:
        return tf.Variable(tf.zeros((self.num_envs, *shape), dtype), trainable=False, name=name)

    def _assign(self, variables: Any, values: Any) -> None:
        tf.nest.map_structure(lambda variable, value: variable.assign(value), variables, values)
