from benchmarks import report
from benchmarks.report import Section, write_markdown
from benchmarks.suites import SUITES


def section(suite="stepping", median=24.0):
    entry = {
        "ours": {"median": median, "min": 1.5, "max": 123456.0, "unit": "steps/s"},
        "AsyncVectorEnv": {
            "median": 2.0,
            "min": 1.0,
            "max": 3.0,
            "unit": "steps/s",
            "note": "a note",
            "parts": {"ms update": 8.125, "sums": 100},
        },
        "ratio_AsyncVectorEnv": median / 2,
        "limit": 30.0,
        "of_limit": 0.8,
    }
    results = {"Pendulum-v1/process/32": entry}
    return Section(
        suite,
        SUITES[suite].TITLE,
        "What is compared.",
        results,
        ["Left out of this: EnvPool: no module"],
    )


def test_sections_have_figures_targets_and_contestants_left_out(tmp_path):
    path = tmp_path / "BENCHMARKS.md"
    write_markdown(
        path, [section()], "`the command` on a machine", {"agents": "1.0", "torch": "2.0"}
    )
    text = path.read_text()
    assert "| Pendulum-v1/process/32 | ours | 24 | 1.5 | 123,456 | steps/s |  |  |" in text
    assert (
        "| Pendulum-v1/process/32 | AsyncVectorEnv | 2 | 1 | 3 | steps/s | 12x "
        "| a note; 8.12 ms update, 100 sums |"
    ) in text
    assert "| Pendulum-v1/process/32 | limit | 30 | | | steps/s | 80 % of it | |" in text
    assert "| Pendulum-v1/process/32 | `ratio_AsyncVectorEnv` | >= 12 | 16 | 12 | holds |" in text
    assert "| Pendulum-v1/process/32 | `of_limit` | >= 0.85 | 0.95 | 0.8 | MISSED |" in text
    assert "- Left out of this: EnvPool: no module" in text
    assert "`the command` on a machine. With agents 1.0, torch 2.0." in text
    assert report.BY_HAND.strip() in text


def test_sections_that_were_not_measured_are_kept(tmp_path):
    path = tmp_path / "BENCHMARKS.md"
    write_markdown(path, [section("training", 11.0), section("stepping", 22.0)], "first", {})
    by_hand = "| shared arrays | steps/s | 1 | 2 |\n\nA note.\n\n## More by hand\n\nThe end.\n"
    path.write_text(path.read_text().rstrip() + "\n" + by_hand)
    write_markdown(path, [section("stepping", 33.0)], "second", {})
    text = path.read_text()
    assert text.endswith(by_hand)
    assert "| 11 |" in text and "| 33 |" in text and "| 22 |" not in text
    titles = [line for line in text.splitlines() if line.startswith("#")]
    assert titles == [
        "# Details of the benchmarks", "## Stepping", "## Training", "## Gain of each optimization", "## More by hand",
    ]  # fmt: skip
    write_markdown(path, [section("stepping", 33.0)], "second", {})
    assert path.read_text() == text
