"""Runs of one preset with one seed each."""

from __future__ import annotations

import hashlib
import json
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from agents.runs.metrics_file import read_metrics
from agents.runs.run_directory import RunDirectory
from results.versions import versions

AVERAGED = "eval/averaged_return_mean"


@dataclass(frozen=True)
class Run:
    """A finished run.

    Attributes:
      path: Its folder.
      env: The environment, and the names of its wrappers: `Pendulum-v1, hide_velocity`.
      curve: Mean return of every evaluation, by environment steps.
      averaged: That of the averaged weights at the last evaluation; None without any.
      seconds: Duration of its last process.
      resumed: Whether it was stopped before and resumed, so that `seconds` is not the whole.
      steps_per_second: Median training speed, in environment steps.
      versions: Of the packages that its returns depend on; none of old runs.
      algorithm: The setting `algorithm`.
    """

    path: Path
    env: str
    curve: dict[int, float]
    averaged: float | None
    seconds: float
    resumed: bool
    steps_per_second: float
    versions: dict[str, str] = field(default_factory=dict)
    algorithm: str = "ppo"


def train(logdir: Path, label: str, preset: str, seed: int, settings: Sequence[str]) -> Run | None:
    """Trains one preset with one seed, unless that run is finished.

    Args:
      logdir: Folder for the runs of all rows.
      label: Name of the row.
      preset: Name of the preset.
      seed: Seed of the run.
      settings: Options of the training command.

    Returns:
      The run; None if it failed, which is printed.
    """
    folder = logdir / folder_name(label, settings) / f"seed-{seed}"
    timing = folder / "result.json"
    if not timing.is_file():
        started = _folders(folder, preset)
        arguments = [f"--logdir={folder}", f"--config={preset}"]
        if started:
            arguments.append(f"--timestamp={RunDirectory(started[-1]).timestamp}")
        start = time.monotonic()
        process = _run_training([*arguments, f"--seed={seed}", *settings])
        if process.returncode:
            print(f"{label}, seed {seed} failed:\n{process.stderr}", file=sys.stderr, flush=True)
            return None
        measured = {"seconds": time.monotonic() - start, "resumed": bool(started)}
        env = RunDirectory(_folders(folder, preset)[-1]).load_config().env
        timing.write_text(json.dumps({**measured, "versions": versions(env)}) + "\n")
    run = _read_run(_folders(folder, preset)[-1], timing)
    score = list(run.curve.values())[-1]
    print(f"{label}, seed {seed}: {score:.1f} in {run.seconds:.0f} s", flush=True)
    return run


def _folders(folder: Path, preset: str) -> list[Path]:
    """Returns the runs of a preset, the last one last; those in other environments are named after them."""
    return sorted(folder.glob(f"*-{preset}*"))


def folder_name(label: str, settings: Sequence[str]) -> str:
    """Returns the name of the folder for a row's runs: equal settings have the same folder."""
    name = f"{label}-{'_'.join(each.strip('-') for each in settings)}"
    plain = re.sub(r"[^\w.,=-]", "_", name)
    if len(plain) <= 150:
        return plain
    return f"{plain[:140]}-{hashlib.sha256(name.encode()).hexdigest()[:9]}"


def _run_training(arguments: Sequence[str]) -> subprocess.CompletedProcess[str]:
    # One core per run: other libraries' threads would compete with the other runs.
    threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, "-m", "agents.scripts.train", *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, **threads},
    )


def _read_run(path: Path, timing: Path) -> Run:
    """Reads a finished run from its folder and the file with its duration and versions."""
    run = RunDirectory(path)
    config = run.load_config()
    rows = read_metrics(run.metrics_file)
    speeds = [row["perf/steps_per_second"] for row in rows if "perf/steps_per_second" in row]
    return Run(
        path=path,
        algorithm=config.algorithm,
        env=", ".join([config.env, *(name.rpartition(":")[2] for name in config.env_wrappers)]),
        curve={
            int(row["step"]): row["eval/return_mean"] for row in rows if "eval/return_mean" in row
        },
        averaged=next(
            (row[AVERAGED] for row in reversed(rows) if AVERAGED in row),
            None,
        ),
        **json.loads(timing.read_text()),
        steps_per_second=statistics.median(speeds),
    )
