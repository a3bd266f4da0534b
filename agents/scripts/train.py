"""Trains an agent: `python -m agents.scripts.train --logdir=logdir --config=pendulum`."""

from __future__ import annotations

import contextlib
import sys
import tempfile
from collections.abc import Iterator

from pydantic import BaseModel, ConfigDict, Field

from agents.backends.backend import make_backend
from agents.errors import EnvironmentFailure, NonFiniteError
from agents.settings import command_line
from agents.settings.config import Config
from agents.settings.config_file import load_config
from agents.storage.run_directory import RunDirectory
from agents.tensorflow_setup import start_tensorflow
from agents.training.episode_cuts import warn_of_cut_episodes

EXAMPLES = """\
examples:
  python -m agents.scripts.train --logdir=logdir --config=pendulum
  python -m agents.scripts.train --logdir=logdir --config=cartpole --seed=1 --learning-rate=1e-3
  python -m agents.scripts.train --logdir=logdir --env=my_module:MyEnv-v0 --num-envs=16
  python -m agents.scripts.train --logdir=logdir --timestamp=20260131T120000"""


class TrainOptions(BaseModel):
    """Trains an agent, evaluates it regularly, and writes checkpoints, metrics and events."""

    model_config = ConfigDict(extra="forbid")

    logdir: str = Field(
        min_length=1, description="Folder for runs; this run creates <time>-<config> in it."
    )
    config: str | None = Field(
        None,
        min_length=1,
        description="Preset or path of a YAML file; by default the preset 'default'.",
    )
    timestamp: str | None = Field(
        None,
        min_length=1,
        description="The <time> of a run in logdir to resume from its last checkpoint.",
    )


def train(config: Config, run: RunDirectory | None = None) -> Iterator[float]:
    """Trains an agent, or resumes a run that has checkpoints.

    Abandoning the generator closes the environments; the run can be resumed.

    Args:
      config: The experiment, see `agents.load_config`.
      run: Where to write; by default nothing is kept.

    Yields:
      The mean return of every evaluation.

    Raises:
      UsageError: The environment is unknown, or there is no policy for its spaces; another process
        trains the run, or it can't be resumed with these settings.
      EnvironmentFailure: An environment, or the process that hosts it, failed.
      NonFiniteError: An observation, action, reward or loss was NaN or infinite.
    """
    with contextlib.ExitStack() as stack:
        if run:
            stack.enter_context(run.locked(config))
        backend = make_backend(config)
        spec = backend.check()
        warn_of_cut_episodes(config, spec)
        train_envs = backend.make(spec, config.num_envs, info_keys=config.info_keys, training=True)
        stack.enter_context(contextlib.closing(train_envs))
        eval_envs = backend.make(spec, config.eval_episodes)
        stack.enter_context(contextlib.closing(eval_envs))
        if run:
            tensorboard = f"{command_line.interpreter()} -m tensorboard.main"
            see = f"see it with: {tensorboard} --logdir={run.path.parent}"
            print(f"Training in {run.path}; {see}", file=sys.stderr)
        run = run or RunDirectory(stack.enter_context(tempfile.TemporaryDirectory()))
        if not run.config_file.exists():
            run.prepare(config)
        start_tensorflow(config.threads)
        from agents.training.training_loop import training_loop

        yield from training_loop(config, run, train_envs, eval_envs)


def main(arguments: list[str]) -> None:
    """Runs the command."""
    options, overrides = command_line.parse_command(
        TrainOptions,
        arguments,
        program="python -m agents.scripts.train",
        settings=Config,
        examples=EXAMPLES,
    )
    name = options.config or "default"
    if options.timestamp:
        run = RunDirectory.existing(options.logdir, options.timestamp, options.config)
        config = run.load_config(**overrides)
    else:
        config = load_config(name, **overrides)
        run = RunDirectory.new(options.logdir, name)
    score = None
    try:
        for score in train(config, run):  # noqa: B007 - The last one is reported.
            pass
    except (KeyboardInterrupt, EnvironmentFailure, NonFiniteError) as error:
        interrupted = isinstance(error, KeyboardInterrupt)
        print("Interrupted." if interrupted else f"error: {error}", file=sys.stderr)
        resume = f"-m agents.scripts.train --logdir={options.logdir} --timestamp={run.timestamp}"
        interpreter = command_line.interpreter()
        print(f"To resume from the last checkpoint: {interpreter} {resume}", file=sys.stderr)
        raise SystemExit(130 if interrupted else 1) from None
    result = f"The last evaluation gave {score:.1f}" if score is not None else "Nothing left to do"
    watch = f"-m agents.scripts.visualize --logdir={run.path} --outdir={run.path / 'videos'}"
    print(f"{result}. Watch it with: {command_line.interpreter()} {watch}")


if __name__ == "__main__":
    command_line.run(main)
