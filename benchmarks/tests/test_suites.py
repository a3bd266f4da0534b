import importlib
import json

import pytest

from benchmarks.case import LIMIT, OURS
from benchmarks.peers.installation import PEERS
from benchmarks.suites import SUITES
from benchmarks.targets import TARGETS


@pytest.mark.parametrize("quick", [False, True])
@pytest.mark.parametrize("name", SUITES)
def test_cases_are_well_formed(name, quick):
    cases = SUITES[name].cases(quick)
    assert len({each.name for each in cases}) == len(cases)
    for each in cases:
        assert each.contestants[0].name == OURS
        is_long = name in ("memory", "goals", "clock") or each.name.endswith(
            ("graph-calls", "/relay")
        )
        assert quick or each.rounds >= 5 or is_long
        json.dumps([contestant.settings for contestant in each.contestants])
        for contestant in each.contestants:
            module, function = contestant.function.split(":")
            assert callable(getattr(importlib.import_module(module), function))
            assert contestant.peer in {"", *PEERS}


@pytest.mark.parametrize(
    "target", TARGETS, ids=lambda target: f"{target.suite}/{target.case}/{target.key}"
)
def test_every_target_is_measured(target):
    cases = SUITES[target.suite].cases(quick=False)
    (found,) = (each for each in cases if each.name == target.case)
    names = {contestant.name for contestant in found.contestants}
    peers = {name.partition("-")[0] for name in names}
    if target.key == "of_limit":
        assert LIMIT in names
    else:
        assert target.key == "median" or target.key.removeprefix("ratio_") in names | peers
