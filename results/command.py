r"""Trains presets over seeds and compares them with published returns.

    python scripts/results.py pendulum cartpole --seeds=10
    python scripts/results.py cheetah --seeds=1 --steps=100000 --at-once=1 --env-backend=process
    python scripts/results.py pendulum --label=pendulum_kl --target=-170 --objective=kl
    python scripts/results.py pendulum_no_velocity --label=feed_forward --target=none \
        --recurrent=none
    python scripts/results.py sac --seeds=3 --first-seed=1
    python scripts/results.py

Any setting can be overridden. As many runs as there are cores train at a time, each on one core.
Finished runs are kept and stopped ones are resumed, so the same command can be repeated; each row
that is named is replaced. With --first-seed, it gets more seeds instead. Without presets, nothing is
trained: RESULTS.md, results/details.md, the plots and configs/expected.json, which `train --list`
shows, are written again from results/results.json and results/notes.yaml, which holds notes by row
that are written by hand.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import sys
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from pydantic import BaseModel
from ruamel.yaml import YAML

import agents
from agents.errors import UsageError
from agents.settings.config import Config
from agents.settings.parser import parse_command
from results.details import details
from results.expected import expected_results
from results.kept_runs import keep, median_run
from results.learning_curves import plot_algorithms, plot_learning_curves
from results.report import compact_json, page
from results.rows import Row, add_seeds, compare, figures_of, summarize, target_of
from results.runs import Run, train
from results.versions import versions

ROOT = Path(__file__).parents[1]
RUNS = Path("results") / "runs"  # In the folder of RESULTS.md.
# Rows of docs/guides/sac.md's picture by task and algorithm.
ALGORITHMS = {
    "Pendulum-v1": {"PPO": "pendulum", "SAC": "sac_pendulum"},
    "HalfCheetah-v5": {"PPO": "cheetah", "SAC": "sac"},
}
POINTS = 10  # Evaluations of a learning curve, at least.


class NoOptions(BaseModel):
    """Settings of the runs."""


def main() -> None:
    """Runs the command."""
    options, settings = _parser().parse_known_args()
    if (options.label or "target" in options) and len(options.presets) != 1:
        raise UsageError("--label and --target are about one row; expected one preset")
    # For all presets before any training, so that mistakes are reported at once.
    complete = {preset: complete_settings(preset, settings) for preset in options.presets}
    earlier = {preset: _earlier_seeds(preset, options, settings) for preset in options.presets}
    with ThreadPoolExecutor(options.at_once) as pool:
        jobs = {
            preset: [
                pool.submit(
                    train, options.logdir, options.label or preset, preset, seed, complete[preset]
                )
                for seed in range(options.first_seed, options.seeds)
            ]
            for preset in options.presets
        }
        write(options.outdir, {})
        for preset in options.presets:
            if row := _make_row(preset, jobs[preset], options, settings, earlier[preset]):
                write(options.outdir, {options.label or preset: row})
    if not all(job.result() for each in jobs.values() for job in each):
        sys.exit("error: some runs failed, see above; the same command tries them again")


def complete_settings(preset: str, settings: list[str]) -> list[str]:
    """Validates the settings and adds those that runs of several seeds need.

    Raises:
      UsageError: A setting is unknown or invalid, or there is no such preset.
    """
    _, overrides = parse_command(NoOptions, settings, program="results.py", settings=Config)
    if "seed" in overrides:
        raise UsageError("--seed can't be given here; --seeds is the number of seeds")
    config = agents.load_config(preset, **overrides)
    complete = list(settings)
    if "env_backend" not in overrides:
        # Several runs share the machine: worker processes would compete for the cores.
        complete.insert(0, "--env-backend=inline")
    if "eval_interval" not in overrides and config.steps < POINTS * config.eval_interval:
        complete.append(f"--eval-interval={max(config.steps // POINTS, 1)}")
    return complete


def write(outdir: Path, changed: Mapping[str, Row]) -> None:
    """Writes the pages, results.json, expected.json and the plots again, with changed rows by label."""
    folder = outdir / "results"
    folder.mkdir(parents=True, exist_ok=True)
    rows = _read_rows(outdir)
    table = {label: compare(row) for label, row in sorted({**rows, **changed}.items())}
    for label, row in table.items():
        if curves := row.get("curves"):
            title = f"{label} ({row['env']})"
            path = folder / f"{label}.png"
            plot_learning_curves(path, title, curves, figures_of(row), target_of(row))
    tasks = {
        task: {
            name: (table[row]["curves"], table[row]["steps_per_second"])
            for name, row in rows.items()
        }
        for task, rows in ALGORITHMS.items()
        if all("curves" in table.get(row, {}) for row in rows.values())
    }
    if tasks:
        images = outdir / "docs" / "images"
        images.mkdir(parents=True, exist_ok=True)
        plot_algorithms(images / "ppo_and_sac.png", tasks)
    (folder / "results.json").write_text(compact_json(table) + "\n")
    (outdir / "configs").mkdir(exist_ok=True)
    (outdir / "configs" / "expected.json").write_text(expected_results(table))
    (outdir / "RESULTS.md").write_text(page(table))
    (folder / "details.md").write_text(details(table, _read_notes(folder / "notes.yaml")))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("presets", nargs="*", metavar="PRESET")
    parser.add_argument(
        "--seeds", type=int, default=10, help="seeds 0 to SEEDS - 1 (default: %(default)s)"
    )
    parser.add_argument(
        "--first-seed",
        type=int,
        default=0,
        help="trains seeds from this one on, and adds them to the row, which has those before",
    )
    parser.add_argument(
        "--at-once", type=int, default=os.cpu_count(), help="runs at a time (default: all cores)"
    )
    parser.add_argument("--label", help="name of the row (default: the preset)")
    parser.add_argument(
        "--target",
        type=_parse_target,
        default=argparse.SUPPRESS,
        help="a target above the best published return, or none for a row without target",
    )
    parser.add_argument(
        "--logdir", type=Path, default=ROOT / "logdir" / "results", help="folder for the runs"
    )
    parser.add_argument(
        "--outdir", type=Path, default=ROOT, help="folder of RESULTS.md and results/"
    )
    return parser


def _parse_target(text: str) -> float | None:
    return None if text == "none" else float(text)


def _read_rows(outdir: Path) -> dict[str, Row]:
    """Returns the stored rows by label."""
    path = outdir / "results" / "results.json"
    rows: dict[str, Row] = json.loads(path.read_text()) if path.is_file() else {}
    return rows


def _earlier_seeds(preset: str, options: argparse.Namespace, settings: list[str]) -> Row | None:
    """Returns the row that gets more seeds; None if all of its seeds are trained.

    Raises:
      UsageError: No row has exactly the seeds before the first one, with equal settings and versions.
    """
    first, label = options.first_seed, options.label or preset
    if not 0 <= first < options.seeds:
        raise UsageError(f"--first-seed must be below --seeds={options.seeds}, got {first}")
    if not first:
        return None
    advice = "leave out --first-seed to train all seeds"
    row = _read_rows(options.outdir).get(label)
    number = len(row["returns"]) if row else 0
    if row is None or number != first:
        raise UsageError(f"expected a row {label} of {first} seeds, got {number} seeds; {advice}")
    new_command = _command_line(preset, options, settings)
    for name, old, new in (
        ("command", _without_numbers(row["command"]), _without_numbers(new_command)),
        ("versions", row.get("versions", {}), versions(row["env"].partition(",")[0])),
    ):
        if old != new:
            raise UsageError(f"row {label} has the {name} {old}, the new seeds {new}; {advice}")
    return row


def _without_numbers(command: str) -> str:
    """Returns a row's command without the numbers of seeds and of runs at a time."""
    return re.sub(r" --(seeds|at-once)=\d+", "", command)


