"""Environments stepped in parallel as one Gymnasium vector environment."""

from __future__ import annotations

import copy
import functools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium.error import AlreadyPendingCallError, ClosedEnvironmentError, NoAsyncCallError
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from agents.errors import UsageError
from agents.spaces import leaf_spaces, pack, rows_of
from agents.vector.batch_infos import batch_infos
from agents.vector.batch_inputs import ActionCheck, check_reset, reset_mask, seed_list
from agents.vector.exchange import Exchange, SendRequest
from agents.vector.paced_rollout import PacedRollout
from agents.vector.restarts import ALL, Restarter, failed_rows
from agents.workers.environment_group import innermost
from agents.workers.external_process import ExternalProcess
from agents.workers.host import (
    Host,
    HostFailure,
    LocalHost,
    WorkerHost,
    close_hosts,
    raise_first,
)
from agents.workers.shared_arrays import BatchArrays, Layout, Results

if TYPE_CHECKING:
    from agents.types import Env, Info, NestedArray, Options
    from agents.workers.environment_group import Description, RowInfos
    from agents.workers.host import EnvironmentHandle


class BatchEnv(VectorEnv):
    """Steps environments together, with `AutoresetMode.SAME_STEP`.

    Arrays that `step` and `reset` return are new and never change. Infos of the first and the last
    step of an episode are returned, as Gymnasium's vector environments do (`final_info`,
    `_final_info`); values that do not fit together are arrays of objects, see `batch_infos`. In
    steps that end episodes, infos hold the final observations `final_obs`, an array of objects [B],
    None where no episode ended, with their mask `_final_obs` [B]. Numbers of `info_keys` are
    returned in every step, float64 [B] with their masks; where an episode ended, they are those of
    its last step.

    Environments share nothing that they may change: each has its own copies of options, actions and
    the arguments of `call` and `set_attr`, see `agents.own_copy`.

    Infos of worker processes arrive as they are; a value that can't be pickled is a string, the
    first 200 characters of its `repr`. Results of methods and attributes there must be pickled.
    While one worker keeps the batch waiting for long, a warning names its environment.

    With a `restart_limit`, an environment that raises, dies, hangs or returns invalid data is
    restarted. The step has no outcome in its row: it truncates the episode in the state it started
    from, with a reward of 0, and is marked in `infos["restarted"]` [B].

    Attributes:
      layout: Offsets and shapes of the batch's arrays in their block of shared memory.
      info_names: Keys seen so far in the infos of the first and the last step of episodes.
      restarts: The restarts of environments; None without a limit of them.
      wait_for: Fraction of the processes under way that turns of a rollout wait for.
    """

    metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}

    def __init__(
        self,
        envs: Sequence[Env | ExternalProcess | Host],
        blocking: bool = False,
        info_keys: Sequence[str] = (),
        restart_limit: int = 0,
        restart_window: float = 600.0,
        wait_for: float = 1.0,
    ):
        """Joins environments into a batch.

        Args:
          envs: Gymnasium environments, or processes with one or several of them each.
          blocking: Whether to step one after another. Required for environments in this process.
          info_keys: Keys of numbers in the environments' infos to return in every step.
          restart_limit: Number of failures within the window that restarts answer. One failure more
            raises the error of the first.
          restart_window: In seconds.
          wait_for: Fraction of the processes under way that each turn of `agents.simulate` waits
            for; `step` always waits for all.

        Raises:
          ValueError: There are no environments, their spaces differ, one has an autoreset wrapper,
            or `blocking`, `restart_limit` or `wait_for` does not fit environments in this process.
          UnsupportedSpaceError: A space is not made of arrays.
        """
        # Empty until the batch is accepted: a refused one does not close its environments.
        self._hosts: list[Host] = []
        self.restarts: Restarter | None = None
        hosts = _make_hosts(envs, blocking, restart_limit > 0, wait_for)
        descriptions = [description for host in hosts for description in host.descriptions]
        _check_compatible(descriptions)
        self._hosts = hosts
        self.num_envs = len(descriptions)
        self.single_observation_space = descriptions[0].observation_space
        self.single_action_space = descriptions[0].action_space
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self.metadata = {**descriptions[0].metadata, **self.metadata}
        self.render_mode = descriptions[0].render_mode
        self._check_actions = ActionCheck(self.single_action_space, self.num_envs)
        self.wait_for = wait_for
        self._exchange = Exchange(hosts, blocking)
        self._needs_reset = np.ones(self.num_envs, bool)  # [B]
        self._pending: str | None = None  # The request under way.
        self.layout = Layout(
            self.num_envs,
            self.single_observation_space,
            self.single_action_space,
            info_keys,
            restarts=restart_limit > 0,
        )
        self.info_names: set[str] = set()
        self._arrays = BatchArrays(self.layout)
        self._environments: list[tuple[Host, int]] = []  # Host and index in it, by row.
        try:
            for host in hosts:
                host.attach(self._arrays, len(self._environments))
                self._environments += [(host, index) for index in range(host.num_envs)]
        except BaseException:
            self._arrays.close()
            raise
        if restart_limit:
            self.restarts = Restarter(self._arrays, restart_limit, restart_window)
        self._latest = self._arrays.copy_results()  # uint8 [size]

    def step(
        self, actions: NestedArray
    ) -> tuple[NestedArray, np.ndarray, np.ndarray, np.ndarray, Info]:
        """Steps all environments; resets an environment in the step that ends its episode.

        Args:
          actions: Elements of the action space, leaves [B, ...].

        Returns:
          `(observ, reward, terminated, truncated, infos)`: leaves [B, ...], float64 [B], bool [B],
          bool [B] and a dictionary.

        Raises:
          InvalidActionError: An action is not in the action space; no environment was stepped.
          ResetNeeded: An environment was not reset, at first or after a failure.
          EnvironmentFailure: An environment or its process failed; the batch must be reset.
          ClosedEnvironmentError: The batch was closed.
        """
        self.step_async(actions)
        return self.step_wait()

    def step_async(self, actions: NestedArray) -> None:
        """Starts a step of all environments, for `step_wait`; see `step` for arguments and errors.

        Environments of this process make their step here, while workers make theirs.

        Raises:
          AlreadyPendingCallError: Another step was started, and not waited for.
        """
        self._check_idle("step")
        check_reset(self._needs_reset)
        for array, leaf in zip(self._arrays.action, self._check_actions(actions), strict=True):
            array[...] = leaf  # [B, ...]
        self._begin("step", lambda host, started: host.send_step(started))

    def step_wait(self) -> tuple[NestedArray, np.ndarray, np.ndarray, np.ndarray, Info]:
        """Waits for the end of the step that `step_async` has started, and returns what `step` does.

        Raises:
          NoAsyncCallError: There is none; and `EnvironmentFailure` as `step`.
        """
        if self._pending is None:
            raise NoAsyncCallError("Calling `step_wait` without `step_async` before.", "step")
        row_infos, block = self._end_step()
        # A caller may change its arrays; restarts and turns read the latest block later.
        keeps = self.restarts is not None or self.wait_for < 1
        results = Results(self.layout, block.copy() if keeps else block)
        infos = self._batch_infos(row_infos)
        for key, numbers in results.info.items():
            infos[key], infos[f"_{key}"] = numbers, ~np.isnan(numbers)  # [B]
        if row_infos:
            infos["_final_obs"] = done = results.terminated | results.truncated  # [B]
            infos["final_obs"] = rows_of(self.single_observation_space, results.final_observ, done)
        if results.restarted is not None:
            infos["restarted"] = results.restarted  # [B]
        observ = pack(self.single_observation_space, results.observ)  # [B, ...]
        return observ, results.reward, results.terminated, results.truncated, infos

    def step_packed(self, actions: NestedArray) -> np.ndarray:
        """Steps all environments like `step`, but returns the results as one block.

        Args:
          actions: Elements of the action space, leaves [B, ...].

        Returns:
          A new block, uint8 [size], that `layout` describes.
        """
        self.step_async(actions)
        return self._end_step()[1]

    def start_rollout(self, steps: int) -> PacedRollout:
        """Starts a rollout of T steps for `turn`; before its end the batch can only be reset.

        Raises:
          ResetNeeded: See `step`.
        """
        self._check_idle("start_rollout")
        check_reset(self._needs_reset)
        self._needs_reset[:] = True
        handle = functools.partial(self._handle_failures, "step")
        parts = self._exchange, self._arrays, self._latest
        return PacedRollout(*parts, steps, self.wait_for, handle)

    def turn(self, rollout: PacedRollout, actions: NestedArray) -> np.ndarray:
        """Makes a turn of the rollout that was started last, see `PacedRollout.turn`.

        Raises:
          InvalidActionError, EnvironmentFailure: As `step`.
        """
        self._latest, infos = rollout.turn(self._check_actions(actions))
        self._note_infos(infos)
        self._needs_reset[:] = not rollout.is_complete
        return self._latest

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: Options | None = None,
        indices: Sequence[int] | None = None,
    ) -> tuple[NestedArray, Info]:
        """Resets all environments, or some of them.

        Args:
          seed: One per environment, or the first of consecutive ones, or None; not negative.
          options: For the environments' own `reset`, a copy for each, except for `reset_mask`, bool
            [B], which selects the environments to reset.
          indices: The N environments to reset, instead of a mask; only their rows are returned.

        Returns:
          `(observ, infos)`, with observations [B, ...], or [N, ...] for indices. Environments that
          were not reset have their last observation.

        Raises:
          ValueError: A mask or seeds of the wrong length or type, a negative seed, or an index out
            of range.
          EnvironmentFailure: An environment or its process failed; the batch must be reset.
        """
        self._check_idle("reset")
        mask = None
        if options and "reset_mask" in options:
            options = copy.copy(options)  # Of the caller's type.
            mask = options.pop("reset_mask")
        mask = reset_mask(mask, indices, self.num_envs)  # [B]
        seeds = seed_list(seed, self.num_envs)  # [B]
        self._arrays.mask[:] = mask
        self._arrays.seed[:] = seeds
        if self.restarts:
            self.restarts.note_reset()
        needs_reset = self._needs_reset & ~mask  # [B]
        self._begin("reset", lambda host, started: host.send_reset(options, started))
        infos = self._end()
        self._needs_reset = needs_reset
        self._latest = self._arrays.copy_results()  # uint8 [size]
        observ = Results(self.layout, self._latest).observ
        rows = slice(None) if indices is None else np.asarray(indices, int)
        observ = [np.array(leaf[rows]) for leaf in observ]  # [B, ...] or [N, ...] each.
        return pack(self.single_observation_space, observ), self._batch_infos(infos)

    def __len__(self) -> int:
        return self.num_envs

    def __getitem__(self, index: int) -> Env | EnvironmentHandle:
        """Returns an environment of this process, or a handle on one of a worker process."""
        host, row = self._environments[index]
        return host[row]

    def __iter__(self) -> Iterator[Env | EnvironmentHandle]:
        return (self[index] for index in range(self.num_envs))

    @property
    def np_random_seed(self) -> tuple[int | None, ...]:  # type: ignore[override]
        """The seed of every environment's random numbers."""
        return self.get_attr("np_random_seed")

    @property  # type: ignore[misc]
    def np_random(self) -> tuple[np.random.Generator, ...]:  # type: ignore[override]
        """The generators of the environments, all of which must be in this process."""
        return self.get_attr("np_random")

    # Attributes of environments are of any type.

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Calls a method of every environment; returns attributes as they are."""
        self._check_idle("call")
        return tuple(
            host.ask("call", index, name, args, kwargs) for host, index in self._environments
        )

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """Returns an attribute of every environment."""
        self._check_idle("get_attr")
        return tuple(host.ask("get", index, name) for host, index in self._environments)

    def set_attr(self, name: str, values: Any) -> None:
        """Sets an attribute of every environment.

        Args:
          name: The attribute.
          values: One value for all environments, or a list or tuple with one for each.

        Raises:
          ValueError: The number of values is not B.
        """
        self._check_idle("set_attr")
        values = values if isinstance(values, list | tuple) else [values] * self.num_envs
        if len(values) != self.num_envs:
            raise ValueError(
                f"set_attr needs {self.num_envs} values for '{name}', got {len(values)}."
            )
        for (host, index), value in zip(self._environments, values, strict=True):
            host.ask("set", index, name, value)

    def render(self) -> tuple[Any, ...]:
        """Returns what every environment renders, in its own render mode."""
        return self.call("render")

    def close_extras(self, **kwargs: Any) -> None:
        """Closes all environments, ends their processes and closes the shared memory."""
        close_hosts(self._hosts)
        if self.restarts:
            self.restarts.close()
        if self._hosts:
            self._arrays.close()

    def _check_idle(self, action: str) -> None:
        """Raises Gymnasium's error if the batch is closed, or its environments are being stepped."""
        if self.closed:
            raise ClosedEnvironmentError(f"Calling `{action}` after `close`; make a new batch.")
        if self._pending:
            raise AlreadyPendingCallError(
                f"Calling `{action}` before `step_wait` has returned the step under way.", "step"
            )

    def _end_step(self) -> tuple[RowInfos, np.ndarray]:
        """Returns the infos of episodes that ended and a new block of results, uint8 [size]."""
        infos = self._end()
        self._needs_reset[:] = False
        self._latest = self._arrays.copy_results()  # uint8 [size]
        return infos, self._latest

    def _note_infos(self, infos: RowInfos) -> None:
        for _, info, final_info in infos:
            self.info_names.update(info, final_info or ())

    def _begin(self, action: str, send: SendRequest) -> None:
        """Requests something of all hosts; all environments need a reset until `_end` returns."""
        self._needs_reset[:] = True
        self._exchange.begin(action, send)
        self._pending = action

    def _end(self) -> RowInfos:
        """Waits for what was requested, and returns the infos of rows that have any."""
        assert self._pending
        action, self._pending = self._pending, None
        infos, failures = self._exchange.end()
        if failures or (self.restarts and action == "step"):
            infos += self._handle_failures(action, failures)
        self._note_infos(infos)
        return infos

    def _handle_failures(
        self, action: str, failures: list[HostFailure], stepped: slice | np.ndarray = ALL
    ) -> RowInfos:
        """Restarts environments that failed; returns infos of their host and of the restarts.

        Without restarts, or where a reset of others has cut an episode, the first failure is raised
        and keeps the others. All environments then need a reset: the intact ones were stepped or
        reset without a result.
        """
        rows = [row for failure in failures for row in failed_rows(failure)]
        if not self.restarts or (action == "reset" and not self._arrays.mask[rows].all()):
            raise_first(failures)
        infos: RowInfos = [info for failure in failures for info in failure.error.infos]
        restarted = self.restarts.restart(failures) if failures else {}
        if action == "step":
            observ = Results(self.layout, self._latest).observ
            self.restarts.note_step(observ, restarted.keys(), stepped)
            return infos + [(row, info, {}) for row, info in restarted.items()]
        return infos + [(row, info, None) for row, info in restarted.items()]

    def _batch_infos(self, row_infos: RowInfos) -> Info:
        infos = [
            (row, info if final_info is None else {**info, "final_info": final_info})
            for row, info, final_info in row_infos
        ]
        return batch_infos(infos, self.num_envs)


