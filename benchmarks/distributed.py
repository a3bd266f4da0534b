"""Suite: several learners."""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Iterator, Mapping

from benchmarks.case import OURS, Case, Contestant, Settings
from benchmarks.contestant import Measure, Measurement
from benchmarks.machine import cores
from benchmarks.relay import DIRECT, Link
from benchmarks.team import APART, MEMORY, RELAYS, RING, TENSORFLOW, Team
from benchmarks.workloads import WORKLOADS

TITLE = "Several learners"
INTRO = """\
Learners in processes of their own, each with 8 environments: `64-64` and `256-256` train these networks in TensorFlow's
Pendulum-v1 with 8 x 256 steps, 10 epochs and minibatches of 64; `nature` trains that network on images of 84 x 84 x 4,
of an environment that costs next to nothing, with 8 x 32 steps, 4 epochs and minibatches of 128. All sizes are those of
one learner: the work grows with their number. Ours exchange gradients through shared memory, as `agents train
--workers` does; `ring` through TCP connections of the loopback interface, as several machines do; `once an epoch`
averages weights after every epoch instead. Parts are medians; `ms reductions` are those of the learner that waits
least for the others.

- `learners/N`: environment steps per second of all together. **More learners than cores only show what they cost**:
  they compute in turns.
- `weak`: milliseconds per iteration of two learners with a core each, against one with a core (`1 learner`) and two
  that do not communicate (`2 apart`). The ratio to the first is the efficiency of weak scaling, that to the second is
  what communication leaves of it: cores share caches and memory.
- `reductions`: milliseconds per reduction of 40 kB in a loop in the graph, against TensorFlow's own ring.
- `relay`: milliseconds per update of two learners whose ring passes a relay (`benchmarks/relay.py`) that adds a delay
  to each message and limits the rate; milliseconds per reduction alone for four learners."""

NETWORKS = ("64-64", "256-256", "nature")

# Delays are one way; rates in bytes per second.
LINKS: Mapping[str, Link] = {
    "direct": DIRECT,
    "0.5 ms": Link(0.0005),
    "2 ms": Link(0.002),
    "1 Gbit/s": Link(rate=125e6),
    "100 Mbit/s": Link(rate=12.5e6),
    "1 ms, 200 Mbit/s": Link(0.001, 25e6),
}
# A round takes long, and most of its time is the links'.
_RELAY_ROUNDS = 3

# Of the reductions that pass relays.
RELAYED_SIZES = ("40 kB", "1 MB")


def cases(quick: bool) -> list[Case]:
    """Returns the cases of this suite."""
    rounds, seconds = (3, 0.3) if quick else (5, 1.0)
    learners = (1, 2) if quick else (1, 2, 4, 8)
    found = [
        Case(f"{network}/learners/{number}", "steps/s", _learners(network, number), rounds, seconds)
        for network in NETWORKS
        for number in learners
    ]
    found += [
        Case(f"{network}/weak", "ms", _weak(network), 3 if quick else 15, seconds / 2)
        for network in NETWORKS
        if len(cores()) > 1
    ]
    for number in learners[1:]:
        contestants = tuple(
            Contestant(name, f"{__name__}:reductions", _team(number, transport))
            for name, transport in ((OURS, MEMORY), (RING, RING), (TENSORFLOW, TENSORFLOW))
        )
        found.append(Case(f"reductions/learners/{number}", "ms", contestants, rounds))
    for network in NETWORKS:
        relayed = {**_team(2, RELAYS), "network": network}
        contestant = Contestant(OURS, f"{__name__}:updates_through_relays", relayed)
        found.append(Case(f"{network}/relay", "ms", (contestant,), _RELAY_ROUNDS))
    if not quick:
        settings = {"num_learners": 4}
        contestant = Contestant(OURS, f"{__name__}:reductions_through_relays", settings)
        found.append(Case("reductions/relay", "ms", (contestant,), _RELAY_ROUNDS))
    return found


def speed(
    network: str, num_learners: int, transport: str, reduce_every: str = "minibatch"
) -> Iterator[Measure]:
    """Measures environment steps per second of all learners."""
    with contextlib.closing(_iterating(network, num_learners, transport, reduce_every)) as team:

        def measure(seconds: float) -> Measurement:
            milliseconds, parts = combine(team.measure(seconds))
            steps = num_learners * WORKLOADS[network].steps
            return Measurement(1e3 * steps / milliseconds, parts=parts)

        yield measure


