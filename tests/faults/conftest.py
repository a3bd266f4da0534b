import pytest

from agents.workers.spawner import end_workers, start_worker


@pytest.fixture(scope="session")
def spawner():
    """The thread that starts workers, which lives as long as this process, is there."""
    end_workers([start_worker()])
