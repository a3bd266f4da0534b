"""RESULTS.md and results.json."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterable, Mapping

from results.formatting import aligned, figure, mean_and_deviation, short
from results.learning_curves import short_steps
from results.published import Figure, best
from results.rows import ComparedRow, Row, figures_of, on_policy_of, reaches, target_of

ON_POLICY = "ppo"
WIDTH = 118

HEADER = """\
# Results

What return does a preset reach, and is that good? `python scripts/results.py` writes this page from
`results/results.json`.
"""
READING = """\
- **return**: 20 episodes with deterministic actions after the last update, as mean ± population standard deviation over
  the seeds (divisor n). ± means this everywhere here. Seeds count from 0.
- **task**: the preset. Rows such as `hopper_3m` are a preset with other settings, which the details have.
- **on-policy**: the highest return that other libraries publish for PPO or RPO, with its steps.
- **any algorithm**: the highest published return. † marks off-policy algorithms: SAC, TD3 and TQC. `own` marks a higher
  target of ours.
- **reached**: our mean is at least *any algorithm*. **on-policy only**: our mean is at least *on-policy*.
- **late**: our mean is high enough, but took more steps. It does not count as reached. **missed**: none of these.
- **min**: minutes of one run on one core, from the start of its process to its exit. Up to two runs shared the machine;
  the details name rows whose times are of an earlier training.

A row is compared with published runs of up to 1.5 times its steps. If there are none, the best run of any length
counts. Rows without figures are baselines, or we know no published return.
The figures come from other versions of the environments and other protocols; [the details](results/details.md) have
their sources, all curves, all seeds and our notes.
"""
REPEAT = """\
Each section of [the details](results/details.md) ends with its command. This one makes the row `pendulum` again:

```sh
python scripts/results.py pendulum --seeds=10 --at-once=1 --env-backend=tf
```

Without a preset, the command trains nothing and writes this page again from the stored runs. `results/runs` has the
median run of most rows; `agents visualize --logdir=results/runs/cheetah --outdir=videos` shows it.
"""
NO_OTHERS = """\
No run of `sac` or `sac_pendulum` is stored yet. `python scripts/results.py sac_pendulum --seeds=10` adds a row here.
"""


def page(table: Mapping[str, ComparedRow]) -> str:
    """Renders RESULTS.md.

    Args:
      table: Rows by label.
    """
    on_policy = {label: row for label, row in table.items() if _algorithm(row) == ON_POLICY}
    others = {label: row for label, row in table.items() if label not in on_policy}
    rows, single = _split(on_policy)
    lines = [*HEADER.splitlines(), "", *_wrapped(_count(rows)), "", "## PPO", "", *_table(rows)]
    lines += ["", *READING.splitlines(), "", *_wrapped(_mujoco(table))]
    lines += ["", "## One seed", "", *_wrapped(_of_one_seed(single))]
    if single:
        lines += ["", *_table(single)]
    lines += ["", "## SAC", "", *(_table(others) if others else NO_OTHERS.splitlines())]
    lines += ["", "## Where we lose", "", *_losses(rows), "", "## Repeat", "", *REPEAT.splitlines()]
    return "\n".join(lines) + "\n"


def compact_json(table: Mapping[str, ComparedRow]) -> str:
    """Formats JSON with every list of numbers on one line."""
    return re.sub(
        r"\[[^\[\]{}\"]*\]", lambda found: " ".join(found[0].split()), json.dumps(table, indent=2)
    )


def _algorithm(row: Row) -> str:
    return row.get("algorithm", ON_POLICY)


def _split(
    table: Mapping[str, ComparedRow],
) -> tuple[dict[str, ComparedRow], dict[str, ComparedRow]]:
    """Returns the rows of several seeds, and those of one seed."""
    single = {label: row for label, row in table.items() if len(row["returns"]) == 1}
    return {label: row for label, row in table.items() if label not in single}, single


def _table(rows: Mapping[str, ComparedRow]) -> list[str]:
    header = ["task", "steps", "seeds", "min", "return", "on-policy", "any algorithm", "verdict"]
    return aligned([header, *(_cells(label, row) for label, row in rows.items())], "<>>>>>><")


def _cells(label: str, row: ComparedRow) -> list[str]:
    """Returns the cells of one row, in the order of the columns."""
    target, on_policy = target_of(row), on_policy_of(row)
    if target is None and len(row["returns"]) == 1:
        target = best(figures_of(row), row["steps"])
    return [
        f"[{label}](results/details.md#{label})",
        short_steps(row["steps"]),
        str(len(row["returns"])),
        f"{row['seconds'] / 60:.1f}" if row["seconds"] else "",
        mean_and_deviation(row),
        _plain(on_policy if target else None),
        _plain(target),
        f"**{row['verdict']}**" if row["verdict"] == "missed" else row["verdict"],
    ]


def _plain(published: Figure | None) -> str:
    """Formats a published return without its deviation."""
    return figure(published and Figure(published.source, published.mean, published.steps))


def _count(rows: Mapping[str, ComparedRow]) -> str:
    """Returns how many targets are reached."""
    compared = [row for row in rows.values() if row["verdict"]]
    any_algorithm = sum(row["verdict"] == "reached" for row in compared)
    on_policy = sum(bool((one := on_policy_of(row)) and reaches(row, one)) for row in compared)
    return (
        f"**{on_policy} of {len(compared)} PPO rows reach the best published on-policy return for their "
        f"number of steps, and {any_algorithm} of {len(compared)} reach the best published return of any algorithm.** "
        "Rows of one seed are not counted."
    )


def _of_one_seed(single: Mapping[str, ComparedRow]) -> str:
    return (
        f"{len(single)} rows have one seed each. They say little about the preset and are not counted above."
        if single
        else "No row has only one seed."
    )


def _mujoco(table: Mapping[str, ComparedRow]) -> str:
    """Returns a sentence on MuJoCo's versions."""
    users: dict[str, set[str]] = {}
    for row in table.values():
        if version := row.get("versions", {}).get("mujoco"):
            suite = "dm_control" if row["env"].startswith("dm_control/") else "Gymnasium"
            users.setdefault(version, set()).add(suite)
    texts = [
        f"{version} (tasks of {' and '.join(sorted(users[version]))})" for version in sorted(users)
    ]
    return f"MuJoCo's versions: {', '.join(texts)}." if texts else ""


