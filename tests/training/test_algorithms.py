import sys

import pytest

from agents.errors import UsageError
from agents.ppo import PPO
from agents.settings.consistency import ALGORITHMS
from agents.training.algorithms import find_algorithm


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


def test_a_missing_module_raises():
    with pytest.raises(UsageError, match="algorithm 'no_module:Mine' needs the module 'no_module'"):
        find_algorithm("no_module:Mine")