def _make_row(
    preset: str,
    jobs: list[Future[Run | None]],
    options: argparse.Namespace,
    settings: list[str],
    earlier: Row | None,
) -> Row | None:
    """Waits for the runs of a preset; returns None if any failed, which has been printed."""
    runs = [run for job in jobs if (run := job.result())]
    if len(runs) != len(jobs):
        return None
    row = summarize(preset, runs, _command_line(preset, options, settings))
    if earlier:  # The kept run stays that of the earlier seeds.
        return add_seeds(earlier, row)
    kept = options.outdir / RUNS / (options.label or preset)
    if keep(median_run(runs), kept):
        row["kept_run"] = str(RUNS / kept.name)
    if "target" in options:
        row["own_target"] = options.target
    return row


def _command_line(preset: str, options: argparse.Namespace, settings: list[str]) -> str:
    """Returns the command that makes one row."""
    given = [f"--seeds={options.seeds}", f"--at-once={options.at_once}"]
    given += [f"--label={options.label}"] * bool(options.label)
    if "target" in options:
        given.append("--target=none" if options.target is None else f"--target={options.target:g}")
    return shlex.join(["python", "scripts/results.py", preset, *given, *settings])


def _read_notes(path: Path) -> dict[str, str]:
    """Returns the notes by row."""
    notes = YAML(typ="safe", pure=True).load(path.read_text()) if path.is_file() else None
    return dict(notes or {})
