import functools

import pytest

from agents.deployment.trained_policy import load_policy
from tests.deployment.untrained import KINDS, save_run


@pytest.fixture(scope="session")
def saved(tmp_path_factory):
    """Returns the run of a kind of policy, which is made once."""
    return functools.cache(lambda name: save_run(KINDS[name], tmp_path_factory.mktemp("runs")))


@pytest.fixture(scope="session")
def loaded(saved):
    """Returns the policy of a kind, which is loaded once, at the start of episodes."""
    load = functools.cache(lambda name: load_policy(saved(name)))

    def reset(name):
        load(name).reset()
        return load(name)

    return reset
