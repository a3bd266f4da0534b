"""Runs of wandb, in offline mode; each in a process of its own, as wandb changes its process."""

import json
import os
import re
import signal
import struct
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

pytest.importorskip("wandb")

PRELUDE = """
import os, signal, subprocess, sys
from pathlib import Path
import numpy as np
from agents.runs.run_directory import RunDirectory
from agents.runs.metrics import Metrics
from agents.runs.wandb_tracker import wandb_tracker

run = RunDirectory(sys.argv[1])
run.path.mkdir(exist_ok=True)

def core():
    [pid] = subprocess.run(["pgrep", "-P", str(os.getpid()), "wandb-core"], capture_output=True).stdout.split()
    print("core", int(pid), flush=True)
    return int(pid)
"""
WRITE = """
with wandb_tracker(run) as tracker:
    core()
    metrics = Metrics(run, 0, tracker)
    metrics.config({"seed": 7, "layers": (64, 64)})
    metrics.scalars(100, {"losses/policy": 0.5, "episode/return": float("nan")})
    metrics.scalars(100, {"eval/return_mean": -150.0})
    metrics.histograms(200, {"rollout/reward": np.arange(31.0)})
    tracker.video(300, "video", Path(sys.argv[2]))
"""
LOST = """
import time
with wandb_tracker(run) as tracker:
    os.kill(core(), signal.SIGKILL)
    time.sleep(1)
    metrics = Metrics(run, 0, tracker)
    for step in range(5):
        metrics.scalars(step, {"losses/policy": 0.5})
        time.sleep(0.2)
"""
# Left, failed, beside a run of the user's own, and resumed and killed.
ENDS = """
import wandb
failed, beside, folder = map(Path, sys.argv[2:])
for path in (failed, beside):
    path.mkdir()

def scores():
    with wandb_tracker(run) as tracker:
        tracker.scalars(100, {"losses/policy": 0.5})
        yield

loop = scores()
next(loop)
loop.close()
try:
    with wandb_tracker(RunDirectory(failed)):
        1 / 0
except ZeroDivisionError:
    pass
mine = wandb.init(project="mine", dir=folder, settings=wandb.Settings(silent=True))
with wandb_tracker(RunDirectory(beside), folder / "other") as tracker:
    tracker.scalars(100, {"losses/policy": 0.5})
assert wandb.run is mine
mine.log({"mine": 3}, step=7)
mine.finish()
with wandb_tracker(run) as tracker:
    core()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def execute(code, *arguments, **variables):
    environment = {**os.environ, "WANDB_MODE": "offline", "WANDB_ERROR_REPORTING": "false"}
    return subprocess.run(
        [sys.executable, "-c", PRELUDE + textwrap.dedent(code), *map(str, arguments)],
        capture_output=True, text=True, env=environment | variables, timeout=120,
    )  # fmt: skip


def records(path):
    """The records of a .wandb file, a log as LevelDB writes it, in blocks of 32 KiB."""
    from wandb.proto.wandb_internal_pb2 import Record

    data, place, parts = path.read_bytes(), 7, b""
    while place + 7 <= len(data):
        if 2**15 - place % 2**15 < 7:
            place += 2**15 - place % 2**15
            continue
        _, length, kind = struct.unpack_from("<IHB", data, place)
        parts += data[place + 7 : place + 7 + length]
        place += 7 + length
        if kind in (1, 4):  # Whole, or the last part.
            yield Record.FromString(parts)
            parts = b""


def history(folder):
    """Rows by step of all of a run's files."""
    rows = {}
    for path in sorted(folder.glob("wandb/offline-run-*/run-*.wandb")):
        for record in records(path):
            items = {
                "/".join(item.nested_key) or item.key: json.loads(item.value_json)
                for item in record.history.item
            }
            if items:
                rows.setdefault(items["_step"], {}).update(items)
    return rows


def core_pid(process):
    return int(re.search(r"core (\d+)", process.stdout)[1])


def is_running(pid):
    status = Path(f"/proc/{pid}/stat")
    return status.exists() and status.read_text().rpartition(")")[2].split()[0] != "Z"


