import json
import sys
from pathlib import Path

import pytest

from benchmarks import command
from benchmarks.suites import SUITES


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
