"""Environments that a process has registered, for the processes that it starts.

Constructors such as `lambda: gymnasium.make("Mine-v0")` work in workers, as they do in processes that
are forked, although these are new interpreters without Mine-v0.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import cloudpickle
import gymnasium
from gymnasium.envs.registration import EnvSpec


class PickledFunction:
    """A function that is unpickled when it is called; until then, nothing is imported for it."""

    def __init__(self, function: Callable[..., Any]):
        """Pickles a function, by value if it has no name to be imported by."""
        self._data: bytes = cloudpickle.dumps(function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the function."""
        return cloudpickle.loads(self._data)(*args, **kwargs)


def dump_registrations() -> list[bytes]:
    """Returns the environments that were registered here, one by one, without Gymnasium's own.

    Environments that can't be pickled are left out: their constructors raise in the worker.
    """
    registrations = []
    for spec in list(gymnasium.registry.values()):
        module = module_of(spec.entry_point or spec.vector_entry_point)
        if not f"{module}.".startswith("gymnasium."):
            with contextlib.suppress(Exception):  # Pickling runs methods of the user's objects.
                sent = spec.entry_point and _sent(spec.entry_point)
                registrations.append(cloudpickle.dumps(dataclasses.replace(spec, entry_point=sent)))
    return registrations


def load_registrations(registrations: Sequence[bytes]) -> None:
    """Registers environments of `dump_registrations`, but for ids that are known here.

    The package that they are of may be imported later, and register them again: Gymnasium does not
    warn of these.
    """
    for data in registrations:
        with contextlib.suppress(Exception):
            spec: EnvSpec = cloudpickle.loads(data)
            if gymnasium.registry.setdefault(spec.id, spec) is spec:
                again = f".*Overriding environment {re.escape(spec.id)} already in registry"
                warnings.filterwarnings("ignore", message=again)


def module_of(entry_point: Callable[..., Any] | str | None) -> str:
    """Returns the module that an environment's constructor is in; empty if it has none."""
    if isinstance(entry_point, str):
        return entry_point.partition(":")[0]
    return getattr(entry_point, "__module__", "")


def _sent(entry_point: Callable[..., Any] | str) -> Callable[..., Any] | str:
    """Returns a constructor that the worker resolves when it makes the environment.

    That is the name by which it can be imported, or else a pickled function. A class is sent as it is:
    `gymnasium.make` looks at its metadata.
    """
    if isinstance(entry_point, str):
        return entry_point
    module, name = getattr(entry_point, "__module__", ""), getattr(entry_point, "__qualname__", "")
    is_found = getattr(sys.modules.get(module), name, None) is entry_point
    by_value = module == "__main__" or module in cloudpickle.list_registry_pickle_by_value()
    if is_found and not by_value:
        return f"{module}:{name}"
    return entry_point if isinstance(entry_point, type) else PickledFunction(entry_point)
