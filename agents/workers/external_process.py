"""Environments in a process of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from agents.spaces import element, flatten, pack
from agents.workers.host import WorkerHost
from agents.workers.shared_arrays import BatchArrays, Layout, Results

if TYPE_CHECKING:
    from agents.types import EnvConstructor, Info, NestedArray, Options, Space
    from agents.workers.environment_group import Description, RowInfos
    from agents.workers.host import EnvironmentHandle

# What a method returns; or, if not blocking, a promise of it.
Result: TypeAlias = Any


class ExternalProcess:
    """A Gymnasium environment, or several, in a process of its own.

    With one constructor it behaves like that environment: `step` and `reset` take and return single
    values, there is no autoreset, and attributes that this class lacks are the environment's. With
    a list of constructors `step` and `reset` take and return batches, and `process[i]` is a handle
    on one of the environments.

    The process is a new interpreter: it imports neither the caller's `__main__` nor TensorFlow. It
    ends with its parent, however that ends.

    Attributes:
      host: The environments as rows of a batch, for `BatchEnv`.
      num_envs: Number of environments.
    """

    def __init__(
        self,
        constructor: EnvConstructor | Sequence[EnvConstructor],
        timeout: float = 60.0,
        start_timeout: float = 120.0,
        blocking: bool = True,
    ):
        """Starts the process.

        Args:
          constructor: Returns an environment; or a sequence of such functions. Anything that
            cloudpickle takes.
          timeout: Seconds that a step, reset or call of the whole process may take.
          start_timeout: Seconds from the start of the process until its environments are
            constructed.
          blocking: Whether to wait until the environments are constructed; otherwise
            `wait_until_ready` must follow.

        Raises:
          ValueError: There are no constructors.
          EnvironmentRaisedError: A constructor raised; with the worker's traceback.
          WorkerDiedError: The process ended.
          WorkerTimeoutError: The environments were not constructed in time.
        """
        constructors = [constructor] if callable(constructor) else list(constructor)
        if not constructors:
            raise ValueError("A process needs at least one environment, got no constructors.")
        self._single = callable(constructor)
        self.num_envs = len(constructors)
        self.host = WorkerHost(constructors, timeout, start_timeout)
        if blocking:
            self.wait_until_ready()

    def wait_until_ready(self) -> None:
        """Waits until the environments are constructed.

        Raises:
          EnvironmentFailure: As the constructor; the process is closed then.
        """
        if self.host.is_ready:
            return
        try:
            self.host.wait_until_ready()
            layout = Layout(self.num_envs, self.observation_space, self.action_space)
            self.host.attach(BatchArrays(layout), start=0, autoreset=not self._single)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Ends the process, by force if it does not close its environments in time.

        May be called again.
        """
        self.host.close()

    @property
    def closed(self) -> bool:
        """True after `close`."""
        return self.host.closed

    @property
    def pid(self) -> int:
        """Id of the process."""
        return self.host.pid

    @property
    def descriptions(self) -> list[Description]:
        """A description of each environment, once they are constructed."""
        return self.host.descriptions

    @property
    def observation_space(self) -> Space:
        """Observation space of the (first) environment."""
        return self.descriptions[0].observation_space

    @property
    def action_space(self) -> Space:
        """Action space of the (first) environment."""
        return self.descriptions[0].action_space

    def step(self, action: NestedArray, blocking: bool = True) -> Result:
        """Steps the environments.

        Args:
          action: An action; with several environments a batch of them, leaves [B, ...].
          blocking: Whether to wait for the result.

        Returns:
          `(observ, reward, terminated, truncated, info)`. With several environments these are
          batches, leaves [B, ...], and a list of infos; an environment whose episode ended is reset
          in the same step, and its info holds `final_obs` and `final_info`. If not blocking, a
          function without arguments that waits for the result and returns it.

        Raises:
          EnvironmentRaisedError, WorkerDiedError, WorkerTimeoutError: See `agents.errors`.
        """
        leaves = flatten(self.action_space, action)
        self.host.drain()
        for array, leaf in zip(self._arrays.action, leaves, strict=True):
            array[self._rows] = leaf  # [B, ...]
        self.host.send_step()
        promise = self.host.promise(self._receive_step)
        return promise() if blocking else promise

    def reset(
        self,
        *,
        seed: int | None = None,
        options: Options | None = None,
        blocking: bool = True,
    ) -> Result:
        """Resets all environments.

        Args:
          seed: Seed of the first environment, not negative; the others get consecutive ones.
          options: For the environments' own `reset`.
          blocking: Whether to wait for the result.

        Returns:
          `(observ, info)`, or a function that returns it, as for `step`.

        Raises:
          ValueError: The seed is negative.
          EnvironmentRaisedError, WorkerDiedError, WorkerTimeoutError: See `agents.errors`.
        """
        if seed is not None and seed < 0:
            raise ValueError(f"A seed must not be negative, got {seed}.")
        self.host.drain()
        arrays = self._arrays
        arrays.mask[self._rows] = True  # [B]
        arrays.seed[self._rows] = -1 if seed is None else np.arange(seed, seed + self.num_envs)
        self.host.send_reset(options)
        promise = self.host.promise(self._receive_reset)
        return promise() if blocking else promise

    def call(self, name: str, *args: Any, blocking: bool = True, **kwargs: Any) -> Result:
        """Calls a method of the only environment; see `EnvironmentHandle.call`."""
        return self._only_env("call").call(name, *args, blocking=blocking, **kwargs)

    def __getitem__(self, index: int) -> EnvironmentHandle:
        return self.host[index]

    def __len__(self) -> int:
        return self.num_envs

    def __getattr__(self, name: str) -> Any:
        # Copying and pickling look for special names before there are any attributes.
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._only_env(name), name)

    @property
    def _arrays(self) -> BatchArrays:
        assert self.host.arrays is not None, "wait_until_ready must be called first"
        return self.host.arrays

    @property
    def _rows(self) -> slice:
        return slice(self.host.rows.start, self.host.rows.stop)

    def _receive_step(self) -> tuple[Any, ...]:
        """Returns what `step` returns; with one environment leaves [...], otherwise [B, ...]."""
        row_infos: RowInfos = self.host.receive()
        arrays, start = self._arrays, self.host.rows.start
        results = Results(arrays.layout, arrays.copy_results())
        infos: list[Info] = [{} for _ in range(self.num_envs)]
        for row, info, final_info in row_infos:
            infos[row - start].update(info)
            if final_info is not None:
                final_observ = element(self.observation_space, results.final_observ, row)
                infos[row - start].update(final_obs=final_observ, final_info=final_info)
        flags = (results.reward, results.terminated, results.truncated)  # [B] each.
        if self._single:
            observ = element(self.observation_space, results.observ, start)
            return (observ, *(array[start].item() for array in flags), infos[0])
        rows = self._rows
        observ = pack(self.observation_space, (leaf[rows] for leaf in results.observ))  # [B, ...]
        return (observ, *(array[rows] for array in flags), infos)

    def _receive_reset(self) -> tuple[NestedArray, Any]:
        observ, *_, info = self._receive_step()
        return observ, info

    def _only_env(self, name: str) -> EnvironmentHandle:
        if not self._single:
            raise AttributeError(
                f"'{name}' of which environment? This process hosts {len(self)}: use process[i].{name}"
            )
        return self[0]
