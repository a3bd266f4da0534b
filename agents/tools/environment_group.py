"""Environments that share a process, writing what they return into rows of the batch's arrays.

The same code runs in worker processes and, for environments that live in the parent, in the parent itself.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, MutableSequence, Sequence
from typing import Any

import gymnasium
import numpy as np

from agents.tools.errors import EnvironmentRaisedError
from agents.tools.shared_arrays import BatchArrays
from agents.tools.spaces import elements, flatten, leaf_spaces

Infos = list[tuple[int, dict[str, Any], dict[str, Any] | None]]


class EnvironmentGroup:
    """Steps and resets its environments; row `start + i` of a batch's arrays belongs to environment i.

    Attributes:
      envs: The environments.
      busy: Its only item is the environment that is being used, so that a crash can be told from outside.
    """

    def __init__(
        self,
        constructors: Sequence[Callable[[], gymnasium.Env]],
        start: int = 0,
        busy: MutableSequence[int] | memoryview | None = None,
    ):
        """Makes the environments.

        Args:
          constructors: One for each environment.
          start: The first environment's number in the batch.
          busy: See above.

        Raises:
          EnvironmentRaisedError: A constructor failed; the environments made before were closed.
        """
        self.busy = [-1] if busy is None else busy
        self.envs: list[gymnasium.Env] = []
        self._start = start
        try:
            for env, constructor in enumerate(constructors):
                self.envs.append(self._guard(env, "constructor", constructor))
        except EnvironmentRaisedError:
            self.close()
            raise
        self.observation_space = self.envs[0].observation_space
        self.action_space = self.envs[0].action_space

    def describe(self) -> list[dict[str, Any]]:
        """What a batch needs to know of each environment."""
        names = ("observation_space", "action_space", "metadata", "render_mode")
        return [
            {name: getattr(env, name) for name in names} | {"resets_itself": resets_itself(env)} for env in self.envs
        ]

    def attach(self, arrays: BatchArrays, start: int, autoreset: bool) -> None:
        """Takes over rows of a batch's arrays.

        Args:
          arrays: The arrays of the whole batch, laid out for the spaces of these environments.
          start: Row of the first environment.
          autoreset: Whether an environment that ends an episode is reset in the same step. If not, `step` returns the
            infos of all steps.
        """
        self._arrays, self._start, self._autoreset = arrays, start, autoreset
        # A lone leaf is the usual case, and flattening takes a fifth of the time of a light environment's step.
        self._single = leaf_spaces(self.observation_space) == [self.observation_space]

    def step(self) -> Infos:
        """Steps every environment with its row of the actions.

        Returns:
          For every episode that ended: row, the info of the reset that followed, and the info of the last step. Without
          autoreset, for every environment: row, info, and None.

        Raises:
          EnvironmentRaisedError: An environment failed.
        """
        arrays, busy, autoreset = self._arrays, self.busy, self._autoreset
        infos: Infos = []
        # A copy, because an environment may keep its action while the row already holds the next one.
        actions = [leaf[self._start : self._start + len(self.envs)].copy() for leaf in arrays.action]
        env = 0
        try:
            for environment, action in zip(self.envs, elements(self.action_space, actions), strict=True):
                busy[0] = env
                row = self._start + env
                observ, reward, terminated, truncated, info = environment.step(action)
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
                    infos.append((row, reset_info, info))
                self._write(arrays.observ, row, observ)
                env += 1
        except (Exception, SystemExit) as error:
            raise self._failure(env, "step", error) from error
        return infos

    def reset(self, options: dict[str, Any] | None = None) -> Infos:
        """Resets the environments whose `mask` is set, with their `seed` where that is not negative.

        Returns:
          For every environment that was reset: row, info, and None.

        Raises:
          EnvironmentRaisedError: An environment failed, or returned an observation of another shape than its space's.
        """
        arrays = self._arrays
        infos: Infos = []
        for env, environment in enumerate(self.envs):
            row = self._start + env
            if not arrays.mask[row]:
                continue
            self.busy[0] = env
            seed = int(arrays.seed[row])
            try:
                observ, info = environment.reset(seed=None if seed < 0 else seed, options=options)
                self._check_shapes(observ)
                self._write(arrays.observ, row, observ)
            except (Exception, SystemExit) as error:
                raise self._failure(env, "reset", error) from error
            arrays.reward[row] = 0
            for numbers in arrays.info.values():
                numbers[row] = np.nan
            arrays.terminated[row] = arrays.truncated[row] = False
            infos.append((row, info, None))
        return infos

    def call(self, env: int, name: str, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None) -> Any:
        """Calls a method of one environment, looking through its wrappers; or reads what is not callable."""

        def call() -> Any:
            method = self.envs[env].get_wrapper_attr(name)
            return method(*args, **(kwargs or {})) if callable(method) else method

        return self._guard(env, f"{name}()", call)

    def get(self, env: int, name: str) -> Any:
        """Reads an attribute of one environment, looking through its wrappers."""
        return self._guard(env, name, lambda: self.envs[env].get_wrapper_attr(name))

    def set(self, env: int, name: str, value: Any) -> None:
        """Sets an attribute of one environment, in the wrapper that has it."""
        self._guard(env, name, lambda: self.envs[env].set_wrapper_attr(name, value))

    def close(self) -> None:
        """Closes the environments; all of them, even if one fails."""
        for env in self.envs:
            try:
                env.close()
            except Exception:
                traceback.print_exc()

    def _write(self, leaves: list[np.ndarray], row: int, observ: Any) -> None:
        if self._single:
            leaves[0][row] = observ
        else:
            for leaf, value in zip(leaves, flatten(self.observation_space, observ), strict=True):
                leaf[row] = value

    def _write_info(self, row: int, info: dict[str, Any]) -> None:
        for key, numbers in self._arrays.info.items():
            try:
                numbers[row] = info.get(key, np.nan)
            except (TypeError, ValueError):
                raise TypeError(
                    f"info_keys: '{key}' is {info[key]!r} in this environment's info, not a number"
                ) from None

    def _check_shapes(self, observ: Any) -> None:
        # Assigning to a row would stretch a smaller observation to the row's shape without a word.
        leaves = flatten(self.observation_space, observ)
        for value, space in zip(leaves, leaf_spaces(self.observation_space), strict=True):
            if np.shape(value) != space.shape:
                raise ValueError(
                    f"observation of shape {np.shape(value)}, but the observation space says {space.shape}"
                )

    def _guard(self, env: int, action: str, function: Callable[[], Any]) -> Any:
        self.busy[0] = env
        try:
            return function()
        except (Exception, SystemExit) as error:
            raise self._failure(env, action, error) from error

    def _failure(self, env: int, action: str, error: BaseException) -> EnvironmentRaisedError:
        message = f"An environment's {action} raised {type(error).__name__}: {error}"
        return EnvironmentRaisedError(message, traceback.format_exc(), self._start + env, type(error).__name__)


def resets_itself(env: gymnasium.Env) -> str | None:
    """Name of the layer of an environment that starts the next episode by itself, or None if none does."""
    layer: Any = env
    while layer is not None:
        # Not by its metadata: in Gymnasium 1.1 a SyncVectorEnv writes its own mode into those of all environments.
        if isinstance(layer, gymnasium.wrappers.Autoreset):
            return type(layer).__name__
        layer = getattr(layer, "env", None)
    return None
