"""README is short, and its figures are those that scripts measured."""

import json
import re

from results.rows import on_policy_of, target_of
from tests.docs.pages import ROOT

README = (ROOT / "README.md").read_text()


def read(name):
    return json.loads((ROOT / name).read_text())


def test_it_is_short():
    assert len(README.split()) <= 700


def test_returns_are_those_of_the_results():
    row = read("results/results.json")["cheetah"]
    seeds = {3: "three", 5: "five", 10: "ten"}[len(row["returns"])]
    assert f"| {row['mean']:,.0f}, {seeds} seeds |" in README
    on_policy, best = on_policy_of(row), target_of(row)
    assert best.off_policy
    assert f"on-policy {on_policy.mean:,}, off-policy {best.mean:,} |" in README


def test_speeds_are_those_of_the_benchmarks():
    benchmarks = read("benchmarks/benchmarks.json")
    training = benchmarks["training"]["HalfCheetah-v5/process/8"]
    for contestant in ("ours", "SB3"):
        assert f"{training[contestant]['median']:,.0f} steps/s" in README
    ratio = benchmarks["stepping"]["Pendulum-v1/process/32"]["ratio_EnvPool"]
    assert f"EnvPool's C++ environments step 32 Pendulums {1 / ratio:.1f} times as fast" in README


def test_resumed_runs_are_those_of_the_harness():
    text = (ROOT / "FAULTS.md").read_text()
    resumed, equal = re.search(r"resumed (\d+), equal hashes (\d+)", text).groups()
    assert f"| {equal} of {resumed} |" in README
