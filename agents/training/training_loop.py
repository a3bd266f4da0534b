"""The training loop: iterate, log, evaluate, checkpoint; and that of learners that follow the chief."""

from __future__ import annotations

import contextlib
import functools
import json
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from agents import stop_signals
from agents.deployment.policy_function import graph_of
from agents.deployment.space_json import spaces_to_json
from agents.deployment.trained_policy import TrainedPolicy, single_spaces
from agents.errors import CheckpointError, UsageError, first_line
from agents.graph.in_graph_env import InGraphEnv
from agents.learning.reduction import SINGLE_LEARNER, Reducer
from agents.policies.policy import check_size
from agents.regular_files import write_atomically
from agents.runs.checkpoint import Checkpoints
from agents.runs.checkpoint_files import find_files, newest_intact
from agents.runs.metrics import Metrics
from agents.runs.run_directory import RunDirectory
from agents.settings.config import Config
from agents.settings.reports import say, version
from agents.training.console import Console
from agents.training.evaluation import EvaluationScore
from agents.training.find_algorithm import find_algorithm
from agents.training.learner import Learner
from agents.training.training_recorder import TrainingRecorder
from agents.training.unfit_settings import warn_of_unfit_settings
from agents.types import VectorEnv

if TYPE_CHECKING:
    from agents.runs.wandb_tracker import WandbTracker


def training_loop(
    config: Config,
    run: RunDirectory,
    train_envs: VectorEnv | InGraphEnv,
    eval_envs: VectorEnv | InGraphEnv,
    command: str = "",
    tracker: WandbTracker | None = None,
    on_start: Callable[[], None] = lambda: None,
    reducer: Reducer = SINGLE_LEARNER,
) -> Iterator[EvaluationScore]:
    """Trains from the run's last checkpoint, or from the start, to the last step.

    An interrupt (Ctrl-C, or a signal to the command) saves a final checkpoint of the last finished
    iteration, as does closing the iterator. A run that resumes from it equals one that never stopped
    if a checkpoint was due there. Otherwise the rollout under way is lost, and all environments
    start new episodes.

    Args:
      config: The experiment.
      run: Where checkpoints, metrics and events are written.
      train_envs: Environments to learn from; of several learners, the chief's part.
      eval_envs: Environments to evaluate in, one per episode.
      command: The command that trains, to record in the run.
      tracker: Another receiver of the metrics.
      on_start: Called once training can begin, after all that a UsageError may refuse.
      reducer: Combines this learner, the chief, with the others; see `follow`.

    Yields:
      The score of every evaluation.

    Raises:
      UsageError: No checkpoint is intact, or it does not fit the configuration, or there is no policy for the
        environment's spaces.
      CheckpointError: The last checkpoint could not be saved, as on a full disk.
      EnvironmentFailure: An environment, or the process that hosts it, failed.
      InvalidActionError: An action is not in the action space.
      LearnerLostError: Another learner has failed or does not answer.
      NonFiniteError: An observation, action, reward, loss, gradient or weight was NaN or infinite.
      RunLostError: The run's folder was moved, deleted or replaced.
    """
    with stop_signals.interruptible():
        make_algorithm = find_algorithm(config.algorithm)
        _check_size(config, run, train_envs)
        learner = Learner(train_envs, eval_envs, make_algorithm, config, reducer)
        record = {
            "settings": config.settings(),
            "spaces": spaces_to_json(*learner.spaces),
        }
        checkpoints = Checkpoints(
            run.checkpoints, learner.variables(), record, run.check_in_place, learner.replay
        )
        resumes = _resume(config, run, learner, checkpoints)
        logged, evaluated = _logged_steps(run, learner.step)
        reducer.copy_from_chief(learner.variables())
    # Settings of a resumed run may have changed; they are known to fit its checkpoint now.
    run.prepare(config)
    warn_of_unfit_settings(config, *learner.spaces)
    on_start()
    due = learner.due
    # One for all scores: its graphs are built once, and see the weights of the moment.
    make_policy = functools.cache(lambda: TrainedPolicy(learner.policy, learner.spaces[1], config))
    recorder = TrainingRecorder(config, run, eval_envs, learner.step)
    with (
        contextlib.closing(Metrics(run, learner.step, tracker, logged, evaluated)) as metrics,
        contextlib.closing(Console(config.steps, learner.step)) as console,
        contextlib.ExitStack() as stack,
        FinalCheckpoint(learner, checkpoints, learner.step if resumes else None) as final,
    ):
        stack.callback(_write_restarts, learner, metrics)  # Also of an iteration that fails.

        def evaluate() -> EvaluationScore:
            with final.section(), learner.time_shares.measuring("evaluation"):
                score, is_best = learner.evaluations.run(
                    console.evaluation(learner.step, config.eval_episodes)
                )
            _write_restarts(learner, metrics)
            metrics.scalars(learner.step, score)
            console.evaluated(learner.step, learner.rate, score)
            if is_best and not save(best=True):
                learner.evaluations.revoke_best()
            return EvaluationScore(score, learner.step, is_best, run.path, make_policy)

        def save(best: bool = False) -> bool:
            with learner.time_shares.measuring("saving"):
                return checkpoints.save(learner.step, best=best)

        _describe(config, run, learner, metrics, command)
        _begin_episodes(learner)
        if due(config.eval_interval) and not metrics.has_evaluation(learner.step):
            yield evaluate()  # Training was stopped in it.
        while learner.step < config.steps:
            with final.section():
                learner.iterate()
            with learner.time_shares.measuring("logging"):
                _log(config, learner, metrics, console)
            score = evaluate() if due(config.eval_interval) else None
            if due(config.checkpoint_interval):
                if save():
                    final.saved_step = learner.step
                _begin_episodes(learner)
            if score is not None:  # With its checkpoint: users export it.
                yield score
            if due(config.video_interval) or learner.step >= config.steps:
                # Signals may interrupt it anywhere.
                with (
                    final.section(),
                    learner.time_shares.measuring("drawing"),
                    stop_signals.interruptible(),
                ):
                    recorder.record(learner.step, make_policy, metrics)


