import contextlib
import sys

import cloudpickle
import gymnasium
import hypothesis
import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import strategies

from agents.environments.mock_environment import MockEnvironment
from agents.errors import UnsupportedSpaceError
from agents.workers.external_process import ExternalProcess
from tests.toys import RandomEnv

# Workers need not be able to import this module.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

BOXES = strategies.builds(
    lambda shape, dtype: spaces.Box(0, 9, shape, dtype),
    strategies.sampled_from([(), (1,), (2, 3)]),
    strategies.sampled_from([np.uint8, np.float32, np.float64]),
)
LEAVES = strategies.one_of(
    BOXES,
    strategies.just(spaces.Discrete(4, start=-1)),
    strategies.just(spaces.MultiDiscrete([3, 2])),
    strategies.just(spaces.MultiBinary(3)),
)
STRUCTURES = strategies.one_of(
    LEAVES,
    strategies.dictionaries(strategies.sampled_from("zya"), LEAVES, min_size=1).map(spaces.Dict),
    strategies.lists(LEAVES, min_size=1, max_size=3).map(spaces.Tuple),
)


class RecordingEnv(RandomEnv):
    """Tells its last action."""

    @property
    def last_action(self):
        return self.history[-1].action


@hypothesis.given(STRUCTURES, STRUCTURES, strategies.integers(0, 99))
@hypothesis.settings(deadline=None, max_examples=6)
def test_structures_arrive_unchanged_in_both_directions(observation_space, action_space, seed):
    process = ExternalProcess(lambda: RecordingEnv(observation_space, action_space, 0, 0))
    with contextlib.closing(process):
        observ, _ = process.reset(seed=seed)
        np.testing.assert_equal(observ, process.observs[-1])
        action_space.seed(seed)
        for _ in range(3):
            action = action_space.sample()
            observ = process.step(action)[0]
            np.testing.assert_equal(observ, process.observs[-1])
            np.testing.assert_equal(process.last_action, action)  # In its space, as checked.


def test_a_mock_environment_without_dimensions():
    process = ExternalProcess(lambda: MockEnvironment((), (), 3, 3))
    with contextlib.closing(process):
        observ, _ = process.reset(seed=0)
        assert isinstance(observ, np.ndarray) and observ.shape == ()
        assert process.step(np.array(0.5, np.float32))[0] in process.observation_space


def test_an_unsupported_space_is_named():
    class Talker(gymnasium.Env):
        observation_space, action_space = spaces.Text(5), spaces.Discrete(2)

    with pytest.raises(UnsupportedSpaceError, match="Text"):
        ExternalProcess(Talker)
