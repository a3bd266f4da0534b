import numpy as np
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from agents.parts.normalize import ObservNormalizer, RewardNormalizer, RunningMoments


@st.composite
def batches(draw):
    size = draw(st.integers(1, 3))
    lengths = draw(st.lists(st.integers(1, 9), min_size=1, max_size=4))
    offset = draw(st.sampled_from([0.0, 1e4]))
    return [
        offset + draw(arrays.arrays(np.float32, (length, size), elements=st.floats(-10, 10, width=32)))
        for length in lengths
    ]


@given(batches())
@settings(max_examples=50, deadline=None)
def test_moments_of_batches_are_those_of_all_the_data(data):
    moments = RunningMoments(data[0].shape[1])
    for batch in data:
        moments.update(tf.constant(batch))
    whole = np.concatenate(data).astype(np.float64)
    assert float(moments.count) == len(whole)
    np.testing.assert_allclose(moments.mean, whole.mean(axis=0), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(moments.variance(), whole.var(axis=0), rtol=1e-6, atol=1e-6)


def test_moments_still_move_after_very_many_vectors():
    moments = RunningMoments(1)
    moments.update(tf.constant([[-1.0], [1.0]]))
    moments.count.assign(1e9)
    moments.squares.assign([1e9])
    moments.update(tf.ones([100, 1]))
    assert float(moments.count) == 1e9 + 100
    np.testing.assert_allclose(moments.mean, 100 / (1e9 + 100), rtol=1e-9)


def test_variance_is_one_while_there_is_no_data():
    np.testing.assert_array_equal(RunningMoments(2).variance(), [1, 1])


def test_observations_are_shifted_scaled_and_clipped():
    random = np.random.default_rng(0)
    normalize = ObservNormalizer(3, clip=2.0)
    seen = []
    fresh = random.normal(size=(4, 5, 3)).astype(np.float32)
    np.testing.assert_allclose(normalize(tf.constant(fresh)), np.clip(fresh, -2, 2), rtol=1e-6)
    for _ in range(3):
        seen.append(random.normal([1, -20, 300], [0.1, 5, 40], size=(50, 3)).astype(np.float32))
        normalize.update(tf.constant(seen[-1]))
    whole = np.concatenate(seen).astype(np.float64)
    observ = random.normal([1, -20, 300], [0.2, 10, 80], size=(6, 7, 3)).astype(np.float32)
    expected = (observ - whole.mean(axis=0)) / whole.std(axis=0)
    assert np.abs(expected).max() > 2
    np.testing.assert_allclose(normalize(tf.constant(observ)), np.clip(expected, -2, 2), atol=1e-4)


def test_a_feature_that_never_changes_becomes_zero():
    normalize = ObservNormalizer(2, clip=10.0)
    observ = tf.constant([[0.1, 1e5]] * 100)
    normalize.update(observ)
    np.testing.assert_array_equal(normalize(observ), np.zeros([100, 2]))


@given(
    st.integers(1, 3),
    st.lists(st.integers(1, 6), min_size=1, max_size=4),
    st.floats(0, 1),
    st.integers(0, 2**31),
)
@settings(max_examples=30, deadline=None)
def test_rewards_are_divided_by_the_deviation_of_a_plain_loops_returns(num_envs, lengths, discount, seed):
    random = np.random.default_rng(seed)
    normalize = RewardNormalizer(num_envs, discount, clip=3.0)
    returns, so_far = [], np.zeros(num_envs)
    for length in lengths:
        reward = random.normal(size=(length, num_envs)).astype(np.float32)
        done = random.random((length, num_envs)) < 0.3
        for step in range(length):
            so_far = discount * so_far + reward[step]
            returns.append(so_far)
            so_far = np.where(done[step], 0, so_far)
        normalized = normalize(tf.constant(reward), tf.constant(done))
        expected = np.clip(reward / np.sqrt(np.var(returns) + 1e-8), -3, 3)
        np.testing.assert_allclose(normalized, expected, rtol=2e-3, atol=1e-4)
    normalize.begin_anew()
    np.testing.assert_array_equal(normalize.variables()["sums"], np.zeros(num_envs))
    assert float(normalize.variables()["count"]) == sum(lengths) * num_envs


def test_switched_off_they_pass_everything_through_and_have_no_state():
    observ, reward = ObservNormalizer(1, clip=1.0, enabled=False), RewardNormalizer(1, 0.9, clip=1.0, enabled=False)
    numbers = tf.constant([[5.0], [-70.0]])
    observ.update(numbers)
    np.testing.assert_array_equal(observ(numbers), numbers)
    np.testing.assert_array_equal(reward(numbers, tf.zeros([2, 1], tf.bool)), numbers)
    assert observ.variables() == reward.variables() == {}
