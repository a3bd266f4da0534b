"""Trainings that are stopped and resumed equal those that were never stopped, bit by bit."""

import pytest

from tests.faults.figures import record
from tests.faults.tiny_trainings import UPDATE, UPDATES, make_config, never_stopped, values
from tests.fingerprint import fingerprint
from tests.scripts.runs import events, finish, rewound, rows

SEEDS, STOPS = [0, 1, 2], [10, 15, 25]  # Stops in updates.
BACKENDS = ["process", "hybrid", "inline", "tf", "envpool"]
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


@pytest.mark.slow  # tests/scripts/test_train.py has short ones.
@pytest.mark.parametrize("backend", BACKENDS)
def test_resumed_trainings_equal_those_that_never_stopped(backend, tmp_path):
    if backend == "envpool":
        pytest.importorskip("envpool")
    for seed in SEEDS:
        whole = never_stopped(backend, seed)
        for stop in STOPS:
            copy = rewound(whole, tmp_path / f"{seed}-{stop}", stop * UPDATE)
            evaluations = finish(make_config(backend, seed), copy)
            assert 0 < len(evaluations) < UPDATES // 2
            for step in range(UPDATE * (stop + 5), UPDATE * UPDATES + 1, 5 * UPDATE):
                assert fingerprint(values(copy, step)) == fingerprint(values(whole, step))
            assert rows(copy) == rows(whole)
            assert events(copy.train_events) == events(whole.train_events)
    record(
        f"resumed against never stopped, {backend}",
        updates=UPDATES,
        seeds=len(SEEDS),
        stopping_points=len(STOPS),
        resumed=len(SEEDS) * len(STOPS),
        equal_hashes=len(SEEDS) * len(STOPS),
    )
