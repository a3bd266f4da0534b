"""The tables and the plot of docs/guides/scaling.md, from the results of the suite `distributed`.

A table stands between `<!-- measured: NAME -->` and `<!-- end -->`, and is replaced.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from matplotlib.figure import Figure

from benchmarks.case import OURS
from benchmarks.communication import (
    MAX_LEARNERS,
    Network,
    Traffic,
    communication_seconds,
    communication_share,
    fit,
    learners_at_share,
    messages,
)
from benchmarks.distributed import LINKS, NETWORKS, RELAYED_SIZES
from benchmarks.report import format_number
from benchmarks.summary import Entry, figures_of, scalar
from benchmarks.team import RING, TENSORFLOW
from benchmarks.team_member import SIZES
from benchmarks.workloads import WORKLOADS

Results = Mapping[str, Entry]

# Of networks between machines, in bit/s; and what cards, cables and a switch add to each message,
# in seconds: an assumption.
RATES = {"1 Gbit/s": 1e9, "10 Gbit/s": 1e10, "25 Gbit/s": 2.5e10, "100 Gbit/s": 1e11}
WIRE_DELAY = 20e-6

SHARE = 0.1
_SHOWN_LEARNERS = (2, 8, 32, MAX_LEARNERS)
_EPOCH = "once an epoch"


class Training(NamedTuple):
    """What the model knows of a network.

    Attributes:
      name: Of the network, and how learners communicate.
      computing: Seconds of an iteration without communication.
      traffic: What is communicated.
      steps: Environment steps of a learner in an iteration.
    """

    name: str
    computing: float
    traffic: Traffic
    steps: int

    def speed(self, num_learners: int, network: Network) -> float:
        """Environment steps per second of all learners."""
        communicating = communication_seconds(self.traffic, num_learners, network)
        return num_learners * self.steps / (self.computing + communicating)


def write_guide(path: Path, results: Results, origin: str) -> None:
    """Replaces the tables whose cases were measured, and the plot `docs/images/scaling.png`.

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
        "constants": lambda: _constants(results),
        "model": lambda: _model_table(results),
        "plot": lambda: _plot(results, path),
        "check": lambda: _check_table(results),
    }
    text = path.read_text(encoding="utf-8")
    for name, lines in blocks.items():
        if rows := [*lines()]:
            text = _replaced(text, name, rows)
    path.write_text(text, encoding="utf-8")


def loopback(results: Results) -> Network | None:
    """The constants of the loopback interface; None if they were not measured."""
    entry = results.get("reductions/learners/2")
    if not entry or RING not in figures_of(entry):
        return None
    parts = figures_of(entry)[RING]["parts"]
    return fit({num_bytes: parts[f"ms at {name}"] / 1e3 for name, num_bytes in SIZES.items()})


def between_machines(local: Network, bits_per_second: float) -> Network:
    """The constants of a network between machines, given those of the loopback interface."""
    return local.behind(WIRE_DELAY, bits_per_second / 8)


def trainings(results: Results) -> list[Training]:
    """What was measured of two learners with a core each."""
    found = []
    for network in NETWORKS:
        figures = figures_of(results[f"{network}/weak"]) if f"{network}/weak" in results else {}
        for contestant in (OURS, _EPOCH):
            if contestant in figures:
                parts = figures[contestant]["parts"]
                name = network if contestant == OURS else f"{network}, {contestant}"
                computing = (figures[contestant]["median"] - parts["ms reductions"]) / 1e3
                steps = WORKLOADS[network].steps
                found.append(Training(name, computing, traffic_of(parts), steps))
    return found


def traffic_of(parts: Mapping[str, float]) -> Traffic:
    """What learners exchange in an iteration, of the parts of a case."""
    return Traffic(
        parts["sums"], 1e6 * parts["MB summed"], parts["gathers"], 1e6 * parts["MB gathered"]
    )


def plot_model(results: Results, local: Network) -> Figure:
    """Plots modelled and measured speeds over the number of learners, a panel per network."""
    shown = trainings(results)
    num_rows = -(-len(shown) // 3)
    plot = Figure(figsize=(10, 3.5 * num_rows), layout="constrained")
    panels = plot.subplots(num_rows, 3, squeeze=False).flatten()
    for panel in panels[len(shown) :]:
        panel.set_visible(False)
    learners = [2**power for power in range(MAX_LEARNERS.bit_length())]
    for panel, training in zip(panels, shown, strict=False):
        ideal = [number * training.steps / training.computing for number in learners]
        panel.plot(learners, ideal, ":", color="#a9b0bb", label="no communication")
        for rate, bits in RATES.items():
            network = between_machines(local, bits)
            speeds = [training.speed(number, network) for number in learners]
            panel.plot(learners, speeds, label=rate)
        network_name, _, way = training.name.partition(", ")
        figures = figures_of(results[f"{network_name}/weak"])
        measured = {1: figures.get("1 learner"), 2: figures[way or OURS]}
        points = {
            number: 1e3 * number * training.steps / figure["median"]
            for number, figure in measured.items()
            if figure
        }
        panel.plot([*points], [*points.values()], "ko", markersize=4, label="measured, a core each")
        panel.set_xscale("log", base=2)
        panel.set_yscale("log")
        panel.xaxis.set_major_formatter(lambda number, _: f"{number:,.0f}")
        panel.yaxis.set_major_formatter(lambda speed, _: f"{speed:,.0f}")
        panel.set_title(training.name, fontsize="medium", loc="left")
        panel.set_xlabel("learners")
        panel.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("environment steps per second")
    panels[0].legend(frameon=False, fontsize="small")
    return plot


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
            "| network | learners | steps/s | through the ring | ms collecting | ms update "
            "| of it reductions | number | MB |"
        )
        yield "|:-|-:|-:|-:|-:|-:|-:|-:|-:|"
    for name in cases:
        network, _, number = name.split("/")
        figures = figures_of(results[name])
        parts = figures[OURS]["parts"]
        ring = _number(figures[RING]["median"]) if RING in figures else ""
        cells = [_number(figures[OURS]["median"]), ring]
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
        yield "| learners | array | shared memory | ring | TensorFlow's ring |"
        yield "|-:|-:|-:|-:|-:|"
    for name in cases:
        figures = figures_of(results[name])
        for size in SIZES:
            cells = [
                _number(figures[each]["parts"][f"ms at {size}"]) if each in figures else ""
                for each in (OURS, RING, TENSORFLOW)
            ]
            yield _row([name.rpartition("/")[2], size, *cells])


