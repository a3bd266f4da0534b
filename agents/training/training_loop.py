"""The training loop: iterate, log, evaluate, checkpoint."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from agents import stop_signals
from agents.graph.in_graph_env import InGraphEnv
from agents.settings.config import Config
from agents.training.algorithms import find_algorithm
from agents.training.checkpoint import Checkpoints
from agents.training.console import Console
from agents.training.final_checkpoint import FinalCheckpoint
from agents.training.learner import Learner
from agents.training.metrics import Metrics, read_metrics
from agents.training.run_directory import RunDirectory
from agents.types import VectorEnv


def training_loop(
    config: Config,
    run: RunDirectory,
    train_envs: VectorEnv | InGraphEnv,
    eval_envs: VectorEnv | InGraphEnv,
) -> Iterator[float]:
    """Trains from the run's last checkpoint, or from the start, to the last step.

    An interrupt (Ctrl-C, or a signal to the command) saves a final checkpoint of the last finished
    iteration: a run that resumes from it equals one that never stopped if a checkpoint was due
    there. Otherwise the rollout under way is lost, and all environments start new episodes.

    Args:
      config: The experiment.
      run: Where checkpoints, metrics and events are written.
      train_envs: Environments to learn from.
      eval_envs: Environments to evaluate in, one per episode.

    Yields:
      The mean return of every evaluation.

    Raises:
      UsageError: The checkpoint does not fit the configuration, or there is no policy for the
        environment's spaces.
      EnvironmentFailure: An environment, or the process that hosts it, failed.
      NonFiniteError: An observation, action, reward or loss was NaN or infinite.
    """
    with stop_signals.interruptible():
        learner = Learner(train_envs, eval_envs, find_algorithm(config.algorithm), config)
        checkpoints = Checkpoints(run.checkpoints, learner.variables())
        resumes = checkpoints.load()
    # Settings of a resumed run may have changed; they are known to fit its checkpoint now.
    run.prepare(config)
    with (
        contextlib.closing(Metrics(run, learner.step)) as metrics,
        contextlib.closing(Console(config.steps, learner.step)) as console,
        FinalCheckpoint(learner, checkpoints, learner.step if resumes else None) as final,
    ):
        metrics.config(config.model_dump())
        _begin_episodes(learner)
        # Training may have been stopped in the evaluation after the iteration that was saved.
        lacks_evaluation = learner.due(config.eval_interval) and not _is_evaluated(
            run, learner.step
        )
        while lacks_evaluation or learner.step < config.steps:
            due = learner.due
            if not lacks_evaluation:
                with final.section("iteration"):
                    learner.iterate()
                if due(config.checkpoint_interval) or due(config.log_interval):
                    scalars = learner.report()
                    metrics.scalars(learner.step, scalars)
                    console.update(learner.step, scalars)
                if due(config.histogram_interval):
                    metrics.histograms(learner.step, learner.arrays())
            lacks_evaluation, step = False, learner.step
            if due(config.eval_interval):
                progress = console.evaluation(step, config.eval_episodes)
                with final.section("evaluation"):
                    score, is_best = learner.evaluate(progress)
                metrics.scalars(step, score)
                console.evaluated(step, learner.rate, score)
                if is_best:
                    checkpoints.save(step, best=True)
                yield score["eval/return_mean"]
            if due(config.checkpoint_interval):
                if checkpoints.save(step):
                    final.saved_step = step
                _begin_episodes(learner)


def _begin_episodes(learner: Learner) -> None:
    """Starts new episodes in all environments, which may take long."""
    with stop_signals.graph_call():
        learner.begin_episodes()


def _is_evaluated(run: RunDirectory, step: int) -> bool:
    """Whether the metrics hold an evaluation at `step`."""
    rows = read_metrics(run.metrics_file)
    return any(row["step"] == step and "eval/return_mean" in row for row in rows)
