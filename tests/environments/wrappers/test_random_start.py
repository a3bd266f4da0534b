import pytest
from gymnasium import spaces

from agents.environments.wrappers.random_start import RandomStart


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
