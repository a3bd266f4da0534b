"""Trains the runs that the tutorial, the tuning guide and the FAQ quote: `python scripts/guide_runs.py`.

The figures go to results/guide_runs.json; tests/docs/test_figures.py compares the pages with them.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

# The packages `agents` and `benchmarks` of this checkout, from any working directory.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import agents
from agents.runs.metrics_file import read_metrics
from benchmarks.machine import machine, versions

ROOT = Path(__file__).resolve().parents[1]
FIGURES = ROOT / "results" / "guide_runs.json"
TUTORIAL = ROOT / "docs" / "tutorial.md"
WAREHOUSE = "warehouse:Warehouse-v0"
SEEDS = (0, 1, 2)
SCORE = "eval/return_mean"
LOSSES = tuple(
    f"losses/{name}" for name in ("approx_kl", "clip_fraction", "explained_variance", "entropy")
)
CONSTANT = {"learning_rate_schedule": "constant"}
# Changes of the preset pendulum, by the first cell of their row in the tuning guide.
CHANGES: dict[str, dict[str, object]] = {
    "none": {},
    "`learning_rate` 1e-1": {"learning_rate": 1e-1},
    "`learning_rate` 1e-2, constant": {"learning_rate": 1e-2, **CONSTANT},
    "`clip_ratio` 1, `learning_rate` 3e-3, constant": {
        "clip_ratio": 1,
        "learning_rate": 3e-3,
        **CONSTANT,
    },
    "`learning_rate` 1e-5": {"learning_rate": 1e-5},
    "`initial_log_std` -3": {"initial_log_std": -3},
    "`rollout_length` 8, `minibatch_size` 32": {"rollout_length": 8, "minibatch_size": 32},
    "`normalize_reward` false": {"normalize_reward": False},
    "`entropy_coef` 0.1": {"entropy_coef": 0.1},
}

# Likewise, of the preset sac_pendulum in the FAQ.
SAC_CHANGES: dict[str, dict[str, object]] = {
    "none": {},
    "`learning_rate` 1e-1": {"learning_rate": 0.1},
    "`learning_rate` 1e-5": {"learning_rate": 1e-5},
    "`gradient_steps` 0.1": {"gradient_steps": 0.1},
    "`target_rate` 1": {"target_rate": 1},
    "`initial_entropy_coef` 10, `learn_entropy_coef` false": {
        "initial_entropy_coef": 10,
        "learn_entropy_coef": False,
    },
    "`target_entropy` 2": {"target_entropy": 2},
}
SAC_LOSSES = ("losses/critic", "losses/entropy", "schedule/entropy_coef")

Metrics: TypeAlias = Sequence[dict[str, float]]


def tutorial_figures() -> dict[str, object]:
    """Returns lines that the tutorial's commands print, and scores by discount and seed."""
    module = re.search(r'```python title="warehouse.py"\n(.+?)```', TUTORIAL.read_text(), re.DOTALL)
    assert module
    Path("warehouse.py").write_text(module[1], encoding="utf-8")
    check = _run("check", WAREHOUSE, "--action-mask").stdout
    task = "train", f"--env={WAREHOUSE}", "--action-mask"
    printed, runs = [], {}
    for discount in (0.99, 0.95):  # The first run has the default settings.
        for seed in SEEDS:
            logdir = f"logdir-{discount}-{seed}"
            settings = f"--logdir={logdir}", f"--discount={discount}", f"--seed={seed}"
            printed.append(_run(*task, *settings).stderr)
            [metrics] = Path(logdir).glob("*/metrics.jsonl")
            runs[discount, seed] = read_metrics(metrics)
    return {
        "check": check.splitlines(),
        "train": [line for line in printed[0].splitlines() if line.startswith("step ")],
        "scalars": {tag: _values(runs[0.99, 0], tag) for tag in ("episode/return", *LOSSES)},
        "scores": {
            str(discount): [_values(runs[discount, seed], SCORE) for seed in SEEDS]
            for discount in (0.99, 0.95)
        },
    }


def tuning_figures(
    preset: str, changes: Mapping[str, Mapping[str, object]], tags: Sequence[str]
) -> dict[str, object]:
    """Returns final scores, and the first, least, largest and last value of losses, by change."""
    figures: dict[str, object] = {}
    for change, settings in changes.items():
        runs = []
        for seed in SEEDS:
            config = agents.load_config(preset, env_backend="tf", seed=seed, **settings)
            for score in agents.train(config, logdir="logdir"):
                run = score.run
            assert run
            runs.append(read_metrics(run / "metrics.jsonl"))
        losses = {
            tag: [
                [values[0], min(values), max(values), values[-1]]
                for values in (_values(metrics, tag) for metrics in runs)
            ]
            for tag in tags
        }
        figures[change] = {"scores": [_values(metrics, SCORE) for metrics in runs], **losses}
    return figures


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs a command of the library."""
    command = [sys.executable, "-m", "agents", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True)


def _values(metrics: Metrics, tag: str) -> list[float]:
    return [round(row[tag], 5) for row in metrics if tag in row]


def main() -> None:
    """Runs the script."""
    parser = argparse.ArgumentParser(description=__doc__)
    makers: dict[str, Callable[[], dict[str, object]]] = {
        "tutorial": tutorial_figures,
        "tuning": lambda: tuning_figures("pendulum", CHANGES, LOSSES),
        "tuning_sac": lambda: tuning_figures("sac_pendulum", SAC_CHANGES, SAC_LOSSES),
    }
    parser.add_argument("parts", nargs="*", help=f"{', '.join(makers)}; default all")
    parts = parser.parse_args().parts or list(makers)
    figures = json.loads(FIGURES.read_text(encoding="utf-8")) if FIGURES.exists() else {}
    for part in parts:
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            figures[part] = makers[part]()
            os.chdir(ROOT)
        origin = {"date": time.strftime("%Y-%m-%d"), "machine": machine(), "versions": versions()}
        figures["origins"] = {**figures.get("origins", {}), part: origin}
        FIGURES.write_text(json.dumps(figures) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
