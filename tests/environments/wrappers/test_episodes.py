import functools
import re

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from agents.environments.wrappers import ActionRepeat, RandomStart, RebuildOnSeed, ResetOptions
from agents.vector.process_batch import make_batch_env
from tests.environments.playing import frames
from tests.toys import CountingEnv, ScriptedEnv


def scripted(**kwargs):
    return ScriptedEnv(frames((), count=50), spaces.Box(0, 99, ()), **kwargs)


def test_sums_rewards_and_returns_the_last_info():
    env = ActionRepeat(scripted(), np.int64(3))
    env.reset()
    assert env.step(2) == (4, 6, False, False, {"steps": 3})
    assert env.unwrapped.actions == [2, 2, 2]


@pytest.mark.parametrize("flag", ["terminated", "truncated"])
def test_stops_at_the_end_of_the_episode_and_keeps_its_flag(flag):
    env = ActionRepeat(scripted(**{f"{flag}_at": 2}), 5)
    env.reset()
    _, reward, terminated, truncated, _ = env.step(0)
    assert (reward, len(env.unwrapped.actions)) == (3, 2)
    assert (terminated, truncated) == (flag == "terminated", flag == "truncated")


def test_other_amounts_than_whole_numbers_raise():
    for amount in (0, -1, 1.5, True, "2"):
        message = re.escape(f"amount must be a whole number of at least 1, got {amount!r}")
        with pytest.raises(ValueError, match=message):
            ActionRepeat(scripted(), amount)
    with pytest.raises(ValueError, match="max_steps must be a whole number of at least 0, got -1"):
        RandomStart(scripted(), -1)


def test_random_starts_take_every_number_of_steps_up_to_the_maximum():
    env = RandomStart(scripted(), 3)
    env.reset(seed=0)
    resets = [(int(observ), info["steps"]) for observ, info in (env.reset() for _ in range(60))]
    assert set(resets) == {(1, 0), (2, 1), (3, 2), (4, 3)}
    assert RandomStart(scripted(), 0).reset(seed=0) == (1, {"steps": 0})


def test_random_starts_depend_on_the_seed_only():
    def starts(seed, samples):
        env = RandomStart(scripted(), 40)
        env.action_space.seed(samples)
        env.reset(seed=seed)
        for _ in range(5):
            env.action_space.sample()
            env.reset()
        return env.unwrapped.actions

    assert starts(7, samples=1) == starts(7, samples=2) != starts(8, samples=1)


def test_the_action_space_of_the_environment_is_not_sampled():
    env = RandomStart(scripted(), 5)
    env.action_space.seed(3)
    env.reset(seed=0)
    untouched = spaces.Discrete(3, seed=3)
    assert [env.action_space.sample() for _ in range(20)] == [untouched.sample() for _ in range(20)]


@pytest.mark.parametrize("flag", ["terminated_at", "truncated_at"])
def test_random_steps_continue_in_the_next_episode(flag):
    env = RandomStart(scripted(**{flag: 2}), 9)
    env.reset(seed=0)
    seeded_calls = len(env.unwrapped.calls)
    for _ in range(20):
        taken = len(env.unwrapped.actions)
        observ, info = env.reset(options={"level": 1})
        assert info["steps"] == (len(env.unwrapped.actions) - taken) % 2
        assert observ == info["steps"] + 1
    calls = env.unwrapped.calls[seeded_calls:]
    resets = [options for method, options in calls if method == "reset"]
    assert len(resets) > 20
    assert all(options == {"level": 1} for options in resets)


def test_a_seeded_reset_makes_a_new_environment():
    made = []

    def make():
        made.append(CountingEnv(action_space=spaces.Discrete(100)))
        return made[-1]

    env = RebuildOnSeed(make)
    env.action_space.seed(3)
    expected = spaces.Discrete(100, seed=3)
    env.reset(seed=1, options={"a": 1})
    assert len(made) == 1, "the first environment was not used yet"
    env.reset()
    env.reset(seed=2)
    env.reset()
    first, second = made
    assert first.resets == [(1, {"a": 1}), (None, None)] and first.closed
    assert second.resets == [(2, None), (None, None)] and not second.closed
    assert [env.action_space.sample() for _ in range(9)] == [expected.sample() for _ in range(9)]


class StartingEnv(CountingEnv):
    """Tells in its infos the options that it was reset with."""

    def reset(self, *, seed=None, options=None):
        observ, info = super().reset(seed=seed, options=options)
        return observ, {**info, **options}


def start_at(start):
    return ResetOptions(StartingEnv([(2, "terminated")]), {"start": start})


def test_every_reset_of_a_batch_gets_the_options():
    envs = make_batch_env([functools.partial(start_at, start) for start in (3, 5)], 1)
    try:
        starts = [envs.reset(seed=0)[1]["start"]]
        for _ in range(4):  # Beyond the ends of two episodes.
            *_, infos = envs.step(np.zeros(2, np.int64))
            starts += [infos["start"]] if "start" in infos else []
        np.testing.assert_array_equal(starts, [[3, 5]] * 3)
    finally:
        envs.close()


def test_options_of_a_caller_have_precedence_and_the_spec_has_options():
    assert start_at(3).reset(options={"start": 7})[1]["start"] == 7
    env = ResetOptions(gymnasium.make("CartPole-v1"), {"low": -0.01, "high": 0.01})
    again = gymnasium.make(env.spec)
    observ, _ = again.reset(seed=1)
    assert np.abs(observ).max() <= 0.01
