import numpy as np
import pytest
import tensorflow as tf
from gymnasium.error import ClosedEnvironmentError, ResetNeeded

from agents.errors import InvalidActionError, UsageError
from agents.tools import InGraphBatchEnv
from agents.vector.autoreset import to_same_step
from agents.vector.envpool_env import EnvPoolEnv, check_env_pool, is_env_pool, make_env_pool

envpool = pytest.importorskip("envpool")


@pytest.fixture
def make():
    made = []

    def make(task="CartPole-v1", num_envs=4, num_threads=2, **settings):
        made.append(make_env_pool(task, num_envs, num_threads, **settings))
        return made[-1]

    yield make
    for env in made:
        env.close()


def raw_pool(task="CartPole-v1", num_envs=4, **kwargs):
    return envpool.make_gymnasium(task, num_envs=num_envs, num_threads=2, **kwargs)


def random_actions(space, steps, num_envs, seed=0):
    space.seed(seed)
    return np.array([[space.sample() for _ in range(num_envs)] for _ in range(steps)])


def alone(task, seed, actions, **kwargs):
    """Yields the steps of a pool of one environment: (observ, reward, terminated, truncated, final)."""
    pool = envpool.make_gymnasium(task, num_envs=1, num_threads=1, seed=[seed], **kwargs)
    pool.reset()
    for action in actions:
        observ, reward, terminated, truncated, _ = pool.step(action[None])
        final = observ
        if terminated[0] or truncated[0]:
            observ, _ = pool.reset()
        yield observ[0], reward[0], terminated[0], truncated[0], final[0]


# Pools that `alone` makes warn.
@pytest.mark.filterwarnings("ignore:.*precision lowered by casting")
@pytest.mark.parametrize("task", ["CartPole-v1", "Pendulum-v1", "Hopper-v4"])
def test_every_environment_behaves_like_a_single_one(make, task):
    steps, seeds = 70, [3, 1000, 5, 2**31 - 1]
    env = to_same_step(make(task, max_episode_steps=13))
    actions = random_actions(env.single_action_space, steps, 4)
    env.reset(seed=seeds)
    expected = [
        alone(task, seed, actions[:, row], max_episode_steps=13) for row, seed in enumerate(seeds)
    ]
    ends = np.zeros(2, int)
    for step in range(steps):
        observ, reward, terminated, truncated, infos = env.step(actions[step])
        assert infos["elapsed_step"].shape == (4,) and "env_id" not in infos
        ends += terminated.sum(), truncated.sum()
        for row in range(4):
            one_observ, one_reward, *flags, final = next(expected[row])
            np.testing.assert_array_equal(observ[row], one_observ)
            assert (reward[row], [terminated[row], truncated[row]]) == (one_reward, flags)
            if any(flags):
                assert infos["_final_obs"][row]
                np.testing.assert_array_equal(infos["final_obs"][row], final)
                assert infos["elapsed_step"][row] == 0
    assert ends[1] and (ends[0] or task == "Pendulum-v1")


def test_equal_seeds_give_equal_episodes_and_others_differ(make):
    env = make("Pendulum-v1")
    actions = random_actions(env.single_action_space, 5, 4)

    def episode(seed):
        first, _ = env.reset(seed=seed)
        return np.array([first, *(env.step(action)[0] for action in actions)])

    first = episode([1, 2, 3, 4])
    np.testing.assert_array_equal(episode([1, 2, 3, 4]), first)
    np.testing.assert_array_equal(episode(1), first)  # Consecutive seeds.
    swapped = episode([2, 1, 3, 4])
    np.testing.assert_array_equal(swapped[0, :2], first[0, [1, 0]])
    assert not np.array_equal(episode(5)[0], first[0])
    np.testing.assert_array_equal(make("Pendulum-v1", num_threads=1).reset(seed=1)[0], first[0])
    assert not np.array_equal(env.reset()[0], env.reset()[0])


def test_a_partial_reset_leaves_the_other_environments_unchanged(make):
    env = make()
    env.reset(seed=0)
    before = env.step(np.zeros(4, int))[0]
    kept = before.copy()
    observ, infos = env.reset(options={"reset_mask": np.array([False, True, False, True])})
    assert observ.shape == (4, 4)
    np.testing.assert_array_equal(before, kept)
    np.testing.assert_array_equal(observ[[0, 2]], before[[0, 2]])
    assert np.all(observ[[1, 3]] != before[[1, 3]])
    np.testing.assert_array_equal(infos["_elapsed_step"], [False, True, False, True])
    np.testing.assert_array_equal(env.step(np.zeros(4, int))[4]["elapsed_step"], [2, 1, 2, 1])
    env.reset(options={"reset_mask": np.zeros(4, bool)})
    np.testing.assert_array_equal(env.step(np.zeros(4, int))[4]["elapsed_step"], [3, 2, 3, 2])


