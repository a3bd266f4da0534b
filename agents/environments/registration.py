"""Looks up and makes one Gymnasium environment.

Worker processes import this: it must import neither TensorFlow nor pydantic.
"""

from __future__ import annotations

import contextlib
import functools
import re
import sys
import warnings
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium
from gymnasium.envs import registration
from gymnasium.envs.registration import EnvSpec

from agents.environments import bullet, dm_control, mujoco
from agents.environments.families import DM_CONTROL, FAMILIES
from agents.environments.registered_specs import module_of
from agents.environments.rendering import check_rendering
from agents.environments.wrappers import ActionRepeat, RebuildOnSeed, ResetOptions
from agents.environments.wrappers.action_mask import ActionMask
from agents.errors import UsageError
from agents.settings.entry_points import (
    call,
    check_env_function,
    import_module,
    load_function,
)
from agents.settings.env_function import EnvFunction, is_registered
from agents.suggestion import did_you_mean
from agents.types import Env

# Entry points of environments in which a seeded reset keeps state from earlier episodes.
_STATEFUL_PREFIXES = ("gymnasium.envs.box2d.bipedal_walker:", bullet.PREFIX)

# Environments that were made in this process, by id.
_made: weakref.WeakValueDictionary[int, Env] = weakref.WeakValueDictionary()


def find_spec(env: str) -> EnvSpec:
    """Looks up an environment and the packages that it needs, without making it.

    Args:
      env: An id of Gymnasium, of the newest version if it names none; `<module>:<id>` imports the
        module first. Or a task, `dm_control/<domain>/<task>`; or a function, `<module>:<function>`
        or an `EnvFunction`.

    Returns:
      Gymnasium's specification of the environment.

    Raises:
      UsageError: The module, the environment or a package that it needs is missing, or the
        environment only exists as a vector environment; the message has at most three lines.
    """
    if isinstance(env, EnvFunction):
        return _spec_of_function(env.make, env)
    if env.startswith("<"):
        raise UsageError(
            f"env '{env}' is a Python function, and files can't store it\n"
            f"pass env={env.strip('<>')} to load_config or visualize again, or use a name such as my_module:make_env"
        )
    if env.startswith(DM_CONTROL.id_prefix):
        DM_CONTROL.check_packages(env)
        return dm_control.find_spec(env)
    module, _, name = env.rpartition(":")
    if module or name != env:
        function = getattr(import_module(module, f"env '{env}'"), name, None)
        if callable(function) and not is_registered(name):
            check_env_function(function, env)
            return _spec_of_function(function, env)
    for family in FAMILIES:
        if family.registers(name):
            family.check_packages(name)
            import_module(family.module, f"env '{env}'")
    spec = _find_registered(name, module)
    if spec.entry_point is None:
        raise UsageError(
            f"environment '{name}' exists as a vector environment only; expected a single environment"
        )
    _check_entry_point(spec)
    return spec


def make_env(
    spec: EnvSpec,
    env_kwargs: dict[str, Any],
    max_episode_steps: int = 0,
    action_repeat: int = 1,
    env_wrappers: Sequence[str] = (),
    action_mask: bool = False,
    wrap: Callable[[Env], Env] | None = None,
    train_wrappers: Sequence[str] = (),
    reset_options: dict[str, Any] | None = None,
) -> Env:
    """Makes one environment.

    Args:
      spec: Gymnasium's specification, not the id: a worker has not imported the module that
        registered it.
      env_kwargs: For the environment's constructor.
      max_episode_steps: Time limit in steps; 0 for the environment's own limit.
      action_repeat: Number of steps for which each action is repeated.
      env_wrappers: Names of functions that wrap the environment, innermost first.
      action_mask: Whether to move the action masks in its infos into its observations.
      wrap: The outermost wrapper.
      train_wrappers: Names of functions that wrap the environment after those.
      reset_options: Options for every reset.

    Raises:
      UsageError: A wrapper is missing, fails, or does not return an environment; the environment's
        constructor does not take `env_kwargs`, or returns the same environment again.
      UnsupportedSpaceError: There are no action masks for its action space.
      RenderingError: `render_mode` is "rgb_array", which the environment does not support.
    """
    if env_kwargs.get("render_mode") == "rgb_array":
        check_rendering(spec)  # Gymnasium only warns, and the first frame is None then.
    limit = {"max_episode_steps": max_episode_steps} if max_episode_steps else {}
    try:
        make = functools.partial(_make_new, spec, {**limit, **env_kwargs})
        env = RebuildOnSeed(make) if _has_prefix(spec, _STATEFUL_PREFIXES) else make()
    except TypeError as error:
        usage_error = _unexpected_kwargs(error, spec.id, env_kwargs)
        if usage_error is None:
            raise
        raise usage_error from None
    if reset_options:
        env = ResetOptions(env, reset_options)
    if action_repeat > 1:
        env = ActionRepeat(env, action_repeat)
    for setting, names in (("env_wrappers", env_wrappers), ("train_wrappers", train_wrappers)):
        for name in names:
            env = _apply_wrapper(env, name, setting)
    if action_mask:
        env = ActionMask(env)
    return wrap(env) if wrap else env


