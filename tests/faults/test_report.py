import json
from pathlib import Path

import pytest

from tests.faults.figures import FILE, record
from tests.faults.report import ASKED, FIGURES, ROOT, details, main, page, read


def lines_of(text, word):
    return [line for line in text.splitlines() if word in line]


def figures(harness, test, **numbers):
    return {"harness": harness, "test": f"tests/faults/{test}", "figures": numbers}


def outcome(test, result):
    return {"test": f"tests/faults/{test}", "outcome": result, "date": "2026-01-02"}


def test_the_newest_figures_and_failures_are_shown(tmp_path):
    entries = [
        figures("stalls", "test_stalls.py::test_some", steps=3),
        outcome("test_stalls.py::test_some", "passed"),
        figures("stalls", "test_stalls.py::test_many", steps=10, stale=0, others=7),
        outcome("test_stalls.py::test_many", "passed"),
        figures("restarts", "test_stalls.py::test_restarts", steps=4, stale=1, timeouts=2),
        outcome("test_stalls.py::test_restarts", "passed"),
        figures("asleep", "test_killed_parent.py::test_asleep", kills=3, longest_seconds=0.5),
        outcome("test_killed_parent.py::test_asleep", "passed"),
        figures("idle", "test_killed_parent.py::test_idle", kills=4, longest_seconds=0.3),
        outcome("test_killed_parent.py::test_idle", "passed"),
        figures("soak", "test_soak.py::test_one", restarts=20),
        outcome("test_soak.py::test_one", "failed"),
        outcome("test_leaks.py::test_one", "failed"),
        figures("twice", "test_runs_at_once.py::test_one", refused=20, most_seconds=1.5),
        outcome("test_runs_at_once.py::test_one", "passed"),
        figures("killed", "test_kills.py::test_one", kills=1),
        {**figures("gone", "test_kills.py::test_old", kills=2), "asked": "much"},
        outcome("test_kills.py::test_old", "passed"),
        outcome("test_other.py::test_one", "failed"),
        {"machine": "2 cores", "versions": {"tensorflow": "2"}},
    ]
    path = tmp_path / "figures.jsonl"
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    entries = read(path)
    short, full = page(entries), details(entries)
    [stalls] = lines_of(full, "| stalls |")
    assert stalls.endswith("| steps 10, stale 0, others 7 | 2026-01-02 |")
    assert "no stale result" in stalls
    [stalls] = lines_of(short, "| no stale result |")
    assert stalls.endswith("| no stale result | steps 14, timeouts 2, stale 1 | 2026-01-02 |")
    asked = "a score of at least 450; at most 10 % more steps"
    for row in (
        f"| {asked} | **soak failed**: restarts 20 | 2026-01-02 |",
        "| **killed not finished**: kills 1 |  |",
        "| **hostile_runs not run** |  |",
        "| **test_one failed** | 2026-01-02 |",
    ):
        assert lines_of(short, row)
    assert lines_of(full, "| soak |")[0].endswith("| **failed**: restarts 20 | 2026-01-02 |")
    assert lines_of(full, "| killed |")[0].endswith("| **not finished**: kills 1 |  |")
    assert lines_of(full, "| hostile_runs |")[0].endswith("| **not run** |  |")
    assert all("2 cores. Versions: tensorflow 2." in text for text in (short, full))
    assert lines_of(full, "| test_one |  | **failed** |")
    assert lines_of(full, "| gone | much | kills 2 |") and not lines_of(short, "| gone |")
    assert "without a harness today: gone." in short
    assert lines_of(short, "| kills 7, longest seconds 0.5 | 2026-01-02 |")
    above = "steps with 1 % stalls (stale 1, limit 0), the same run started twice (most seconds 1.5, limit 1)."
    assert f"Above the limit: {above}" in short
    assert "Failed or not run: environment_faults not run, train_faults not run," in short


def test_the_pages_are_those_of_the_stored_figures():
    """`python scripts/faults.py --report` on the committed files gives the committed pages."""
    entries = read(FIGURES)
    assert page(entries) == (ROOT / "FAULTS.md").read_text()
    assert details(entries) == (ROOT / "tests" / "faults" / "details.md").read_text()


def test_the_command_runs_tests_and_keeps_earlier_figures(tmp_path, monkeypatch):
    path, table = tmp_path / "figures.jsonl", tmp_path / "FAULTS.md"
    path.write_text(json.dumps(figures("soak", "test_soak.py::test_one", restarts=500)) + "\n")
    monkeypatch.setenv(FILE, "")
    commands = []

    def run_tests(command, plugins):
        commands.append(command)
        report = pytest.TestReport(
            "tests/faults/test_leaks.py::one", ("", 0, ""), {}, "failed", None, "call"
        )
        plugins[0].pytest_runtest_logreport(report)
        return 1

    monkeypatch.setattr(pytest, "main", run_tests)
    assert main([f"--outdir={tmp_path}", f"--figures={path}", "--", "-k", "leaks"]) == 1
    assert commands[0][-4:] == ["-m", "", "-k", "leaks"]  # Slow tests as well.
    [line] = lines_of(table.read_text(), "| a score of at least 450;")
    assert "restarts 500" in line and "tensorflow 2" in table.read_text()
    assert len(read(path)) == 3 and (tmp_path / "tests" / "faults" / "details.md").is_file()
    assert main(["--report", f"--outdir={tmp_path}", f"--figures={path}"]) == 0
    assert len(commands) == 1 and line in table.read_text()


def test_figures_name_their_test(tmp_path, monkeypatch):
    monkeypatch.setenv(FILE, str(tmp_path / "figures.jsonl"))
    record("here", steps=3)
    [entry] = read(tmp_path / "figures.jsonl")
    name = "tests/faults/test_report.py::test_figures_name_their_test"
    assert entry == {"harness": "here", "test": name, "figures": {"steps": 3}}


def test_all_harnesses_are_in_the_table():
    modules = {path.stem for path in Path(__file__).parent.glob("test_*.py")} - {"test_report"}
    assert modules <= ASKED.keys()
