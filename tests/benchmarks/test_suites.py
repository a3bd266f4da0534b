import importlib
import json

import pytest

from benchmarks import case, scaling, training
from benchmarks.case import LIMIT, OURS, Contestant
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


def test_peers_have_one_thread_or_core_or_all(monkeypatch):
    monkeypatch.setattr(case, "cores", lambda: [0, 1, 2, 3])
    peer = Contestant("Peer", "module:function")
    threads = {each.name: each.threads for each in peer.by_threads()}
    assert threads == {"Peer-1 thread": 1, "Peer-4 threads": 4}
    assert {each.name: each.cores for each in peer.by_cores()} == {
        "Peer-1 core": 1,
        "Peer-4 cores": 4,
    }
    monkeypatch.setattr(case, "cores", lambda: [5])
    assert [each.name for each in peer.by_threads()] == ["Peer-1 thread"]


def test_ours_has_two_threads_where_environments_are_in_the_graph():
    threads = {
        each.name: [
            contestant.settings.get("threads")
            for contestant in each.contestants
            if contestant.function.endswith("training:ours")
        ]
        for each in training.cases(quick=False)
    }
    assert threads["Pendulum-v1/tf/8"] == threads["Pendulum-v1/tf/4"] == [2, 1]
    assert threads["Pendulum-v1/process/8"] == threads["Pendulum-v1/hybrid/8"] == [None]
