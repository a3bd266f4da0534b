"""Environments that share a process and write their results into rows of a batch's arrays.

The same code runs in worker processes and, for environments in the parent process, in the parent.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, MutableSequence, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np

from agents.errors import EnvironmentRaisedError
from agents.spaces import elements, flatten, leaf_spaces
from agents.types import Info
from agents.workers.description import Description, describe

if TYPE_CHECKING:
    from agents.shared_memory.shared_arrays import BatchArrays
    from agents.types import Env, EnvConstructor, Leaves, NestedArray, Options

# For rows with infos: row, info, and where a step ended the episode the info of that step.
RowInfos: TypeAlias = list[tuple[int, Info, Info | None]]

T = TypeVar("T")


class ForkedProcessError(BaseException):
    """An environment's call returned a second time, in a process that the environment forked.

    That process ends with this error: it must not continue as if it were the environment's.
    """


class EnvironmentGroup:
    """Steps and resets environments; environment i has row `start + i` of a batch's arrays.

    Attributes:
      envs: The environments.
      busy: One item, the index of the environment in use, so that a crash can be attributed from
        outside of the process.
    """

    def __init__(
        self,
        constructors: Sequence[EnvConstructor],
        start: int = 0,
        busy: MutableSequence[int] | memoryview | None = None,
    ):
        """Constructs the environments.

        Args:
          constructors: One per environment.
          start: Index of the first environment in the batch.
          busy: Where to write the index of the environment in use.

        Raises:
          EnvironmentRaisedError: A constructor raised; the environments before it were closed.
        """
        self.busy = [-1] if busy is None else busy
        self.envs: list[Env] = []
        self._start = start
        try:
            for env, constructor in enumerate(constructors):
                self.envs.append(self._guard(env, "constructor", constructor))
        except EnvironmentRaisedError:
            self.close()
            raise
        self.observation_space = self.envs[0].observation_space
        self.action_space = self.envs[0].action_space

    def describe(self) -> list[Description]:
        """Returns a description of each environment."""
        return [describe(env) for env in self.envs]

    def attach(self, arrays: BatchArrays, start: int, autoreset: bool) -> None:
        """Assigns rows of a batch's arrays to the environments.

        Args:
          arrays: Arrays [B, ...] of the whole batch, laid out for the spaces of these environments.
          start: Row of the first environment.
          autoreset: Whether to reset an environment in the step that ends its episode. If not,
            `step` returns the infos of all steps.
        """
        self._arrays, self._start, self._autoreset = arrays, start, autoreset
        # A single leaf is the usual case; flattening takes a fifth of a light environment's step.
        self._single = leaf_spaces(self.observation_space) == [self.observation_space]

    def step(self) -> RowInfos:
        """Steps every environment with its row of the actions.

        Returns:
          For every episode that ended: row, info of the reset, and info of the step. Without
          autoreset, for every environment: row, info, and None.

        Raises:
          EnvironmentRaisedError: An environment raised.
        """
        arrays, busy, autoreset, depth = self._arrays, self.busy, self._autoreset, fork_depth
        infos: RowInfos = []
        # Copies [N, ...], because an environment may keep its action when the row is overwritten.
        actions = [
            leaf[self._start : self._start + len(self.envs)].copy() for leaf in arrays.action
        ]
        env = 0
        try:
            for environment, action in zip(
                self.envs, elements(self.action_space, actions), strict=True
            ):
                busy[0] = env
                row = self._start + env
                observ, reward, terminated, truncated, info = environment.step(action)
                if fork_depth != depth:
                    raise ForkedProcessError
                arrays.reward[row] = reward
                arrays.terminated[row] = terminated
                arrays.truncated[row] = truncated
                if arrays.info:
                    self._write_info(row, info)
                if not autoreset:
                    infos.append((row, info, None))
                elif terminated or truncated:
                    self._write(arrays.final_observ, row, observ)
                    observ, reset_info = environment.reset()
                    _check_depth(depth)
                    infos.append((row, reset_info, info))
                self._write(arrays.observ, row, observ)
                env += 1
        except (Exception, SystemExit) as error:
            raise self._as_environment_error(env, "step", error) from error
        return infos

    def reset(self, options: Options | None = None) -> RowInfos:
        """Resets environments by the arrays' mask [B], with their seeds [B] unless negative.

        Args:
          options: For the environments' own `reset`.

        Returns:
          For every environment that was reset: row, info, and None.

        Raises:
          EnvironmentRaisedError: An environment raised, or returned an observation of another shape
            than its space's.
        """
        arrays, depth = self._arrays, fork_depth
        infos: RowInfos = []
        for env, environment in enumerate(self.envs):
            row = self._start + env
            if not arrays.mask[row]:
                continue
            self.busy[0] = env
            seed = int(arrays.seed[row])
            try:
                observ, info = environment.reset(seed=None if seed < 0 else seed, options=options)
                _check_depth(depth)
                self._check_shapes(observ)
                self._write(arrays.observ, row, observ)
            except (Exception, SystemExit) as error:
                raise self._as_environment_error(env, "reset", error) from error
            arrays.reward[row] = 0
            for numbers in arrays.info.values():
                numbers[row] = np.nan
            arrays.terminated[row] = arrays.truncated[row] = False
            infos.append((row, info, None))
        return infos

    # Attributes of an environment are of any type.

    def call(
        self, env: int, name: str, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Calls a method of an environment or its wrappers; returns attributes as they are."""

        def call() -> Any:
            method = self.envs[env].get_wrapper_attr(name)
            return method(*args, **(kwargs or {})) if callable(method) else method

        return self._guard(env, f"{name}()", call)

    def get(self, env: int, name: str) -> Any:
        """Returns an attribute of an environment or its wrappers."""
        return self._guard(env, name, lambda: self.envs[env].get_wrapper_attr(name))

    def set(self, env: int, name: str, value: Any) -> None:
        """Sets an attribute of an environment, in the wrapper that has it."""
        self._guard(env, name, lambda: self.envs[env].set_wrapper_attr(name, value))

    def close(self) -> None:
        """Closes all environments, even if one of them raises."""
        for env in self.envs:
            try:
                env.close()
            except Exception:
                traceback.print_exc()

    def _write(self, leaves: Leaves, row: int, observ: NestedArray) -> None:
        """Writes an observation, leaves [...], into a row of `leaves`, [B, ...] each."""
        if self._single:
            leaves[0][row] = observ
        else:
            for leaf, value in zip(leaves, flatten(self.observation_space, observ), strict=True):
                leaf[row] = value

    def _write_info(self, row: int, info: Info) -> None:
        """Writes the numbers of an info into their arrays [B]; NaN for missing ones."""
        for key, numbers in self._arrays.info.items():
            try:
                numbers[row] = info.get(key, np.nan)
            except (TypeError, ValueError):
                raise TypeError(
                    f"info_keys: '{key}' is {info[key]!r} in this environment's info, not a number"
                ) from None

    def _check_shapes(self, observ: NestedArray) -> None:
        # Assigning to a row would silently broadcast a smaller observation.
        leaves = flatten(self.observation_space, observ)
        for value, space in zip(leaves, leaf_spaces(self.observation_space), strict=True):
            if np.shape(value) != space.shape:
                raise ValueError(
                    f"observation of shape {np.shape(value)}, but the observation space has {space.shape}"
                )

    def _guard(self, env: int, action: str, function: Callable[[], T]) -> T:
        """Returns what `function` returns; translates what it raises."""
        self.busy[0], depth = env, fork_depth
        try:
            result = function()
            _check_depth(depth)
            return result
        except (Exception, SystemExit) as error:
            raise self._as_environment_error(env, action, error) from error

    def _as_environment_error(
        self, env: int, action: str, error: BaseException
    ) -> EnvironmentRaisedError:
        """Translates an exception of an environment into a typed error."""
        message = f"An environment's {action} raised {type(error).__name__}: {error}"
        return EnvironmentRaisedError(
            message, traceback.format_exc(), self._start + env, type(error).__name__
        )


def _check_depth(depth: int) -> None:
    if fork_depth != depth:
        raise ForkedProcessError("an environment's call returned in a process that it forked")


def _count_fork() -> None:
    global fork_depth
    fork_depth += 1


# Number of forks between this process and the one that imported this module. The id of the process
# would tell as much, but asking for it after every step takes longer.
fork_depth = 0
os.register_at_fork(after_in_child=_count_fork)