def test_scalars_histograms_video_and_configuration_arrive_and_one_line_is_printed(tmp_path):
    folder, video = tmp_path / "20260131T120000-pendulum", tmp_path / "film.mp4"
    video.write_bytes(b"\0\0\0\x18ftypmp42" + bytes(64))
    process = execute(WRITE, folder, video)
    assert process.returncode == 0, process.stderr
    assert not is_running(core_pid(process))
    [line] = [line for line in process.stderr.splitlines() if "wandb" in line.lower()]
    assert re.fullmatch(
        rf"Tracked in {folder}/wandb; upload it with: wandb sync .*/offline-run-\S+", line
    )
    [path] = folder.glob("wandb/offline-run-*/run-*.wandb")
    found = list(records(path))
    [run] = [record.run for record in found if record.run.run_id]
    assert run.display_name == folder.name and run.project == "agents"
    settings = {
        item.key: json.loads(item.value_json)
        for record in found
        for item in (*record.config.update, *record.run.config.update)
    }
    assert settings["seed"] == 7 and settings["layers"] == [64, 64]
    rows = history(folder)
    assert rows[100]["losses/policy"] == 0.5 and rows[100]["eval/return_mean"] == -150
    counts, edges = (rows[200][f"rollout/reward/{part}"] for part in ("values", "bins"))
    assert (len(counts), len(edges)) == (30, 31)
    assert (sum(counts), edges[0], edges[-1]) == (31, 0, 30)
    assert rows[300]["video/_type"] == "video-file"
    assert list(folder.glob("wandb/*/files/media/videos/*.mp4"))


def exit_codes(folder):
    return [
        record.exit.exit_code
        for path in folder.glob("wandb/offline-run-*/run-*.wandb")
        for record in records(path)
        if record.HasField("exit")
    ]


def test_leaving_the_loop_is_no_failure_and_a_killed_run_is_resumed_as_the_same_one(tmp_path):
    left, failed, beside, mine = (tmp_path / name for name in ("left", "failed", "run", "mine"))
    mine.mkdir()
    process = execute(ENDS, left, failed, beside, mine)
    assert process.returncode == -signal.SIGKILL, process.stderr
    assert (exit_codes(left), exit_codes(failed)) == ([0], [1])
    assert history(mine)[7]["mine"] == 3  # It continued beside a tracked one.
    assert history(mine / "other")[100]["losses/policy"] == 0.5
    assert not (beside / "wandb").exists()
    files = list(left.glob("wandb/offline-run-*/run-*.wandb"))
    name = (left / "wandb-id.txt").read_text()
    assert [path.stem for path in files] == 2 * [f"run-{name}"]
    deadline = time.monotonic() + 10
    while is_running(core_pid(process)):
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_a_failure_later_is_one_warning(tmp_path):
    process = execute(LOST, tmp_path)
    assert process.returncode == 0
    warned = [line for line in process.stderr.splitlines() if "Warning" in line]
    assert len(warned) == 1 and "wandb failed, and receives no more of this run" in warned[0]
    assert "Traceback" not in process.stderr
    assert len((tmp_path / "metrics.jsonl").read_text().splitlines()) == 5


def test_without_login_the_message_says_what_to_do(tmp_path):
    process = execute(
        "with wandb_tracker(run): pass", tmp_path / "run", HOME=str(tmp_path), WANDB_MODE="online",
        WANDB_API_KEY="", NETRC=str(tmp_path / "netrc"),
    )  # fmt: skip
    assert process.returncode == 1
    assert process.stderr.splitlines()[-2:] == [
        "agents.errors.UsageError: --track=wandb: no user is logged in",
        "run `wandb login`, or set WANDB_MODE=offline to keep its files in the run's folder",
    ]
    assert list((tmp_path / "run").iterdir()) == []


@pytest.mark.slow
def test_without_network_the_start_fails_within_half_a_minute(tmp_path):
    process = execute(
        "with wandb_tracker(run): pass", tmp_path / "run", HOME=str(tmp_path), WANDB_MODE="online",
        WANDB_API_KEY=40 * "a", WANDB_BASE_URL="http://127.0.0.1:9",
    )  # fmt: skip
    assert "UsageError: --track=wandb: " in process.stderr.splitlines()[-2]
    assert list((tmp_path / "run").iterdir()) == []


def test_without_the_package_the_extra_is_named(tmp_path, monkeypatch):
    from agents.errors import UsageError
    from agents.runs.run_directory import RunDirectory
    from agents.runs.wandb_tracker import wandb_tracker

    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"needs the package wandb, .*\n.*install .*\[wandb\]'"):
        with wandb_tracker(RunDirectory(tmp_path)):
            pass
