"""The tables of docs/guides/scaling.md, from the results of the suite `distributed`.

A table stands between `<!-- measured: NAME -->` and `<!-- end -->`, and is replaced.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from benchmarks.case import OURS
from benchmarks.distributed import NETWORKS
from benchmarks.report import format_number
from benchmarks.summary import Entry, figures_of, scalar
from benchmarks.team import TENSORFLOW
from benchmarks.team_member import SIZES

Results = Mapping[str, Entry]

_EPOCH = "once an epoch"


def write_guide(path: Path, results: Results, origin: str) -> None:
    """Replaces the tables whose cases were measured.

    Args:
      path: The page.
      results: Cases of the suite by name.
      origin: Date and machine.
    """
    blocks: dict[str, Callable[[], Iterator[str]]] = {
        "origin": lambda: iter([f"{origin}."]),
        "weak": lambda: _weak_table(results),
        "learners": lambda: _learners_table(results),
        "reductions": lambda: _reductions_table(results),
    }
    text = path.read_text(encoding="utf-8")
    for name, lines in blocks.items():
        if rows := [*lines()]:
            text = _replaced(text, name, rows)
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


def _learners_table(results: Results) -> Iterator[str]:
    cases = [name for name in results if name.partition("/learners/")[0] in NETWORKS]
    if cases:
        yield (
            "| network | learners | steps/s | by TensorFlow | ms collecting | ms update "
            "| of it reductions | number | MB |"
        )
        yield "|:-|-:|-:|-:|-:|-:|-:|-:|-:|"
    for name in cases:
        network, _, number = name.split("/")
        figures = figures_of(results[name])
        parts = figures[OURS]["parts"]
        other = _number(figures[TENSORFLOW]["median"]) if TENSORFLOW in figures else ""
        cells = [_number(figures[OURS]["median"]), other]
        cells += [_number(parts[key]) for key in ("ms collecting", "ms update")]
        if "sums" in parts:
            cells += [
                _number(parts["ms reductions"]),
                _number(parts["sums"] + parts["gathers"]),
                _number(parts["MB summed"] + parts["MB gathered"]),
            ]
        else:
            cells += [""] * 3
        yield _row([network, number, *cells])


def _reductions_table(results: Results) -> Iterator[str]:
    cases = [name for name in results if name.startswith("reductions/learners/")]
    if cases:
        yield "| learners | array | shared memory | TensorFlow |"
        yield "|-:|-:|-:|-:|"
    for name in cases:
        figures = figures_of(results[name])
        for size in SIZES:
            cells = [
                _number(figures[each]["parts"][f"ms at {size}"]) if each in figures else ""
                for each in (OURS, TENSORFLOW)
            ]
            yield _row([name.rpartition("/")[2], size, *cells])


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
