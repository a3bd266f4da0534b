import json

import pytest

from agents.errors import UsageError
from agents.sweeps.search_space import Choices, Range, SearchSpace
from agents.sweeps.study import MIN_TRIALS_OF_IMPORTANCES, STARTUP_TRIALS, Study
from agents.sweeps.trial_result import COMPLETE, FAILED, RUNNING

SPACE = SearchSpace(
    {"learning_rate": Range(low=1e-4, high=1e-1, log=True), "epochs": Range(low=1, high=9)}
)


@pytest.fixture
def study(tmp_path):
    return Study(tmp_path / "journal.jsonl", tmp_path / "lock", warmup_steps=100)


def test_settings_depend_on_the_seed_and_have_the_types_of_the_settings(study):
    asked = [study.ask(SPACE, seed) for seed in (1, 1, 2)]
    assert [number for number, _ in asked] == [0, 1, 2]
    first, same, other = (settings for _, settings in asked)
    assert first == same != other
    assert 1e-4 <= first["learning_rate"] <= 1e-1 and type(first["epochs"]) is int


def test_choices_keep_their_type(study):
    space = SearchSpace({"layers": Choices(choices=([8],)), "policy": Choices(choices=("beta",))})
    assert study.ask(space, 0) == (0, {"layers": [8], "policy": "beta"})


def test_a_step_that_is_reported_again_keeps_its_score(study):
    """As by a trial that is resumed from before it."""
    number, _ = study.ask(SPACE, 0)
    for score in (-5.0, -7.0):
        assert not study.report(number, 200, score)
    [result] = study.results()
    assert (result.state, result.score, result.step) == (RUNNING, -5.0, 200)


def test_trials_below_the_median_are_pruned_once_enough_are_complete(study):
    for count in range(STARTUP_TRIALS + 1):
        number, _ = study.ask(SPACE, count)
        # Each is worse than all before; none is pruned in its first steps.
        assert not study.report(number, 50, -count)
        assert study.report(number, 200, -count) == (count == STARTUP_TRIALS)
        study.tell(number, COMPLETE, -count, "")


def test_importances_wait_for_enough_trials(study):
    for count in range(MIN_TRIALS_OF_IMPORTANCES):
        assert study.importances() == {}
        number, settings = study.ask(SPACE, count)
        study.tell(number, COMPLETE, settings["learning_rate"], "")
    assert set(study.importances()) == set(SPACE.dimensions)


def test_notes_and_causes_are_there_for_another_process(study, tmp_path):
    number, _ = study.ask(SPACE, 0)
    study.note(number, settings={"epochs": 3}, starts=1)
    study.tell(number, FAILED, None, "it broke")
    other = Study(tmp_path / "journal.jsonl", tmp_path / "lock", warmup_steps=100)
    assert other.notes(number) == {"settings": {"epochs": 3}, "starts": 1, "cause": "it broke"}
    [result] = other.results()
    assert (result.state, result.cause) == (FAILED, "it broke")


def test_a_damaged_journal_is_named(study, tmp_path):
    path = tmp_path / "journal.jsonl"
    lines = path.read_text().splitlines()
    path.write_text("\n".join(["{damaged", *lines]) + "\n")
    with pytest.raises(UsageError, match="journal.jsonl is damaged"):
        Study(path, tmp_path / "lock", warmup_steps=100)
    assert json.loads(path.read_text().splitlines()[1])  # Nothing was removed.
