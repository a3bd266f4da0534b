import json
import re
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "scripts" / "results.py"


def run_script(*arguments, **options):
    command = [sys.executable, str(SCRIPT), *arguments]
    return subprocess.run(command, capture_output=True, text=True, **options)


def test_writes_the_report_from_any_directory(tmp_path):
    row = {"env": "Acrobot-v1", "steps": 500_000, "returns": [-80.0, -70.0], "mean": -75.0}
    row |= {"std": 5.0, "seconds": 96.0, "steps_per_second": 7592.8, "command": "as in the past"}
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "results.json").write_text(json.dumps({"acrobot": row}))
    process = run_script("--outdir=.", cwd=tmp_path)
    assert process.returncode == 0, process.stderr
    text = (tmp_path / "results" / "details.md").read_text()
    assert re.search(r"\[acrobot\].* 500k \| +2 \| +1.6 \| -75.0 ± 5.0 \|", text)
    assert "-75.0 ± 5.0." in text and (tmp_path / "RESULTS.md").exists()


def test_mistakes_are_one_error_line(tmp_path):
    process = run_script("--target=3", f"--outdir={tmp_path}")
    assert process.returncode == 1
    assert process.stderr.startswith("error: --label and --target are about one row")
    assert len(process.stderr.splitlines()) == 1 and list(tmp_path.iterdir()) == []
