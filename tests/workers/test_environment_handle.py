import contextlib
import sys

import cloudpickle
import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from agents.errors import EnvironmentRaisedError
from agents.workers.external_process import ExternalProcess

# Workers need not be able to import this module.
cloudpickle.register_pickle_by_value(sys.modules[__name__])


class Named(gymnasium.Env):
    observation_space = spaces.Box(0, 1, (2,), np.float64)
    action_space = spaces.Discrete(2)
    metadata = {"render_modes": ["ansi"]}

    def __init__(self, name):
        self.name, self._secret = name, "hidden"

    def add(self, one, two=0):
        return one + two

    @property
    def broken(self):
        raise ValueError("broken property")


@pytest.fixture(scope="module")
def handle():
    """A handle on the second of two environments in a process."""
    constructors = [
        lambda name=name: gymnasium.wrappers.TimeLimit(Named(name), 50) for name in ("one", "two")
    ]
    process = ExternalProcess(constructors, timeout=20)
    with contextlib.closing(process):
        yield process[1]


def test_calls_methods_with_and_without_waiting(handle):
    assert handle.call("add", 1, two=2) == 3
    assert handle.call("add", 2, 3, blocking=False)() == 5
    assert handle.call("name") == "two"


def test_reads_and_sets_attributes_through_wrappers(handle):
    assert handle.name == "two"
    handle.set_attr("name", "another")
    assert handle.name == "another"
    handle.set_attr("name", "two")


def test_knows_the_description_of_its_environment(handle):
    assert handle.observation_space == Named.observation_space
    assert handle.action_space == Named.action_space
    assert (handle.metadata, handle.render_mode) == (Named.metadata, None)


def test_names_with_a_leading_underscore_are_not_read_from_the_environment(handle):
    with pytest.raises(AttributeError):
        _ = handle._secret
    assert handle.call("_secret") == "hidden"


def test_a_missing_attribute_is_an_attribute_error(handle):
    assert not hasattr(handle, "nothing")
    assert getattr(handle, "nothing", 5) == 5
    with pytest.raises(AttributeError, match="Traceback of the environment"):
        _ = handle.nothing
    with pytest.raises(EnvironmentRaisedError, match="broken property") as caught:
        _ = handle.broken
    assert caught.value.env_index == 1
