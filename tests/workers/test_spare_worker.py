import gc
import time

import pytest

from agents.vector.process_batch import make_batch_env
from agents.workers.spawner import SpareWorker, end_workers
from tests.faults.processes import children
from tests.faulty_toys import CommandedEnv
from tests.workers.families import parent_of


@pytest.fixture
def spare():
    before = children()
    spare = SpareWorker()
    yield spare
    spare.close()
    assert children() <= before


def test_a_spare_that_died_is_replaced(spare):
    spare.prepare()
    dead = spare._worker
    dead.kill()
    dead.wait(60)
    worker = spare.take()
    assert worker is not dead and not worker.has_exited()
    end_workers([worker])
    spare.prepare()
    spare._worker.kill()
    spare._worker.wait(60)
    spare.prepare()
    assert not spare._worker.has_exited()


def test_a_spare_ends_with_its_object(spare):
    before = children()
    other = SpareWorker()
    other.prepare()
    assert len(children() - before) == 1
    del other
    gc.collect()
    assert children() == before


@pytest.mark.timing
def test_a_batch_keeps_one_from_its_first_dead_process_on():
    before = children()
    batch = make_batch_env([CommandedEnv] * 2, 2, timeout=5, restart_limit=10)
    batch.reset(seed=0)
    with pytest.warns(UserWarning, match="restart number"):
        batch.step([CommandedEnv.RAISE, 0])
        assert len(children() - before) == 2
        batch.step([CommandedEnv.DIE, 0])
        [spare] = children() - before - {parent_of(host.pid) for host in batch._hosts}
        batch.step([0, CommandedEnv.DIE])
    assert parent_of(batch._hosts[1].pid) == spare
    assert len(children() - before) == 3
    start = time.monotonic()
    batch.close()
    assert children() <= before
    assert time.monotonic() - start < 60
