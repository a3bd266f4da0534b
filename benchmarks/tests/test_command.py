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
    content = json.loads(Path("out.json").read_text())
    origins = content.pop("origins")
    medians = {suite: cases["case"]["ours"]["median"] for suite, cases in content.items()}
    assert set(origins) == set(medians) and "gymnasium" in origins["update"]["versions"]
    assert medians == {"stepping": 7, "update": 7}
    text = Path("out.md").read_text()
    assert "## Stepping" in text and "## Update" in text and "## Training" not in text
    assert {path.name for path in Path("plots").iterdir()} == {"stepping.png", "update.png"}
