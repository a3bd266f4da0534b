"""Public names of packages that are imported on first use (PEP 562).

Worker processes and the command line import parts of this library without TensorFlow, whose import
takes three seconds and 170 MB. So a package's ``__init__`` lists its public names and their
modules, and this module imports them on first use.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Callable, Collection, Mapping
from types import ModuleType

from agents.suggestion import did_you_mean

# Set at the import of `agents`, as TensorFlow reads it once, at its own. By itself it uses oneDNN
# only on processors with AVX-512 VNNI or newer; convolutions are faster with it on all.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
# Only fatal errors: at each start, XLA and CUDA log errors that are none.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")


def lazy_names(
    package: str,
    homes: Mapping[str, str],
    hint: Callable[[str, Collection[str]], str] = did_you_mean,
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Makes the ``__getattr__`` and ``__dir__`` of a package.

    Args:
      package: The package's ``__name__``.
      homes: The module of each public name; a name may itself be a module in a package.
      hint: Returns the end of an error message, given an unknown name and the known names.

    Returns:
      Two module-level functions. The first does what ``from home import name`` does, and imports the
      package's modules; it raises `AttributeError` for other names.
    """

    def __getattr__(name: str) -> object:
        if name not in homes:
            suggestion = ""
            if name.isidentifier() and not name.startswith("_"):
                if importlib.util.find_spec(f"{package}.{name}"):
                    return _import(f"{package}.{name}")
                suggestion = hint(name, homes)
            raise AttributeError(f"module '{package}' has no attribute '{name}'{suggestion}")
        home = _import(homes[name])
        if hasattr(home, name) or not hasattr(home, "__path__"):
            return getattr(home, name)
        return importlib.import_module(f"{homes[name]}.{name}")

    def __dir__() -> list[str]:
        return sorted(homes)

    return __getattr__, __dir__


def _import(module: str) -> ModuleType:
    if "tensorflow" in sys.modules:
        return importlib.import_module(module)
    from agents.tensorflow_setup import quiet_tensorflow

    with quiet_tensorflow():  # The module may be the first to import it.
        return importlib.import_module(module)
