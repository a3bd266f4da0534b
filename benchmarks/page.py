"""BENCHMARKS.md: the figures that readers ask for, from the JSON files of the suites."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypeAlias, TypedDict

from benchmarks.case import OURS
from benchmarks.report import format_number
from benchmarks.runner import ROOT
from benchmarks.summary import SCORES, SPEEDS, TIMES, Entry, figures_of, scalar
from benchmarks.targets import TARGETS

FILES = ("benchmarks.json", "sac.json", "distributed.json")
DETAILS = "benchmarks/details.md"
WIDTH = 118
NO_BREAK = "\N{NO-BREAK SPACE}"  # Keeps rows of tables in one line.

# Contestants of other libraries; the others are variants of ours.
PEERS = {
    "SyncVectorEnv": "SyncVectorEnv",
    "AsyncVectorEnv": "AsyncVectorEnv",
    "SB3": "Stable-Baselines3",
    "skrl": "skrl",
    "EnvPool": "EnvPool",
    "PufferLib": "PufferLib",
    "Sample Factory": "Sample Factory",
    "rl_games": "rl_games",
    "CleanRL": "CleanRL",
    "SBX": "SBX",
    "PureJaxRL": "PureJaxRL",
    "RLtools": "RLtools",
    "TensorFlow": "TensorFlow",
}


class Origin(TypedDict):
    """Circumstances of a suite's run; `load` is the load average before, None if unknown."""

    command: str
    date: str
    machine: str
    load: float | None
    versions: dict[str, str]


Results: TypeAlias = Mapping[str, Mapping[str, Entry]]

HEADER = """\
# Benchmarks

How fast does it train and step, how soon does it start, and how much memory does it take? Cells are medians over
rounds, in which contestants take turns. *1.5x* means that we are 1.5 times as fast as that peer: the median of the
rounds' ratios. [The details](benchmarks/details.md) have all cases, settings, versions and intervals.
"""

TRAINING = """\
Environment steps per second, collecting and learning; evaluation, logging and checkpoints are off. Each peer has its
faster number of threads. With `tf`, PureJaxRL has its own environments, the other peers Gymnasium's. SAC takes a
gradient step of 256 rows a step; a step of Pong is four frames.
"""
STEPPING = """\
Environment steps per second with random actions, without a policy. *here* uses worker processes. The limit is the
number of cores divided by the time of a step.
"""
LOSSES = """\
Cases in which a peer is faster, smaller or scores more; `busy`: beside a program that takes a core.
"""
REPEAT = """\
After `pip install -e '.[bench]'`, `python scripts/benchmark.py --suite=stepping --quick` measures stepping, with
nothing else running. [CONTRIBUTING.md](CONTRIBUTING.md) has all commands.
"""

_TRAINED = {
    "Pendulum, 8 `process`": ("training", "Pendulum-v1/process/8"),
    "Pendulum, 8 `tf`": ("training", "Pendulum-v1/tf/8"),
    "CartPole, 8 `tf`": ("training", "CartPole-v1/tf/8"),
    "HalfCheetah, 8 `process`": ("training", "HalfCheetah-v5/process/8"),
    "HalfCheetah, 32 `process`": ("training", "HalfCheetah-v5/process/32"),
    "Pong, 8 `process`": ("images", "Pong/8"),
    "HalfCheetah, 1, SAC, 2 threads": ("sac", "HalfCheetah-v5/sac"),
}
_LAST = "/10 of 10 min"  # Scores of the whole time.
_STEPPED = {
    f"{env.partition('-')[0]},{NO_BREAK}{number}": f"{env}/process/{number}"
    for env in ("Pendulum-v1", "HalfCheetah-v5")
    for number in (8, 32)
}
# Sentences with the figures of ours and of peers, and their suites and cases.
_OTHERS = (
    (
        "A minibatch of 64 for two 64-64 networks takes {ours} ms{peers}.",
        "update",
        "Pendulum-v1/minibatch/64",
    ),
    (
        "The first iteration ends {ours} s after a start with worker processes{peers}.",
        "startup",
        "Pendulum-v1/process/8/cold",
    ),
    (
        "If compiled programs are stored, it ends after {ours} s{peers}.",
        "startup",
        "Pendulum-v1/process/8/warm",
    ),
    ("The parent process takes {ours} MB{peers}.", "memory", "Pendulum-v1/parent/8"),
)


def read(folder: Path) -> tuple[dict[str, Mapping[str, Entry]], dict[str, Origin]]:
    """Returns the results by suite and case, and the origins by suite."""
    results: dict[str, Mapping[str, Entry]] = {}
    origins: dict[str, Origin] = {}
    for name in FILES:
        content = json.loads((folder / name).read_text(encoding="utf-8"))
        origins |= content.pop("origins")
        results |= content
    return results, origins


def write_page(path: Path = ROOT / "BENCHMARKS.md") -> None:
    """Writes BENCHMARKS.md."""
    path.write_text(page(*read(ROOT / "benchmarks")), encoding="utf-8")


def page(results: Results, origins: Mapping[str, Origin]) -> str:
    """Renders BENCHMARKS.md."""
    sections = {
        "Training": [TRAINING, *_training(results)],
        "Stepping": [STEPPING, *_stepping(results)],
        "Gradient steps, start, memory": _others(results),
        "Where we lose": _losses(results),
        "Repeat": [*_origins(origins), REPEAT],
    }
    lines = [HEADER]
    for title, blocks in sections.items():
        lines += [f"## {title}\n", *blocks]
    return "\n".join(lines).rstrip() + "\n"


