import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from agents.environments.mock_environment import MockEnvironment


def run_episode(env, seed=None):
    """Returns the observations, the rewards and the flags of the last step of an episode."""
    observ, _ = env.reset(seed=seed)
    observs, rewards, terminated, truncated = [observ], [], False, False
    while not (terminated or truncated):
        observ, reward, terminated, truncated, _ = env.step(env.action_space.sample())
        observs.append(observ)
        rewards.append(reward)
    return observs, rewards, (terminated, truncated)


@pytest.mark.parametrize(
    ("ending", "flags"),
    [("terminated", (True, False)), ("truncated", (False, True)), ("both", (True, True))],
)
@pytest.mark.filterwarnings("ignore:.*Not able to test alternative render modes:UserWarning")
def test_follows_the_interface(ending, flags):
    env = MockEnvironment((2, 3), (2,), 2, 9, ending)
    check_env(env)
    assert env.action_space.shape == (2,)
    observs, rewards, ends = run_episode(env)
    assert ends == flags
    assert all(observ in env.observation_space and observ.shape == (2, 3) for observ in observs)
    assert all(type(reward) is float and -1 <= reward <= 1 for reward in rewards)


def test_counts_steps_of_episodes_whose_lengths_take_all_values():
    env = MockEnvironment((), (), 2, 4)
    assert env.steps == []
    for episode in range(40):
        assert run_episode(env, None if episode else 0)[2] == (True, False)
    assert env.steps == env.durations and set(env.steps) == {2, 3, 4}
    env.reset()
    env.step(env.action_space.sample())
    assert env.steps[-1] == 1


def test_seeds():
    def episodes(seed):
        env = MockEnvironment((3,), (1,), 1, 9)
        return [run_episode(env, seed), run_episode(env)]

    np.testing.assert_equal(episodes(5), episodes(5))
    assert not np.array_equal(episodes(5)[0][0][0], episodes(6)[0][0][0])


def test_steps_outside_of_an_episode_and_invalid_actions_raise():
    env = MockEnvironment((), (2,), 1, 1)
    for _ in range(2):
        with pytest.raises(gymnasium.error.ResetNeeded, match="call reset"):
            env.step(env.action_space.sample())
        run_episode(env)
    env.reset()
    odd = np.zeros(3, np.float32), np.full(2, 1.5, np.float32), np.full(2, np.nan, np.float32)
    for action in (*odd, [0.5, 0.5], None):
        with pytest.raises(ValueError, match="action must be an array in Box"):
            env.step(action)
    assert env.steps == [1, 1, 0]


def test_invalid_arguments_raise():
    for durations in ((0, 3), (4, 3), (-1, -1)):
        with pytest.raises(ValueError, match=f"got min {durations[0]} and max {durations[1]}"):
            MockEnvironment((), (), *durations)
    with pytest.raises(ValueError, match="terminated, truncated, both, got 'done'"):
        MockEnvironment((), (), 1, 1, ending="done")
