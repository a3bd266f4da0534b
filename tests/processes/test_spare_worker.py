import gc
import os
import signal
import time

import pytest

from agents.processes.spare_worker import SpareWorker
from agents.processes.spawner import end_workers
from agents.vector.process_batch import make_batch_env
from tests.faults.processes import children
from tests.faulty_toys import CommandedEnv


@pytest.fixture
def spare():
    before = children()
    spare = SpareWorker()
    yield spare
    spare.close()
    assert children() <= before


def test_a_prepared_worker_is_taken_once(spare):
    spare.prepare()
    spare.prepare()
    [pid] = (worker.pid for worker in [spare._worker])
    first, second = spare.take(), spare.take()
    assert first.pid == pid != second.pid
    end_workers([first, second])


def test_a_spare_that_died_is_replaced(spare):
    spare.prepare()
    pid = spare._worker.pid
    os.kill(pid, signal.SIGKILL)
    spare._worker.wait(5)
    worker = spare.take()
    assert worker.pid != pid and not worker.has_exited()
    end_workers([worker])
    spare.prepare()
    os.kill(spare._worker.pid, signal.SIGKILL)
    spare._worker.wait(5)
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


def test_a_batch_keeps_one_from_its_first_dead_process_on():
    before = children()
    batch = make_batch_env([CommandedEnv] * 2, 2, timeout=5, restart_limit=10)
    batch.reset(seed=0)
    with pytest.warns(UserWarning, match="restart number"):
        batch.step([CommandedEnv.RAISE, 0])
        assert len(children() - before) == 2
        batch.step([CommandedEnv.DIE, 0])
        [spare] = children() - before - {host.pid for host in batch._hosts}
        batch.step([0, CommandedEnv.DIE])
    assert batch._hosts[1].pid == spare
    assert len(children() - before) == 3
    start = time.monotonic()
    batch.close()
    assert children() <= before
    assert time.monotonic() - start < 4
