"""Environments that share a process and write their results into rows of a batch's arrays.

The same code runs in worker processes and, for environments in the parent process, in the parent.
"""

from __future__ import annotations

import os
import resource
import time
import traceback
from collections.abc import Callable, MutableSequence, Sequence
from math import isfinite
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

import gymnasium
import numpy as np

from agents import stop_signals
from agents.environments.data_check import (
    FLAG_TYPES,
    REAL_TYPES,
    DataCheck,
    DataError,
    check_types,
    unpack_reset,
)
from agents.errors import EnvironmentRaisedError, InvalidDataError, describe_exception
from agents.own_copy import own_copy
from agents.spaces import elements
from agents.types import Info
from agents.workers.shared_arrays import BatchArrays, Rows

if TYPE_CHECKING:
    from agents.types import Env, EnvConstructor, Leaves, NestedArray, Options, Space

# For rows with infos: row, info, and where a step ended the episode the info of that step.
RowInfos: TypeAlias = list[tuple[int, Info, Info | None]]

T = TypeVar("T")


class Description(NamedTuple):
    """Spaces and metadata of an environment; sent from the worker to its parent.

    Attributes:
      observation_space: Gymnasium's attribute of the same name.
      action_space: Gymnasium's attribute of the same name.
      metadata: Gymnasium's attribute of the same name.
      render_mode: Gymnasium's attribute of the same name.
      autoreset_layer: Name of the wrapper that starts the next episode automatically, None if there
        is none.
    """

    observation_space: Space
    action_space: Space
    metadata: dict[str, Any]
    render_mode: str | None
    autoreset_layer: str | None


class ForkedProcessError(BaseException):
    """An environment's call returned a second time, in a process that the environment forked.

    That process ends with this error: it must not continue as if it were the environment's.
    """


