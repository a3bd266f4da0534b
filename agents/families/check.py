"""What can be known about an experiment's environment before one is made."""

from __future__ import annotations

import contextlib
import warnings
from typing import TYPE_CHECKING

from agents.families import dm_control
from agents.families.family import DM_CONTROL, FAMILIES
from agents.named import import_module, load_function
from agents.tools.errors import UsageError
from agents.validation import did_you_mean

if TYPE_CHECKING:
    from gymnasium.envs.registration import EnvSpec

    from agents.config import Config


def check_environment(config: Config) -> EnvSpec:
    """Looks up the environment of an experiment and what it needs, without making it and without TensorFlow.

    Args:
      config: The experiment; the modules named in its `env` and its wrappers are imported.

    Returns:
      Gymnasium's specification of the environment, or that of `agents.envs`; little more than its name where it is
      EnvPool's.

    Raises:
      UsageError: The module, the environment, a package that it needs or a wrapper is missing, told in at most three
        lines; or the backend can't do what a setting says.
    """
    _check_wrappers(config)
    if config.env_backend == "envpool":
        from gymnasium.envs.registration import EnvSpec

        from agents.tools.env_pool import check_env_pool

        check_env_pool(config.env, config.env_kwargs, config.action_repeat)
        return EnvSpec(config.env)
    if config.env_backend == "tf":
        return _find_tensor_environment(config)
    if config.env.startswith(DM_CONTROL.begins):
        DM_CONTROL.check_packages(config.env)
        return dm_control.find_spec(config.env)
    module, _, name = config.env.rpartition(":")
    if module or name != config.env:
        import_module(module, f"env '{config.env}'")
    for family in FAMILIES:
        if family.registers(name):
            family.check_packages(name)
            import_module(family.module, f"env '{config.env}'")
    spec = _find_spec(name)
    if spec.entry_point is None:
        raise UsageError(f"environment '{name}' only exists as a vector of environments, which can't be used here")
    _check_entry_point(spec)
    return spec


def warn_of_cut_episodes(config: Config, spec: EnvSpec) -> None:
    """Warns where checkpoints leave no time for a whole episode, so that the rest of it would never be learned from."""
    limit = (config.max_episode_steps or spec.max_episode_steps or 0) // config.action_repeat
    steps = config.checkpoint_interval // config.num_envs
    if steps < limit and config.checkpoint_interval < config.steps:
        warnings.warn(
            f"checkpoint_interval {config.checkpoint_interval} cuts episodes after {steps} steps of each of the "
            f"{config.num_envs} environments, and they may last {limit}: nothing is learned about the rest; expected "
            f"at least {limit * config.num_envs}, better some times that",
            stacklevel=3,
        )


def _check_wrappers(config: Config) -> None:
    """Raises UsageError for wrappers that are missing, or that this backend's environments don't take."""
    for setting in ("env_wrappers", "train_wrappers"):
        names = getattr(config, setting)
        if names and config.env_backend in ("envpool", "tf"):
            raise UsageError(
                f"{setting}: environments with env_backend '{config.env_backend}' take no wrappers\n"
                "leave them out, or use env_backend process"
            )
        for name in names:
            load_function(name, setting)


def _find_tensor_environment(config: Config) -> EnvSpec:
    """The specification of an environment in TensorFlow's graph."""
    from agents.envs import registration
    from agents.runs.tensorflow_setup import quiet_tensorflow

    if config.info_keys:
        raise UsageError("info_keys: environments with env_backend 'tf' have no infos; expected no keys")
    module, _, name = config.env.rpartition(":")
    if module or name != config.env:
        with quiet_tensorflow():  # A module with environments in TensorFlow imports that.
            import_module(module, f"env '{config.env}'")
    return registration.find_spec(name)


def _find_spec(name: str) -> EnvSpec:
    """Gymnasium's specification for an id without a module; the newest version where the id has none."""
    import gymnasium
    from gymnasium.envs import registration

    with contextlib.suppress(gymnasium.error.Error), warnings.catch_warnings():
        # Gymnasium warns about versions that are not the newest; an experiment may want the old one.
        warnings.simplefilter("ignore")
        namespace, stem, version = registration.parse_env_id(name)
        if version is None and name not in gymnasium.registry:
            newest = registration.find_highest_version(namespace, stem)
            return gymnasium.spec(registration.get_env_id(namespace, stem, newest))
        return gymnasium.spec(name)
    raise UsageError(f"unknown environment '{name}'{did_you_mean(name, gymnasium.registry)}")


def _check_entry_point(spec: EnvSpec) -> None:
    """Raises where a package that the environment needs isn't installed, or can't be any more."""
    from gymnasium.envs import registration

    if isinstance(spec.entry_point, str):
        for family in FAMILIES:
            if spec.entry_point.startswith(family.prefix):
                family.check_packages(spec.id)
        return
    # Gymnasium keeps the ids of environments that it has retired; making them raises.
    if getattr(spec.entry_point, "__module__", None) == "gymnasium.envs":
        newest = registration.find_highest_version(spec.namespace, spec.name)
        hint = f"; use '{registration.get_env_id(spec.namespace, spec.name, newest)}'"
        raise UsageError(
            f"environment '{spec.id}' is no longer part of Gymnasium{'' if newest == spec.version else hint}"
        )
