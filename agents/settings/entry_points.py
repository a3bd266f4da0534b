"""Entry points: modules and callables that settings name, such as `my_module:my_function`."""

from __future__ import annotations

import contextlib
import importlib
import importlib.abc
import os
import re
import site
import sys
import sysconfig
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from agents import stop_signals
from agents.errors import UsageError
from agents.settings import current_folder
from agents.suggestion import did_you_mean
from agents.tensorflow_setup import quiet_tensorflow

if TYPE_CHECKING:
    from agents.settings.config import Config


# Settings that may name a class or function. Not from the schema: workers do not import pydantic.
FUNCTION_SETTINGS = ("algorithm", "network", "policy", "optimizer")

# All settings that may name modules.
MODULES = (*FUNCTION_SETTINGS, "env", "env_wrappers", "train_wrappers")


def import_module(module: str, place: str) -> ModuleType:
    """Imports a module.

    Args:
      module: Its name.
      place: Where it is named, for messages, such as "env 'my_module:MyEnv-v0'".

    Raises:
      UsageError: It was not found, is refused, or its import failed. The message has at most three
        lines.
    """
    named_by_run = _is_named_by_run()
    is_hidden = named_by_run and not current_folder.is_named(module)
    try:
        # It may import TensorFlow, as modules of networks do.
        with current_folder.hidden(is_hidden), quiet_tensorflow(reports=True):
            home = _import(module, searches=not is_hidden)
        _check_imported(module)
        if not named_by_run and current_folder.contains(module):
            current_folder.remember(module)
        return home
    except RefusedModuleError as error:
        raise UsageError(f"{place}: {error}") from None
    except ModuleNotFoundError as error:
        if not _is_part(error.name, module):
            raise UsageError(f"{place}: importing '{module}' failed: {error}") from error
        hint = "install it, run the command in its folder, or set PYTHONPATH to it"
        if is_hidden:
            hint = (
                "modules that only a run names are not imported from the current folder\n"
                "if you trust their code, set PYTHONPATH to their folder"
            )
        raise UsageError(
            f"{place} needs the module '{error.name}', which was not found\n{hint}"
        ) from None
    except BaseException as error:
        if stop_signals.is_interrupt(error):
            raise
        raise UsageError(f"{place}: importing '{module}' failed\n{_describe(error)}") from error


def load_function(name: str, setting: str) -> Callable[..., Any]:
    """Imports a module and returns one of its callables.

    Args:
      name: Both names, such as my_module:my_function.
      setting: The setting's name, for messages.

    Raises:
      UsageError: The name has another form, the module or the object is missing, or the object is
        not callable. The message has at most three lines.
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


def check_env_function(function: Callable[..., Any], env: str) -> None:
    """Checks that a function that a run names makes environments: the run also has its arguments.

    `subprocess:run` would execute any command. Accepted are functions of modules that have
    Gymnasium or an environment among their names, and of modules that the user has named.

    Raises:
      UsageError: It is another function.
    """
    module = env.rpartition(":")[0]
    if not _is_named_by_run():
        current_folder.remember(module)
        return
    import gymnasium

    home = sys.modules.get(getattr(function, "__module__", None) or "")
    makes_environments = any(
        item is gymnasium or (isinstance(item, type) and issubclass(item, gymnasium.Env))
        for item in (vars(home).values() if home else ())
    )
    if not makes_environments and not current_folder.is_named(module):
        raise UsageError(
            f"env '{env}': only the run names this function, and its module has no environments\n"
            f"if you trust the run, name it first: agents check {env}"
        )


def check_entry_points(config: Config) -> None:
    """Imports the modules that settings name, before anything is started.

    Raises:
      UsageError: As `load_function`.
    """
    for setting in FUNCTION_SETTINGS:
        name = getattr(config, setting)
        if ":" in name:
            load_function(name, setting)


def call(function: Callable[..., Any], place: str, *arguments: Any) -> Any:
    """Returns the result of a function that a setting names.

    Args:
      function: Result of `load_function`.
      place: Where it is named, for messages, such as "network 'my_module:wide'".
      *arguments: For the function.

    Raises:
      UsageError: The function raised. The message has at most three lines.
    """
    try:
        return function(*arguments)
    except UsageError:
        raise
    except BaseException as error:
        if stop_signals.is_interrupt(error):
            raise
        raise UsageError(f"{place} failed\n{_describe(error)}") from error


def name_modules(settings: Mapping[str, object]) -> None:
    """Records the modules that settings of the user's command name, see `current_folder`."""
    for setting in MODULES:
        for name in re.findall(r"([\w.]+):", str(settings.get(setting, ""))):
            current_folder.remember(name)