def _constants(results: Results) -> Iterator[str]:
    local = loopback(results)
    if local:
        rate = 8e-9 / local.seconds_per_byte
        yield (
            f"On the loopback interface of this machine *a* is {1e3 * local.latency:.2f} ms and *b* "
            f"{rate:.1f} Gbit/s: the line through the ring's times for 1 kB and 8 MB above, with two learners."
        )


def _model_table(results: Results) -> Iterator[str]:
    local = loopback(results)
    shown = trainings(results) if local else []
    if not local or not shown:
        return
    heads = [f"{number} learners" for number in _SHOWN_LEARNERS]
    yield _row(["network", "between machines", *heads, "10 % at"])
    yield "|:-|:-|" + "-:|" * (len(heads) + 1)
    for training in shown:
        computing, traffic = training.computing, training.traffic
        for rate, bits in RATES.items():
            network = between_machines(local, bits)
            cells = []
            for number in _SHOWN_LEARNERS:
                share = communication_share(computing, traffic, number, network)
                cells.append(f"{training.speed(number, network):,.0f} ({_percent(share)})")
            first = learners_at_share(computing, traffic, network, SHARE)
            limit = f"more than {MAX_LEARNERS}" if first is None else f"{first} learners"
            yield _row([training.name, rate, *cells, limit])


def _plot(results: Results, page: Path) -> Iterator[str]:
    local = loopback(results)
    if local and trainings(results):
        images = page.resolve().parents[1] / "images"
        images.mkdir(exist_ok=True)
        plot_model(results, local).savefig(images / "scaling.png", dpi=120)
        yield "![Modelled steps per second by the number of learners](../images/scaling.png)"


def _check_table(results: Results) -> Iterator[str]:
    rows = [*_check_ring(results), *_check_relays(results), *_check_reductions(results)]
    if rows:
        yield "| what | network | predicted, ms | measured, ms | measured / predicted |"
        yield "|:-|:-|-:|-:|-:|"
    for what, link, predicted, measured in rows:
        yield _row(
            [what, link, _number(predicted), _number(measured), f"{measured / predicted:.2f}"]
        )


Check = tuple[str, str, float, float]


def _check_ring(results: Results) -> Iterator[Check]:
    """Updates in the ring: those through shared memory, with other times of the reductions."""
    local = loopback(results)
    for network in NETWORKS:
        entry = results.get(f"{network}/learners/2")
        if local and entry and RING in figures_of(entry):
            parts, ring = (figures_of(entry)[name]["parts"] for name in (OURS, RING))
            communicating = 1e3 * communication_seconds(traffic_of(parts), 2, local)
            computing = parts["ms update"] - parts["ms reductions"]
            yield f"update, {network}", "loopback", computing + communicating, ring["ms update"]


def _check_relays(results: Results) -> Iterator[Check]:
    """Updates through relays: those through relays without delay and limit, and what links add."""
    for network in NETWORKS:
        if entry := results.get(f"{network}/relay"):
            parts = figures_of(entry)[OURS]["parts"]
            traffic, direct = traffic_of(parts), parts["ms at direct"]
            for link in [*LINKS][1:]:
                predicted = direct + _added(traffic, 2, link)
                yield f"update, {network}", link, predicted, parts[f"ms at {link}"]


def _check_reductions(results: Results) -> Iterator[Check]:
    """Reductions of four learners through relays, likewise."""
    if entry := results.get("reductions/relay"):
        parts = figures_of(entry)[OURS]["parts"]
        for size in RELAYED_SIZES:
            traffic, direct = Traffic(1, SIZES[size]), parts[f"ms of {size} at direct"]
            for link in [*LINKS][1:]:
                predicted = direct + _added(traffic, 4, link)
                yield f"{size}, 4 learners", link, predicted, parts[f"ms of {size} at {link}"]


def _added(traffic: Traffic, num_learners: int, link: str) -> float:
    """Milliseconds that a link adds."""
    number, num_bytes = messages(traffic, num_learners)
    return 1e3 * (number * LINKS[link].delay + num_bytes / LINKS[link].rate)


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
