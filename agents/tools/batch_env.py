"""Environments stepped in parallel, as one Gymnasium vector environment."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from agents.tools.batch_inputs import batch_bounds, checked_actions, seed_list
from agents.tools.environment_group import EnvironmentGroup, Infos
from agents.tools.errors import EnvironmentFailure
from agents.tools.external_process import ExternalProcess
from agents.tools.shared_arrays import BatchArrays, Layout, Results, anonymous_file, map_block
from agents.tools.spaces import flatten, leaf_spaces, pack


class BatchEnv(VectorEnv):
    """Steps environments together; a `gymnasium.vector.VectorEnv` that resets them in the step that ends an episode.

    What `step` and `reset` return is in fresh memory and stays as it is. Of the infos, those at the start and at the
    end of an episode are returned, as Gymnasium's vector environments give them (`final_info`, `_final_info`). Where an
    episode ended there is also `final_obs` [B, ...] with its mask `_final_obs` [B]: its true last observation.
    The numbers named by `info_keys` are returned in every step, float64 [B] with their masks; they are those of the
    step that was made, also where it ended an episode.

    Attributes:
      layout: Where the arrays of the batch lie in its block of shared memory.
      info_names: Names that have come with the infos at the start and at the end of episodes.
    """

    metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}

    def __init__(
        self, envs: Sequence[gymnasium.Env | ExternalProcess], blocking: bool = False, info_keys: Sequence[str] = ()
    ):
        """Joins environments into a batch.

        Args:
          envs: Gymnasium environments, or processes, each with one or several of them.
          blocking: Whether to step one after another. Needed for environments that live in this process.
          info_keys: Names of numbers in the environments' infos that are wanted in every step.

        Raises:
          ValueError: No environments, spaces that differ, an environment with automatic resets of its own, or
            environments of this process that are to be stepped in parallel.
          UnsupportedSpaceError: A space that is not made of arrays.
        """
        self._hosts: list[Any] = []  # Of a batch that is refused: its environments are not closed with it.
        if not len(envs):
            raise ValueError("A batch needs at least one environment, got none.")
        if not blocking and not all(isinstance(env, ExternalProcess) for env in envs):
            raise ValueError(
                "Environments that live in this process can't be stepped in parallel: pass blocking=True, or wrap each "
                "in an ExternalProcess."
            )
        self._blocking = blocking
        hosts = [env if isinstance(env, ExternalProcess) else _LocalHost(env) for env in envs]
        descriptions = [description for host in hosts for description in host.descriptions]
        _check_alike(descriptions)
        self._hosts = hosts
        self.num_envs = len(descriptions)
        self.single_observation_space = descriptions[0]["observation_space"]
        self.single_action_space = descriptions[0]["action_space"]
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self.metadata = {**descriptions[0]["metadata"], **self.metadata}
        self.render_mode = descriptions[0]["render_mode"]
        self._action_leaves = [
            (leaf, *batch_bounds(leaf, self.num_envs)) for leaf in leaf_spaces(self.single_action_space)
        ]
        self._needs_reset = np.ones(self.num_envs, bool)
        self.layout = Layout(self.num_envs, self.single_observation_space, self.single_action_space, info_keys)
        self.info_names: set[str] = set()
        self._attach()

    def _attach(self) -> None:
        descriptor = anonymous_file(self.layout.size)
        self._arrays = BatchArrays(self.layout, map_block(descriptor, self.layout.size))
        self._places: list[tuple[Any, int]] = []
        try:
            for host in self._hosts:
                host.attach(self._arrays, descriptor, start=len(self._places), autoreset=True)
                self._places += [(host, index) for index in range(host.num_envs)]
        finally:
            os.close(descriptor)

    def step(self, actions: Any) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Steps every environment; those whose episode ends are reset at once.

        Args:
          actions: A batch of the action space's structure, leaves [B, ...].

        Returns:
          `(observ, reward, terminated, truncated, infos)`: leaves [B, ...], float64 [B], bool [B], bool [B] and a
          dictionary.

        Raises:
          InvalidActionError: An action is not in the action space; no environment was stepped.
          ResetNeeded: An environment was not reset yet, or since a failure.
          EnvironmentFailure: An environment or its process failed; the batch has to be reset.
        """
        infos, block = self._advance(actions)
        results = Results(self.layout, block)
        batched = self._infos(infos)
        for key, numbers in results.info.items():
            batched[key], batched[f"_{key}"] = numbers, ~np.isnan(numbers)
        if infos:
            batched["final_obs"] = pack(self.single_observation_space, results.final_observ)
            batched["_final_obs"] = results.terminated | results.truncated
        observ = pack(self.single_observation_space, results.observ)
        return observ, results.reward, results.terminated, results.truncated, batched

    def step_packed(self, actions: Any) -> np.ndarray:
        """Like `step`, but returns what the environments gave as one block, uint8 [size], laid out as `layout` says."""
        return self._advance(actions)[1]

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
        indices: Sequence[int] | None = None,
    ) -> tuple[Any, dict[str, Any]]:
        """Resets all environments, or some of them.

        Args:
          seed: One for each environment, or one to count on from, or None; not negative.
          options: For the environments' own `reset`; but `reset_mask`, bool [B], says which are to be reset.
          indices: Which environments to reset, instead of a mask; only their rows are returned then.

        Returns:
          `(observ, infos)`, with observations [B, ...]; those of environments that were not reset are their last ones.

        Raises:
          ValueError: A mask or seeds of the wrong length or type, a negative seed, or an index out of range.
          EnvironmentFailure: An environment or its process failed.
        """
        options = dict(options or {})
        mask = self._mask(options.pop("reset_mask", None), indices)
        seeds = seed_list(seed, self.num_envs)
        self._arrays.mask[:] = mask
        self._arrays.seed[:] = seeds
        infos = self._ask(lambda host: host.send_reset(options or None))
        self._needs_reset &= ~mask
        observ = Results(self.layout, self._arrays.copy_results()).observ
        rows = slice(None) if indices is None else np.asarray(indices, int)
        return pack(self.single_observation_space, [leaf[rows] for leaf in observ]), self._infos(infos)

    def __len__(self) -> int:
        return self.num_envs

    def __getitem__(self, index: int) -> Any:
        """The environment itself where it lives in this process, otherwise an `EnvironmentHandle`."""
        host, row = self._places[index]
        return host[row]

    def __iter__(self) -> Iterator[Any]:
        return (self[index] for index in range(self.num_envs))

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Calls a method of every environment; or reads an attribute, where it is not callable."""
        return tuple(host.ask("call", index, name, args, kwargs) for host, index in self._places)

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """Reads an attribute of every environment."""
        return tuple(host.ask("get", index, name) for host, index in self._places)

    def set_attr(self, name: str, values: Any) -> None:
        """Sets an attribute of every environment: one value for all, or a list or tuple with one for each."""
        values = values if isinstance(values, list | tuple) else [values] * self.num_envs
        if len(values) != self.num_envs:
            raise ValueError(f"set_attr needs {self.num_envs} values for '{name}', got {len(values)}.")
        for (host, index), value in zip(self._places, values, strict=True):
            host.ask("set", index, name, value)

    def render(self) -> tuple[Any, ...]:
        """What every environment renders, in the render mode that it was made with."""
        return self.call("render")

    def close_extras(self, **kwargs: Any) -> None:
        """Closes all environments and ends their processes."""
        for host in self._hosts:
            host.ask_to_close()
        for host in self._hosts:
            host.close()

    def _advance(self, actions: Any) -> tuple[Infos, np.ndarray]:
        """Steps the environments: infos of episodes that ended, and a fresh block of results."""
        if np.count_nonzero(self._needs_reset):
            raise ResetNeeded(
                f"Environment {np.argmax(self._needs_reset)} of the batch must be reset before it is stepped."
            )
        self._take_actions(actions)
        infos = self._ask(_send_step)
        for _, info, final_info in infos:
            self.info_names.update(info, final_info or ())
        return infos, self._arrays.copy_results()

    def _ask(self, send: Callable[[Any], None]) -> Infos:
        """Has all hosts do something, and waits for each: a failure of one leaves no answer of another behind."""
        infos: Infos = []
        failures: list[EnvironmentFailure] = []
        ready = self._needs_reset.copy()
        self._needs_reset[:] = True  # Should anything go wrong, an interrupt included.
        asked = []
        for host in self._hosts:
            try:
                send(host)
                if self._blocking:
                    infos += host.receive()
                else:
                    asked.append(host)
            except EnvironmentFailure as failure:
                failures.append(failure)
        for host in asked:
            try:
                infos += host.receive()
            except EnvironmentFailure as failure:
                failures.append(failure)
        if failures:
            raise failures[0]
        self._needs_reset = ready
        return infos

    def _take_actions(self, actions: Any) -> None:
        """Hands actions to the environments, if all are in the action space."""
        leaves = flatten(self.single_action_space, actions)
        checked = [checked_actions(leaf, *known) for leaf, known in zip(leaves, self._action_leaves, strict=True)]
        for array, batch in zip(self._arrays.action, checked, strict=True):
            array[...] = batch

    def _infos(self, infos: Infos) -> dict[str, Any]:
        batched: dict[str, Any] = {}
        for row, info, final_info in infos:
            if final_info is not None:
                info = {**info, "final_info": final_info}
            batched = self._add_info(batched, info, row)
        return batched

    def _mask(self, mask: Any, indices: Sequence[int] | None) -> np.ndarray:
        if indices is not None:
            if mask is not None:
                raise ValueError("Say which environments to reset by indices or by a mask, not by both.")
            if not all(-self.num_envs <= index < self.num_envs for index in indices):
                raise ValueError(f"Indices {list(indices)} are not all among the batch's {self.num_envs} environments.")
            mask = np.zeros(self.num_envs, bool)
            mask[np.asarray(indices, int)] = True
        elif mask is None:
            return np.ones(self.num_envs, bool)
        mask = np.asarray(mask)
        if mask.shape != (self.num_envs,) or mask.dtype != bool:
            raise ValueError(f"A reset mask must be bool [{self.num_envs}], got {mask.dtype} {list(mask.shape)}.")
        return mask


def make_batch_env(
    constructors: Sequence[Callable[[], gymnasium.Env]],
    processes: int = 0,
    timeout: float = 60.0,
    info_keys: Sequence[str] = (),
) -> BatchEnv:
    """Spreads environments over worker processes, started all at once.

    Args:
      constructors: One for each environment; anything that cloudpickle takes.
      processes: How many workers; 0 for as many as there are cores, and never more than environments.
      timeout: Seconds that a worker may take for one step or reset of its environments.
      info_keys: See `BatchEnv`.

    Raises:
      EnvironmentFailure: A worker could not make its environments; all workers were closed.
      ValueError: As `BatchEnv`.
    """
    processes = min(processes or available_cores(), len(constructors))
    cuts = [len(constructors) * worker // max(processes, 1) for worker in range(processes + 1)]
    hosts = [
        ExternalProcess(constructors[start:stop], timeout, blocking=False, index=start)
        for start, stop in zip(cuts, cuts[1:], strict=False)
    ]
    try:
        for host in hosts:
            host.wait_until_ready()
        return BatchEnv(hosts, info_keys=info_keys)
    except BaseException:
        for host in hosts:
            host.close()
        raise


def available_cores() -> int:
    """How many processors this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _LocalHost:
    """An environment of this process, with the interface of `ExternalProcess` towards the batch."""

    def __init__(self, env: gymnasium.Env):
        self._group = EnvironmentGroup([lambda: env])
        self.descriptions = self._group.describe()
        self.num_envs = 1

    def attach(self, arrays: BatchArrays, descriptor: int, start: int, autoreset: bool) -> None:
        self._group.attach(arrays, start, autoreset)

    def send_step(self) -> None:
        self._infos = self._group.step()

    def send_reset(self, options: dict[str, Any] | None) -> None:
        self._infos = self._group.reset(options)

    def receive(self) -> Infos:
        return self._infos

    def ask(self, method: str, *arguments: Any) -> Any:
        return getattr(self._group, method)(*arguments)

    def __getitem__(self, index: int) -> gymnasium.Env:
        return self._group.envs[index]

    def ask_to_close(self) -> None:
        pass

    def close(self) -> None:
        self._group.close()


def _send_step(host: Any) -> None:
    host.send_step()


def _check_alike(descriptions: list[dict[str, Any]]) -> None:
    for index, description in enumerate(descriptions):
        if description["resets_itself"]:
            raise ValueError(
                f"Environment {index} has {description['resets_itself']}, which resets it at the step after the end "
                "of an episode. In a batch that would be taken for a step; remove it, a batch resets by itself."
            )
        for name in ("observation_space", "action_space"):
            if description[name] != descriptions[0][name]:
                raise ValueError(
                    f"Environments of a batch need equal spaces, but the {name} of environment {index} is "
                    f"{description[name]}, that of environment 0 is {descriptions[0][name]}."
                )
