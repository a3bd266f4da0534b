"""Optuna's part of a sweep: journal, sampler and pruner. Needs the package optuna."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.importance import get_param_importances
from optuna.storages import JournalStorage
from optuna.trial import FrozenTrial, TrialState

from agents.errors import JournalError, UsageError
from agents.sweeps.journal import Journal
from agents.sweeps.search_space import Choices, SearchSpace
from agents.sweeps.trial_result import COMPLETE, FAILED, PRUNED, RUNNING, TrialResult
from agents.types import PlainData

# Complete trials before any is pruned: medians of fewer say little.
STARTUP_TRIALS = 5

# Complete trials from which importances are more than noise.
MIN_TRIALS_OF_IMPORTANCES = 10

_STATES = {
    TrialState.COMPLETE: COMPLETE,
    TrialState.PRUNED: PRUNED,
    TrialState.FAIL: FAILED,
    TrialState.RUNNING: RUNNING,
}
_OPTUNA_STATES = {name: state for state, name in _STATES.items()}


class Study:
    """The trials of a sweep in a journal, a file that several processes share.

    Whatever changes a trial raises a JournalError if the journal can't be written.
    """

    def __init__(self, journal: Path, lock: Path, warmup_steps: int):
        """Opens the journal, or creates it.

        Args:
          journal: Its path.
          lock: Path of its lock.
          warmup_steps: Environment steps of a trial before it may be pruned. From there on it is
            when its best evaluation so far is below the median of complete trials at that step.

        Raises:
          UsageError: The journal can't be read or written.
        """
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        pruner = optuna.pruners.MedianPruner(STARTUP_TRIALS, warmup_steps)
        try:
            self._study = optuna.create_study(
                storage=JournalStorage(Journal(journal, lock)),
                study_name="sweep",
                direction="maximize",
                load_if_exists=True,
                pruner=pruner,
            )
        except OSError as error:
            raise JournalError(f"can't write {journal}: {error.strerror}") from None
        except UsageError:
            raise
        except ValueError as error:  # Of JSON, too.
            raise UsageError(f"{journal} is damaged: {error}") from None

    def ask(self, space: SearchSpace, seed: int) -> tuple[int, dict[str, PlainData]]:
        """Starts a trial; its number, and settings that depend on seed and earlier trials only."""
        self._study.sampler = optuna.samplers.TPESampler(seed=seed)
        trial = self._study.ask(_distributions(space))
        return trial.number, space.settings(trial.params)

    def note(self, number: int, **notes: PlainData) -> None:
        """Stores plain data about a running trial."""
        for name, value in notes.items():
            self._trial(number).set_user_attr(name, value)

    def notes(self, number: int) -> dict[str, PlainData]:
        """Returns what `note` has stored."""
        return dict(self._frozen()[number].user_attrs)

    def report(self, number: int, step: int, score: float) -> bool:
        """Stores the score of an evaluation; returns whether to prune the trial."""
        trial = self._trial(number)
        if step not in self._frozen()[number].intermediate_values:  # It was resumed from before.
            trial.report(score, step)
        return trial.should_prune()

    def tell(self, number: int, state: str, score: float | None, cause: str) -> None:
        """Ends a trial; complete ones have a score."""
        if cause:
            self.note(number, cause=cause)
        self._study.tell(number, score, _OPTUNA_STATES[state])

    def results(self) -> list[TrialResult]:
        """Returns all trials by number; the step of complete ones is 0."""
        return [_result(trial) for trial in self._frozen()]

    def importances(self) -> dict[str, float]:
        """Returns the share of each setting in the differences of scores; empty for few trials.

        By PED-ANOVA (Watanabe et al., 2023), which compares the best trials with all.
        """
        states = [result.state for result in self.results()]
        if states.count(COMPLETE) < MIN_TRIALS_OF_IMPORTANCES:
            return {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Experimental features.
            return get_param_importances(self._study)

    def _frozen(self) -> list[FrozenTrial]:
        return self._study.get_trials(deepcopy=False)

    def _trial(self, number: int) -> optuna.Trial:
        """Returns a trial that may have been started by another process."""
        return optuna.Trial(self._study, self._frozen()[number]._trial_id)


def _result(trial: FrozenTrial) -> TrialResult:
    step = trial.last_step or 0
    score = trial.intermediate_values.get(step)
    is_complete = trial.state == TrialState.COMPLETE
    return TrialResult(
        number=trial.number,
        state=_STATES.get(trial.state, RUNNING),
        score=trial.value if is_complete else score,
        step=step,
        settings=trial.user_attrs.get("settings", {}),
        cause=trial.user_attrs.get("cause", ""),
    )


def _distributions(space: SearchSpace) -> dict[str, BaseDistribution]:
    """Returns Optuna's distributions by setting; choices are JSON texts."""
    distributions: dict[str, BaseDistribution] = {}
    for name, item in space.dimensions.items():
        if isinstance(item, Choices):
            texts = [json.dumps(choice) for choice in item.choices]
            distributions[name] = CategoricalDistribution(texts)
        elif space.is_integer(name):
            distributions[name] = IntDistribution(int(item.low), int(item.high), item.log)
        else:
            distributions[name] = FloatDistribution(item.low, item.high, item.log)
    return distributions
