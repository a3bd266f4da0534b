"""A rollout in which every worker process steps its environments at its own pace."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from agents.errors import EnvironmentFailure
from agents.vector.exchange import Exchange
from agents.workers.channel import wait_until
from agents.workers.host import Host, HostFailure, WorkerHost
from agents.workers.shared_arrays import aligned_empty

if TYPE_CHECKING:
    from agents.types import Leaves
    from agents.workers.environment_group import RowInfos
    from agents.workers.shared_arrays import BatchArrays, Field

# Handles failures in the latest steps of some rows, and returns the infos of restarts.
HandleFailures: TypeAlias = Callable[[list[HostFailure], np.ndarray], "RowInfos"]

# The step of every row follows the results in a block, int32 [B].
STEP_BYTES = 4


class PacedRollout:
    """T steps of each of B environments, taken in turns of the hosts that are ready.

    A turn sends actions to the hosts that have replied since the turn before, and waits until some
    of the hosts under way have replied. Every environment makes exactly T steps, with its t-th
    step in row t, so that the rollout is the same in any order of replies.

    A host whose step takes longer than its timeout counts as one that has replied: with a failure.

    Attributes:
      steps: Length of the rollout, T.
      step: int32 [B], steps that each environment has made.
      results: uint8 [T, size], the results of all steps; complete after the last turn.
    """

    def __init__(
        self,
        exchange: Exchange,
        arrays: BatchArrays,
        latest: np.ndarray,
        steps: int,
        wait_for: float,
        handle_failures: HandleFailures,
    ):
        """Starts a rollout; all environments were reset and none is being stepped.

        Args:
          exchange: Knows the hosts and their rows; all of them are worker processes.
          arrays: The arrays [B, ...] that they share.
          latest: The results of their last step or reset, uint8 [size].
          steps: Length of the rollout, T.
          wait_for: Fraction of the hosts under way that a turn waits for, at least one of them.
          handle_failures: Gets the failures of a turn and the rows that were stepped; may raise.
        """
        self.steps, self._wait_for, self._handle_failures = steps, wait_for, handle_failures
        self._ready = [host for host in exchange.hosts if isinstance(host, WorkerHost)]
        self._arrays, self._layout = arrays, arrays.layout
        size, num_envs = self._layout.size, self._layout.num_envs
        self.step = np.zeros(num_envs, np.int32)  # [B]
        self.results = aligned_empty(steps * size).reshape(steps, size)
        self._shared = [field.view(arrays.block) for field in self._layout.results]
        self._stored = [_view_steps(field, self.results) for field in self._layout.results]
        self._latest = latest
        self._under_way: dict[WorkerHost, float] = {}  # When their step was requested.
        self._watchdog = exchange.watchdog

    @property
    def is_complete(self) -> bool:
        """True once every environment has made its steps."""
        return not self._ready and not self._under_way

    def turn(self, actions: Leaves) -> tuple[np.ndarray, RowInfos]:
        """Steps the hosts that are ready, and waits until some hosts have replied.

        Args:
          actions: Valid actions, leaves [B, ...]; only rows of hosts that are ready matter.

        Returns:
          A new block, uint8 [size + 4 B]: the latest results of every row, and its `step`; and the
          infos of rows that have any.

        Raises:
          EnvironmentFailure: As `handle_failures` does; the batch must be reset.
        """
        failures = self._send(actions)
        replied = self._wait([failure.host for failure in failures])
        infos: RowInfos = []
        for host in replied:
            try:
                if not any(failure.host is host for failure in failures):
                    infos += host.receive()
            except EnvironmentFailure as error:
                failures.append(HostFailure(host, error))
        if failures or self._layout.restarted:
            rows = np.concatenate([host.rows for host in replied])
            failures.sort(key=lambda failure: failure.host.rows.start)
            infos += self._handle_failures(failures, rows)
        return self._store(replied), infos

    def _send(self, actions: Leaves) -> list[HostFailure]:
        """Requests a step of every host that is ready."""
        failures = []
        for host in self._ready:
            rows = _rows(host)
            for array, leaf in zip(self._arrays.action, actions, strict=True):
                array[rows] = leaf[rows]  # Not the others: their hosts may still read them.
            self._under_way[host] = started = time.monotonic()
            try:
                host.send_step(started)
            except EnvironmentFailure as error:
                failures.append(HostFailure(host, error))
        self._ready = []
        return failures

    def _wait(self, failed: Sequence[Host]) -> list[WorkerHost]:
        """Waits for replies; returns the hosts that have replied, failed, or reached the timeout."""
        # A product such as 0.7 * 10 may be slightly above an integer.
        enough = max(1, math.ceil(self._wait_for * len(self._under_way) - 1e-9))
        replied: list[WorkerHost] = []

        def is_enough() -> bool:
            now = time.monotonic()
            replied[:] = (
                host
                for host in self._under_way
                if not host.is_busy or host in failed or now > host.deadline
            )
            return len(replied) >= enough

        channels = [host.worker.channel for host in self._under_way if host not in failed]
        wait_until(
            is_enough, channels, lambda: self._watchdog.look_at_steps(self._under_way.items())
        )
        now = time.monotonic()
        for host in replied:
            self._watchdog.note_step(now - self._under_way.pop(host))
        return replied

    def _store(self, replied: Sequence[WorkerHost]) -> np.ndarray:
        """Copies the results of hosts to their places; returns the latest block, see `turn`."""
        layout = self._layout
        block = aligned_empty(layout.size + STEP_BYTES * layout.num_envs)
        block[: layout.size] = self._latest[: layout.size]
        views = [field.view(block) for field in layout.results]
        for host in replied:
            rows = _rows(host)
            step = self.step[rows.start]
            for shared, stored, view in zip(self._shared, self._stored, views, strict=True):
                view[rows] = stored[step, rows] = shared[rows]
            self.step[rows] += 1
            if step + 1 < self.steps:
                self._ready.append(host)
        block[layout.size :].view(np.int32)[:] = self.step
        self._latest = block
        return block


def _view_steps(field: Field, results: np.ndarray) -> np.ndarray:
    """Returns an array [T, B, ...] as a view of blocks, uint8 [T, size]."""
    steps, size = results.shape
    strides = np.empty(field.shape, field.dtype).strides
    shape = (steps, *field.shape)
    view: np.ndarray = np.ndarray(shape, field.dtype, results, field.offset, (size, *strides))
    return view


def _rows(host: WorkerHost) -> slice:
    return slice(host.rows.start, host.rows.stop)
