"""Training the trials of a sweep, one after another."""

from __future__ import annotations

import contextlib
import gc
import sys
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, TypeAlias

from agents import stop_signals
from agents.errors import (
    EnvironmentFailure,
    InvalidActionError,
    JournalError,
    NonFiniteError,
    UsageError,
    first_line,
)
from agents.settings.config import Config
from agents.storage.metrics_file import read_metrics
from agents.storage.run_directory import RunDirectory
from agents.sweeps.reports import describe_result, describe_settings, write_reports
from agents.sweeps.sweep import Sweep, Trial
from agents.sweeps.trial_result import COMPLETE, FAILED, PRUNED

if TYPE_CHECKING:
    from agents.training.evaluation_score import EvaluationScore

# Trains a run with settings, or resumes it; see `agents.train`.
Train: TypeAlias = "Callable[[Config, RunDirectory], Generator[EvaluationScore, None, None]]"

FAILURES = (EnvironmentFailure, InvalidActionError, NonFiniteError, UsageError)

# When so many trials have failed before any evaluation of the sweep, others would, too.
MAX_FIRST_FAILURES = 3


def train_trials(
    sweep: Sweep,
    num_trials: int,
    train: Train,
    report: Callable[[Sweep], None] = write_reports,
    at_most: int = sys.maxsize,
) -> bool:
    """Trains trials until the sweep has enough of them.

    Several processes may do so at the same time. An interrupt leaves a trial that is resumed by
    the process that continues the sweep.

    Args:
      sweep: The sweep.
      num_trials: How many trials it shall have, those of other processes included.
      train: Trains a run.
      report: Called after each trial.
      at_most: How many trials to train here.

    Returns:
      Whether trials may be left that no process trains.

    Raises:
      KeyboardInterrupt: Training was interrupted.
      JournalError: The journal can't be written. The trial is resumed as after an interrupt.
      EnvironmentFailure, InvalidActionError, NonFiniteError, UsageError: The first trials of the
        sweep have all failed, the last one with this error.
    """
    for _ in range(at_most):
        stop_signals.check()
        with sweep.claimed(num_trials) as trial:
            if trial is None:
                return False
            print(
                f"Trial {trial.number} of {num_trials}: {describe_settings(trial.settings)}",
                file=sys.stderr,
            )
            error = train_trial(sweep, trial, train)
        results = sweep.results()
        print(describe_result(results, trial.number), file=sys.stderr)
        report(sweep)
        has_scores = any(result.score is not None for result in results)
        if error and not has_scores and len(results) >= MAX_FIRST_FAILURES:
            raise error
        gc.collect()  # Graphs are cycles of objects.
    return True


def train_trial(sweep: Sweep, trial: Trial, train: Train) -> Exception | None:
    """Trains a trial to its end, or until it is pruned or fails; returns why it failed.

    Its score is the last evaluation's. Settings that contradict each other prune it at once: the
    sampler learns to avoid them.
    """
    try:
        config = sweep.trial_config(trial)
    except UsageError as error:
        sweep.finish(trial.number, PRUNED, cause=first_line(error))
        return error
    last, is_pruned = None, False
    try:
        with contextlib.closing(train(config, trial.run)) as scores:
            for score in scores:
                last = float(score)
                # Iterations end at different steps in trials of other rollout lengths.
                step = score.step // config.eval_interval * config.eval_interval
                if score.step < config.steps and sweep.study.report(trial.number, step, score):
                    is_pruned = True
                    break
        # A run that was complete already when it was resumed yields nothing.
        last = last_score(trial.run) if last is None else last
    except JournalError:
        raise
    except FAILURES as error:
        trial.run.write_error(error)
        sweep.finish(trial.number, FAILED, cause=first_line(error))
        return error
    # Training has ended: an interrupt while it did leaves a trial that can be resumed.
    if is_pruned:
        sweep.finish(trial.number, PRUNED)
    else:
        sweep.finish(trial.number, COMPLETE, last)
    return None


def last_score(run: RunDirectory) -> float:
    """Returns the mean return of a run's last evaluation.

    Raises:
      UsageError: Its metrics have no evaluation.
    """
    rows = read_metrics(run.metrics_file)
    scores = [row["eval/return_mean"] for row in rows if "eval/return_mean" in row]
    if not scores:
        raise UsageError(f"{run.metrics_file} has no evaluation")
    return scores[-1]
