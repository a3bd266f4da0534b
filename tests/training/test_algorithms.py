import pytest

from agents.errors import UsageError
from agents.ppo import PPO
from agents.settings.consistency import ALGORITHMS
from agents.training.algorithms import find_algorithm


def test_algorithms_of_this_library():
    assert find_algorithm("ppo") is PPO
    assert all(map(find_algorithm, ALGORITHMS))


def test_algorithms_of_other_modules(tmp_path, monkeypatch):
    (tmp_path / "my_algorithms.py").write_text("class Mine:\n    pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert find_algorithm("my_algorithms:Mine").__name__ == "Mine"
    with pytest.raises(UsageError, match="algorithm 'my_algorithms:Yours': .* has no 'Yours'"):
        find_algorithm("my_algorithms:Yours")


def test_a_missing_module_raises():
    with pytest.raises(UsageError, match="algorithm 'no_module:Mine' needs the module 'no_module'"):
        find_algorithm("no_module:Mine")
