import gc

import pytest


@pytest.fixture(autouse=True)
def little_garbage():
    """Sweeps collect garbage after each trial, for seconds beside what earlier tests have left."""
    gc.freeze()
    yield
    gc.unfreeze()
