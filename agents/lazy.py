"""Packages that import their modules on first use (PEP 562).

Worker processes and the command line import parts of this library that must not pull TensorFlow in with them: it
takes three seconds and 170 MB. So a package's ``__init__`` lists its public names, and this module finds them when
they are used.
"""

import importlib
from collections.abc import Callable
from typing import Any


def lazy_names(package: str, homes: dict[str, str]) -> Callable[[str], Any]:
    """Makes the ``__getattr__`` of a package.

    Args:
      package: The package's ``__name__``.
      homes: For every public name the module that holds it; a name equal to its module stands for the module itself.

    Returns:
      A module-level ``__getattr__``; it raises `AttributeError` for names that are not listed.
    """

    def __getattr__(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module '{package}' has no attribute '{name}'")
        module = importlib.import_module(f"{package}.{homes[name]}")
        return module if homes[name] == name else getattr(module, name)

    return __getattr__
