import sys

import pytest

from agents.errors import UsageError
from agents.learning.reduction import SINGLE_LEARNER
from agents.ppo import PPO
from agents.settings.config import ALGORITHMS
from agents.settings.config_file import load_config
from agents.tensor_envs import InGraphTensorEnv
from agents.training.find_algorithm import find_algorithm
from tests.tensor_toys import LearnerGroup, RandomTensorEnv

MY_ALGORITHMS = """
from agents.ppo import PPO

class Raises:
    def __init__(self, batch_env, config):
        raise KeyError("no\\nreward")

def text(batch_env, config):
    return "text"

def takes_nothing():
    pass

class Alone(PPO):
    def __init__(self, batch_env, config):
        super().__init__(batch_env, config)

class Mine(PPO):
    def perform(self, observ, deterministic):
        return super().perform(observ, deterministic)

class InTurns(Mine):
    acts_in_turns = True
"""
[REDUCER, _] = LearnerGroup().reducers


@pytest.fixture(autouse=True)
def my_algorithms(tmp_path, monkeypatch):
    (tmp_path / "my_algorithms.py").write_text(MY_ALGORITHMS)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "my_algorithms", raising=False)


def make(name, reducer=SINGLE_LEARNER, **settings):
    """What a user's class or function creates for one of several learners."""
    config = load_config("default", num_envs=4, rollout_length=2, minibatch_size=8, **settings)
    envs = InGraphTensorEnv(RandomTensorEnv(), 4 // reducer.num_learners)
    several = [reducer] if reducer.num_learners > 1 else []
    return find_algorithm(f"my_algorithms:{name}")(envs, config, *several)


def test_algorithms_of_this_library():
    assert find_algorithm("ppo") is PPO
    assert all(map(find_algorithm, ALGORITHMS))


@pytest.mark.parametrize(
    ("name", "arguments", "parts"),
    [
        ("Raises", {}, ["failed", "KeyError: 'no\\nreward'", "line 6: raise KeyError"]),
        ("text", {}, ["expected a subclass of agents.Algorithm, got str"]),
        ("takes_nothing", {}, ["takes 0 positional arguments but 2 were given"]),
        ("Alone", {"reducer": REDUCER}, [": expected a third parameter 'reducer'"]),
        (
            "Mine",
            {"wait_for": 0.5},
            [": acts in all environments at once, got wait_for 0.5\nuse wait_for 1, or see "],
        ),
    ],
)
def test_algorithms_that_can_not_be_used_are_named(name, arguments, parts):
    with pytest.raises(UsageError) as raised:
        make(name, **arguments)
    message = str(raised.value)
    assert f"algorithm 'my_algorithms:{name}'" in message
    assert len(message.splitlines()) <= 3
    for part in parts:
        assert part in message


def test_other_algorithms_are_created():
    assert isinstance(make("Alone"), PPO)
    assert isinstance(make("InTurns", wait_for=0.5), PPO)
    assert make("Mine", REDUCER)._reducer is REDUCER
    assert make("Mine")._reducer is SINGLE_LEARNER


def test_a_missing_module_raises():
    with pytest.raises(UsageError, match="algorithm 'no_module:Mine' needs the module 'no_module'"):
        find_algorithm("no_module:Mine")
