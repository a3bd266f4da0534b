"""Trains presets over seeds and writes RESULTS.md and results.json.

    python scripts/results.py pendulum cartpole --seeds=10
    python scripts/results.py cheetah --seeds=1 --steps=100000 --at-once=1 --env-backend=process

As many runs at a time as there are cores. Runs that have ended are kept, and those that were stopped are resumed, so
that the same command can be given again; each preset that is named replaces its row in both files.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from agents.config import load_config
from agents.runs.metrics import read_metrics
from agents.runs.run_directory import RunDirectory
from agents.tools.errors import UsageError

ROOT = Path(__file__).parent.parent

# Returns that others published for the same task; environment versions and numbers of steps differ, see their pages.
PUBLISHED: dict[str, dict[str, float]] = {
    "pendulum": {"RL-Zoo, 100k steps": -172.2, "CleanRL, 8M steps": -1142},
    "cartpole": {"RL-Zoo, 100k steps": 500, "CleanRL, 500k steps": 490},
    "acrobot": {"RL-Zoo, 1M steps": -73.5, "CleanRL, 500k steps": -86.4},
    "mountain_car_continuous": {"RL-Zoo, 20k steps": 88},
    "reacher": {"TF-Agents, 1M steps": -7.7, "Tianshou, 1M steps": -4.1},
    "cheetah": {
        "CleanRL, 1M steps": 1443,
        "RL-Zoo, 1M steps": 5819,
        "TF-Agents, 1M steps": 4239,
        "Tianshou, 1M steps": 5784,
    },
    "hopper": {
        "CleanRL, 1M steps": 2383,
        "RL-Zoo, 1M steps": 2410,
        "TF-Agents, 1M steps": 2530,
        "Tianshou, 1M steps": 2609,
    },
    "walker": {
        "CleanRL, 1M steps": 2288,
        "RL-Zoo, 1M steps": 3479,
        "TF-Agents, 1M steps": 2971,
        "Tianshou, 1M steps": 3589,
    },
    "ant": {"RL-Zoo, 1M steps": 1327, "Tianshou, 1M steps": 3258},
    "humanoid": {"CleanRL, 1M steps": 716, "Tianshou, 1M steps": 787},
}


def main() -> None:
    """Trains what is missing, and writes both files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("presets", nargs="+", metavar="PRESET")
    parser.add_argument("--seeds", type=int, default=10, help="seeds 0 to SEEDS - 1 (default: %(default)s)")
    parser.add_argument("--at-once", type=int, default=os.cpu_count(), help="runs at a time (default: all cores)")
    parser.add_argument("--logdir", type=Path, default=ROOT / "logdir" / "results", help="where the runs are kept")
    parser.add_argument("--outdir", type=Path, default=ROOT, help="where RESULTS.md and results.json are")
    options, settings = parser.parse_known_args()
    # Several runs share the machine: environments in the same process leave it to the system to divide the cores.
    settings = [*([] if any("env-backend" in each for each in settings) else ["--env-backend=inline"]), *settings]
    jobs = [(preset, seed) for preset in options.presets for seed in range(options.seeds)]
    with ThreadPoolExecutor(options.at_once) as pool:
        runs = list(pool.map(lambda job: train(options.logdir, *job, settings), jobs))
    table = read_json(options.outdir / "results.json")
    for preset in options.presets:
        chosen = [run for (each, _), run in zip(jobs, runs, strict=True) if each == preset]
        table[preset] = summarize(preset, chosen, command_of(preset, options, settings))
    (options.outdir / "results.json").write_text(json.dumps(table, indent=2) + "\n")
    (options.outdir / "RESULTS.md").write_text(markdown(table))