def _training(results: Results) -> Iterator[str]:
    common = ("SB3", "skrl")
    yield _row("environments", "here", *(PEERS[peer] for peer in common), "another peer")
    yield "|:-|-:|-:|-:|:-|"
    for label, (suite, case) in _TRAINED.items():
        entry = results[suite][case]
        others = [peer for peer in PEERS if peer in entry and peer not in common]
        cells = [_peer(entry, peer) for peer in common]
        yield _row(
            label,
            _ours(entry),
            *cells,
            "; ".join(f"{PEERS[one]} {_peer(entry, one)}" for one in others),
        )
    yield ""


def _stepping(results: Results) -> Iterator[str]:
    peers = ("SyncVectorEnv", "AsyncVectorEnv", "PufferLib", "EnvPool")
    yield _row("environments", "here", *(PEERS[peer] for peer in peers), "of the limit")
    yield "|:-|" + "-:|" * (len(peers) + 2)
    for label, case in _STEPPED.items():
        entry = results["stepping"][case]
        cells = [_ours(entry), *(_peer(entry, peer) for peer in peers), _of_limit(entry)]
        yield _row(label, *cells)
    yield ""


def _others(results: Results) -> Iterator[str]:
    sentences = []
    for sentence, suite, case in _OTHERS:
        entry = results[suite][case]
        peers = "".join(
            f"; {PEERS[peer]} {_peer(entry, peer)}"
            for peer in ("SB3", "skrl")
            if _peer(entry, peer)
        )
        sentences.append(sentence.format(ours=_ours(entry), peers=peers))
    yield from _wrapped(" ".join(sentences))
    yield ""


def _losses(results: Results) -> Iterator[str]:
    """Yields the cases in which a peer is better, by peer."""
    yield LOSSES
    losses: dict[str, list[tuple[float, str]]] = {}
    for suite, cases in results.items():
        for case, entry in cases.items():
            if suite == "clock" and not case.endswith(_LAST):
                continue
            for peer in (one for one in PEERS if _loses(entry, one)):
                ratio = scalar(entry, f"ratio_{peer}") or 0.0
                theirs = figures_of(entry)[peer]
                is_ratio = theirs["unit"] in (*SPEEDS, *TIMES)
                text = (
                    f"{format_number(ratio)}x"
                    if is_ratio
                    else f"{_ours(entry)} of {format_number(theirs['median'])}"
                )
                lead = ratio if is_ratio else -ratio  # Lower is worse.
                losses.setdefault(f"{PEERS[peer]}, {suite}", []).append((lead, f"{case} ({text})"))
    for name, found in losses.items():
        texts = [text for _, text in found]
        listed = (
            ", ".join(texts) if len(texts) < 3 else f"{len(texts)} cases, the worst {min(found)[1]}"
        )
        yield from _wrapped(f"- {name}: {listed}.", "  ")
    values = [(target, target.value(results)) for target in TARGETS]
    verdicts = [target.verdict(value) for target, value in values if value is not None]
    yield from _wrapped(
        f"- We miss {verdicts.count('MISSED')} of the {len(verdicts)} bounds that we set for these figures; "
        f"[the details]({DETAILS}) list them.",
        "  ",
    )
    yield ""


def _loses(entry: Entry, peer: str) -> bool:
    """Returns whether a peer is faster, takes less memory or has a higher score."""
    figures, ratio = figures_of(entry), scalar(entry, f"ratio_{peer}")
    if peer not in figures:
        return False
    ours, theirs = figures[OURS], figures[peer]
    if ours["unit"] in SCORES:
        return theirs["median"] > ours["median"]
    if ratio is None:
        return False
    return ratio < 1 if ours["unit"] in (*SPEEDS, *TIMES) else ratio > 1


def _origins(origins: Mapping[str, Origin]) -> Iterator[str]:
    """Yields the dates and machines of the suites."""
    dates = sorted({origin["date"] for origin in origins.values()})
    # Without the kernel.
    machines = {re.sub(r", Linux [^,]+", "", origin["machine"]) for origin in origins.values()}
    yield from _wrapped(
        f"Measured from {dates[0]} to {dates[-1]} on {'; '.join(sorted(machines))}, without a GPU."
    )


def _ours(entry: Entry) -> str:
    return format_number(figures_of(entry)[OURS]["median"])


def _of_limit(entry: Entry) -> str:
    share = scalar(entry, "of_limit")
    return "" if share is None else f"{100 * share:.0f} %"


def _peer(entry: Entry, peer: str) -> str:
    """Formats a peer's median, and how many times as fast as it we are."""
    figure, ratio = figures_of(entry).get(peer), scalar(entry, f"ratio_{peer}")
    if figure is None:
        return ""
    text = format_number(figure["median"])
    if ratio and figure["unit"] in (*SPEEDS, *TIMES):
        text += f"{NO_BREAK}({format_number(ratio)}x)"
    return text


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _wrapped(text: str, indent: str = "") -> list[str]:
    return textwrap.wrap(text, WIDTH, subsequent_indent=indent, break_on_hyphens=False)
