"""Restarts of environments that fail: in their rows, while the rest of the batch continues."""

from __future__ import annotations

import time
import warnings
from collections import deque
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from agents.errors import EnvironmentFailure, EnvironmentRaisedError
from agents.workers.host import HostFailure, WorkerHost
from agents.workers.spawner import SpareWorker

if TYPE_CHECKING:
    from agents.types import Info, Leaves
    from agents.workers.environment_group import RowInfos
    from agents.workers.shared_arrays import BatchArrays

# After so many warnings, only the restarts whose number is a power of two are reported.
_MAX_WARNINGS = 5

# All rows of a batch.
ALL = slice(None)


class Restart(NamedTuple):
    """A restart of environments.

    Attributes:
      rows: Their rows in the batch.
      time: When it was, in seconds since 1970.
      cause: The failure.
    """

    rows: tuple[int, ...]
    time: float
    cause: EnvironmentFailure


class Restarter:
    """Restarts failed environments of a batch, as long as there are not too many.

    An environment that raised or returned invalid data is constructed again in its process. If the
    process died or did not reply, it is started again with all of its environments. From the first
    time on another process is kept ready, which shortens the next restarts by its start.

    Attributes:
      role: What the environments are, for messages.
      records: The restarts so far; whoever reads them may remove them.
      count: Number of restarts so far.
    """

    def __init__(self, arrays: BatchArrays, limit: int, window: float):
        """Initializes restarts.

        Args:
          arrays: The arrays [B, ...] of the batch.
          limit: Number of restarts within the window; one more raises the first one's cause.
          window: In seconds.
        """
        self.role = "environment"
        self.records: list[Restart] = []
        self.count = 0
        self._arrays, self._limit, self._window = arrays, limit, window
        self._recent: deque[tuple[float, EnvironmentFailure]] = deque()
        self._spare = SpareWorker()
        num_envs = arrays.layout.num_envs
        # Of the last reset with a seed: the seed, and the episodes and restarts since.
        self._seeds = np.full(num_envs, -1)  # [B]
        self._num_episodes = np.zeros(num_envs, int)  # [B]
        self._num_restarts = np.zeros(num_envs, int)  # [B]

    def note_reset(self) -> None:
        """Records a reset by the arrays' mask [B] with their seeds [B]."""
        mask, seed = self._arrays.mask, self._arrays.seed
        seeded = mask & (seed >= 0)  # [B]
        self._num_episodes = np.where(seeded, 0, self._num_episodes + mask)  # [B]
        self._num_restarts = np.where(seeded, 0, self._num_restarts)  # [B]
        self._seeds = np.where(seeded, seed, self._seeds)  # [B]

    def note_step(
        self, observ: Leaves, rows: Iterable[int], stepped: slice | np.ndarray = ALL
    ) -> None:
        """Records a step; completes the rows of environments that were restarted.

        These rows have no outcome: their episode is truncated in the state the step started from.

        Args:
          observ: The observations before the step, leaves [B, ...].
          rows: Rows of environments that were restarted.
          stepped: The rows that made the step, among them these; by default all.
        """
        arrays, restarted = self._arrays, self._arrays.restarted
        assert restarted is not None
        restarted[stepped] = False
        for row in rows:
            for final, before in zip(arrays.final_observ, observ, strict=True):
                final[row] = before[row]
            arrays.reward[row], arrays.terminated[row] = 0, False
            arrays.truncated[row] = restarted[row] = True
        self._num_episodes[stepped] += (arrays.terminated | arrays.truncated)[stepped]

    def restart(self, failures: Sequence[HostFailure]) -> dict[int, Info]:
        """Restarts environments that failed, again if they fail in the restart.

        Returns:
          The infos of the environments that were restarted, by row.

        Raises:
          EnvironmentFailure: There were more than `limit` failures within `window` seconds: the
            first of them.
        """
        infos: dict[int, Info] = {}
        processes_lost = False
        while failures:
            for failure in failures:
                self._count(failure)
                for row in failed_rows(failure):
                    self._arrays.seed[row] = self._seed_of(row)
            lost = [failure for failure in failures if not _can_restart_them(failure)]
            again = self._start_processes(lost, infos)
            processes_lost |= bool(lost)
            for failure in filter(_can_restart_them, failures):
                again += self._construct(failure, infos)
            failures = again
        if processes_lost:
            self._spare.prepare()  # Not before: its start would slow down the restarts.
        return infos

    def close(self) -> None:
        """Ends the process that was kept ready."""
        self._spare.close()

    def _construct(self, failure: HostFailure, infos: dict[int, Info]) -> list[HostFailure]:
        """Constructs environments of a running process again; returns what failed."""
        again = []
        for row in failed_rows(failure):
            try:
                infos.update(_by_row(failure.host.ask("restart", row - failure.host.rows.start)))
            except EnvironmentFailure as error:
                again.append(failure._replace(error=error))
                if not _can_restart_them(again[-1]):
                    break  # All environments of the process have failed now.
        return again

    def _start_processes(
        self, failures: Sequence[HostFailure], infos: dict[int, Info]
    ) -> list[HostFailure]:
        """Starts processes again, all at the same time; returns what failed."""
        again, started = [], []
        for failure in failures:
            assert isinstance(failure.host, WorkerHost)
            try:
                failure.host.start(self._spare.take)
                started.append((failure, failure.host))
            except EnvironmentFailure as error:
                again.append(failure._replace(error=error))
        for failure, host in started:
            try:
                infos.update(_by_row(self._reset(host)))
            except EnvironmentFailure as error:
                infos.update(_by_row(error.infos))  # The others of the process were reset.
                again.append(failure._replace(error=error))
        return again

    def _reset(self, host: WorkerHost) -> RowInfos:
        """Resets the environments of a process that was started."""
        host.wait_until_ready()
        self._arrays.mask[:] = False  # [B]
        self._arrays.mask[host.rows] = True
        host.send_reset()
        infos: RowInfos = host.receive()
        return infos

    def _seed_of(self, row: int) -> int:
        """Returns the seed that an environment is restarted with; -1 for none.

        In the first episode after a seeded reset it is the same seed, so that the episode is that of
        the seed (an evaluation's score counts on it). Later ones derive another from it, which does
        not depend on failures of other environments: there is no order among their steps.
        """
        seed, num_episodes = int(self._seeds[row]), int(self._num_episodes[row])
        if seed < 0 or num_episodes == 0:
            return seed
        entropy = [seed, num_episodes, int(self._num_restarts[row])]
        return int(np.random.SeedSequence(entropy).generate_state(1)[0] >> 1)

    def _count(self, failure: HostFailure) -> None:
        """Counts a failure; raises the first one if there are too many."""
        now, error, rows = time.monotonic(), failure.error, failed_rows(failure)
        self._recent.append((now, error))
        while self._recent[0][0] < now - self._window:
            self._recent.popleft()
        if len(self._recent) > self._limit:
            first, *others = (cause for _, cause in self._recent)
            first.others = tuple(others)
            first.note = (
                f"The first of {len(self._recent)} failures within {self._window:g} s; "
                f"{self._limit} restarts are allowed."
            )
            raise first
        # Their frames would keep channels of processes that are gone, or environments.
        error.__traceback__ = error.__cause__ = error.__context__ = None
        self.count += 1
        self._num_restarts[rows] += 1
        self.records.append(Restart(tuple(rows), time.time(), error))
        if self.count <= _MAX_WARNINGS or self.count & (self.count - 1) == 0:
            names = ", ".join(map(str, rows))
            plural = "s" if len(rows) > 1 else ""
            text = f"{self.role.capitalize()}{plural} {names}: restart number {self.count}. {error.args[0]}"
            if self.count == _MAX_WARNINGS:
                text += " From now on, only the restarts number 8, 16, 32 and so on are reported."
            warnings.warn(text, stacklevel=2)


def failed_rows(failure: HostFailure) -> list[int]:
    """Returns the rows of the environments that have failed: all of a process that is gone."""
    error = failure.error
    if _can_restart_them(failure):
        return sorted(
            {one.env_index for one in (error, *error.others) if one.env_index is not None}
        )
    return list(failure.host.rows)


def _can_restart_them(failure: HostFailure) -> bool:
    """Returns whether the process still answers, so that it can restart its failed environments."""
    host, error = failure.host, failure.error
    if isinstance(host, WorkerHost) and host.closed:
        return False  # Its constructors failed.
    return isinstance(error, EnvironmentRaisedError) and error.env_index is not None


def _by_row(infos: Sequence[tuple[int, Info, Info | None]]) -> dict[int, Info]:
    return {row: info for row, info, _ in infos}