def _make_hosts(
    envs: Sequence[Env | ExternalProcess | Host], blocking: bool, restarts: bool, wait_for: float
) -> list[Host]:
    """Returns the hosts of environments; see `BatchEnv` for the arguments and errors."""
    if not len(envs):
        raise ValueError("A batch needs at least one environment, got none.")
    given = [env.host if isinstance(env, ExternalProcess) else env for env in envs]
    objects = not all(isinstance(host, LocalHost | WorkerHost) for host in given)
    are_workers = [isinstance(host, WorkerHost) for host in given]
    if not blocking and (objects or not any(are_workers)):
        raise ValueError(
            "Environments in this process can't be stepped in parallel: pass blocking=True, or wrap each of them in an "
            "ExternalProcess. A LocalHost can be beside processes."
        )
    if restarts and objects:
        raise ValueError(
            "Environments in this process are restarted with their constructors: pass "
            "LocalHost(constructor) for each."
        )
    if not 0 < wait_for <= 1:
        raise ValueError(f"wait_for must be above 0 and at most 1, got {wait_for}.")
    if wait_for < 1 and (blocking or not all(are_workers)):
        raise ValueError(
            f"wait_for below 1 needs environments in processes, stepped in parallel; got wait_for {wait_for} "
            "with environments in this process or blocking=True. Pass wait_for=1."
        )
    hosts = [_as_host(env) for env in given]
    _check_distinct(hosts)
    return hosts


