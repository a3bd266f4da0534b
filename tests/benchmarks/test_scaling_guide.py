import pytest

from benchmarks import scaling_guide
from benchmarks.communication import communication_seconds
from benchmarks.distributed import LINKS, NETWORKS, RELAYED_SIZES
from benchmarks.scaling_guide import RATES, between_machines, loopback, trainings, write_guide
from benchmarks.team_member import SIZES
from tests.docs.pages import ROOT

EXCHANGED = {"sums": 100, "MB summed": 10.0, "gathers": 2, "MB gathered": 0.5}
BLOCKS = ("origin", "weak", "learners", "reductions", "constants", "model", "plot", "check")
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
    # In the ring 0.1 ms a message and 1 ns a byte.
    ring = {f"ms at {name}": 1e3 * (2e-4 + 1e-9 * size) for name, size in SIZES.items()}
    found = {
        "reductions/learners/2": {
            "ours": figure(0.05, **{f"ms at {name}": 0.05 for name in SIZES}),
            "ring": figure(0.2, **ring),
        },
        "reductions/relay": {
            "ours": figure(
                0.7, **{f"ms of {size} at {link}": 50.0 for size in RELAYED_SIZES for link in LINKS}
            )
        },
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
            "ring": exchanging(
                3000.0, "steps/s", ms_collecting=10.0, ms_update=140.0, ms_reductions=60.0
            ),
        }
        times = {f"ms at {link}": 500.0 for link in LINKS}
        found[f"{network}/relay"] = {"ours": figure(500.0, **times, **EXCHANGED)}
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
    assert "| 2 | 40 kB | 0.05 | 0.24 |  |" in text
    assert "*a* is 0.10 ms and *b* 8.0 Gbit/s" in text
    write_guide(page, results, "Measured on a machine")
    assert page.read_text() == text
    assert "](../images/scaling.png)" in text
    image = page.parents[1] / "images" / "scaling.png"
    assert image.read_bytes().startswith(b"\x89PNG")


def test_predictions_add_what_a_link_does_to_messages(page, results):
    write_guide(page, results, "")
    text = page.read_text()
    # 100 sums of two messages, and two gathers of one; 10 MB and 0.5 MB.
    delayed = 500 + 202 * 2
    assert f"| update, nature | 2 ms | {delayed} | 500 | {500 / delayed:.2f} |" in text
    limited = 500 + 10.5e6 / 125e6 * 1e3
    assert f"| update, nature | 1 Gbit/s | {limited:.0f} | 500 | {500 / limited:.2f} |" in text
    # Shared memory, and the ring instead of it.
    ring = 100 - 30 + 1e3 * (202 * 1e-4 + 10.5e6 * 1e-9)
    assert f"| update, 64-64 | loopback | {ring:.0f} | 140 |" in text
    # Four learners: six messages, 3 / 2 of the bytes.
    reduction = 50 + 6 * 0.5
    assert f"| 40 kB, 4 learners | 0.5 ms | {reduction:.3g} | 50 |" in text


def test_the_model_is_of_computing_and_communication(page, results):
    write_guide(page, results, "")
    training = trainings(results)[0]
    assert training.computing == pytest.approx(0.18)
    network = between_machines(loopback(results), RATES["10 Gbit/s"])
    assert network.latency == pytest.approx(1e-4 + scaling_guide.WIRE_DELAY)
    assert network.seconds_per_byte == pytest.approx(1e-9 + 8e-10)
    seconds = communication_seconds(training.traffic, 8, network)
    row = next(
        line for line in page.read_text().splitlines() if line.startswith("| 64-64 | 10 Gbit/s |")
    )
    speed = 8 * training.steps / (0.18 + seconds)
    assert f"| {speed:,.0f} ({100 * seconds / (0.18 + seconds):.0f} %) |" in row


def test_what_was_not_measured_is_kept(page):
    write_guide(page, {}, "Measured")
    assert page.read_text() == PAGE.replace("old origin", "Measured.")


def test_the_guide_has_all_tables():
    text = (ROOT / "docs/guides/scaling.md").read_text()
    for name in BLOCKS:
        assert text.count(f"<!-- measured: {name} -->\n") == 1
    assert text.count("<!-- end -->") == len(BLOCKS)
