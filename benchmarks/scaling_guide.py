"""The table of docs/guides/scaling.md, from the results of the suite `distributed`.

It stands between `<!-- measured: NAME -->` and `<!-- end -->`, and is replaced.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from benchmarks.case import OURS
from benchmarks.distributed import NETWORKS
from benchmarks.report import format_number
from benchmarks.summary import Entry, figures_of, scalar

Results = Mapping[str, Entry]

_EPOCH = "once an epoch"


def write_guide(path: Path, results: Results, origin: str) -> None:
    """Replaces the table and its origin if its cases were measured.

    Args:
      path: The page.
      results: Cases of the suite by name.
      origin: Date and machine.
    """
    text = path.read_text(encoding="utf-8")
    if rows := [*_weak_table(results)]:
        text = _replaced(text, "origin", [f"{origin}."])
        text = _replaced(text, "weak", rows)
    path.write_text(text, encoding="utf-8")


def _weak_table(results: Results) -> Iterator[str]:
    cases = [network for network in NETWORKS if f"{network}/weak" in results]
    if cases:
        yield (
            "| network | 1 learner | 2 apart | 2 learners | efficiency | of 2 apart "
            "| once an epoch | efficiency |"
        )
        yield "|:-|-:|-:|-:|-:|-:|-:|-:|"
    for network in cases:
        entry = results[f"{network}/weak"]
        medians = {name: figure["median"] for name, figure in figures_of(entry).items()}
        cells = [_number(medians[name]) for name in ("1 learner", "2 apart", OURS)]
        alone, apart = scalar(entry, "ratio_1 learner") or 0, scalar(entry, "ratio_2 apart") or 0
        cells += [_percent(alone), _percent(apart)]
        epoch = scalar(entry, f"ratio_{_EPOCH}")
        cells += [_number(medians[_EPOCH]), _percent(alone / epoch)] if epoch else ["", ""]
        yield _row([network, *cells])


def _replaced(text: str, name: str, lines: Sequence[str]) -> str:
    start = f"<!-- measured: {name} -->\n"
    pattern = re.compile(f"(?<={re.escape(start)}).*?(?=<!-- end -->)", re.DOTALL)
    return pattern.sub(lambda _: "\n" + "\n".join(lines) + "\n\n", text)


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _number(value: float) -> str:
    return format_number(value)


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
