"""RESULTS.md and results.json."""

from __future__ import annotations

import json
import re
import textwrap
from collections import Counter
from collections.abc import Mapping

from results.formatting import aligned, mean_and_deviation, plain, short
from results.published import best
from results.rows import ComparedRow, Row, figures_of, on_policy_of, reaches

ON_POLICY = "ppo"
WIDTH = 118

HEADER = """\
# Results

What return does a preset reach, and is that good? [All rows](results/details.md#all-rows) have their returns, seeds,
minutes and the published figures.
"""
READING = """\
A row is a preset, or a preset with other settings. Its return is the mean of its seeds. **reached**: at least the best
published return of any algorithm. **on-policy only**: at least the best of PPO and RPO. **late**: our return is high
enough, but took more steps than theirs; it does not count. **missed**: none of these. Published returns come from other
versions of the environments and other protocols.
"""
MUJOCO = """\
Return of the last weights over 20 episodes with deterministic actions: mean ± population standard deviation over seeds
(divisor n). In brackets: how many seeds, or the steps of a published return. † marks SAC, TD3 and TQC.
"""
REPEAT = """\
Each section of [the details](results/details.md) ends with the command that trains its row again. `results/runs` has
the median run of most rows: `agents visualize --logdir=results/runs/cheetah --outdir=videos` shows it.
"""


def page(table: Mapping[str, ComparedRow]) -> str:
    """Renders RESULTS.md.

    Args:
      table: Rows by label.
    """
    rows = {label: row for label, row in table.items() if len(row["returns"]) > 1}
    lines = [*HEADER.splitlines(), *_wrapped(_count(rows)), "", *_suites(table), "", READING]
    lines += ["## MuJoCo, a million steps", "", MUJOCO, *_mujoco(table), ""]
    lines += ["## Where we lose", "", *_losses(rows), "", "## Repeat", "", *REPEAT.splitlines()]
    return "\n".join(lines) + "\n"


def compact_json(table: Mapping[str, ComparedRow]) -> str:
    """Formats JSON with every list of numbers on one line."""
    return re.sub(
        r"\[[^\[\]{}\"]*\]", lambda found: " ".join(found[0].split()), json.dumps(table, indent=2)
    )


def _algorithm(row: Row) -> str:
    """Returns a row's algorithm; old rows name none."""
    return row.get("algorithm", ON_POLICY)


def _suites(table: Mapping[str, ComparedRow]) -> list[str]:
    """Returns a table that counts verdicts by suite of tasks."""
    verdicts = ["reached", "on-policy only", "late", "missed", "one seed", ""]
    suites: dict[str, list[ComparedRow]] = {}
    for row in table.values():
        is_sac = _algorithm(row) != ON_POLICY
        suites.setdefault("SAC" if is_sac else f"PPO, {_suite(row['env'])}", []).append(row)
    lines = [["algorithm, tasks", "rows", "runs", *verdicts[:-1], "no figure"]]
    for name, rows in sorted(suites.items()):
        runs = sum(len(row["returns"]) for row in rows)
        counts = Counter(row["verdict"].partition(":")[0] for row in rows)
        cells = (str(counts[verdict] or "") for verdict in verdicts)
        lines.append([name, str(len(rows)), str(runs), *cells])
    return aligned(lines, "<>>>>>>>>")


def _suite(env: str) -> str:
    """Returns the suite of an environment."""
    suites = {
        "dm_control/": "dm_control",
        "MiniGrid": "MiniGrid",
        "Bullet": "PyBullet",
        "ALE/": "Atari",
    }
    for part, suite in suites.items():
        if part in env:
            return suite
    return "MuJoCo" if env.endswith("-v5") else "classic control, Box2D"


def _mujoco(table: Mapping[str, ComparedRow]) -> list[str]:
    """Returns a table of the presets of MuJoCo's tasks after a million steps, with both algorithms."""
    tasks: dict[str, dict[str, ComparedRow]] = {}
    for label, row in table.items():
        is_preset = _algorithm(row) != ON_POLICY or label == row.get("preset")
        if is_preset and _suite(row["env"]) == "MuJoCo" and round(row["steps"], -4) == 1_000_000:
            tasks.setdefault(row["env"], {})[_algorithm(row)] = row
    lines = [["task", "PPO", "on-policy", "SAC", "any algorithm"]]
    for env, rows in sorted(tasks.items()):
        figures = figures_of(next(iter(rows.values())))
        on_policy = [one for one in figures if not one.off_policy]
        lines.append(
            [
                env,
                _with_seeds(rows.get(ON_POLICY)),
                plain(best(on_policy, 1_000_000)),
                _with_seeds(rows.get("sac")),
                plain(best(figures, 1_000_000)),
            ]
        )
    return aligned(lines, "<>>>>")


def _with_seeds(row: Row | None) -> str:
    return f"{mean_and_deviation(row)} ({len(row['returns'])})" if row else ""


def _count(rows: Mapping[str, ComparedRow]) -> str:
    """Returns how many targets PPO reaches."""
    compared = [row for row in rows.values() if row["verdict"] and _algorithm(row) == ON_POLICY]
    any_algorithm = sum(row["verdict"] == "reached" for row in compared)
    on_policy = sum(bool((one := on_policy_of(row)) and reaches(row, one)) for row in compared)
    return (
        f"**{on_policy} of {len(compared)} PPO rows reach the best published on-policy return for their "
        f"number of steps, and {any_algorithm} of {len(compared)} reach the best published return of any algorithm.** "
        "Rows of one seed or without a published figure are not counted."
    )


def _losses(rows: Mapping[str, ComparedRow]) -> list[str]:
    """Returns a list of the rows below published figures, and of those with a bad seed."""
    missed = {label: row for label, row in rows.items() if row["verdict"] == "missed"}
    late = [label for label, row in rows.items() if row["verdict"].startswith("late")]
    spread = {
        label: row
        for label, row in rows.items()
        if row["mean"] > 0 and min(row["returns"]) < row["mean"] / 2
    }
    few = sum(len(row["returns"]) < 10 for row in rows.values())
    early = sum("agents" not in row.get("versions", {}) for row in rows.values())
    points = {
        "Missed": [_gap(*item) for item in missed.items()],
        "Late": late,
        "The worst seed has less than half of the mean": [
            f"{label} ({short(min(row['returns']))})" for label, row in spread.items()
        ],
    }
    texts = [f"{title}: {', '.join(items) or 'no row'}." for title, items in points.items()]
    texts.append(
        f"{few} of the {len(rows)} rows with several seeds have fewer than ten. {early} of the {len(rows)} are from "
        "before 26 November 2026, when KL limits changed: equal seeds may now differ."
    )
    return [line for text in texts for line in _wrapped(f"- {text}", "  ")]


def _gap(label: str, row: Row) -> str:
    one = on_policy_of(row)
    return f"{label} ({short(row['mean'])} of {one.mean:,g})" if one else label


def _wrapped(text: str, indent: str = "") -> list[str]:
    return textwrap.wrap(text, WIDTH, subsequent_indent=indent, break_on_hyphens=False)