def test_a_plain_pool_is_adapted():
    pool = raw_pool(max_episode_steps=5)
    assert is_env_pool(pool) and not is_env_pool(EnvPoolEnv(pool))
    envs = InGraphBatchEnv(pool)
    first = envs.reset(seed=tf.range(4, dtype=tf.int64)).numpy()
    np.testing.assert_array_equal(first, envs.reset(seed=tf.range(4, dtype=tf.int64)))
    for _ in range(5):
        outcome = envs.simulate(tf.constant([0, 1, 0, 1], tf.int64))
    assert outcome.truncated.numpy().all()
    envs.close()
    with pytest.raises(ValueError, match="batch_size=2, num_envs=4"):
        InGraphBatchEnv(raw_pool(batch_size=2))


@pytest.mark.parametrize(
    ("task", "actions"),
    [
        ("CartPole-v1", [0, 2]),
        ("CartPole-v1", [0, 1, 0]),
        ("CartPole-v1", [0.0, 1.0]),
        ("Pendulum-v1", [[0], [3]]),
        ("Pendulum-v1", [[np.nan], [0]]),
    ],
)
def test_invalid_actions_are_refused(make, task, actions):
    env = make(task, num_envs=2)
    env.reset(seed=0)
    with pytest.raises(InvalidActionError, match="Box|Discrete|as many actions, got 3"):
        env.step(np.array(actions))
    infos = env.step(np.zeros(env.action_space.shape, env.action_space.dtype))[4]
    np.testing.assert_array_equal(infos["elapsed_step"], [1, 1])  # The first step.


def test_actions_of_other_dtypes_are_converted(make):
    env = make("HalfCheetah-v4", num_envs=2)
    assert env.single_observation_space.shape == (17,) and env.observation_space.shape == (2, 17)
    assert env.single_action_space.shape == (6,) and env.action_space.shape == (2, 6)
    assert env.reset(seed=0)[0].dtype == env.observation_space.dtype == np.float64
    actions = np.random.default_rng(0).uniform(-1, 1, (2, 6)).astype(np.float32)
    results = []
    for given in (actions.astype(env.single_action_space.dtype), actions, actions.tolist()):
        env.reset(seed=0)
        results.append(env.step(given)[0])
    np.testing.assert_array_equal(results[1], results[0])
    np.testing.assert_array_equal(results[2], results[0])
    env = make(num_envs=2)
    env.reset(seed=0)
    env.step([0, 1])


def test_steps_and_resets_before_the_first_reset_and_after_closing(make):
    env = make()
    with pytest.raises(ResetNeeded):
        env.step(np.zeros(4, int))
    with pytest.raises(ResetNeeded):
        env.reset(options={"reset_mask": np.array([True, False, False, False])})
    with pytest.raises(ValueError, match="only for all environments"):
        env.reset(seed=[1, 2, None, 3])
    with pytest.raises(ValueError, match="only for all environments"):
        env.reset(seed=1, options={"reset_mask": np.array([True, False, False, False])})
    with pytest.raises(ValueError, match="needs 4 seeds, got 2"):
        env.reset(seed=[1, 2])
    with pytest.raises(ValueError, match="negative"):
        env.reset(seed=-3)
    env.reset()
    env.close()
    env.close()
    with pytest.raises(ClosedEnvironmentError, match="closed; make a new one"):
        env.step(np.zeros(4, int))
    with pytest.raises(ClosedEnvironmentError, match="closed; make a new one"):
        env.reset(seed=1)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"task": "Pendulun-v1"}, ["Pendulun", "did you mean 'Pendulum-v1'"]),
        ({"task": "my_module:MyEnv-v0"}, ["my_module:MyEnv-v0"]),
        ({"action_repeat": 2}, ["action_repeat", "expected 1, got 2", "frame_skip"]),
        ({"env_kwargs": {"max_episode_step": 9}}, ["takes no 'max_episode_step'"]),
        ({"env_kwargs": {"max_episode_steps": 9}}, ["the setting max_episode_steps"]),
        ({"env_kwargs": {"num_threads": 9}}, ["the setting num_processes"]),
        ({"task": "HalfCheetah-v4", "env_kwargs": {"frame_skp": 9}}, ["mean 'frame_skip'"]),
        ({"task": "HalfCheetah-v4", "env_kwargs": {"frame_skip": "many"}}, ["frame_skip", "many"]),
    ],
    ids=str,
)
def test_unsupported_arguments_are_refused(arguments, words):
    with pytest.raises(UsageError) as raised:
        check_env_pool(**{"task": "Pendulum-v1", "env_kwargs": {}, **arguments})
    message = str(raised.value)
    assert len(message.splitlines()) <= 3
    for word in words:
        assert word in message


def test_arguments_reach_the_pool(make):
    env_kwargs = {"frame_skip": 3, "exclude_current_positions_from_observation": False}
    check_env_pool("HalfCheetah-v4", env_kwargs, action_repeat=1)
    env = make(
        "HalfCheetah-v4", num_envs=3, num_threads=2, max_episode_steps=7, env_kwargs=env_kwargs
    )
    settings = env._pool.config
    assert [settings[name] for name in ("num_envs", "num_threads", "frame_skip")] == [3, 2, 3]
    envs = InGraphBatchEnv(env)
    assert envs.reset(seed=tf.range(3, dtype=tf.int64)).shape == (3, 18)
    flags = [envs.simulate(tf.zeros([3, 6], tf.float64)).truncated.numpy().all() for _ in range(7)]
    assert flags == [False] * 6 + [True]
