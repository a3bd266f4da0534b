"""The package of wrappers as a whole; each wrapper has tests of its own in `wrappers/`."""

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from agents.environments import wrappers
from agents.environments.mock_environment import MockEnvironment
from agents.settings.entry_points import load_function
from tests.environments.playing import play


def test_settings_name_wrappers_by_either_module():
    for name in wrappers.__all__:
        wrapper = load_function(f"agents.tools.wrappers:{name}", "env_wrappers")
        assert wrapper is getattr(wrappers, name)
        assert load_function(f"agents.environments.wrappers:{name}", "env_wrappers") is wrapper


@pytest.mark.parametrize(
    "wrap",
    [
        wrappers.AutoReset,
        wrappers.ConvertTo32Bit,
        wrappers.FrameDelta,
        wrappers.RangeNormalize,
        lambda env: wrappers.ActionRepeat(env, 2),
        lambda env: wrappers.FrameHistory(env, [0, 2], flatten=True),
        lambda env: wrappers.FrameHistory(env, [0, 2], flatten=False),
        lambda env: wrappers.LimitDuration(env, 3),
        lambda env: wrappers.RandomStart(env, 2),
        lambda env: wrappers.RebuildOnSeed(lambda: env),
    ],
)
@pytest.mark.filterwarnings(
    "ignore:.*The environment .* is different from the unwrapped version:UserWarning"
)
@pytest.mark.filterwarnings("ignore:.*Not able to test alternative render modes:UserWarning")
def test_wrapped_environments_follow_the_interface(wrap):
    check_env(wrap(MockEnvironment((2, 3), (2,), 4, 9)))


def test_specifications_of_environments_include_wrappers():
    env = wrappers.RandomStart(gymnasium.make("CartPole-v1"), 3)
    env = wrappers.ActionRepeat(wrappers.FrameHistory(env, [0, 2], True), 2)
    again = gymnasium.make(env.spec)
    assert str(again) == str(env)
    actions = [0, 1, 1, 0, 1, 0, 0, 0, 0, 1]
    np.testing.assert_array_equal(play(again, actions, seed=3), play(env, actions, seed=3))


def test_names_of_batch_ppo_are_gymnasiums_wrappers():
    assert wrappers.AutoReset is gymnasium.wrappers.Autoreset
    assert wrappers.ClipAction is gymnasium.wrappers.ClipAction
    assert wrappers.LimitDuration is gymnasium.wrappers.TimeLimit
