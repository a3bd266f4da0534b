import json
import sys

import pytest

from benchmarks import scaling
from benchmarks.case import LIMIT, OURS
from benchmarks.suites import SUITES
from benchmarks.targets import TARGETS


@pytest.mark.parametrize("quick", [False, True])
@pytest.mark.parametrize("name", SUITES)
def test_cases_are_well_formed(name, quick):
    cases = SUITES[name].cases(quick)
    assert len({case.name for case in cases}) == len(cases)
    for case in cases:
        assert case.contestants[0].name == OURS
        is_long = name in ("memory", "goals") or case.name.endswith(("graph-calls", "/relay"))
        assert quick or case.rounds >= 5 or is_long
        json.dumps([contestant.settings for contestant in case.contestants])
        for contestant in case.contestants:
            module, function = contestant.function.split(":")
            assert callable(getattr(sys.modules[module], function))


@pytest.mark.parametrize(
    "target", TARGETS, ids=lambda target: f"{target.suite}/{target.case}/{target.key}"
)
def test_every_target_is_measured(target):
    (case,) = (case for case in SUITES[target.suite].cases(quick=False) if case.name == target.case)
    names = {contestant.name for contestant in case.contestants}
    peers = {name.partition("-")[0] for name in names}
    if target.key == "of_limit":
        assert LIMIT in names
    else:
        assert target.key == "median" or target.key.removeprefix("ratio_") in names | peers


def test_verdicts_compare_with_the_bound_and_the_aim():
    verdicts = ["MISSED", "holds", "aim reached"]
    at_least = next(target for target in TARGETS if target.key == "ratio_AsyncVectorEnv")
    assert (at_least.bound, at_least.aim) == (12, 16)
    assert [at_least.verdict(value) for value in (11.9, 12, 16)] == verdicts
    at_most = next(target for target in TARGETS if target.suite == "startup")
    assert (at_most.bound, at_most.aim) == (9, 8)
    assert [at_most.verdict(value) for value in (9.1, 9, 8)] == verdicts
    assert at_most.value({}) is None


def test_core_counts_are_powers_of_two_below_all():
    assert [scaling.core_counts(available) for available in (1, 2, 3, 8)] == [
        [],
        [1],
        [1, 2],
        [1, 2, 4],
    ]
