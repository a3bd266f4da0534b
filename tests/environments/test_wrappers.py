"""The package of wrappers as a whole; each wrapper has tests of its own in `wrappers/`."""

import subprocess
import sys

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env

from agents.environments import wrappers
from agents.environments.mock_environment import MockEnvironment
from agents.settings.entry_points import load_function


def test_wrappers_do_not_import_tensorflow():
    code = (
        "import sys, agents.environments.mock_environment; from agents.tools import wrappers;"
        "sys.exit(bool({'tensorflow', 'keras', 'torch', 'jax', 'pydantic'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("name", wrappers.__all__)
def test_settings_name_wrappers_by_either_module(name):
    assert load_function(f"agents.tools.wrappers:{name}", "env_wrappers") is getattr(wrappers, name)
    assert load_function(f"agents.environments.wrappers:{name}", "env_wrappers")


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


def test_specifications_of_environments_include_wrappers(play):
    env = wrappers.RandomStart(gymnasium.make("CartPole-v1"), 3)
    env = wrappers.ActionRepeat(wrappers.FrameHistory(env, [0, 2], True), 2)
    again = gymnasium.make(env.spec)
    assert str(again) == str(env)
    actions = [0, 1, 1, 0, 1, 0, 0, 0, 0, 1]
    np.testing.assert_array_equal(play(again, actions, seed=3), play(env, actions, seed=3))


class TestNamesOfGymnasium:
    def test_auto_reset_starts_the_next_episode(self, script, frames):
        env = wrappers.AutoReset(script(frames(()), spaces.Box(0, 9, ()), terminated_at=1))
        env.reset()
        assert env.step(0)[2]
        observ, reward, terminated, _, _ = env.step(0)
        assert (observ, reward, terminated) == (1, 0, False)

    def test_clip_action(self, script, frames):
        inner = script(frames(()), spaces.Box(0, 9, ()), spaces.Box(-1, 2, (2,)))
        env = wrappers.ClipAction(inner)
        env.reset()
        env.step(np.array([-5, 5], np.float32))
        np.testing.assert_array_equal(inner.actions, [[-1, 2]])

    def test_limit_duration_truncates(self, script, frames):
        env = wrappers.LimitDuration(script(frames(()), spaces.Box(0, 9, ())), 2)
        env.reset()
        assert [env.step(0)[2:4] for _ in range(2)] == [(False, False), (False, True)]
