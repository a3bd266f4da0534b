"""Trains presets over seeds, and writes our figures beside published ones: RESULTS.md, results.json and pictures.

    python scripts/results.py pendulum cartpole --seeds=10
    python scripts/results.py cheetah --seeds=1 --steps=100000 --at-once=1 --env-backend=process
    python scripts/results.py pendulum --label=pendulum_kl --target=-170 --objective=kl
    python scripts/results.py pendulum_no_velocity --label=feed_forward --target=none --recurrent=none
    python scripts/results.py

Any setting can be overridden. As many runs at a time as there are cores, each on one of them. Runs that have ended are
kept, and those that were stopped are resumed, so that the same command can be given again; each row that is named is
replaced. Without presets, RESULTS.md and the pictures are written again from results.json and results/notes.yaml, where
people write what was tried, by row.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shlex
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

from learning_curves import draw_learning_curves, short_steps
from published import SOURCES, Figure, Task, published
from pydantic import BaseModel
from ruamel.yaml import YAML

from agents.command_line import parse_command
from agents.config import Config, load_config
from agents.runs.metrics import read_metrics
from agents.runs.run_directory import RunDirectory
from agents.tools.errors import UsageError

ROOT = Path(__file__).parent.parent
POINTS = 10  # Of a learning curve, at least.
NEAR = 0.02  # Numbers of steps that differ by less count as the same: whole rollouts are trained on.


class NoOptions(BaseModel):
    """Settings of the runs."""


def main() -> None:
    """Trains what is missing, and writes everything."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("presets", nargs="*", metavar="PRESET")
    parser.add_argument("--seeds", type=int, default=10, help="seeds 0 to SEEDS - 1 (default: %(default)s)")
    parser.add_argument("--at-once", type=int, default=os.cpu_count(), help="runs at a time (default: all cores)")
    parser.add_argument("--label", help="name of the row, where that is not the preset's")
    parser.add_argument(
        "--target",
        type=target,
        default=argparse.SUPPRESS,
        help="return to reach, where it is not that of the environment; none where a row is only to be compared with",
    )
    parser.add_argument("--logdir", type=Path, default=ROOT / "logdir" / "results", help="where the runs are kept")
    parser.add_argument("--outdir", type=Path, default=ROOT, help="where RESULTS.md, results.json and results/ are")
    options, settings = parser.parse_known_args()
    if (options.label or "target" in options) and len(options.presets) != 1:
        raise UsageError("--label and --target are about one row; expected one preset")
    given = {preset: complete(preset, settings) for preset in options.presets}  # Refuses mistakes before any training.
    with ThreadPoolExecutor(options.at_once) as pool:
        rows = {
            options.label or preset: [
                pool.submit(train, options.logdir, options.label or preset, preset, seed, given[preset])
                for seed in range(options.seeds)
            ]
            for preset in options.presets
        }
        write(options.outdir, {})
        for preset, (label, jobs) in zip(options.presets, rows.items(), strict=True):
            runs = [run for job in jobs if (run := job.result())]
            if len(runs) == options.seeds:  # Those that failed have said so.
                row = {"preset": preset, **summarize(runs), "command": command_of(preset, options, settings)}
                row |= {"own_target": options.target} if "target" in options else {}
                write(options.outdir, {label: row})
    if not all(job.result() for jobs in rows.values() for job in jobs):
        sys.exit("error: some runs failed, see above; the same command tries them again")


def target(text: str) -> float | None:
    """What `--target` says."""
    return None if text == "none" else float(text)


def complete(preset: str, settings: list[str]) -> list[str]:
    """The settings, checked, and what a results run needs besides.

    Raises:
      UsageError: A setting is unknown or wrong, or there is no such preset.
    """
    _, overrides = parse_command(NoOptions, settings, program="results.py", settings=Config)
    if "seed" in overrides:
        raise UsageError("--seed can't be given here; --seeds tells how many")
    config = load_config(preset, **overrides)
    complete = list(settings)
    if "env_backend" not in overrides:
        # Several runs share the machine: environments in the same process leave it to the system to divide the cores.
        complete.insert(0, "--env-backend=inline")
    if "eval_interval" not in overrides and config.steps < POINTS * config.eval_interval:
        complete.append(f"--eval-interval={max(config.steps // POINTS, 1)}")
    return complete


