import contextlib
import os
from pathlib import Path

import pytest

from benchmarks import distributed
from benchmarks.runner import ContestantError
from benchmarks.team import APART, MEMORY, TENSORFLOW, Team
from benchmarks.workloads import WORKLOADS

TINY = WORKLOADS["tiny"]


def measuring(function, *settings):
    """Context in which a contestant of the suite is ready; its first measurement compiles."""
    return contextlib.contextmanager(function)(*settings)


def learner_processes():
    """Ids of the learners that this process has started."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            parent = int(path.joinpath("stat").read_text().rpartition(")")[2].split()[1])
            if (
                parent == os.getpid()
                and b"benchmarks.contestant" in (path / "cmdline").read_bytes()
            ):
                found.append(int(path.name))
    return found


def test_parts_of_iterations_are_measured():
    with measuring(distributed.speed, "tiny", 2, MEMORY) as measure:
        assert len(learner_processes()) == 2
        measure(0.0)
        speed, note, parts = measure(0.05)
    assert learner_processes() == [] and not note
    # A sum for each minibatch, and some for the statistics of all learners.
    assert TINY.minibatches < parts["sums"] < TINY.minibatches + 20
    assert parts["gathers"] == 3  # One of them whether to stop.
    assert 0 < parts["ms reductions"] < parts["ms update"]
    milliseconds = 1e3 * 2 * TINY.steps / speed
    assert parts["ms collecting"] + parts["ms update"] < milliseconds * 1.5


@pytest.mark.slow
def test_collective_operations_are_measured():
    with measuring(distributed.reductions, 3, TENSORFLOW) as measure:
        measure(0.0)
        _, _, parts = measure(0.0)
    assert 0 < parts["ms at 1 kB"] < parts["ms at 8 MB"]
    with measuring(distributed.speed, "tiny", 2, TENSORFLOW) as measure:
        measure(0.0)
        assert measure(0.05).value > 0


def test_a_learner_that_fails_ends_the_team():
    settings = {"network": "unknown", "reduce_every": "minibatch"}
    with pytest.raises(ContestantError, match="KeyError: 'unknown'"):
        Team("benchmarks.team_member:iterations", settings, 2, APART)
    assert learner_processes() == []
