"""Environments that a function makes, for the setting `env` from Python."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import Any


class EnvFunction(str):
    """A value of the setting `env`: the name of a function, with the function.

    Files hold the name only. `my_module:make_env` is found again by it; `<make_env>`, of a function
    that can't be imported, has to be passed again, to resume the run or to record it.

    Attributes:
      make: Returns an environment; gets `env_kwargs`, and for recordings `render_mode="rgb_array"`.
    """

    make: Callable[..., Any]

    def __new__(cls, make: Callable[..., Any]) -> EnvFunction:
        """Names a function or a class."""
        name: str = getattr(make, "__qualname__", type(make).__qualname__)
        module: str | None = getattr(make, "__module__", None)
        is_found = getattr(sys.modules.get(module or ""), name, None) is make
        if is_found and module != "__main__" and not is_registered(name):
            text = f"{module}:{name}"
        else:
            text = f"<{re.findall('[A-Za-z0-9_]+', name)[-1]}>"
        function = super().__new__(cls, text)
        function.make = make
        return function

    def __reduce__(self) -> tuple[type[EnvFunction], tuple[Callable[..., Any]]]:
        """Is copied and pickled with its function."""
        return EnvFunction, (self.make,)


def is_registered(name: str) -> bool:
    """Returns whether Gymnasium has an environment with this id, of any version."""
    gymnasium = sys.modules.get("gymnasium")
    ids = gymnasium.registry if gymnasium else ()
    return any(name in (env, env.rpartition("-v")[0]) for env in ids)
