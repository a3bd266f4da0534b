"""Suite: several learners."""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Iterator

from benchmarks.case import OURS, Case, Contestant, Settings
from benchmarks.contestant import Measure, Measurement
from benchmarks.machine import cores
from benchmarks.team import APART, MEMORY, TENSORFLOW, Team
from benchmarks.workloads import WORKLOADS

TITLE = "Several learners"
INTRO = """\
Learners in processes of their own, each with 8 environments: `64-64` and `256-256` train these networks in TensorFlow's
Pendulum-v1 with 8 x 256 steps, 10 epochs and minibatches of 64; `nature` trains that network on images of 84 x 84 x 4,
of an environment that costs next to nothing, with 8 x 32 steps, 4 epochs and minibatches of 128. All sizes are those of
one learner: the work grows with their number. Ours exchange gradients through shared memory, as `agents train
--learners` does; `TensorFlow` by its collective operations on the loopback interface, as several machines do;
`once an epoch` averages weights after every epoch instead. Parts are medians; `ms reductions` are those of the learner
that waits least for the others.

- `learners/N`: environment steps per second of all together. **More learners than cores only show what they cost**:
  they compute in turns.
- `weak`: milliseconds per iteration of two learners with a core each, against one with a core (`1 learner`) and two
  that do not communicate (`2 apart`). The ratio to the first is the efficiency of weak scaling, that to the second is
  what communication leaves of it: cores share caches and memory.
- `reductions`: milliseconds per reduction of 40 kB in a loop in the graph."""

NETWORKS = ("64-64", "256-256", "nature")


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
            for name, transport in ((OURS, MEMORY), (TENSORFLOW, TENSORFLOW))
        )
        found.append(Case(f"reductions/learners/{number}", "ms", contestants, rounds))
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
    team = Team("benchmarks.team_member:reductions", {}, num_learners, transport)
    with contextlib.closing(team):
        yield lambda seconds: team.measure(seconds)[0]


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
        found.append(
            Contestant(TENSORFLOW, f"{__name__}:speed", {**settings, "transport": TENSORFLOW})
        )
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
