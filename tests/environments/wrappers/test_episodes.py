import functools
import re

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from agents.environments.mock_environment import MockEnvironment
from agents.environments.wrappers import ActionRepeat, RandomStart, RebuildOnSeed, ResetOptions
from agents.vector.process_batch import make_batch_env


def test_sums_rewards_and_returns_the_last_info(script, frames):
    inner = script(frames(()), spaces.Box(0, 9, ()))
    env = ActionRepeat(inner, np.int64(3))
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


@pytest.fixture
def make(script, frames):
    def make(max_steps, **kwargs):
        env = script(frames((), count=50), spaces.Box(0, 99, ()), **kwargs)
        return RandomStart(env, max_steps)

    return make


def test_takes_every_number_of_steps_up_to_the_maximum(make):
    env = make(3)
    env.reset(seed=0)
    assert {env.reset()[1]["time"] for _ in range(60)} == {0, 1, 2, 3}


def test_no_steps(make):
    env = make(0)
    assert env.reset() == (1, {"time": 0})
    assert env.unwrapped.actions == []


def test_returns_the_observation_after_the_steps(make):
    env = make(4)
    env.reset(seed=0)
    for _ in range(10):
        observ, info = env.reset()
        assert observ == info["time"] + 1


def test_equal_seeds_give_equal_episodes_whatever_is_sampled_elsewhere(make):
    first, second = make(5), make(5)
    first.action_space.seed(1)
    for env in (first, second):
        env.reset(seed=7)
        for _ in range(5):
            env.action_space.sample()
            env.reset()
    assert len(first.unwrapped.actions) > 5
    assert first.unwrapped.actions == second.unwrapped.actions


def test_resets_without_a_seed_and_other_seeds_give_other_episodes(make):
    env = make(40)
    times = [env.reset(seed=7)[1]["time"]] + [env.reset()[1]["time"] for _ in range(5)]
    assert len(set(times)) > 1
    assert len({env.reset(seed=seed)[1]["time"] for seed in range(6)}) > 1


def test_the_action_space_of_the_environment_is_not_sampled(make):
    env = make(5)
    env.action_space.seed(3)
    env.reset(seed=0)
    untouched = spaces.Discrete(3, seed=3)
    assert [env.action_space.sample() for _ in range(20)] == [untouched.sample() for _ in range(20)]


@pytest.mark.parametrize("flag", ["terminated_at", "truncated_at"])
def test_random_steps_continue_in_the_next_episode(flag, make):
    env = make(9, **{flag: 2})
    env.reset(seed=0)
    seeding_resets = len(env.unwrapped.resets)
    for _ in range(20):
        taken = len(env.unwrapped.actions)
        observ, info = env.reset(options={"level": 1})
        assert info["time"] == (len(env.unwrapped.actions) - taken) % 2
        assert observ == info["time"] + 1
    resets = env.unwrapped.resets[seeding_resets:]
    assert len(resets) > 20
    assert all(options == {"level": 1} for options in resets)


def test_negative_numbers_raise(make):
    with pytest.raises(ValueError, match="max_steps must be a whole number of at least 0, got -1"):
        make(-1)


class Stateful(gymnasium.Env):
    """Observes how often this object was reset."""

    observation_space = spaces.Box(0, 99, (), np.int64)

    def __init__(self):
        self.action_space = spaces.Discrete(100)
        self.resets, self.closed = 0, False

    def reset(self, *, seed=None, options=None):
        self.resets += 1
        return np.array(self.resets), {"seed": seed, "options": options}

    def close(self):
        self.closed = True


def test_a_seeded_reset_makes_a_new_environment():
    made = []

    def make():
        made.append(Stateful())
        return made[-1]

    env = RebuildOnSeed(make)
    env.action_space.seed(3)
    expected = spaces.Discrete(100, seed=3)
    assert env.reset(seed=1, options={"a": 1}) == (1, {"seed": 1, "options": {"a": 1}})
    assert len(made) == 1, "the first environment was not used yet"
    assert env.reset()[0] == 2
    assert env.reset(seed=2)[0] == 1
    assert [inner.closed for inner in made] == [True, False]
    assert env.reset()[0] == 2
    assert [env.action_space.sample() for _ in range(9)] == [expected.sample() for _ in range(9)]


class Starts(gymnasium.Env):
    """Starts where the options say, and ends after two steps."""

    observation_space = gymnasium.spaces.Box(-1, 9, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps, self.start = 0, (options or {}).get("start", -1)
        return np.array([self.start], np.float32), {}

    def step(self, action):
        self.steps += 1
        return np.array([self.start], np.float32), 0.0, self.steps == 2, False, {}


def start_at(start):
    return ResetOptions(Starts(), {"start": start})


def test_every_reset_of_a_batch_gets_the_options():
    envs = make_batch_env([functools.partial(start_at, start) for start in (3, 5)])
    try:
        observ, _ = envs.reset(seed=0)
        assert observ[:, 0].tolist() == [3, 5]
        for _ in range(5):  # Beyond the ends of two episodes.
            observ, *_ = envs.step(np.zeros(2, np.int64))
            assert observ[:, 0].tolist() == [3, 5]
    finally:
        envs.close()


def test_options_of_a_caller_have_precedence():
    observ, _ = start_at(3).reset(options={"start": 7})
    assert observ[0] == 7


def test_the_spec_knows_the_options():
    env = ResetOptions(gymnasium.make("CartPole-v1"), {"low": -0.01, "high": 0.01})
    again = gymnasium.make(env.spec)
    observ, _ = again.reset(seed=1)
    assert np.abs(observ).max() <= 0.01