class EnvironmentGroup:
    """Steps and resets environments; environment i has row `start + i` of a batch's arrays.

    Environments share nothing that they may change: each gets copies of its constructor's arguments,
    of options and of actions, and the infos that are returned are copies, see `own_copy`.

    Attributes:
      envs: The environments.
      busy: One item, the index of the environment in use, so that a crash can be attributed from
        outside of the process.
      busy_since: One item, when its constructor, step, reset or call began, a time of
        `time.monotonic`.
    """

    def __init__(
        self,
        constructors: Sequence[EnvConstructor],
        start: int = 0,
        busy: MutableSequence[int] | memoryview[int] | None = None,
        busy_since: MutableSequence[float] | memoryview[float] | None = None,
    ):
        """Constructs the environments.

        Args:
          constructors: One per environment.
          start: Index of the first environment in the batch.
          busy: Where to write the index of the environment in use.
          busy_since: Where to write since when.

        Raises:
          EnvironmentRaisedError: A constructor raised; the environments before it were closed.
        """
        self.busy = [-1] if busy is None else busy
        self.busy_since = [0.0] if busy_since is None else busy_since
        self.envs: list[Env] = []
        self._constructors, self._start = own_copy(list(constructors)), start
        try:
            for env in range(len(constructors)):
                self.envs.append(self._construct(env))
        except BaseException:
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
        self._start, self._autoreset = start, autoreset
        self._rows = Rows(arrays, slice(start, start + len(self.envs)))  # [N, ...] each.
        # Writing to these takes half of the time of writing to an item of an array.
        self._observ_rows = [self._rows.observ[0][env, ...] for env in range(len(self.envs))]
        self._outcomes = [  # [N] each.
            array.data for array in (self._rows.reward, self._rows.terminated, self._rows.truncated)
        ]
        self._check = DataCheck(self.observation_space, len(self.envs))
        for env in range(len(self.envs)):
            self._check.fill(self._rows.final_observ, env)

    def step(self) -> RowInfos:
        """Steps every environment with its row of the actions, also after one has failed.

        Returns:
          For every episode that ended: row, info of the reset, and info of the step. Without
          autoreset, for every environment: row, info, and None.

        Raises:
          EnvironmentRaisedError: Environments raised or returned invalid data: the first one, with
            the `others`, and the `infos` of environments that did not fail.
        """
        rows, autoreset = self._rows, self._autoreset
        busy, busy_since, now = self.busy, self.busy_since, time.monotonic
        rewards, terminations, truncations = self._outcomes
        has_keys = bool(rows.info)
        dtype, shape, depth = self._check.dtype, self._check.shape, fork_depth
        infos: RowInfos = []
        failures: dict[int, EnvironmentRaisedError] = {}
        # Copies [N, ...], because an environment may keep its action when the row is overwritten.
        actions = elements(self.action_space, [leaf.copy() for leaf in rows.action])
        turns = zip(self.envs, actions, self._observ_rows, strict=True)
        env, num_envs = 0, len(self.envs)
        while env < num_envs:  # Once, and again after every failure.
            try:
                for environment, action, observ_row in turns:
                    busy[0], busy_since[0] = env, now()
                    observ, reward, terminated, truncated, info = environment.step(action)
                    if fork_depth != depth or stop_signals.requested:
                        _check_depth(depth)
                        stop_signals.check()
                    # Usual values are recognized here: calls take as long as all the rest.
                    if (
                        reward.__class__ not in REAL_TYPES
                        or not isfinite(reward)
                        or terminated.__class__ not in FLAG_TYPES
                        or truncated.__class__ not in FLAG_TYPES
                        or info.__class__ is not dict
                    ):
                        check_types(reward, terminated, truncated, info)
                        info = dict(info)
                    rewards[env] = reward  # type: ignore[call-overload]
                    terminations[env] = terminated
                    truncations[env] = truncated
                    if has_keys:
                        self._write_info(env, info)
                    if not autoreset:
                        infos.append((self._start + env, info, None))
                    elif terminated or truncated:
                        info = own_copy(info)  # The reset may change it.
                        observ, reset_info = self._end_episode(env, observ)
                        infos.append((self._start + env, reset_info, info))
                    if (
                        observ.__class__ is np.ndarray
                        and observ.dtype is dtype
                        and observ.shape == shape
                    ):
                        observ_row[...] = observ
                    else:
                        self._write(rows.observ, env, observ)
                    env += 1
            except BaseException as error:
                _check_depth(depth)
                failures[env] = self._as_environment_error(env, "step", error)
                env += 1
        self._check_numbers(failures, any_done=bool(infos))
        return self._without_failures(infos, failures)

    def reset(self, options: Options | None = None) -> RowInfos:
        """Resets environments by the arrays' mask [B], with their seeds [B] unless negative.

        Args:
          options: For the environments' own `reset`, a copy for each.

        Returns:
          For every environment that was reset: row, info, and None.

        Raises:
          EnvironmentRaisedError: As `step`.
        """
        infos: RowInfos = []
        failures: dict[int, EnvironmentRaisedError] = {}
        for env in np.flatnonzero(self._rows.mask).tolist():
            try:
                infos.append((self._start + env, self._reset(env, options), None))
            except EnvironmentRaisedError as error:
                failures[env] = error
        return self._without_failures(infos, failures)

    def restart(self, env: int) -> RowInfos:
        """Constructs an environment again and resets it with its seed in the arrays.

        Args:
          env: Index of the environment in the group.

        Returns:
          Its row, info, and None.

        Raises:
          EnvironmentRaisedError: The constructor or `reset` raised, or returned invalid data.
        """
        try:
            self.envs[env].close()
        except BaseException as error:  # It failed before; its own errors say no more.
            if stop_signals.is_interrupt(error):
                raise
        self.envs[env] = self._construct(env)
        return [(self._start + env, self._reset(env), None)]

    def _construct(self, env: int) -> Env:
        """Returns a new environment."""

        def construct() -> Env:
            environment: Env = own_copy(self._constructors[env])()
            describe(environment)  # Raises if it has no spaces.
            for index, other in enumerate(self.envs):
                if innermost(environment) is innermost(other):
                    raise ValueError(
                        f"it returned environment {self._start + index} again; "
                        "make a new environment in each call"
                    )
            try:
                os.close(os.open("/", os.O_RDONLY))
            except OSError as error:
                limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
                raise DataError(
                    f"left no free file descriptor: {os.strerror(error.errno or 0)}; "
                    f"raise `ulimit -n`, which is {limit}"
                ) from None
            return environment

        return self._guard(env, "constructor", construct)

    def _reset(self, env: int, options: Options | None = None) -> Info:
        """Resets an environment with its row's seed, writes its row and returns its info."""
        rows, seed, depth = self._rows, int(self._rows.seed[env]), fork_depth
        self._use(env)
        stop_signals.check()
        try:
            observ, info = unpack_reset(
                self.envs[env].reset(seed=None if seed < 0 else seed, options=own_copy(options))
            )
            _check_depth(depth)
            self._write(rows.observ, env, observ)
            self._check.check_bounds(rows.observ, env)
            copied: Info = own_copy(info)
        except BaseException as error:
            _check_depth(depth)
            raise self._as_environment_error(env, "reset", error) from error
        rows.reward[env] = 0
        for numbers in rows.info.values():
            numbers[env] = np.nan
        rows.terminated[env] = rows.truncated[env] = False
        return copied

    def _end_episode(self, env: int, final_observ: NestedArray) -> tuple[NestedArray, Info]:
        """Writes the final observation, leaves [...], and resets the environment."""
        self._write(self._rows.final_observ, env, final_observ)
        depth = fork_depth
        self._use(env)
        returned = unpack_reset(self.envs[env].reset())
        _check_depth(depth)
        return returned[0], own_copy(returned[1])

    def _check_numbers(self, failures: dict[int, EnvironmentRaisedError], any_done: bool) -> None:
        """Adds environments to the failures whose rows hold invalid numbers after a step.

        Args:
          failures: Failures by index of the environment.
          any_done: Whether the step ended an episode; other final observations are valid.
        """
        rows, check = self._rows, self._check
        if check.are_in_bounds(rows.observ):
            if not any_done or check.are_in_bounds(rows.final_observ):
                return
        for env in range(len(self.envs)):
            try:
                check.check_bounds(rows.final_observ, env)
                check.check_bounds(rows.observ, env)
            except DataError as error:
                check.fill(rows.final_observ, env)
                failures.setdefault(env, self._as_environment_error(env, "step", error))

    def _without_failures(
        self, infos: RowInfos, failures: dict[int, EnvironmentRaisedError]
    ) -> RowInfos:
        """Returns the infos; raises the first failure with the others, if there are any."""
        if not failures:
            return infos
        first, *others = (failures[env] for env in sorted(failures))
        first.others = tuple(others)
        first.infos = [info for info in infos if info[0] - self._start not in failures]
        raise first

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
        """Closes all environments, even if one of them raises or a signal interrupts it."""
        interrupts = []
        for env in self.envs:
            try:
                env.close()
            except BaseException as error:
                if stop_signals.is_interrupt(error):
                    interrupts.append(error)
                else:
                    traceback.print_exc()
        if interrupts:
            raise interrupts[0]

    def _use(self, env: int) -> None:
        """Notes that an environment's own code begins to run."""
        self.busy[0], self.busy_since[0] = env, time.monotonic()

    def _write(self, leaves: Leaves, env: int, observ: NestedArray) -> None:
        """Writes an observation, leaves [...], into a row of `leaves`, [N, ...] each."""
        for leaf, value in zip(leaves, self._check.leaves(observ), strict=True):
            leaf[env] = value

    def _write_info(self, env: int, info: Info) -> None:
        """Writes the numbers of an info into their arrays [N]; NaN for missing ones."""
        for key, numbers in self._rows.info.items():
            try:
                numbers[env] = info.get(key, np.nan)
            except (TypeError, ValueError):
                raise TypeError(
                    f"info_keys: '{key}' is {info[key]!r} in this environment's info, not a number"
                ) from None

    def _guard(self, env: int, action: str, function: Callable[[], T]) -> T:
        """Returns the result of `function`; translates its exceptions."""
        self._use(env)
        depth = fork_depth
        try:
            result = function()
            _check_depth(depth)
            return result
        except BaseException as error:
            _check_depth(depth)
            raise self._as_environment_error(env, action, error) from error

    def _as_environment_error(
        self, env: int, action: str, error: BaseException
    ) -> EnvironmentRaisedError:
        """Translates an exception of an environment into a typed error; raises that of a signal."""
        if stop_signals.is_interrupt(error):
            raise error
        row = self._start + env
        if isinstance(error, DataError):
            name = InvalidDataError.__name__
            return InvalidDataError(f"An environment's {action} {error}", "", row, name)
        message, traceback_text = describe_exception(error)
        summary = f"An environment's {action} raised {message}"
        failure = EnvironmentRaisedError(summary, traceback_text, row, type(error).__name__)
        failure.__cause__ = error
        return failure


def describe(env: Env) -> Description:
    """Returns the description of an environment."""
    layer: Env | None = env
    # Not by its metadata: in Gymnasium 1.1 a SyncVectorEnv writes its own mode into the metadata
    # of all environments.
    while layer is not None and not isinstance(layer, gymnasium.wrappers.Autoreset):
        layer = getattr(layer, "env", None)
    return Description(
        env.observation_space,
        env.action_space,
        env.metadata,
        env.render_mode,
        None if layer is None else type(layer).__name__,
    )


def innermost(env: Env) -> Env:
    """Returns the environment inside of all wrappers."""
    return getattr(env, "unwrapped", env)


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
