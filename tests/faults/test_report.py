import json
from pathlib import Path

import pytest

from tests.faults.figures import FILE, record
from tests.faults.report import ASKED, main, markdown, read


def lines_of(text, word):
    return [line for line in text.splitlines() if word in line]


def figures(harness, test, **numbers):
    return {"harness": harness, "test": f"tests/faults/{test}", "figures": numbers}


def outcome(test, result):
    return {"test": f"tests/faults/{test}", "outcome": result, "date": "2026-01-02"}


def test_the_newest_figures_and_failures_are_shown():
    text = markdown(
        [
            figures("stalls", "test_stalls.py::test_some", steps=3),
            outcome("test_stalls.py::test_some", "passed"),
            figures("stalls", "test_stalls.py::test_many", steps=10, stale=0),
            outcome("test_stalls.py::test_many", "passed"),
            figures("soak", "test_soak.py::test_one", last_score=20.5),
            outcome("test_soak.py::test_one", "failed"),
            outcome("test_leaks.py::test_one", "failed"),
            figures("killed", "test_kills.py::test_one", kills=1),
            outcome("test_other.py::test_one", "failed"),
        ]
    )
    [stalls] = lines_of(text, "| stalls |")
    assert stalls.endswith("| steps 10, stale 0 | 2026-01-02 |") and "10,000 steps" in stalls
    assert lines_of(text, "| soak |")[0].endswith("| **failed**: last score 20.5 | 2026-01-02 |")
    [leaks] = lines_of(text, "cycles, 300 with a crash")
    assert leaks.startswith("| test_one |") and leaks.endswith("| **failed** | 2026-01-02 |")
    assert lines_of(text, "| killed |")[0].endswith("| **not finished**: kills 1 |  |")
    assert lines_of(text, "| test_one |  | **failed** |")
    assert lines_of(text, "| hostile_runs |")[0].endswith("| not run |  |")
    assert "tensorflow 2" in text and "Python 3" in text


def test_the_command_runs_tests_and_keeps_earlier_figures(tmp_path, monkeypatch):
    path, table = tmp_path / "figures.jsonl", tmp_path / "faults.md"
    path.write_text(json.dumps(figures("soak", "test_soak.py::test_one", last_score=500)) + "\n")
    monkeypatch.setenv(FILE, "")
    commands = []

    def run_tests(command, plugins):
        commands.append(command)
        report = pytest.TestReport(
            "tests/faults/test_leaks.py::one", ("", 0, ""), {}, "passed", None, "call"
        )
        plugins[0].pytest_runtest_logreport(report)
        return 1

    monkeypatch.setattr(pytest, "main", run_tests)
    assert main([f"--markdown={table}", f"--figures={path}", "--", "-k", "leaks"]) == 1
    assert commands[0][-4:] == ["-m", "", "-k", "leaks"]  # Slow tests as well.
    _, entry = read(path)
    assert (entry["test"], entry["outcome"]) == ("tests/faults/test_leaks.py::one", "passed")
    [line] = lines_of(table.read_text(), "| soak |")
    assert "last score 500" in line


def test_figures_name_their_test(tmp_path, monkeypatch):
    monkeypatch.setenv(FILE, str(tmp_path / "figures.jsonl"))
    record("here", steps=3)
    [entry] = read(tmp_path / "figures.jsonl")
    name = "tests/faults/test_report.py::test_figures_name_their_test"
    assert entry == {"harness": "here", "test": name, "figures": {"steps": 3}}


def test_all_harnesses_are_in_the_table():
    modules = {path.stem for path in Path(__file__).parent.glob("test_*.py")} - {"test_report"}
    assert modules <= ASKED.keys()