def iteration(
    network: str, num_learners: int, transport: str, reduce_every: str = "minibatch"
) -> Iterator[Measure]:
    """Measures milliseconds per iteration of learners with a core each."""
    team = _iterating(network, num_learners, transport, reduce_every, own_cores=True)
    with contextlib.closing(team):

        def measure(seconds: float) -> Measurement:
            milliseconds, parts = combine(team.measure(seconds))
            return Measurement(milliseconds, parts=parts)

        yield measure


def reductions(num_learners: int, transport: str) -> Iterator[Measure]:
    """Measures milliseconds per reduction."""
    function = "tensorflow_reductions" if transport == TENSORFLOW else "reductions"
    team = Team(f"benchmarks.team_member:{function}", {}, num_learners, transport)
    with contextlib.closing(team):
        yield lambda seconds: team.measure(seconds)[0]


def updates_through_relays(network: str, num_learners: int, transport: str) -> Iterator[Measure]:
    """Measures milliseconds per update with every link of `LINKS`."""
    with contextlib.closing(_iterating(network, num_learners, transport)) as team:

        def measure(seconds: float) -> Measurement:
            times: dict[str, float] = {}
            for name, link in LINKS.items():
                team.set_link(link)
                _, parts = combine(team.measure(0.0))
                times[f"ms at {name}"] = parts["ms update"]
            exchanged = {name: parts[name] for name in parts if not name.startswith("ms ")}
            return Measurement(times["ms at direct"], parts={**times, **exchanged})

        yield measure


def reductions_through_relays(num_learners: int) -> Iterator[Measure]:
    """Measures milliseconds per reduction with every link of `LINKS`."""
    settings = {"sizes": ",".join(RELAYED_SIZES)}
    team = Team("benchmarks.team_member:reductions", settings, num_learners, RELAYS)
    with contextlib.closing(team):

        def measure(seconds: float) -> Measurement:
            times: dict[str, float] = {}
            for name, link in LINKS.items():
                team.set_link(link)
                for key, milliseconds in team.measure(seconds)[0].parts.items():
                    times[key.replace("ms at", "ms of") + f" at {name}"] = milliseconds
            return Measurement(times[f"ms of {RELAYED_SIZES[0]} at direct"], parts=times)

        yield measure


def combine(measured: list[Measurement]) -> tuple[float, dict[str, float]]:
    """Milliseconds per iteration and the parts, from what each learner has measured."""
    chief, *_ = measured
    parts = dict(chief.parts)
    if "ms reductions" in parts:  # Those of others contain more waiting.
        parts["ms reductions"] = min(each.parts["ms reductions"] for each in measured)
    return statistics.mean(each.value for each in measured), parts


def _iterating(
    network: str,
    num_learners: int,
    transport: str,
    reduce_every: str = "minibatch",
    own_cores: bool = False,
) -> Team:
    settings = {"network": network, "reduce_every": reduce_every}
    function = "benchmarks.team_member:iterations"
    return Team(function, settings, num_learners, transport, own_cores)


def _learners(network: str, number: int) -> tuple[Contestant, ...]:
    settings: Settings = {"network": network, **_team(number, MEMORY if number > 1 else APART)}
    found = [Contestant(OURS, f"{__name__}:speed", settings)]
    if 1 < number < 8:  # Sixteen processes would take minutes to start.
        found.append(Contestant(RING, f"{__name__}:speed", {**settings, "transport": RING}))
    return tuple(found)


def _weak(network: str) -> tuple[Contestant, ...]:
    function = f"{__name__}:iteration"
    together: Settings = {"network": network, **_team(2, MEMORY)}
    found = [
        Contestant(OURS, function, together),
        Contestant("1 learner", function, {"network": network, **_team(1, APART)}),
        Contestant("2 apart", function, {"network": network, **_team(2, APART)}),
    ]
    if WORKLOADS[network].env_backend == "tf":
        found.append(Contestant("once an epoch", function, {**together, "reduce_every": "epoch"}))
    return tuple(found)


def _team(num_learners: int, transport: str) -> dict[str, str | int]:
    return {"num_learners": num_learners, "transport": transport}