def _check_size(config: Config, run: RunDirectory, envs: VectorEnv | InGraphEnv) -> None:
    """Refuses settings of a network that is larger than the checkpoint to resume from."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Of damaged ones `_resume` warns.
        found = newest_intact(run.checkpoints)
    if found and ":" not in config.algorithm:
        size = found[0].path.stat().st_size
        check_size(*single_spaces(envs), config, size, with_critics=True)


def _resume(config: Config, run: RunDirectory, learner: Learner, checkpoints: Checkpoints) -> bool:
    """Loads the last checkpoint; returns False for a run that has had none."""
    # By the end of the iteration in which the first checkpoint is due.
    first = config.checkpoint_interval + config.num_envs * config.rollout_length
    if not run.is_started(first):
        if run.train_events.exists() or run.metrics_file.exists():
            say(f"{run.path} has no checkpoint: training starts over", file=sys.stderr)
        for initial in find_files(run.initial):
            learner.start_from(initial.path)
            source = f"{config.initial_weights}, step {initial.step:,}"
            say(f"Starting from the weights of {source}", file=sys.stderr)
        return False
    checkpoints.load(required=True)
    before = run.load_config()
    if config.steps < min(before.steps, learner.step):
        raise UsageError(
            f"steps: the run has learned from {learner.step:,} steps, got {config.steps:,}\n"
            "expected more, or leave --steps out"
        )
    unequal = "" if config.replay_checkpoints else ", not exactly: without its replay"
    say(f"Resuming {run.path} from step {learner.step:,}{unequal}", file=sys.stderr)
    schedules = {value for name, value in config.settings().items() if name.endswith("_schedule")}
    if config.steps != before.steps and "linear" in schedules:
        end = f"step {config.steps:,} instead of {before.steps:,}"
        say(f"Linear schedules now end at {end}", file=sys.stderr)
    scoring = ("reset_options", "eval_episodes")
    if changed := [name for name in scoring if getattr(before, name) != getattr(config, name)]:
        say(f"The best score starts over, with new {' and '.join(changed)}", file=sys.stderr)
        learner.evaluations.forget_best()
        checkpoints.save(learner.step)  # Before the new options are written: it may be killed.
    if learner.evaluations.has_best and not any(
        file.is_best for file in find_files(run.checkpoints)
    ):
        warnings.warn(
            f"the best checkpoint of {run.path} was lost: the next evaluation counts as the best",
            stacklevel=2,
        )
        learner.evaluations.forget_best()
    return True


def _logged_steps(run: RunDirectory, step: int) -> tuple[int, int]:
    """Returns how far training and evaluations were logged, at least, when `step` was saved."""
    if not step:
        return 0, 0
    config = run.load_config()  # Intervals may have changed since.
    before = step - config.num_envs * config.rollout_length  # The last iteration may be missing.
    logged, saved, evaluated = (
        before - before % interval
        for interval in (config.log_interval, config.checkpoint_interval, config.eval_interval)
    )
    return max(logged, saved), evaluated


def _describe(
    config: Config, run: RunDirectory, learner: Learner, metrics: Metrics, command: str
) -> None:
    """Writes spaces, command, settings, and the policy's graph."""
    with contextlib.suppress(OSError):  # A full disk: others can do without.
        spaces = spaces_to_json(*learner.spaces)
        content = json.dumps(spaces, indent=2, allow_nan=False) + "\n"
        write_atomically(run.spaces_file, content.encode())
        if command:
            run.record_command(command, version())
    metrics.config(config.model_dump(), command)
    if not learner.step:
        metrics.graph(graph_of(learner.policy, learner.spaces[1]))


