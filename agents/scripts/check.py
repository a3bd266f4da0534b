"""Checks an environment: `python -m agents.scripts.check my_module:MyEnv-v0`."""

from __future__ import annotations

import sys
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, create_model

from agents import stop_signals
from agents.environments.inspection import describe, describe_findings
from agents.graph.backend import make_backend
from agents.graph.backend_check import check_in_worker, inspect
from agents.settings.config import Config
from agents.settings.config_file import load_config
from agents.settings.parser import parse_command
from agents.settings.reports import run, say

EXAMPLES = """\
examples:
  agents check my_module:MyEnv-v0
  agents check Pendulum-v1 --random-steps=10000
  agents check my_module:make_env --env-wrappers=agents.tools.wrappers:RangeNormalize

Guide: docs/guides/environments.md"""

# The settings of an experiment that an environment depends on.
_SETTINGS = (
    "env_kwargs", "reset_options", "max_episode_steps", "action_repeat", "env_wrappers", "action_mask", "seed",
)  # fmt: skip
_fields: Any = {
    name: (Config.model_fields[name].annotation, Config.model_fields[name]) for name in _SETTINGS
}


class CheckOptions(BaseModel):
    """Checks an environment with random steps, and reports what to change before training.

    It runs Gymnasium's checker, and checks seeds, time limit, and the scales of observations,
    rewards and actions. Then a worker process makes and resets the environment.
    """

    model_config = ConfigDict(extra="forbid")
    settings: ClassVar[type[BaseModel]] = create_model("EnvSettings", **_fields)

    environment: tuple[str, ...] = Field(
        title="ENV",
        min_length=1,
        max_length=1,
        description="Gymnasium id, my_module:MyEnv-v0, or my_module:make_env.",
    )
    random_steps: int = Field(2000, ge=1, le=10**6, description="Number of random steps to take.")


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
        make_backend(config).check()
        say(f"Checking {env} with {options.random_steps:,} random steps", file=sys.stderr)
        inspection = inspect(config, options.random_steps)
        findings = list(inspection.findings)
        if not any(finding.is_error for finding in findings):  # The worker would report them again.
            findings += check_in_worker(config)
    say(*describe(config.env, inspection), *describe_findings(findings))
    if any(finding.is_error for finding in findings):
        raise SystemExit(1)


if __name__ == "__main__":
    run(main)
