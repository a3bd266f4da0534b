import pickle

import gymnasium
from gymnasium.vector import AutoresetMode

from agents.workers.description import Description, describe, find_autoreset_layer
from tests.toys import COUNTS, THREE_CHOICES, CountingEnv


def plain():
    return CountingEnv(action_space=THREE_CHOICES, render_mode="rgb_array")


def marked():
    env = plain()
    env.metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}  # As Gymnasium 1.1 leaves them.
    return env


def test_describes_an_environment_through_its_wrappers():
    expected = Description(COUNTS, THREE_CHOICES, CountingEnv.metadata, "rgb_array", None)
    assert describe(plain()) == expected
    assert describe(gymnasium.wrappers.TimeLimit(plain(), 5)) == expected
    autoreset = describe(gymnasium.wrappers.Autoreset(plain()))
    assert autoreset == expected._replace(autoreset_layer="Autoreset")


def test_can_be_pickled():
    description = describe(plain())
    assert pickle.loads(pickle.dumps(description)) == description


def test_finds_the_wrapper_that_resets_automatically():
    assert find_autoreset_layer(plain()) is None
    assert find_autoreset_layer(gymnasium.wrappers.TimeLimit(marked(), 5)) is None
    inner = gymnasium.wrappers.Autoreset(plain())
    assert find_autoreset_layer(gymnasium.wrappers.TimeLimit(inner, 5)) == "Autoreset"
