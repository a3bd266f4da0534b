import json
import os
import subprocess
import sys
from pathlib import Path

from benchmarks.summary import peers

SCRIPT = Path(__file__).parents[2] / "scripts" / "benchmark.py"


def run_script(*arguments, **options):
    command = [sys.executable, str(SCRIPT), *arguments]
    return subprocess.run(command, capture_output=True, text=True, **options)


def test_runs_with_the_installed_peers_from_any_directory(tmp_path):
    (tmp_path / "envpool.py").write_text("raise ImportError('as if it were not installed')")
    process = run_script(
        "--suite=stepping",
        "--quick",
        "--only=Pendulum-v1/process/8",
        "--json=out.json",
        "--plot=plots",
        "--markdown=BENCHMARKS.md",
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )
    assert process.returncode == 0, process.stderr
    assert "left out: EnvPool: ImportError: as if it were not installed" in process.stderr
    entry = json.loads((tmp_path / "out.json").read_text())["stepping"]["Pendulum-v1/process/8"]
    assert {"ours", "SyncVectorEnv", "AsyncVectorEnv", "limit", "of_limit"} <= set(entry)
    for name in ("ours", *peers(entry)):
        assert 0 < entry[name]["min"] <= entry[name]["median"] <= entry[name]["max"]
        assert entry[name]["unit"] == "steps/s"
    assert all(entry[f"ratio_{name}"] > 0 for name in peers(entry))
    text = (tmp_path / "BENCHMARKS.md").read_text()
    assert "Left out of Pendulum-v1/process/8: EnvPool" in text and "gymnasium" in text
    assert "`python scripts/benchmark.py --suite=stepping --quick" in text
    assert (tmp_path / "plots" / "stepping.png").is_file()


def test_fails_when_nothing_can_be_measured():
    process = run_script("--suite=stepping", "--only=no such case")
    assert process.returncode == 1
    assert process.stderr.endswith("error: nothing could be measured; see above\n")
