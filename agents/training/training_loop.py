"""The training loop: iterate, log, evaluate, checkpoint."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

from agents.graph.in_graph_env import InGraphEnv
from agents.settings.config import Config
from agents.storage.checkpoint import Checkpoints
from agents.storage.metrics import Metrics
from agents.storage.run_directory import RunDirectory
from agents.training.algorithms import find_algorithm
from agents.training.console import Console
from agents.training.learner import Learner
from agents.types import VectorEnv


def training_loop(
    config: Config,
    run: RunDirectory,
    train_envs: VectorEnv | InGraphEnv,
    eval_envs: VectorEnv | InGraphEnv,
) -> Iterator[float]:
    """Trains from the run's last checkpoint, or from the start, to the last step.

    Args:
      config: The experiment.
      run: Where checkpoints, metrics and events are written.
      train_envs: Environments to learn from.
      eval_envs: Environments to evaluate in, one per episode.

    Yields:
      The mean return of every evaluation.

    Raises:
      UsageError: No checkpoint is intact, or it does not fit the configuration, or there is no policy for the
        environment's spaces.
      EnvironmentFailure: An environment, or the process that hosts it, failed.
      NonFiniteError: An observation, action, reward or loss was NaN or infinite.
    """
    learner = Learner(train_envs, eval_envs, find_algorithm(config.algorithm), config)
    checkpoints = Checkpoints(run.checkpoints, learner.variables())
    # By the end of the iteration in which the first checkpoint is due.
    if run.is_started(config.checkpoint_interval + config.num_envs * config.rollout_length):
        checkpoints.load(required=True)
        print(f"Resuming {run.path} from step {learner.step:,}", file=sys.stderr)
    # Settings of a resumed run may have changed; they are known to fit its checkpoint now.
    run.prepare(config)
    with (
        contextlib.closing(Metrics(run, learner.step)) as metrics,
        contextlib.closing(Console(config.steps, learner.step)) as console,
    ):
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
                if is_best and not checkpoints.save(step, best=True):
                    learner.revoke_best()
                yield score["eval/return_mean"]
            if due(config.checkpoint_interval):
                checkpoints.save(step)
                learner.begin_episodes()
