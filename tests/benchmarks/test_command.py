import contextlib
import json
import sys
from pathlib import Path

import pytest

from benchmarks import command
from benchmarks.runner import ROOT
from benchmarks.suites import SUITES


@pytest.mark.parametrize("equal", [True, False])
def test_another_commit_competes_instead_of_peers(equal, make_case, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(SUITES["stepping"], "cases", lambda quick: [make_case(ours="has_parts")])
    (tmp_path / "benchmarks").symlink_to(ROOT / "benchmarks")
    monkeypatch.setattr(command, "checked_out", lambda commit: contextlib.nullcontext(tmp_path))
    monkeypatch.setattr(command, "end_in_equal_numbers", lambda *trees: equal)
    monkeypatch.setattr(sys, "argv", ["benchmark.py", "--suite=stepping", "--against=HEAD~1"])
    if equal:
        command.main()
    else:
        with pytest.raises(SystemExit, match="end in other numbers than those of"):
            command.main()
    assert f"ratio_{tmp_path.name} 1 (1 to 1)" in capsys.readouterr().err


def test_finished_suites_are_kept_when_a_later_one_is_interrupted(make_case, tmp_path, monkeypatch):
    def interrupt(quick):
        raise KeyboardInterrupt

    case = make_case(ours=("succeeds", {"log": str(tmp_path / "log"), "name": "a", "value": 7}))
    monkeypatch.setattr(SUITES["stepping"], "cases", lambda quick: [case])
    monkeypatch.setattr(SUITES["update"], "cases", lambda quick: [case])
    monkeypatch.setattr(SUITES["training"], "cases", interrupt)
    monkeypatch.chdir(tmp_path)
    arguments = ["--json=out.json", "--markdown=out.md", "--plot=plots"]
    monkeypatch.setattr(sys, "argv", ["benchmark.py", *arguments])
    with pytest.raises(KeyboardInterrupt):
        command.main()
    medians = {
        suite: cases["case"]["ours"]["median"]
        for suite, cases in json.loads(Path("out.json").read_text()).items()
    }
    assert medians == {"stepping": 7, "update": 7}
    text = Path("out.md").read_text()
    assert "## Stepping" in text and "## Update" in text and "## Training" not in text
    assert {path.name for path in Path("plots").iterdir()} == {"stepping.png", "update.png"}


def test_figures_of_suites_that_are_not_measured_are_kept(make_case, tmp_path, monkeypatch):
    case = make_case(ours=("succeeds", {"log": str(tmp_path / "log"), "name": "a", "value": 7}))
    monkeypatch.setattr(SUITES["update"], "cases", lambda quick: [case])
    path = tmp_path / "out.json"
    path.write_text('{"stepping": {"a case": {}}, "update": {"an old case": {}}}')
    monkeypatch.setattr(sys, "argv", ["benchmark.py", "--suite=update", f"--json={path}"])
    command.main()
    kept = json.loads(path.read_text())
    assert list(kept) == ["stepping", "update"] and list(kept["stepping"]) == ["a case"]
    assert list(kept["update"]) == [case.name]


def test_variants_that_are_left_out_for_the_same_reason_share_a_line(make_case, monkeypatch):
    case = make_case(ours="has_parts", **{"A-1": "not_installed", "A-2": "not_installed"})
    monkeypatch.setattr(SUITES["stepping"], "cases", lambda quick: [case])
    section = command.run_suite("stepping", quick=False)
    reason = "ModuleNotFoundError: No module named 'no_such_package'"
    assert section.left_out == [f"Left out of case: A-1, A-2: {reason}"]
