"""Trainings that are stopped and resumed equal those that were never stopped, bit by bit."""

import importlib.util

import pytest

from tests.faults.figures import record
from tests.faults.tiny_trainings import UPDATE, UPDATES, make_config, never_stopped, values
from tests.fingerprint import fingerprint
from tests.scripts.runs import events, finish, rewound, rows

BACKENDS = ["process", "hybrid", "inline", "tf", "envpool"]
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def run(backend, seeds, stops, folder):
    """Trains with each seed, and again from copies that end at each of the stops, in updates."""
    equal = 0
    for seed in seeds:
        whole = never_stopped(backend, seed)
        for stop in stops:
            copy = rewound(whole, folder / f"{seed}-{stop}", stop * UPDATE)
            evaluations = finish(make_config(backend, seed), copy)
            assert 0 < len(evaluations) < UPDATES // 2
            for step in range(UPDATE * (stop + 5), UPDATE * UPDATES + 1, 5 * UPDATE):
                assert fingerprint(values(copy, step)) == fingerprint(values(whole, step))
            assert rows(copy) == rows(whole)
            assert events(copy.train_events) == events(whole.train_events)
            equal += 1
    record(
        f"resumed against never stopped, {backend}",
        updates=UPDATES,
        seeds=len(seeds),
        stopping_points=len(stops),
        resumed=len(seeds) * len(stops),
        equal_hashes=equal,
    )


@pytest.mark.parametrize("backend", ["inline", pytest.param("tf", marks=pytest.mark.slow)])
def test_a_resumed_training_equals_one_that_never_stopped(backend, tmp_path):
    run(backend, [0], [15], tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
def test_nine_resumed_trainings_equal_those_that_never_stopped(backend, tmp_path):
    if backend == "envpool" and importlib.util.find_spec("envpool") is None:
        pytest.skip("envpool is not installed")
    run(backend, [0, 1, 2], [10, 15, 25], tmp_path)
