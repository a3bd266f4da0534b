import pytest

from benchmarks.case import Case
from benchmarks.runner import Outcome
from benchmarks.summary import peers, summarize


def outcome(unit="steps/s", notes=None, **figures):
    return Outcome(
        Case("case", unit, ()),
        {name.replace("_", "-"): values for name, values in figures.items()},
        notes or {},
    )


def test_figures_are_median_minimum_and_maximum():
    entry = summarize(
        outcome(ours=[30.0, 10.0, 20.0], Peer=[5.0, 4.0, 100.0], notes={"Peer": "a note"})
    )
    assert entry["ours"] == {"median": 20, "min": 10, "max": 30, "unit": "steps/s"}
    assert entry["Peer"] == {
        "median": 5,
        "min": 4,
        "max": 100,
        "unit": "steps/s",
        "note": "a note",
    }
    assert peers(entry) == ["Peer"]


@pytest.mark.parametrize(
    ("unit", "ratio"), [("steps/s", 2.5), ("ms", 0.4), ("s", 0.4), ("MB", 2.5), ("%", 2.5)]
)
def test_ratios_are_medians_over_the_rounds(unit, ratio):
    # The rounds' ratios are 6, 2.5 and 0.2; that of the medians would be 4.
    entry = summarize(outcome(unit, ours=[30.0, 10.0, 20.0], Peer=[5.0, 4.0, 100.0]))
    assert entry["ratio_Peer"] == ratio
    # Medians of three ratios that are drawn from these: each of them is one of those.
    ends = (0.2, 6.0) if ratio == 2.5 else (round(1 / 6, 4), 5.0)
    assert (entry["low_Peer"], entry["high_Peer"]) == ends
    assert entry["ours"]["median"] / entry["Peer"]["median"] == 4


def test_the_share_of_the_limit_is_a_median_over_the_rounds():
    entry = summarize(outcome(ours=[30.0, 10.0, 20.0], limit=[40.0, 11.0, 20.0]))
    assert (entry["limit"], entry["of_limit"]) == (20, 0.9091)
    assert set(entry) == {"ours", "limit", "of_limit"}


@pytest.mark.parametrize(("unit", "better"), [("steps/s", "B"), ("ms", "A")])
def test_a_peer_with_variants_is_listed_as_its_better_one(unit, better):
    entry = summarize(
        outcome(unit, ours=[10.0], SB3_A=[1.0], SB3_B=[2.0], skrl=[3.0], notes={"SB3-B": "threads"})
    )
    variant = entry[f"SB3-{better}"]
    assert entry["SB3"]["median"] == variant["median"]
    assert entry["SB3"]["note"] == ("with B; threads" if better == "B" else "with A")
    assert entry["ratio_SB3"] == entry[f"ratio_SB3-{better}"]
    assert "ratio_skrl" in entry
