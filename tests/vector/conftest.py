import gymnasium
import pytest

from tests.faulty_toys import CommandedEnv
from tests.vector.batches import BACKENDS, batch_of


@pytest.fixture(scope="package", params=BACKENDS)
def playground(request):
    """Three environments that stay usable."""
    constructors = [
        lambda name=name: gymnasium.wrappers.TimeLimit(CommandedEnv(name), 500) for name in "abc"
    ]
    with batch_of(constructors, request.param, timeout=20) as batch:
        yield batch
