"""Checks an environment: `python -m agents.scripts.check my_module:MyEnv-v0`."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar, Literal, cast

from pydantic import BaseModel, ConfigDict, Field, create_model

from agents import stop_signals
from agents.environments.inspection import (
    Finding,
    Inspection,
    describe,
    describe_findings,
    inspect_env,
)
from agents.environments.registration import make_env
from agents.errors import EnvironmentFailure, first_line
from agents.graph.backend import EnvBackend, make_backend
from agents.own_copy import own_copy
from agents.settings.config import Config
from agents.settings.config_file import load_config
from agents.settings.entry_points import call
from agents.settings.parser import parse_command
from agents.settings.reports import run, say
from agents.types import Env

if TYPE_CHECKING:
    from gymnasium.envs.registration import EnvSpec

    from agents.graph.in_graph_env import InGraphEnv

EXAMPLES = """\
examples:
  agents check my_module:MyEnv-v0
  agents check my_module:MyTensorEnv-v0 --env-backend=tf

Guide: docs/guides/environments.md"""

# Without a result for so long, the check tells where it is.
REPORT_SECONDS = 10.0
# The settings of an experiment that an environment depends on.
_SETTINGS = (
    "env_kwargs", "reset_options", "max_episode_steps", "action_repeat", "env_wrappers", "action_mask", "seed",
)  # fmt: skip
_fields: Any = {
    name: (Config.model_fields[name].annotation, Config.model_fields[name]) for name in _SETTINGS
}


class CheckOptions(BaseModel):
    """Checks an environment with random steps, and reports what to change before training.

    It runs Gymnasium's checker. Then a worker process makes and resets the environment.
    """

    model_config = ConfigDict(extra="forbid")
    settings: ClassVar[type[BaseModel]] = create_model("EnvSettings", **_fields)

    environment: tuple[str, ...] = Field(
        title="ENV",
        min_length=1,
        max_length=1,
        description="Gymnasium id, my_module:MyEnv-v0, or my_module:make_env.",
    )
    env_backend: Literal["process", "hybrid", "inline", "tf"] = Field(
        "process", description="Where it runs in training."
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
    config = load_config("default", **{**settings, "env": env, "env_backend": options.env_backend})
    with stop_signals.handling("the check stops"), stop_signals.interruptible():
        backend = make_backend(config)
        spec = backend.check()
        say(f"Checking {env} with {options.random_steps:,} random steps", file=sys.stderr)
        with _telling_place():
            inspection = inspect(config, backend, spec, options.random_steps)
        findings = list(inspection.findings)
        # The worker would report the errors again.
        has_workers = config.env_backend in ("process", "hybrid")
        if has_workers and not any(finding.is_error for finding in findings):
            findings += _check_in_worker(backend, spec, config.seed)
    # A batch in TensorFlow is many times as fast as one environment.
    lines = describe(config.env, inspection, with_speed=config.env_backend != "tf")
    say(*lines, *describe_findings(findings))
    if any(finding.is_error for finding in findings):
        raise SystemExit(1)


@contextlib.contextmanager
def _telling_place() -> Iterator[None]:
    """Prints every few seconds which line this thread executes: the environment may hang in it."""
    ended, checker, start = threading.Event(), threading.get_ident(), time.monotonic()

    def tell() -> None:
        while not ended.wait(REPORT_SECONDS):
            line = traceback.extract_stack(sys._current_frames()[checker])[-1]
            say(
                f"Checking for {time.monotonic() - start:.0f} s, now in {line.name} ({line.filename}, "
                f"line {line.lineno}); Ctrl-C stops it",
                file=sys.stderr,
            )

    threading.Thread(target=tell, daemon=True).start()
    try:
        yield
    finally:
        ended.set()


def inspect(config: Config, backend: EnvBackend, spec: EnvSpec, num_steps: int) -> Inspection:
    """Inspects the environment of an experiment in this process.

    Args:
      config: The experiment.
      backend: Its backend.
      spec: The backend's specification of the environment.
      num_steps: Random steps to take.

    Raises:
      UsageError: The environment can't be made, or raises.
      UnsupportedSpaceError: There is no network or policy for a space.
    """

    def make() -> Env:
        if config.env_backend == "tf":
            envs = cast("InGraphEnv", backend.make(spec, num_envs=1))
            from agents.graph.one_env import OneEnv  # After TensorFlow's start, which is quiet.

            return OneEnv(envs, spec, config.max_episode_steps)
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


def _check_in_worker(backend: EnvBackend, spec: EnvSpec, seed: int) -> list[Finding]:
    """Checks that a worker process can make and reset the environment."""
    try:
        with contextlib.closing(backend.make(spec, num_envs=1)) as envs:
            envs.reset(seed=seed)
    except EnvironmentFailure as error:
        advice = "import everything that the environment needs in its module, or use --env-backend=inline"
        return [Finding(True, f"in a worker process: {first_line(error)}", advice)]
    return []


if __name__ == "__main__":
    run(main)
