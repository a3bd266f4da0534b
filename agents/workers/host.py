"""Hosts: what runs the environments of a batch."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, Protocol

from agents import stop_signals
from agents.own_copy import own_copy
from agents.workers.environment_group import EnvironmentGroup

if TYPE_CHECKING:
    from agents.errors import EnvironmentFailure
    from agents.types import Env, EnvConstructor, Options
    from agents.workers.attachment import Attachment
    from agents.workers.description import Description
    from agents.workers.environment_group import RowInfos
    from agents.workers.environment_handle import EnvironmentHandle


class Host(Protocol):
    """What a batch asks of what runs its environments.

    A request (`send_step` or `send_reset`) reads the host's rows of the batch's arrays. Exactly one
    `receive` must follow; by then the results are in the rows. A batch may send requests to all of
    its hosts before it receives from the first. Every method but `ask_to_close` and `close` may
    raise `EnvironmentFailure`; afterwards the host still takes requests, and fails again if its
    process is gone. The deadline of a request runs from `started`, a time of `time.monotonic`, by
    default from when it is sent; hosts of the same request share it.
    """

    @property
    def num_envs(self) -> int:
        """Number of environments."""

    @property
    def descriptions(self) -> Sequence[Description]:
        """A description of each environment."""

    def attach(self, attachment: Attachment) -> None:
        """Assigns rows of a batch's arrays to the environments."""

    def send_step(self, started: float | None = None) -> None:
        """Requests a step of all environments, with the arrays' actions, leaves [B, ...]."""

    def send_reset(self, options: Options | None = None, started: float | None = None) -> None:
        """Requests a reset by the arrays' mask, bool [B], with their seeds, int64 [B]."""

    def receive(self, while_waiting: Callable[[], object] | None = None) -> RowInfos:
        """Waits for the reply to the request and returns the infos of rows that have any.

        Args:
          while_waiting: Called every few milliseconds if it takes that long.
        """

    @property
    def owes_reply(self) -> bool:
        """Whether no reply to the last request was received."""

    @property
    def is_busy(self) -> bool:
        """Whether the last request is being executed: receiving its reply would wait."""

    @property
    def busy_row(self) -> int | None:
        """Row in the batch of the environment in use; None if it is unknown which."""

    @property
    def pid(self) -> int:
        """Id of the process that runs the environments."""

    @property
    def timeout(self) -> float:
        """Seconds that a request may take."""

    def ask(self, method: str, index: int, *arguments: Any) -> Any:
        """Calls `EnvironmentGroup`'s `call`, `get` or `set` for one environment."""

    def __getitem__(self, index: int) -> Env | EnvironmentHandle:
        """Returns an environment of this process, or a handle on one of another process."""

    def ask_to_close(self) -> None:
        """Starts closing without waiting for it, so that several hosts close at the same time."""

    def close(self) -> None:
        """Closes the environments and waits for it. May be called again."""


class HostFailure(NamedTuple):
    """A failure of a request of the batch.

    Attributes:
      host: The host that failed.
      rows: The rows of its environments in the batch, a part of [0, B).
      error: What it raised.
    """

    host: Host
    rows: range
    error: EnvironmentFailure


def raise_first(failures: Sequence[HostFailure]) -> NoReturn:
    """Raises the first failure, which keeps those of other hosts and its own others."""
    first, *others = (error for one in failures for error in (one.error, *one.error.others))
    first.others = tuple(others)
    raise first


class LocalHost:
    """Hosts environments in this process; they run when a request is sent.

    Attributes:
      num_envs: Number of environments.
      descriptions: A description of each environment.
      owes_reply: False, as the reply to a request is there when it was sent.
      is_busy: False, likewise.
      busy_row: None, likewise.
      timeout: Infinity: what runs in this process can't be stopped.
    """

    owes_reply = is_busy = False
    busy_row = None
    timeout = math.inf

    def __init__(self, constructor: EnvConstructor | Sequence[EnvConstructor], index: int = 0):
        """Constructs the environments.

        Args:
          constructor: Returns an environment; or a sequence of such functions.
          index: Index of the (first) environment in its batch, for errors.

        Raises:
          EnvironmentRaisedError: A constructor raised.
        """
        constructors = [constructor] if callable(constructor) else constructor
        self._group = EnvironmentGroup(constructors, index)
        self.descriptions = self._group.describe()
        self.num_envs, self.pid = len(self.descriptions), os.getpid()

    def attach(self, attachment: Attachment) -> None:
        """See `Host.attach`."""
        self._group.attach(attachment.arrays, attachment.start, attachment.autoreset)

    def send_step(self, started: float | None = None) -> None:
        """See `Host.send_step`."""
        stop_signals.check()
        self._infos = self._group.step()

    def send_reset(self, options: Options | None = None, started: float | None = None) -> None:
        """See `Host.send_reset`."""
        stop_signals.check()
        self._infos = self._group.reset(options)

    def receive(self, while_waiting: Callable[[], object] | None = None) -> RowInfos:
        """See `Host.receive`."""
        return self._infos

    def ask(self, method: str, index: int, *arguments: Any) -> Any:
        """See `Host.ask`."""
        return getattr(self._group, method)(index, *own_copy(arguments))

    def __getitem__(self, index: int) -> Env:
        return self._group.envs[index]

    def ask_to_close(self) -> None:
        """See `Host.ask_to_close`; the environments are closed by `close`."""

    def close(self) -> None:
        """See `Host.close`."""
        self._group.close()
