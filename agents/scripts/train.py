"""Trains an agent: `python -m agents.scripts.train --logdir=logdir --config=pendulum`."""

from __future__ import annotations

import contextlib
import sys
import tempfile
from collections.abc import Iterator

from pydantic import BaseModel, ConfigDict, Field

from agents import command_line, runs
from agents.config import Config, load_config
from agents.families import check_environment, warn_of_cut_episodes
from agents.runs.run_directory import RunDirectory
from agents.tools.errors import EnvironmentFailure, NonFiniteError

EXAMPLES = """\
examples:
  python -m agents.scripts.train --logdir=logdir --config=pendulum
  python -m agents.scripts.train --logdir=logdir --config=cartpole --seed=1 --learning-rate=1e-3
  python -m agents.scripts.train --logdir=logdir --env=my_module:MyEnv-v0 --num-envs=16
  python -m agents.scripts.train --logdir=logdir --timestamp=20260131T120000"""


class TrainOptions(BaseModel):
    """Trains an agent with PPO, evaluates it now and then, and keeps checkpoints, metrics and TensorBoard events."""

    model_config = ConfigDict(extra="forbid")

    logdir: str = Field(min_length=1, description="Folder for runs; this one gets <time>-<config> inside.")
    config: str | None = Field(
        None, description="Preset, or path of a YAML file (the defaults where nothing is given)."
    )
    timestamp: str | None = Field(None, description="The <time> of an existing run, to go on with it.")


def train(config: Config, run: RunDirectory | None = None) -> Iterator[float]:
    """Trains an agent, or goes on with a run that has checkpoints.

    Where the generator is abandoned, workers are closed and the run can be resumed.

    Args:
      config: See `agents.load_config`.
      run: Where to write; by default nothing is kept.

    Yields:
      The mean return of every evaluation.

    Raises:
      UsageError: The environment is unknown, or there is no policy for its spaces.
      EnvironmentFailure: An environment, or the process it lives in, failed.
      NonFiniteError: An observation, action, reward or loss was NaN or infinite.
    """
    spec = check_environment(config)
    warn_of_cut_episodes(config, spec)
    with contextlib.ExitStack() as stack:
        train_envs = runs.make_environments(config, spec, config.num_envs, info_keys=config.info_keys, training=True)
        stack.enter_context(contextlib.closing(train_envs))
        eval_envs = stack.enter_context(contextlib.closing(runs.make_environments(config, spec, config.eval_episodes)))
        if run:
            see = f"{command_line.interpreter()} -m tensorboard.main --logdir={run.path.parent}"
            print(f"Training in {run.path}; see it with: {see}", file=sys.stderr)
        run = run or RunDirectory(stack.enter_context(tempfile.TemporaryDirectory()))
        if not run.config_file.is_file():
            run.prepare(config)
        runs.start_tensorflow(config.threads)
        learner = runs.Learner(train_envs, eval_envs, config)
        checkpoints = runs.Checkpoints(run.checkpoints, learner.variables())
        checkpoints.load()
        run.prepare(config)  # Settings of a resumed run may have changed; now they are known to fit its checkpoint.
        metrics = stack.enter_context(contextlib.closing(runs.Metrics(run, learner.step)))
        console = stack.enter_context(contextlib.closing(runs.Console(config.steps, learner.step)))
        metrics.config(config.model_dump())
        learner.begin_episodes()
        while learner.step < config.steps:
            learner.iterate()
            step, due = learner.step, learner.due
            if due(config.checkpoint_interval) or due(config.log_interval):
                scalars = learner.report()
                metrics.scalars(step, scalars)
                console.update(step, scalars)
            if due(config.histogram_interval):
                metrics.histograms(step, learner.arrays())
            if due(config.eval_interval):
                score, is_best = learner.evaluate()
                metrics.scalars(step, score)
                console.evaluated(step, learner.rate, score)
                if is_best:
                    checkpoints.save(step, best=True)
                yield score["eval/return_mean"]
            if due(config.checkpoint_interval):
                checkpoints.save(step)
                learner.begin_episodes()


def main(arguments: list[str]) -> None:
    """Runs the command."""
    options, overrides = command_line.parse_command(
        TrainOptions, arguments, program="python -m agents.scripts.train", settings=Config, examples=EXAMPLES
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
        again = f"-m agents.scripts.train --logdir={options.logdir} --timestamp={run.timestamp}"
        print(f"To go on from the last checkpoint: {command_line.interpreter()} {again}", file=sys.stderr)
        raise SystemExit(130 if interrupted else 1) from None
    ended = "This run had ended already" if score is None else f"The last evaluation gave {score:.1f}"
    watch = f"-m agents.scripts.visualize --logdir={run.path} --outdir={run.path / 'videos'}"
    print(f"{ended}. Watch it with: {command_line.interpreter()} {watch}")


if __name__ == "__main__":
    command_line.run(main)
