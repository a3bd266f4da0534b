import json
from pathlib import Path

from agents.runs.preset_table import EXPECTED, preset_table
from agents.settings.config_file import preset_names
from results.expected import expected_results

ROOT = Path(__file__).parents[2]


def rows():
    header, *lines = preset_table()
    cells = [line.split() for line in lines[: lines.index("")]]
    return [dict(zip(header.split(), row, strict=True)) for row in cells]


def test_every_preset_has_a_row_by_families():
    names = [row["preset"] for row in rows()]
    assert sorted(names) == preset_names()
    extras = [row["extra"] for row in rows()]
    assert extras == sorted(extras, key=lambda extra: "" if extra == "-" else extra)
    assert {"-", "atari", "box2d", "bullet", "dm-control", "minigrid", "mujoco"} == set(extras)


def test_rows_have_what_was_measured_and_hyphens():
    by_name = {row["preset"]: row for row in rows()}
    assert by_name["pong"]["return"] == "-"  # Measured with other settings only.
    assert by_name["pong"]["extra"] == "atari" and by_name["pong"]["steps"] == "10,000,000"
    measured = json.loads((ROOT / "results" / "results.json").read_text())["hopper"]
    hopper = by_name["hopper"]
    assert float(hopper["return"]) == round(measured["mean"], 1)
    assert float(hopper["minutes"]) == round(measured["seconds"] / 60, 1)
    assert hopper["environment"] == measured["env"] and hopper["extra"] == "mujoco"


def test_the_table_fits_a_terminal():
    assert max(map(len, preset_table()[:-1])) <= 100  # The last line may name a long folder.


def test_the_library_has_the_results_as_they_are():
    table = json.loads((ROOT / "results" / "results.json").read_text())
    assert EXPECTED.read_text() == expected_results(table)


def test_resumed_runs_have_no_duration():
    row = {"preset": "ant", "command": "python scripts/results.py ant --seeds=2", "mean": 1.23}
    expected = json.loads(expected_results({"ant": {**row, "seconds": None, "steps": 5}}))
    assert expected["ant"]["minutes"] is None and expected["ant"]["return"] == 1.2
