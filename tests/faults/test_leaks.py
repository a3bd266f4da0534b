"""Batches that are made, stepped, crashed, restarted and closed many times leave nothing behind."""

import contextlib
import warnings

import numpy as np
import pytest

from agents.errors import EnvironmentFailure
from agents.vector.process_batch import make_batch_env
from tests.faults.figures import record
from tests.faults.processes import holdings, resident_bytes
from tests.faulty_toys import CommandedEnv

MEGABYTES = 5
FAULTS = (CommandedEnv.RAISE, CommandedEnv.DIE, CommandedEnv.EXIT)

pytestmark = pytest.mark.usefixtures("spawner")


def cycle(index):
    """Makes, steps and closes a batch."""
    with contextlib.closing(make_batch_env([CommandedEnv] * 2, 2, timeout=30)) as batch:
        batch.reset(seed=index)
        batch.step([0, CommandedEnv.END])


def crash(index):
    """Makes and crashes a batch, and closes it, or leaves that to the garbage collection."""
    batch = make_batch_env([CommandedEnv] * 2, 2, timeout=30)
    batch.reset(seed=index)
    with pytest.raises(EnvironmentFailure):
        batch.step([FAULTS[index % len(FAULTS)], 0])
    if index % 2:
        batch.close()


@contextlib.contextmanager
def restarting():
    """Yields a function that makes a batch restart an environment, or a process."""
    batch = make_batch_env([CommandedEnv] * 2, 2, timeout=30, restart_limit=10**6, restart_window=5)
    with contextlib.closing(batch), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        batch.reset(seed=0)

        def restart(index):
            fault = FAULTS[index % len(FAULTS)]
            batch.step(np.where(np.arange(2) == index // 3 % 2, fault, 0))
            batch.restarts.records.clear()  # Whoever reads them removes them.

        yield restart


def measure(action, count, warm_up, rounds):
    """Returns the holdings and bytes that `count` calls after a warm-up leave more.

    Of several rounds of calls, the one that takes least memory counts for all: what leaks does so in
    every round, while whatever else this process does may take some in one of them.
    """
    for index in range(warm_up):
        action(index)
    before, sizes = holdings(), [resident_bytes()]
    for calls in np.array_split(np.arange(count), rounds):
        for index in calls:
            action(int(index))
        sizes.append(resident_bytes())
    return holdings().more_than(before), rounds * min(np.diff(sizes))


@pytest.mark.parametrize(
    ("count", "warm_up", "rounds"), [(2, 2, 2), pytest.param(300, 20, 1, marks=pytest.mark.slow)]
)
def test_cycles_leave_nothing_behind(count, warm_up, rounds):
    measured = {
        "create, step, close": measure(cycle, count, warm_up, rounds),
        "with a crash": measure(crash, count, warm_up, rounds),
    }
    with restarting() as restart:
        measured["restarts"] = measure(restart, count, warm_up, rounds)
    record(
        "cycles of batches",
        **{name: count for name in measured},
        more={name: more for name, (more, _) in measured.items() if more} or "nothing",
        megabytes=[round(size / 2**20, 1) for _, size in measured.values()],
    )
    for name, (more, size) in measured.items():
        assert not more, (name, more)
        assert size <= MEGABYTES * 2**20, (name, size)
