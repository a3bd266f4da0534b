"""Handles on environments of a worker process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from agents.errors import EnvironmentRaisedError
from agents.workers.description import Description


class Connection(Protocol):
    """What a handle needs of the host of its environment, a `WorkerHost`."""

    @property
    def descriptions(self) -> Sequence[Description]:
        """A description of each environment."""

    def ask(self, method: str, index: int, *arguments: Any, blocking: bool = True) -> Any:
        """Calls `EnvironmentGroup`'s `call`, `get` or `set` for one environment."""


class EnvironmentHandle:
    """One environment of a worker process.

    Attributes that this class lacks are read from the environment, through its wrappers.
    """

    def __init__(self, host: Connection, index: int):
        """Initializes the handle on environment `index` of `host`."""
        self._host, self._index = host, index

    # Attributes of an environment are of any type.

    def call(self, name: str, *args: Any, blocking: bool = True, **kwargs: Any) -> Any:
        """Calls a method of the environment.

        Args:
          name: The method's name.
          *args: Its arguments.
          blocking: Whether to wait for the result.
          **kwargs: Its keyword arguments.

        Returns:
          The result of the method. If not blocking, a function without arguments that waits for the
          result and returns it.

        Raises:
          EnvironmentRaisedError: The method raised or does not exist; with the worker's traceback.
        """
        return self._host.ask("call", self._index, name, args, kwargs, blocking=blocking)

    def set_attr(self, name: str, value: Any) -> None:
        """Sets an attribute of the environment."""
        self._host.ask("set", self._index, name, value)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if name in Description._fields:
            return getattr(self._host.descriptions[self._index], name)
        try:
            return self._host.ask("get", self._index, name)
        except EnvironmentRaisedError as error:
            if error.type_name != "AttributeError":
                raise
            raise AttributeError(str(error)) from error
