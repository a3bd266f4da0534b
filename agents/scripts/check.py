"""Checks an environment: `python -m agents.scripts.check my_module:MyEnv-v0`."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, create_model

from agents import stop_signals
from agents.backends.backend import make_backend
from agents.command_line.parser import parse_command
from agents.command_line.reports import run
from agents.environments.inspection import Experience, Finding, Inspection, inspect_env
from agents.environments.registration import make_env
from agents.errors import EnvironmentFailure, UsageError, first_line
from agents.settings.config import Config
from agents.settings.config_file import load_config

EXAMPLES = """\
examples:
  agents check my_module:MyEnv-v0
  agents check Pendulum-v1 --random-steps=10000
  agents check my_module:make_env --env-wrappers=agents.tools.wrappers:RangeNormalize"""

# The settings of an experiment that an environment depends on.
_SETTINGS = (
    "env_kwargs", "reset_options", "max_episode_steps", "action_repeat", "env_wrappers", "action_mask", "seed",
)  # fmt: skip
_fields: Any = {
    name: (Config.model_fields[name].annotation, Config.model_fields[name]) for name in _SETTINGS
}


class CheckOptions(BaseModel):
    """Checks an environment by random steps, and says what to change before it is trained on.

    Runs Gymnasium's checker; then checks seeds, time limit, and the scales of observations, rewards
    and actions, in this process and in a worker process.
    """

    model_config = ConfigDict(extra="forbid")
    settings: ClassVar[type[BaseModel]] = create_model("EnvSettings", **_fields)

    environment: tuple[str, ...] = Field(
        title="ENV",
        min_length=1,
        max_length=1,
        description="Environment, as the setting env takes it.",
    )
    random_steps: int = Field(
        2000, ge=1, le=10**8, description="Random steps that the environment is judged by."
    )


def main(arguments: list[str]) -> None:
    """Runs the command; the exit code is 1 if there are errors."""
    options, settings = parse_command(
        CheckOptions,
        arguments,
        program="agents check",
        settings=CheckOptions.settings,
        examples=EXAMPLES,
    )
    [env] = options.environment
    config = load_config("default", **{**settings, "env": env, "env_backend": "process"})
    with stop_signals.handling("the check stops"), stop_signals.interruptible():
        inspection = inspect(config, options.random_steps)
        findings = [*inspection.findings, *check_in_worker(config)]
    print(*describe(config.env, inspection), sep="\n")
    print(*describe_findings(findings), sep="\n")
    if any(finding.is_error for finding in findings):
        raise SystemExit(1)


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
    except (UsageError, ValueError):
        raise
    except Exception as error:
        raise UsageError(
            f"env '{config.env}' raised {type(error).__name__}: {first_line(error)}"
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


def describe(env: str, inspection: Inspection) -> list[str]:
    """Returns the lines that tell what was seen."""
    limit = inspection.time_limit
    lines = [
        env,
        f"  observations  {inspection.observation_space}",
        f"  actions       {inspection.action_space}",
        f"  time limit    {f'{limit:,} steps' if limit else 'none'}",
    ]
    return lines + (_describe_steps(inspection.experience) if inspection.experience else [])


def _describe_steps(experience: Experience) -> list[str]:
    reward, lengths = experience.reward, experience.lengths
    ended = f"{len(lengths):,} ended" if lengths else "none ended"
    if lengths:
        mean = sum(lengths) / len(lengths)
        ended += f", after {min(lengths):,} to {max(lengths):,} steps (mean {mean:,.0f})"
        ended += f", returns {min(experience.returns):.4g} to {max(experience.returns):.4g}"
    speed = 1 / experience.step_seconds
    return [
        f"  random steps  {len(reward):,}, rewards {reward.min():.4g} to {reward.max():.4g}",
        f"  episodes      {ended}",
        f"  speed         {speed:,.0f} steps/s, a reset takes {1e3 * experience.reset_seconds:.3g} ms",
    ]


def describe_findings(findings: Sequence[Finding]) -> list[str]:
    """Returns the lines that tell what to change."""
    if not findings:
        return ["Nothing to change."]
    lines = []
    for finding in findings:
        kind = "error" if finding.is_error else "warning"
        lines += [f"{kind}: {finding.problem}", f"  {finding.advice}"]
    return lines


if __name__ == "__main__":
    run(main)