def train(logdir: Path, preset: str, seed: int, settings: list[str]) -> dict[str, Any]:
    """Trains one preset with one seed, unless that was done; returns steps, return, seconds and steps a second."""
    folder = logdir / f"{preset}-{'_'.join(each.strip('-') for each in settings)}" / f"seed-{seed}"
    done = folder / "result.json"
    if done.is_file():
        return read_json(done)
    command = [sys.executable, "-m", "agents.scripts.train", f"--logdir={folder}", f"--config={preset}"]
    runs = sorted(folder.glob(f"*-{preset}"))
    if runs:
        command.append(f"--timestamp={RunDirectory(runs[-1]).timestamp}")
    start = time.monotonic()
    ended = subprocess.run([*command, f"--seed={seed}", *settings], capture_output=True, text=True)
    if ended.returncode:
        sys.exit(f"{preset} with seed {seed} failed:\n{ended.stderr}")
    rows = read_metrics(sorted(folder.glob(f"*-{preset}"))[-1] / "metrics.jsonl")
    last = [row for row in rows if "eval/return_mean" in row][-1]
    result = {
        "env": load_config(preset).env,
        "steps": last["step"],
        "return": last["eval/return_mean"],
        "seconds": time.monotonic() - start,
        "resumed": bool(runs),
        "steps_per_second": statistics.median(r["perf/steps_per_second"] for r in rows if "perf/steps_per_second" in r),
    }
    done.write_text(json.dumps(result) + "\n")
    print(f"{preset}, seed {seed}: {result['return']:.1f} in {result['seconds']:.0f} s", flush=True)
    return result


def summarize(preset: str, runs: list[dict[str, Any]], command: str) -> dict[str, Any]:
    """One row of the results."""
    returns = [run["return"] for run in runs]
    whole = [run["seconds"] for run in runs if not run["resumed"]] or [float("nan")]
    return {
        "env": runs[0]["env"],
        "steps": runs[0]["steps"],
        "returns": returns,
        "mean": statistics.fmean(returns),
        "std": statistics.pstdev(returns),
        "seconds": statistics.fmean(whole),
        "steps_per_second": statistics.median(run["steps_per_second"] for run in runs),
        "command": command,
        "published": PUBLISHED.get(preset, {}),
    }


def markdown(table: dict[str, Any]) -> str:
    """The table as RESULTS.md."""
    lines = [
        "# Results",
        "",
        "Mean return of 20 episodes with deterministic actions, scored with the last checkpoint, over seeds; written",
        "by `scripts/results.py`. Seconds are wall clock for one run, from the start of its process to its end, and",
        "steps/s are environment steps while training, both with as many runs at a time as the command says.",
        "Published figures are those of other libraries; their environment versions and settings differ.",
        "",
        "| preset | environment | steps | seeds | mean | std | worst | best | seconds | steps/s | published |",
        "|:-|:-|-:|-:|-:|-:|-:|-:|-:|-:|:-|",
    ]
    for preset, row in sorted(table.items()):
        published = "; ".join(f"{who}: {figure:g}" for who, figure in row["published"].items())
        numbers = [row["mean"], row["std"], min(row["returns"]), max(row["returns"])]
        cells = [preset, row["env"], f"{row['steps']:,}", len(row["returns"]), *(f"{number:.1f}" for number in numbers)]
        cells += [f"{row['seconds']:.0f}", f"{row['steps_per_second']:,.0f}", published]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    lines += ["", "## Commands", ""]
    lines += [f"- {preset}: `{row['command']}`" for preset, row in sorted(table.items())]
    return "\n".join(lines) + "\n"


def command_of(preset: str, options: argparse.Namespace, settings: list[str]) -> str:
    """The command that makes one row."""
    given = [f"--seeds={options.seeds}", f"--at-once={options.at_once}", *settings]
    return " ".join(["python scripts/results.py", preset, *given])


def read_json(path: Path) -> dict[str, Any]:
    """The content of a JSON file, or nothing if there is none."""
    return json.loads(path.read_text()) if path.is_file() else {}


if __name__ == "__main__":
    try:
        main()
    except UsageError as error:
        sys.exit(f"error: {error}")
