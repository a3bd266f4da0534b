"""Entry points: modules and callables that settings name, such as `my_module:my_function`."""

from __future__ import annotations

import importlib
import traceback
from collections.abc import Callable
from types import ModuleType
from typing import Any

from agents.errors import UsageError
from agents.suggestion import did_you_mean


def import_module(module: str, place: str) -> ModuleType:
    """Imports a module.

    Args:
      module: Its name.
      place: Where it is named, for messages, such as "env 'my_module:MyEnv-v0'".

    Raises:
      UsageError: It was not found, or its import failed. The message has at most three lines.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name and (module == error.name or module.startswith(f"{error.name}.")):
            raise UsageError(
                f"{place} needs the module '{error.name}', which was not found\n"
                "install it, or run the command in its directory"
            ) from None
        raise UsageError(f"{place}: importing '{module}' failed: {error}") from error
    except Exception as error:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        reason = " ".join(str(error).split())
        raise UsageError(
            f"{place}: importing '{module}' failed\n{type(error).__name__}: {reason}\n"
            f"({frame.filename}, line {frame.lineno})"
        ) from error


def load_function(name: str, setting: str) -> Callable[..., Any]:
    """Imports a module and returns one of its callables.

    Args:
      name: Both names, such as my_module:my_function.
      setting: The setting's name, for messages.

    Raises:
      UsageError: The name has another form, the module or the callable is missing, or what it names
        is not callable. The message has at most three lines.
    """
    module, _, attribute = name.partition(":")
    if not module or not attribute.isidentifier():
        raise UsageError(f"{setting}: expected a name such as my_module:my_function, got '{name}'")
    place = f"{setting} '{name}'"
    home = import_module(module, place)
    if not hasattr(home, attribute):
        known = [item for item in dir(home) if callable(getattr(home, item, None))]
        raise UsageError(
            f"{place}: the module '{module}' has no '{attribute}'{did_you_mean(attribute, known)}"
        )
    function: Callable[..., Any] = getattr(home, attribute)
    if not callable(function):
        raise UsageError(f"{place}: expected a function or a class, got {type(function).__name__}")
    return function
