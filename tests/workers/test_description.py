import pickle

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode

from agents.workers.description import Description, describe, find_autoreset_layer


class Plain(gymnasium.Env):
    observation_space = spaces.Box(0, 1, (2,), np.float32)
    action_space = spaces.Discrete(3)
    metadata = {"render_modes": ["rgb_array"]}
    render_mode = "rgb_array"


class Marked(Plain):
    metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}  # As Gymnasium 1.1 leaves environments.


def test_describes_an_environment_through_its_wrappers():
    expected = Description(
        Plain.observation_space, Plain.action_space, Plain.metadata, "rgb_array", None
    )
    assert describe(Plain()) == expected
    assert describe(gymnasium.wrappers.TimeLimit(Plain(), 5)) == expected
    autoreset = describe(gymnasium.wrappers.Autoreset(Plain()))
    assert autoreset == expected._replace(autoreset_layer="Autoreset")


def test_can_be_pickled():
    description = describe(Plain())
    assert pickle.loads(pickle.dumps(description)) == description


def test_finds_the_wrapper_that_resets_automatically():
    assert find_autoreset_layer(Plain()) is None
    assert find_autoreset_layer(gymnasium.wrappers.TimeLimit(Marked(), 5)) is None
    inner = gymnasium.wrappers.Autoreset(Plain())
    assert find_autoreset_layer(gymnasium.wrappers.TimeLimit(inner, 5)) == "Autoreset"
