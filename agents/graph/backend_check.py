"""Inspects the environment of an experiment, in this process and in a worker."""

from __future__ import annotations

from agents.environments.inspection import Finding, Inspection, inspect_env
from agents.environments.registration import make_env
from agents.errors import EnvironmentFailure, first_line
from agents.graph.backend import make_backend
from agents.own_copy import own_copy
from agents.settings.config import Config
from agents.settings.entry_points import call
from agents.types import Env


def inspect(config: Config, num_steps: int) -> Inspection:
    """Inspects the environment of an experiment in this process.

    Raises:
      UsageError: The environment does not exist, can't be made, or raises.
      UnsupportedSpaceError: There is no network or policy for a space.
    """
    spec = make_backend(config).check()

    def make() -> Env:
        return make_env(
            spec,
            own_copy(config.env_kwargs),
            config.max_episode_steps,
            config.action_repeat,
            config.env_wrappers,
            config.action_mask,
            reset_options=config.reset_options,
        )

    settings = num_steps, config.seed, config.reset_options, config.action_mask
    inspection: Inspection = call(inspect_env, f"env '{config.env}'", make, *settings)
    return inspection


def check_in_worker(config: Config) -> list[Finding]:
    """Checks that a worker process can make and reset the environment."""
    backend = make_backend(config)
    try:
        envs = backend.make(backend.check(), num_envs=1)
        try:
            envs.reset(seed=config.seed)
        finally:
            envs.close()
    except EnvironmentFailure as error:
        advice = "import everything that the environment needs in its module, or use --env-backend=inline"
        return [Finding(True, f"in a worker process: {first_line(error)}", advice)]
    return []