def train(logdir: Path, label: str, preset: str, seed: int, settings: list[str]) -> dict[str, Any] | None:
    """Trains one preset with one seed, unless that was done.

    Returns:
      Nothing if that failed, which is printed; or the environment, steps and returns of all evaluations, the seconds
      that it took, whether it was stopped meanwhile, and steps a second.
    """
    folder = logdir / folder_name(label, settings) / f"seed-{seed}"
    timing = folder / "result.json"
    if not timing.is_file():
        runs = sorted(folder.glob(f"*-{preset}"))
        command = [sys.executable, "-m", "agents.scripts.train", f"--logdir={folder}", f"--config={preset}"]
        if runs:
            command.append(f"--timestamp={RunDirectory(runs[-1]).timestamp}")
        start = time.monotonic()
        # Whatever else would use threads: one core for each run.
        threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        command += [f"--seed={seed}", *settings]
        ended = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **threads})
        if ended.returncode:
            print(f"{label}, seed {seed} failed:\n{ended.stderr}", file=sys.stderr, flush=True)
            return None
        timing.write_text(json.dumps({"seconds": time.monotonic() - start, "resumed": bool(runs)}) + "\n")
    run = RunDirectory(sorted(folder.glob(f"*-{preset}"))[-1])
    rows = read_metrics(run.metrics_file)
    curve = {int(row["step"]): row["eval/return_mean"] for row in rows if "eval/return_mean" in row}
    rates = [row["perf/steps_per_second"] for row in rows if "perf/steps_per_second" in row]
    told = read_json(timing)
    print(f"{label}, seed {seed}: {list(curve.values())[-1]:.1f} in {told['seconds']:.0f} s", flush=True)
    return {
        "env": run.load_config().env,
        "curve": curve,
        "seconds": told["seconds"],
        "resumed": told["resumed"],
        "steps_per_second": statistics.median(rates),
    }