def _spec_of_function(function: Callable[..., Any], name: str) -> EnvSpec:
    """Returns a specification of a function's environment; its id has the function's name."""
    return EnvSpec(re.findall("[A-Za-z0-9_]+", name)[-1], entry_point=function)


def _find_registered(name: str, module: str) -> EnvSpec:
    """Returns Gymnasium's specification of an id; of the newest version if the id names none.

    Args:
      name: The id.
      module: The module that should register it, for the message; empty if none was named.
    """
    with contextlib.suppress(gymnasium.error.Error), warnings.catch_warnings():
        # Gymnasium warns about outdated versions, but an experiment may want one.
        warnings.simplefilter("ignore")
        namespace, stem, version = registration.parse_env_id(name)
        if version is None and name not in gymnasium.registry:
            newest = registration.find_highest_version(namespace, stem)
            return gymnasium.spec(registration.get_env_id(namespace, stem, newest))
        return gymnasium.spec(name)
    raise UsageError(_describe_unknown(name, module))


def _describe_unknown(name: str, module: str) -> str:
    """Returns a message of at most two lines about an id that no module has registered.

    Args:
      name: The id.
      module: The module that was named with it; empty if none was.
    """
    unknown = f"unknown environment '{name}'"
    if not module:
        return (
            f"{unknown}{did_you_mean(name, gymnasium.registry)}\n"
            f"name an environment of another package with its module, as in my_module:{name}"
        )
    package = f"{module.partition('.')[0]}."
    own = [
        id
        for id, spec in gymnasium.registry.items()
        if f"{module_of(spec.entry_point)}.".startswith(package)
    ]
    listed = f"{module} registers {', '.join(own[:5])}{', ...' if own[5:] else ''}"
    nearest = did_you_mean(name, own or dir(sys.modules[module]))
    return f"{unknown}{nearest}\n{listed if own else f'{module} registers no environments'}"


def _check_entry_point(spec: EnvSpec) -> None:
    """Raises UsageError if a package is not installed, or the environment was removed."""
    for family in FAMILIES:
        if _has_prefix(spec, family.entry_point_prefix):
            family.check_packages(spec.id)
    # Gymnasium keeps the ids of environments that it has removed; making them raises.
    if module_of(spec.entry_point) == "gymnasium.envs":
        newest = registration.find_highest_version(spec.namespace, spec.name)
        hint = f"; use '{registration.get_env_id(spec.namespace, spec.name, newest)}'"
        raise UsageError(
            f"environment '{spec.id}' is no longer part of Gymnasium{'' if newest == spec.version else hint}"
        )


def _make_new(spec: EnvSpec, kwargs: dict[str, Any]) -> Env:
    """Makes an environment.

    Raises:
      UsageError: It was made before: two rows, or training and evaluation, would share it.
    """
    if _has_prefix(spec, mujoco.PREFIX):
        mujoco.show_warnings_once()
    env = gymnasium.make(spec, disable_env_checker=True, **kwargs)
    inner = env.unwrapped
    if _made.get(id(inner)) is inner:
        raise UsageError(
            f"env '{spec.id}': the function returned the same environment twice\n"
            "make a new environment in each call"
        )
    _made[id(inner)] = inner
    if _has_prefix(spec, bullet.PREFIX):
        bullet.connect(inner)
    return env


def _has_prefix(spec: EnvSpec, prefix: str | tuple[str, ...]) -> bool:
    return isinstance(spec.entry_point, str) and spec.entry_point.startswith(prefix)


def _unexpected_kwargs(error: TypeError, env: str, env_kwargs: dict[str, Any]) -> UsageError | None:
    """Translates an error about arguments of the constructor; None for any other error."""
    match = re.search(r"unexpected keyword argument '(\w+)'|missing \d+ required .*", str(error))
    if match is None or (match[1] and match[1] not in env_kwargs):
        return None
    problem = match[0].partition(" was raised from")[0]
    return UsageError(f"env_kwargs: the constructor of '{env}' does not take them: {problem}")


def _apply_wrapper(env: Env, name: str, setting: str) -> Env:
    place = f"{setting} '{name}'"
    wrapped = call(load_function(name, setting), place, env)
    if not isinstance(wrapped, gymnasium.Env):
        raise UsageError(
            f"{place} must return an environment of Gymnasium, got {type(wrapped).__name__}"
        )
    return wrapped