def _losses(rows: Mapping[str, ComparedRow]) -> list[str]:
    """Returns a list of the rows below published figures, and of those with a bad seed."""
    missed = {label: row for label, row in rows.items() if row["verdict"] == "missed"}
    off_policy = [label for label, row in rows.items() if _below_off_policy(row)]
    late = [label for label, row in rows.items() if row["verdict"].startswith("late")]
    spread = {
        label: row
        for label, row in rows.items()
        if row["mean"] > 0 and min(row["returns"]) < row["mean"] / 2
    }
    few = [label for label, row in rows.items() if len(row["returns"]) < 5]
    old = [label for label, row in rows.items() if "agents" not in row.get("versions", {})]
    points = [
        ("Below the best on-policy figure", (_gap(*item) for item in missed.items())),
        ("Below an off-policy figure", off_policy),
        ("Late", late),
        (
            "The worst seed has less than half of the mean",
            (f"{label} ({short(min(row['returns']))})" for label, row in spread.items()),
        ),
        ("Fewer than five seeds", few),
        (
            "Trained before KL limits and correlated noise changed (26 November 2026), so equal seeds may now differ",
            old,
        ),
    ]
    return [line for title, items in points for line in _point(title, list(items))]


def _below_off_policy(row: Row) -> bool:
    figures = [figure for figure in figures_of(row) if figure.off_policy]
    target = target_of(row)
    return bool(figures and target and target.off_policy and row["mean"] < target.mean)


def _gap(label: str, row: Row) -> str:
    one = on_policy_of(row)
    return f"{label} ({short(row['mean'])} of {one.mean:,g})" if one else label


def _point(title: str, items: list[str]) -> list[str]:
    text = f"- {title}: {', '.join(items) or 'no row'}."
    return textwrap.wrap(text, WIDTH, subsequent_indent="  ", break_on_hyphens=False)


def _wrapped(text: str) -> Iterable[str]:
    return textwrap.wrap(text, WIDTH, break_on_hyphens=False)
