import sys

import pytest

from agents.errors import UsageError
from agents.learning.reduction import SINGLE_LEARNER
from agents.ppo import PPO
from agents.settings.config import ALGORITHMS
from agents.settings.config_file import load_config
from agents.tensor_envs import InGraphTensorEnv
from agents.training.algorithms import find_algorithm
from tests.tensor_toys import LearnerGroup, RandomTensorEnv


def test_algorithms_of_this_library():
    assert find_algorithm("ppo") is PPO
    assert all(map(find_algorithm, ALGORITHMS))


MY_ALGORITHMS = """
class Raises:
    def __init__(self, batch_env, config):
        raise KeyError("no\\nreward")

def text(batch_env, config):
    return "text"

def takes_nothing():
    pass
"""


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("Raises", ["failed", "KeyError: 'no\\nreward'", "line 4: raise KeyError"]),
        ("text", ["expected a subclass of agents.Algorithm, got str"]),
        ("takes_nothing", ["takes 0 positional arguments but 2 were given"]),
    ],
)
def test_algorithms_that_fail_or_are_something_else(tmp_path, monkeypatch, name, parts):
    (tmp_path / "my_algorithms.py").write_text(MY_ALGORITHMS)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "my_algorithms", raising=False)
    with pytest.raises(UsageError) as raised:
        find_algorithm(f"my_algorithms:{name}")(None, None)
    message = str(raised.value)
    assert f"algorithm 'my_algorithms:{name}'" in message
    assert len(message.splitlines()) <= 3
    for part in parts:
        assert part in message


def make_algorithm(tmp_path, monkeypatch, code, reducer):
    """What a user's `Mine` creates for one of several learners."""
    (tmp_path / "my_algorithms.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "my_algorithms", raising=False)
    config = load_config("default", num_envs=4, rollout_length=2, minibatch_size=8)
    factory = find_algorithm("my_algorithms:Mine")
    envs = InGraphTensorEnv(RandomTensorEnv(), 4 // reducer.num_learners)
    return factory(envs, config, *([reducer] if reducer.num_learners > 1 else []))


WITHOUT_REDUCER = """
from agents.ppo import PPO

class Mine(PPO):
    def __init__(self, batch_env, config):
        super().__init__(batch_env, config)
"""

WITH_REDUCER = """
from agents.ppo import PPO

class Mine(PPO):
    pass
"""


def test_several_learners_need_algorithms_that_take_a_reducer(tmp_path, monkeypatch):
    [reducer, _] = LearnerGroup().reducers
    with pytest.raises(UsageError) as raised:
        make_algorithm(tmp_path, monkeypatch, WITHOUT_REDUCER, reducer)
    message = str(raised.value)
    assert "algorithm 'my_algorithms:Mine': expected a third parameter 'reducer'" in message
    assert len(message.splitlines()) <= 3
    alone = make_algorithm(tmp_path, monkeypatch, WITHOUT_REDUCER, SINGLE_LEARNER)
    assert isinstance(alone, PPO)


def test_an_algorithm_gets_the_reducer_of_several_learners(tmp_path, monkeypatch):
    [_, reducer] = LearnerGroup().reducers
    assert make_algorithm(tmp_path, monkeypatch, WITH_REDUCER, reducer)._reducer is reducer
    alone = make_algorithm(tmp_path, monkeypatch, WITH_REDUCER, SINGLE_LEARNER)
    assert alone._reducer is SINGLE_LEARNER


def test_a_missing_module_raises():
    with pytest.raises(UsageError, match="algorithm 'no_module:Mine' needs the module 'no_module'"):
        find_algorithm("no_module:Mine")


def test_algorithms_that_do_not_act_in_turns_are_refused_by_name(tmp_path, monkeypatch):
    code = """
from agents import PPO

class Mine(PPO):
    def perform(self, observ, deterministic):
        return super().perform(observ, deterministic)

class Careful(Mine):
    acts_in_turns = True
"""
    (tmp_path / "my_turns.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "my_turns", raising=False)
    sizes = {"num_envs": 4, "rollout_length": 2, "minibatch_size": 8}
    envs = InGraphTensorEnv(RandomTensorEnv(), 4)
    for name, wait_for in (("Mine", 1.0), ("Careful", 0.5)):
        config = load_config("default", wait_for=wait_for, **sizes)
        find_algorithm(f"my_turns:{name}")(envs, config)
    with pytest.raises(UsageError) as raised:
        find_algorithm("my_turns:Mine")(envs, load_config("default", wait_for=0.5, **sizes))
    first, second = str(raised.value).splitlines()
    assert first == (
        "algorithm 'my_turns:Mine': acts in all environments at once, got wait_for 0.5"
    )
    assert second.startswith("use wait_for 1, or see ")
