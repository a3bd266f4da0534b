import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces

from agents.errors import UsageError
from agents.graph.mock_algorithm import MockAlgorithm
from agents.graph.simulation import simulate
from agents.tensor_envs import InGraphTensorEnv, TensorEnv
from tests.tensor_toys import CountingTensorEnv
from tests.toys import read_counts

every_mode = pytest.mark.parametrize("mode", ["compiled", "eager"])


ACTIONS = spaces.Dict(turn=spaces.Discrete(5), force=spaces.Box(-9, 9, (2,), np.float64))


def reward_of(action):
    """Rewards [B] that reveal the actions."""
    return tf.reduce_sum(action["force"], axis=1) + 100 * tf.cast(action["turn"], tf.float64)


class Noise(TensorEnv):
    """A random walk of uniform steps, with random rewards, that terminates above 2."""

    observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float64)
    action_space = spaces.Discrete(2)

    def initial_state(self, uniform):
        return uniform(-1, 1, (2,))

    def step(self, state, action, uniform):
        state += uniform(-0.5, [1, 2])
        return state, uniform(), state[:, 0] > 2

    def observe(self, state):
        return state


def action_of(num_envs, turn=1, force=0.25):
    return {
        "turn": tf.fill([num_envs], tf.constant(turn, tf.int64)),
        "force": tf.fill([num_envs, 2], tf.constant(force, tf.float64)),
    }


def in_mode(function, mode):
    return function if mode == "eager" else tf.function(function, jit_compile=mode == "compiled")


@every_mode
def test_environments_are_reset_in_the_same_step(mode):
    durations, limit = [3, 5, 1000, 7], 7
    envs = InGraphTensorEnv(CountingTensorEnv(durations, ACTIONS, reward_of), 4, limit)
    step = in_mode(envs.simulate, mode)
    np.testing.assert_array_equal(read_counts(in_mode(envs.reset, mode)()), [0] * 4)
    count = np.zeros(4, int)
    for turn in (index % 5 for index in range(30)):
        result = step(action_of(4, turn))
        count += 1
        np.testing.assert_array_equal(read_counts(result.final_observ), count)
        np.testing.assert_array_equal(result.terminated, count == durations)
        # The last environment terminates and is truncated in the same step.
        np.testing.assert_array_equal(result.truncated, count == limit)
        np.testing.assert_array_equal(result.reward, [100 * turn + 0.5] * 4)
        count[result.terminated | result.truncated] = 0
        np.testing.assert_array_equal(read_counts(envs.observ), count)
        for name in ("reward", "terminated", "truncated", "final_observ"):
            variables, values = getattr(envs, name), getattr(result, name)
            tf.nest.map_structure(np.testing.assert_array_equal, variables, values)
    np.testing.assert_array_equal(envs.action["turn"], [4] * 4)
    assert result.reward.dtype == tf.float32
    assert result.terminated.dtype == result.truncated.dtype == tf.bool


def test_actions_are_repeated_until_the_episode_ends():
    envs = InGraphTensorEnv(
        CountingTensorEnv([2, 6, 1000], ACTIONS, reward_of), 3, 7, action_repeat=3
    )
    step = in_mode(envs.simulate, "compiled")
    envs.reset()
    finals, rewards, flags = [], [], []
    for _ in range(4):
        result = step(action_of(3))
        finals.append(read_counts(result.final_observ))
        rewards.append(result.reward / 100.5)
        flags.append(result.terminated.numpy() + 2 * result.truncated.numpy())
    np.testing.assert_array_equal(finals, [[2, 3, 3], [2, 6, 6], [2, 3, 7], [2, 6, 3]])
    np.testing.assert_array_equal(rewards, [[2, 3, 3], [2, 3, 3], [2, 3, 1], [2, 3, 3]])
    np.testing.assert_array_equal(flags, [[1, 0, 0], [1, 1, 0], [1, 0, 2], [1, 1, 0]])
    np.testing.assert_array_equal(read_counts(envs.observ), [0, 0, 3])


def play(envs, actions):
    """Observations, final observations, rewards, terminated and truncated, [T, B, ...]."""
    length = len(actions)

    @tf.function(jit_compile=True)
    def run():
        arrays = [
            tf.TensorArray(leaf, length)
            for leaf in (tf.float64, tf.float64, tf.float32, tf.bool, tf.bool)
        ]
        for step in tf.range(length):
            result = envs.simulate(actions[step])
            leaves = (
                envs.observ,
                result.final_observ,
                result.reward,
                result.terminated,
                result.truncated,
            )
            arrays = [array.write(step, leaf) for array, leaf in zip(arrays, leaves, strict=True)]
        return [array.stack() for array in arrays]

    return [array.numpy() for array in run()]