def summarize(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """One row of the results, of a run for each seed."""
    curves = [run["curve"] for run in runs]
    steps = sorted(set.intersection(*(set(curve) for curve in curves)))
    returns = [curve[steps[-1]] for curve in curves]
    whole = [run["seconds"] for run in runs if not run["resumed"]]
    return {
        "env": runs[0]["env"],
        "steps": steps[-1],
        "returns": [round(value, 3) for value in returns],
        "mean": statistics.fmean(returns),
        "std": statistics.pstdev(returns),
        "seconds": statistics.fmean(whole) if whole else None,
        "steps_per_second": statistics.median(run["steps_per_second"] for run in runs),
        "curves": {"steps": steps, "returns": [[round(curve[step], 2) for step in steps] for curve in curves]},
    }


def compare(row: dict[str, Any]) -> dict[str, Any]:
    """A row together with what others published, whom it is as good as, the target, and whether that is reached."""
    task = task_of(row)
    figures = {who: asdict(figure) for who, figure in task.figures.items()}
    target = asdict(task.target) if task.target else None
    reached = [who for who, figure in task.figures.items() if row["mean"] >= figure.mean]
    told = {"published": figures, "as_good_as": reached, "target": target}
    return {**row, **told, "verdict": verdict(row["mean"], row["steps"], task.target)}


def task_of(row: dict[str, Any]) -> Task:
    """What others reached in the row's environment, and what this row is to reach."""
    task = published(row["env"])
    if "own_target" not in row:
        return task
    return Task(task.figures, None if row["own_target"] is None else Figure(row["own_target"], row["steps"]))


def verdict(mean: float, steps: int, target: Figure | None) -> str:
    """Whether a target is reached, and with how many steps; nothing where there is none."""
    if target is None:
        return ""
    if mean >= target.mean:
        late = steps > target.steps * (1 + NEAR)
        return f"reached, but with {short_steps(steps)} steps" if late else "reached"
    early = steps < target.steps * (1 - NEAR)
    return f"MISSED, with {short_steps(steps)} steps" if early else "MISSED"


def write(outdir: Path, changed: dict[str, Any]) -> None:
    """Writes results.json, RESULTS.md and the pictures again, with some rows changed."""
    folder = outdir / "results"
    folder.mkdir(parents=True, exist_ok=True)
    rows = {**read_json(outdir / "results.json"), **changed}
    table = {label: compare(row) for label, row in sorted(rows.items())}
    for label, row in table.items():
        if "curves" in row:
            task, title = task_of(row), f"{label} ({row['env']})"
            draw_learning_curves(
                folder / f"{label}.png", title, **row["curves"], peers=task.figures, target=task.target
            )
    (outdir / "results.json").write_text(compact_json(table) + "\n")
    (outdir / "RESULTS.md").write_text(markdown(table, read_notes(folder / "notes.yaml")))


def markdown(table: dict[str, Any], notes: dict[str, str]) -> str:
    """The content of RESULTS.md; `notes` are what people wrote about rows."""
    lines = [
        "# Results",
        "",
        "Mean return of 20 episodes with deterministic actions, scored with the last checkpoint, over seeds; written",
        "by `scripts/results.py`. Seconds are wall clock for one run, from the start of its process to its end, and",
        "steps/s are environment steps while training, both with as many runs at a time as the command says. Published",
        "figures are returns of other libraries' PPO, with the steps after which; their environment versions and",
        "settings differ:",
        "",
        *(f"- {source}: {told}" for source, told in SOURCES.items()),
        "",
        *summary(table),
        "",
        "| row | environment | steps | seeds | mean | worst | best | target | | as good as | "
        + " | ".join(SOURCES)
        + " |",
        "|:-|:-|-:|-:|-:|-:|-:|-:|:-|:-|" + "-:|" * len(SOURCES),
    ]
    for label, row in table.items():
        task, returns = task_of(row), row["returns"]
        cells = [f"[{label}](#{label})", row["env"], f"{row['steps']:,}", len(returns)]
        cells += [f"{row['mean']:.1f} ± {row['std']:.1f}", f"{min(returns):.1f}", f"{max(returns):.1f}"]
        cells += [told(task.target), row["verdict"].replace("MISSED", "**MISSED**"), ", ".join(row["as_good_as"])]
        cells += [told(task.figures.get(source)) for source in SOURCES]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    for label, row in table.items():
        lines += ["", *section(label, row, notes.get(label, ""))]
    return "\n".join(lines) + "\n"


def summary(table: dict[str, Any]) -> list[str]:
    """How many targets are reached, and which are not."""
    missed = [f"[{label}](#{label})" for label, row in table.items() if row["verdict"].startswith("MISSED")]
    number = sum(bool(row["verdict"]) for row in table.values())
    told = f"**Missed: {', '.join(missed)}.**" if missed else "None is missed."
    return [f"{number - len(missed)} of {number} targets are reached. {told}"]


def section(label: str, row: dict[str, Any], note: str) -> list[str]:
    """One row's picture, what people noted, and how it was made."""
    lines = [f"## {label}", ""]
    if "curves" in row:
        lines += [f"![Learning curves of {label}](results/{label}.png)", ""]
    if note:
        lines += [note.strip(), ""]
    seconds = f"{row['seconds']:.0f} s a run" if row["seconds"] else "all runs were resumed"
    return [*lines, f"`{row['command']}` ({seconds}, {row['steps_per_second']:,.0f} steps/s)"]


def told(figure: Figure | None) -> str:
    """A figure as a cell of the table."""
    if figure is None:
        return ""
    spread = "" if figure.std is None else f" ± {figure.std:g}"
    return f"{figure.mean:g}{spread} ({short_steps(figure.steps)})"


def folder_name(label: str, settings: list[str]) -> str:
    """The name of the folder with the runs of a row: the same for the same settings."""
    name = f"{label}-{'_'.join(each.strip('-') for each in settings)}"
    plain = re.sub(r"[^\w.,=-]", "_", name)
    return plain if len(plain) <= 150 else f"{plain[:140]}-{hashlib.sha256(name.encode()).hexdigest()[:9]}"


def command_of(preset: str, options: argparse.Namespace, settings: list[str]) -> str:
    """The command that makes one row."""
    given = [f"--seeds={options.seeds}", f"--at-once={options.at_once}"]
    given += [f"--label={options.label}"] * bool(options.label)
    if "target" in options:
        given.append("--target=none" if options.target is None else f"--target={options.target:g}")
    return shlex.join(["python", "scripts/results.py", preset, *given, *settings])


def compact_json(table: dict[str, Any]) -> str:
    """JSON with every list of numbers in a line of its own."""
    return re.sub(r"\[[^\[\]{}\"]*\]", lambda found: " ".join(found[0].split()), json.dumps(table, indent=2))


def read_json(path: Path) -> dict[str, Any]:
    """The content of a JSON file, or nothing if there is none."""
    return json.loads(path.read_text()) if path.is_file() else {}


def read_notes(path: Path) -> dict[str, str]:
    """What people wrote about rows, by label."""
    return (YAML(typ="safe", pure=True).load(path.read_text()) if path.is_file() else None) or {}


if __name__ == "__main__":
    try:
        main()
    except UsageError as error:
        sys.exit(f"error: {error}")
