"""Inspects the environment of an experiment, in this process and in a worker."""

from __future__ import annotations

import functools
import traceback

from agents.backends.backend import make_backend
from agents.environments.inspection.finding import Finding
from agents.environments.inspection.inspection import Inspection, inspect_env
from agents.environments.registration import make_env
from agents.errors import EnvironmentFailure, UsageError, first_line
from agents.settings.config import Config


def inspect(config: Config, num_steps: int) -> Inspection:
    """Inspects the environment of an experiment in this process.

    Raises:
      UsageError: The environment does not exist, or can't be made.
      UnsupportedSpaceError: There is no network or policy for a space.
    """
    spec = make_backend(config).check()
    make = functools.partial(
        make_env,
        spec,
        config.env_kwargs,
        config.max_episode_steps,
        config.action_repeat,
        config.env_wrappers,
        reset_options=config.reset_options,
    )
    try:
        return inspect_env(make, num_steps, config.seed)
    except UsageError:
        raise
    except Exception as error:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        raise UsageError(
            f"env '{config.env}' raised {type(error).__name__}: {first_line(error)}\n"
            f"({frame.filename}, line {frame.lineno}: {frame.line})"
        ) from error


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
        advice = "import in the environment's module whatever it needs; --env-backend=inline does without workers"
        return [Finding(True, f"in a worker process: {first_line(error)}", advice)]
    return []