def _begin_episodes(learner: Learner) -> None:
    """Starts new episodes in all environments, which may take long."""
    with stop_signals.graph_call():
        learner.begin_episodes()


def _write_restarts(learner: Learner, metrics: Metrics) -> None:
    """Writes the restarts of environments since the last call."""
    metrics.restarts(learner.step, "training", learner.take_restarts())
    metrics.restarts(learner.step, "evaluation", learner.evaluations.take_restarts())


def _log(config: Config, learner: Learner, metrics: Metrics, console: Console) -> None:
    """Writes the metrics that are due after an iteration, and restarts of environments."""
    step, due = learner.step, learner.due
    console.move(step)
    _write_restarts(learner, metrics)
    if due(config.checkpoint_interval) or due(config.log_interval):
        scalars = learner.report()
        metrics.scalars(step, scalars)
        console.update(step, scalars)
    is_first = step == config.num_envs * config.rollout_length  # To compare with.
    if due(config.histogram_interval) or (config.histogram_interval and is_first):
        metrics.histograms(step, learner.arrays())


class FinalCheckpoint:
    """On a stop inside this context: undoes the unfinished rollout and saves a checkpoint.

    It saves before anything is closed, which may take seconds. Failures save nothing. A training that
    ends must have saved its last step.

    Attributes:
      saved_step: Step whose scheduled checkpoint is on the disk, where no other one is saved; None
        before the first.
    """

    def __init__(self, learner: Learner, checkpoints: Checkpoints, saved_step: int | None):
        """Initializes the context; `saved_step` is the step that the run was resumed from."""
        self._learner, self._checkpoints, self.saved_step = learner, checkpoints, saved_step

    @contextlib.contextmanager
    def section(self) -> Iterator[None]:
        """A section of graph calls; afterwards the run's folder must be in place.

        Raises:
          RunLostError: The run's folder is not in place at the end, so that nothing can be logged.
        """
        with stop_signals.graph_call():
            yield
        self._checkpoints.check_in_place()

    def __enter__(self) -> FinalCheckpoint:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        step = self._learner.step
        if error is None and step != self.saved_step:
            raise CheckpointError(
                f"the checkpoint of the last step, {step:,}, could not be saved\n"
                "make room on the disk before you go on"
            )
        if isinstance(error, KeyboardInterrupt):
            stop_signals.take()
        elif not isinstance(error, GeneratorExit):
            return  # The training is complete or failed. A caller that leaves the loop raises GeneratorExit.
        self._checkpoints.check_in_place()
        self._learner.undo_rollout()
        if self._learner.step != self.saved_step:
            self._checkpoints.save(self._learner.step)


def follow(config: Config, train_envs: VectorEnv | InGraphEnv, reducer: Reducer) -> None:
    """Trains along with the chief, from where the chief begins to the last step.

    Args:
      config: The experiment.
      train_envs: This learner's part of the environments.
      reducer: Combines the learners.

    Raises:
      EnvironmentFailure: An environment, or the process that hosts it, failed.
      InvalidActionError: An action is not in the action space.
      LearnerLostError: Another learner has failed or does not answer.
      NonFiniteError: An observation, action, reward, loss or gradient was NaN or infinite.
      StopRequested: The chief was asked to stop.
    """
    learner = Learner(train_envs, None, find_algorithm(config.algorithm), config, reducer)
    reducer.copy_from_chief(learner.variables())
    learner.begin_episodes()
    while learner.step < config.steps:
        learner.iterate()
        for restart in learner.take_restarts():
            rows = ", ".join(str(row) for row in restart.rows)
            warnings.warn(
                f"learner {reducer.rank} restarted environments {rows}: {first_line(restart.cause)}",
                stacklevel=1,
            )
        if learner.due(config.checkpoint_interval):
            learner.begin_episodes()
