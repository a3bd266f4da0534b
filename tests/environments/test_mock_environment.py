import gymnasium
import hypothesis
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from hypothesis.extra import numpy as hypothesis_numpy

from agents.environments.mock_environment import MockEnvironment

SHAPES = hypothesis_numpy.array_shapes(min_dims=0, max_dims=3, max_side=3)


def run_episode(env, seed=None):
    """Returns the observations, the rewards and the flags of the last step of an episode."""
    observ, _ = env.reset(seed=seed)
    observs, rewards, terminated, truncated = [observ], [], False, False
    while not (terminated or truncated):
        observ, reward, terminated, truncated, _ = env.step(env.action_space.sample())
        observs.append(observ)
        rewards.append(reward)
    return observs, rewards, (terminated, truncated)


@pytest.mark.parametrize("ending", ["terminated", "truncated", "both"])
@pytest.mark.filterwarnings("ignore:.*Not able to test alternative render modes:UserWarning")
def test_follows_the_interface(ending):
    check_env(MockEnvironment((2, 3), (2,), 2, 9, ending))


@hypothesis.given(SHAPES, SHAPES)
@hypothesis.settings(deadline=None, max_examples=20)
def test_observations_and_actions_have_the_shapes(observ_shape, action_shape):
    env = MockEnvironment(observ_shape, action_shape, 2, 2)
    observs, rewards, _ = run_episode(env)
    assert env.action_space.shape == action_shape
    assert all(
        isinstance(observ, np.ndarray) and observ.shape == observ_shape for observ in observs
    )
    assert all(observ in env.observation_space and observ.dtype == np.float32 for observ in observs)
    assert all(type(reward) is float and -1 <= reward <= 1 for reward in rewards)


def test_counts_steps_and_episodes():
    env = MockEnvironment((2,), (1,), 3, 3)
    assert env.steps == []
    run_episode(env)
    run_episode(env)
    env.reset()
    env.step(env.action_space.sample())
    assert (env.steps, env.durations) == ([3, 3, 1], [3, 3, 3])


def test_durations_take_all_values_within_the_limits():
    env = MockEnvironment((), (), 2, 4)
    env.reset(seed=0)
    for _ in range(40):
        run_episode(env)
    assert set(env.durations) == set(env.steps[1:]) == {2, 3, 4}
    assert env.steps[1:] == env.durations[1:]


@pytest.mark.parametrize(
    "ending, flags",
    [("terminated", (True, False)), ("truncated", (False, True)), ("both", (True, True))],
)
def test_ending(ending, flags):
    assert run_episode(MockEnvironment((), (), 2, 5, ending=ending))[2] == flags


def test_terminates_by_default():
    assert run_episode(MockEnvironment((), (), 1, 1))[2] == (True, False)


def test_seeds():
    def episodes(seed):
        env = MockEnvironment((3,), (1,), 1, 9)
        results = [run_episode(env, seed), run_episode(env)]
        return np.concatenate(
            [np.concatenate(observs) for observs, _, _ in results]
            + [sum((r[1] for r in results), [])]
        )

    np.testing.assert_array_equal(episodes(5), episodes(5))
    assert not np.array_equal(episodes(5), episodes(6))


def test_steps_outside_of_an_episode_raise():
    env = MockEnvironment((), (), 1, 1)
    for _ in range(2):
        with pytest.raises(gymnasium.error.ResetNeeded, match="call reset"):
            env.step(env.action_space.sample())
        run_episode(env)
    assert env.steps == [1, 1]


@pytest.mark.parametrize(
    "action",
    [
        np.zeros(3, np.float32),
        np.full(2, 1.5, np.float32),
        np.full(2, np.nan, np.float32),
        [0.5, 0.5],
        None,
    ],
)
def test_invalid_actions_raise(action):
    env = MockEnvironment((), (2,), 1, 1)
    env.reset()
    with pytest.raises(ValueError, match="action must be an array in Box"):
        env.step(action)
    assert env.steps == [0]


@pytest.mark.parametrize("durations", [(0, 3), (4, 3), (-1, -1)])
def test_invalid_durations_raise(durations):
    with pytest.raises(ValueError, match=f"got min {durations[0]} and max {durations[1]}"):
        MockEnvironment((), (), *durations)


def test_unknown_endings_raise():
    with pytest.raises(ValueError, match="terminated, truncated, both, got 'done'"):
        MockEnvironment((), (), 1, 1, ending="done")
