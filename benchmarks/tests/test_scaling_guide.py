import pytest

from benchmarks.distributed import NETWORKS
from benchmarks.scaling_guide import write_guide
from benchmarks.team_member import SIZES

EXCHANGED = {"sums": 100, "MB summed": 10.0, "gathers": 2, "MB gathered": 0.5}
BLOCKS = ("origin", "weak", "learners", "reductions")
PAGE = "# Scaling\n\n" + "\n\nBetween.\n\n".join(
    f"<!-- measured: {name} -->\n\nold {name}\n\n<!-- end -->" for name in BLOCKS
)


def figure(median, unit="ms", **parts):
    return {"median": median, "min": median, "max": median, "unit": unit, "parts": parts}


def exchanging(median, unit="ms", **parts):
    return figure(
        median,
        unit,
        **{**{key.replace("_", " "): value for key, value in parts.items()}, **EXCHANGED},
    )


@pytest.fixture
def results():
    found = {
        "reductions/learners/2": {
            "ours": figure(0.05, **{f"ms at {name}": 0.05 for name in SIZES}),
            "TensorFlow": figure(0.2, **{f"ms at {name}": 0.24 for name in SIZES}),
        }
    }
    for network in NETWORKS:
        found[f"{network}/weak"] = {
            "ours": exchanging(200.0, ms_reductions=20.0),
            "1 learner": figure(150.0),
            "2 apart": figure(160.0),
            "ratio_1 learner": 0.75,
            "ratio_2 apart": 0.8,
        }
        found[f"{network}/learners/2"] = {
            "ours": exchanging(
                4000.0, "steps/s", ms_collecting=10.0, ms_update=100.0, ms_reductions=30.0
            ),
            "TensorFlow": exchanging(
                3000.0, "steps/s", ms_collecting=10.0, ms_update=140.0, ms_reductions=60.0
            ),
        }
    return found


@pytest.fixture
def page(tmp_path):
    path = tmp_path / "docs" / "guides" / "scaling.md"
    path.parent.mkdir(parents=True)
    path.write_text(PAGE)
    return path


def test_tables_are_replaced_and_the_text_between_is_kept(page, results):
    write_guide(page, results, "Measured on a machine")
    text = page.read_text()
    assert "old" not in text and text.count("Between.") == len(BLOCKS) - 1
    assert text.startswith(
        "# Scaling\n\n<!-- measured: origin -->\n\nMeasured on a machine.\n\n<!-- end -->"
    )
    assert "| nature | 150 | 160 | 200 | 75 % | 80 % |  |  |" in text
    assert "| 64-64 | 2 | 4,000 | 3,000 | 10 | 100 | 30 | 102 | 10.5 |" in text
    assert "| 2 | 40 kB | 0.05 | 0.24 |" in text
    write_guide(page, results, "Measured on a machine")
    assert page.read_text() == text