def _is_named_by_run() -> bool:
    """Returns whether a run names the modules that are imported, see `refusing_modules_in`."""
    return any(isinstance(finder, _RefusingFinder) for finder in sys.meta_path)


def _import(module: str, searches: bool) -> ModuleType:
    """Imports a module; if it is not found and `searches`, also from a command's folder."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if not (searches and _is_part(error.name, module) and current_folder.search()):
            raise
    return importlib.import_module(module)


def _is_part(name: str | None, module: str) -> bool:
    """Returns whether a name is that of a module, or of a package that it is in."""
    return bool(name) and f"{module}.".startswith(f"{name}.")


class RefusedModuleError(ImportError):
    """A module that lies in a folder that modules must not come from."""


@contextlib.contextmanager
def refusing_modules_in(*folders: Path) -> Iterator[None]:
    """Refuses to import modules from folders, before anything of them is executed.

    What a run's folder names must not come from that folder: whoever can write to it could execute
    code. Symbolic links are followed. Installed packages are never refused, nor is this library.

    Raises:
      UsageError: An import was refused.
    """
    finder = _RefusingFinder([os.path.realpath(folder) for folder in folders])
    sys.meta_path.insert(0, finder)
    try:
        yield
    except RefusedModuleError as error:
        raise UsageError(str(error)) from None
    finally:
        sys.meta_path.remove(finder)


class _RefusingFinder(importlib.abc.MetaPathFinder):
    """Finds modules with the other finders, and refuses those in certain folders."""

    def __init__(self, folders: Sequence[str]):
        """Stores the resolved folders, and the installed packages inside of them."""
        self._folders = folders
        paths = [
            sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")
        ]
        installed: list[str | Path] = [
            *filter(None, paths),
            site.getusersitepackages(),
            Path(__file__).parents[1],
        ]
        self._installed = [os.path.realpath(path) for path in installed]

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Returns what the next finder finds.

        Raises:
          RefusedModuleError: It lies in one of the folders.
        """
        for finder in sys.meta_path[sys.meta_path.index(self) + 1 :]:
            spec = finder.find_spec(fullname, path, target)
            if spec is not None:
                self.check(spec)
                return spec
        return None

    def check(self, spec: ModuleSpec) -> None:
        """Raises RefusedModuleError if a module, or a part of a package, lies in a folder."""
        for location in (spec.origin, spec.cached, *(spec.submodule_search_locations or ())):
            if location is None:
                continue
            resolved = os.path.realpath(location)
            for folder in self._folders:
                if _is_inside(resolved, folder) and not self._is_installed(resolved, folder):
                    raise RefusedModuleError(
                        f"the module '{spec.name}' lies in {folder}, a folder of runs\n"
                        "modules that a run names must be installed, or be outside of its logdir"
                    )

    def _is_installed(self, path: str, folder: str) -> bool:
        """Returns whether a path belongs to a package installed below `folder`."""
        return any(_is_inside(root, folder) and _is_inside(path, root) for root in self._installed)


def _is_inside(path: str, folder: str) -> bool:
    return os.path.commonpath([path, folder]) == folder


def _check_imported(module: str) -> None:
    """Checks a module that was imported earlier, and the packages that it is in."""
    parts = module.split(".")
    for length in range(1, len(parts) + 1):
        spec = getattr(sys.modules.get(".".join(parts[:length])), "__spec__", None)
        for finder in sys.meta_path:
            if isinstance(finder, _RefusingFinder) and spec is not None:
                finder.check(spec)


def _describe(error: BaseException) -> str:
    """Returns two lines: the exception, and the place in the code that raised it."""
    reason = " ".join(str(error).split())[:300]
    described = f"{type(error).__name__}: {reason}" if reason else type(error).__name__
    frame = traceback.extract_tb(error.__traceback__)[-1]
    if frame.filename == __file__:
        return described  # The function does not take the arguments.
    return f"{described}\n({frame.filename}, line {frame.lineno}: {frame.line})"
