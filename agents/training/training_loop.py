"""The training loop: iterate, log, evaluate, checkpoint."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

from agents import stop_signals
from agents.deployment.space_json import save_spaces
from agents.deployment.trained_policy import TrainedPolicy
from agents.graph.in_graph_env import InGraphEnv
from agents.settings.config import Config
from agents.storage.checkpoint import Checkpoints
from agents.storage.metrics import Metrics
from agents.storage.run_directory import RunDirectory
from agents.training.algorithms import find_algorithm
from agents.training.console import Console
from agents.training.evaluation_score import EvaluationScore
from agents.training.final_checkpoint import FinalCheckpoint
from agents.training.learner import Learner
from agents.types import VectorEnv


def training_loop(
    config: Config,
    run: RunDirectory,
    train_envs: VectorEnv | InGraphEnv,
    eval_envs: VectorEnv | InGraphEnv,
) -> Iterator[EvaluationScore]:
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
      The score of every evaluation.

    Raises:
      UsageError: No checkpoint is intact, or it does not fit the configuration, or there is no policy for the
        environment's spaces.
      EnvironmentFailure: An environment, or the process that hosts it, failed.
      NonFiniteError: An observation, action, reward or loss was NaN or infinite.
    """
    with stop_signals.interruptible():
        learner = Learner(train_envs, eval_envs, find_algorithm(config.algorithm), config)
        checkpoints = Checkpoints(run.checkpoints, learner.variables())
        # By the end of the iteration in which the first checkpoint is due.
        resumes = run.is_started(
            config.checkpoint_interval + config.num_envs * config.rollout_length
        )
        if resumes:
            checkpoints.load(required=True)
            print(f"Resuming {run.path} from step {learner.step:,}", file=sys.stderr)
    # Settings of a resumed run may have changed; they are known to fit its checkpoint now.
    run.prepare(config)
    with contextlib.suppress(OSError):  # A full disk: `load_policy` can do without.
        save_spaces(run.spaces_file, *learner.spaces)
    due = learner.due
    with (
        contextlib.closing(Metrics(run, learner.step)) as metrics,
        contextlib.closing(Console(config.steps, learner.step)) as console,
        _writing_restarts(metrics, learner),
        FinalCheckpoint(learner, checkpoints, learner.step if resumes else None) as final,
    ):

        def evaluate() -> EvaluationScore:
            with final.section("evaluation"):
                score, is_best = learner.evaluate(
                    console.evaluation(learner.step, config.eval_episodes)
                )
            metrics.scalars(learner.step, score)
            console.evaluated(learner.step, learner.rate, score)
            if is_best and not checkpoints.save(learner.step, best=True):
                learner.revoke_best()
            return EvaluationScore(
                score, learner.step, is_best, run.path, lambda: _policy(learner, config)
            )

        metrics.config(config.model_dump())
        _begin_episodes(learner)
        if due(config.eval_interval) and not metrics.has_evaluation(learner.step):
            yield evaluate()  # Training was stopped in it.
        while learner.step < config.steps:
            with final.section("iteration"):
                learner.iterate()
            _log(config, learner, metrics, console)
            if due(config.eval_interval):
                yield evaluate()
            if due(config.checkpoint_interval):
                if checkpoints.save(learner.step):
                    final.saved_step = learner.step
                _begin_episodes(learner)


def _policy(learner: Learner, config: Config) -> TrainedPolicy:
    return TrainedPolicy(learner.policy, *learner.spaces, config)


def _begin_episodes(learner: Learner) -> None:
    """Starts new episodes in all environments, which may take long."""
    with stop_signals.graph_call():
        learner.begin_episodes()


def _log(config: Config, learner: Learner, metrics: Metrics, console: Console) -> None:
    """Writes what is due after an iteration, and any restarts of environments."""
    step, due = learner.step, learner.due
    metrics.restarts(step, learner.take_restarts())
    if due(config.checkpoint_interval) or due(config.log_interval):
        scalars = learner.report()
        metrics.scalars(step, scalars)
        console.update(step, scalars)
    if due(config.histogram_interval):
        metrics.histograms(step, learner.arrays())


@contextlib.contextmanager
def _writing_restarts(metrics: Metrics, learner: Learner) -> Iterator[None]:
    """Writes the restarts of an iteration that failed, too."""
    try:
        yield
    finally:
        metrics.restarts(learner.step, learner.take_restarts())
