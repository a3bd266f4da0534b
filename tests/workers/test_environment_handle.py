import contextlib
import sys

import cloudpickle
import gymnasium
import pytest

from agents.errors import EnvironmentRaisedError
from agents.workers.external_process import ExternalProcess
from tests.faulty_toys import CommandedEnv

# Workers need not be able to import this module.
cloudpickle.register_pickle_by_value(sys.modules[__name__])


@pytest.fixture(scope="module")
def handle():
    """A handle on the second of two environments in a process."""
    constructors = [
        lambda name=name: gymnasium.wrappers.TimeLimit(CommandedEnv(name), 50)
        for name in ("one", "two")
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
    assert handle.observation_space == CommandedEnv.observation_space
    assert handle.action_space == CommandedEnv.action_space
    assert (handle.metadata, handle.render_mode) == (CommandedEnv.metadata, None)


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