def _as_host(env: Env | Host) -> Host:
    # Not a partial function: its arguments would be copied.
    return env if isinstance(env, LocalHost | WorkerHost) else LocalHost(lambda: env)


def _check_distinct(hosts: Sequence[Host]) -> None:
    """Raises ValueError if an environment or a process has several places in the batch."""
    rows: dict[object, int] = {}
    for host in hosts:
        for index in range(host.num_envs):
            part: object = id(host), index
            if isinstance(host, LocalHost):
                part = id(innermost(host[index]))
            row = len(rows)
            first = rows.setdefault(part, row)
            if first != row:
                raise ValueError(
                    f"Environments {first} and {row} of the batch are the same one: make a new one for each."
                )


def _check_compatible(descriptions: Sequence[Description]) -> None:
    """Raises UsageError if environments with these descriptions can't share a batch.

    An unsupported space is named before any difference: texts differ between processes.
    """
    for space in descriptions[0].observation_space, descriptions[0].action_space:
        leaf_spaces(space)
    for index, description in enumerate(descriptions):
        if description.autoreset_layer:
            raise UsageError(
                f"Environment {index} has {description.autoreset_layer}, which resets it in the step after the end of "
                "an episode. A batch would take that for a step: remove the wrapper, a batch resets its environments."
            )
        for name in ("observation_space", "action_space"):
            space, expected = getattr(description, name), getattr(descriptions[0], name)
            if space != expected:
                raise UsageError(
                    f"Environments of a batch need equal spaces, but the {name} of environment {index} is {space}, "
                    f"that of environment 0 is {expected}."
                )
