import re

import pytest
from gymnasium import spaces

from agents.environments.mock_environment import MockEnvironment
from agents.environments.wrappers.action_repeat import ActionRepeat


def test_sums_rewards_and_returns_the_last_info(script, frames):
    inner = script(frames(()), spaces.Box(0, 9, ()))
    env = ActionRepeat(inner, 3)
    env.reset()
    observ, reward, terminated, truncated, info = env.step(2)
    assert (float(observ), reward, terminated, truncated, info) == (
        4,
        6,
        False,
        False,
        {"time": 3},
    )
    assert inner.actions == [2, 2, 2]


@pytest.mark.parametrize("flag", ["terminated", "truncated"])
def test_stops_at_the_end_of_the_episode_and_keeps_its_flag(flag, script, frames):
    inner = script(frames(()), spaces.Box(0, 9, ()), **{f"{flag}_at": 2})
    env = ActionRepeat(inner, 5)
    env.reset()
    _, reward, terminated, truncated, _ = env.step(0)
    assert (reward, len(inner.actions)) == (3, 2)
    assert (terminated, truncated) == (flag == "terminated", flag == "truncated")


@pytest.mark.parametrize("amount", [0, -1, 1.5, True, "2"])
def test_invalid_amounts_raise(amount):
    with pytest.raises(
        ValueError,
        match=re.escape(f"amount must be a whole number of at least 1, got {amount!r}"),
    ):
        ActionRepeat(MockEnvironment((), (), 1, 1), amount)