def test_a_seed_gives_the_same_episodes_in_a_batch_of_any_size():
    seeds = np.array([5, 17, 5, 2**31 - 1, 0, 3, 4])
    results = {}
    for rows in ([0, 1, 2, 3, 4, 5, 6], [3, 1]):
        envs = InGraphTensorEnv(Noise(), len(rows), 12)
        first = envs.reset(seed=tf.constant(seeds[rows])).numpy()
        results[tuple(rows)] = [first[None], *play(envs, tf.zeros([60, len(rows)], tf.int64))]
    whole = results.pop((0, 1, 2, 3, 4, 5, 6))
    for rows, parts in results.items():
        for part, of_whole in zip(parts, whole, strict=True):
            np.testing.assert_array_equal(part, of_whole[:, list(rows)])
    first, observ, _, reward, terminated, truncated = whole
    np.testing.assert_array_equal(observ[:, 0], observ[:, 2])  # Equal seeds.
    assert len(np.unique(observ[:, :2], axis=0)) == 60 and len(np.unique(reward[:, 1])) == 60
    initial = np.concatenate([first[0, [1]], observ[:, 1][(terminated | truncated)[:, 1]]])
    assert len(initial) > 4 and len(np.unique(initial)) == initial.size  # Every episode differs.
    assert terminated.any() and truncated.any()


def test_reset_by_mask_and_seeds():
    envs = InGraphTensorEnv(Noise(), 3)
    step, actions = tf.function(envs.simulate, jit_compile=True), tf.zeros([3], tf.int64)
    first = envs.reset(seed=tf.constant([5, 6, 7], tf.int64)).numpy()
    step(actions)
    envs.episode_length.assign([1, 1, 1])
    before, reward = envs.observ.numpy(), envs.reward.numpy()
    observ = tf.function(envs.reset)(
        tf.constant([True, False, True]), tf.constant([7, 5, -1], tf.int64)
    ).numpy()
    np.testing.assert_array_equal(envs.observ, observ)
    np.testing.assert_array_equal(observ[:2], [first[2], before[1]])
    assert (observ[2] != first[2]).all()
    np.testing.assert_array_equal(envs.reward, [0, reward[1], 0])
    np.testing.assert_array_equal(envs.episode_length, [0, 1, 0])
    # The third environment continued with the next episode of its stream, as after one that ends.
    again = envs.reset(tf.constant([False, False, True]), tf.constant([0, 0, 7], tf.int64)).numpy()
    np.testing.assert_array_equal(again[2], first[2])
    np.testing.assert_array_equal(
        envs.reset(tf.constant([False, False, True])).numpy()[2], observ[2]
    )


def test_without_seeds_all_environments_of_all_batches_differ():
    initial = np.concatenate([InGraphTensorEnv(Noise(), 4).reset().numpy() for _ in range(2)])
    assert len(np.unique(initial)) == 16


def test_observations_before_the_first_reset_are_initial_ones():
    class Drift(Noise):
        def step(self, state, action, uniform):
            return state + 1, state[:, 0], state[:, 0] > 100

    envs = InGraphTensorEnv(Drift(), 3)
    first = envs.observ.numpy()
    assert len(np.unique(first)) == 6 and np.abs(first).max() <= 1
    result = envs.simulate(tf.zeros([3], tf.int64))
    np.testing.assert_array_equal(result.final_observ, first + 1)
    np.testing.assert_array_equal(result.reward, first[:, 0].astype(np.float32))


def test_simulate_steps_it_like_any_other_backend():
    durations = [2, 5, 1000]
    envs = InGraphTensorEnv(CountingTensorEnv(durations, ACTIONS, reward_of), 3, 8)
    mock = MockAlgorithm(envs)
    run = tf.function(lambda: simulate(envs, mock, 20), jit_compile=True)
    envs.reset()
    results = [run() for _ in range(2)]
    done = np.concatenate([result.done for result in results])
    lengths = np.concatenate([result.episode_length for result in results])
    step = np.arange(1, 41)
    for env, period in enumerate((2, 5, 8)):
        np.testing.assert_array_equal(done[:, env], step % period == 0)
        assert (lengths[done[:, env], env] == period).all()
    np.testing.assert_array_equal(envs.episode_length, [0, 0, 0])
    np.testing.assert_array_equal(mock.episodes_ended, [20, 8, 5])


class Wrong(Noise):
    """Returns an output of a wrong shape or type."""

    def __init__(self, what):
        self.what = what

    def step(self, state, action, uniform):
        after, reward, terminated = super().step(state, action, uniform)
        return (
            after[:, :1] if self.what == "state" else after,
            reward[:, None] if self.what == "reward" else reward,
            tf.cast(terminated, tf.float32) if self.what == "terminated" else terminated,
        )

    def observe(self, state):
        return tf.cast(state, tf.float32) if self.what == "observation" else state


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("state", r"Wrong.step returned the state float64 \(3, 1\), expected float64 \(3, 2\)"),
        ("reward", r"Wrong.step returned the reward float32 \(3, 1\), expected float32 \(3,\)"),
        (
            "terminated",
            r"Wrong.step returned the terminated float32 \(3,\), expected bool \(3,\)",
        ),
        (
            "observation",
            r"Wrong.observe returned the observation float32 \(3, 2\), expected float64 \(3, 2\)",
        ),
    ],
)
def test_errors_name_the_output_of_a_wrong_shape_or_type(what, words):
    with pytest.raises(UsageError, match=words):
        InGraphTensorEnv(Wrong(what), 3).simulate(tf.zeros([3], tf.int64))
