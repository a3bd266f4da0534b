import numpy as np
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from agents.learning.normalization import (
    ObservNormalizer,
    RewardNormalizer,
    RunningMoments,
    ValueNormalizer,
)
from tests.tensor_toys import LearnerGroup


@st.composite
def batches(draw):
    size = draw(st.integers(1, 3))
    lengths = draw(st.lists(st.integers(1, 9), min_size=1, max_size=4))
    offset = draw(st.sampled_from([0.0, 1e4]))
    return [
        offset
        + draw(arrays.arrays(np.float32, (length, size), elements=st.floats(-10, 10, width=32)))
        for length in lengths
    ]


@given(batches())
@settings(max_examples=50, deadline=None)
def test_moments_of_batches_are_those_of_all_data(data):
    moments = RunningMoments(data[0].shape[1])
    for batch in data:
        moments.update(tf.constant(batch))
    whole = np.concatenate(data).astype(np.float64)
    assert float(moments.count) == len(whole)
    np.testing.assert_allclose(moments.mean, whole.mean(axis=0), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(moments.variance(), whole.var(axis=0), rtol=1e-6, atol=1e-6)


def test_moments_still_change_after_very_many_vectors():
    moments = RunningMoments(1)
    moments.update(tf.constant([[-1.0], [1.0]]))
    moments.count.assign(1e9)
    moments.squares.assign([1e9])
    moments.update(tf.ones([100, 1]))
    assert float(moments.count) == 1e9 + 100
    np.testing.assert_allclose(moments.mean, 100 / (1e9 + 100), rtol=1e-9)


@given(st.lists(st.booleans(), min_size=2, max_size=6))
@settings(max_examples=25, deadline=None)
def test_moments_are_those_of_the_valid_vectors(valid):
    values = np.random.default_rng(0).normal(3, 2, [len(valid), 2])
    moments = RunningMoments(2)
    for row in np.arange(len(valid))[:, None]:  # One at a time; the first may be invalid.
        moments.update(tf.constant(values[row]), tf.constant(np.array(valid)[row]))
    part = values[valid]
    assert moments.count == len(part)
    expected = (part.mean(0), part.var(0)) if len(part) else ([0, 0], [1, 1])
    np.testing.assert_allclose(moments.mean, expected[0], rtol=1e-9)
    np.testing.assert_allclose(moments.variance(), expected[1], rtol=1e-9, atol=1e-12)


def test_observations_are_shifted_scaled_and_clipped():
    random = np.random.default_rng(0)
    normalizer = ObservNormalizer(3, clip=2.0)
    first = random.normal(size=(4, 5, 3)).astype(np.float32)
    np.testing.assert_allclose(
        normalizer.normalize(tf.constant(first)), np.clip(first, -2, 2), rtol=1e-6
    )
    data = []
    for _ in range(3):
        data.append(random.normal([1, -20, 300], [0.1, 5, 40], size=(50, 3)).astype(np.float32))
        normalizer.update(tf.constant(data[-1]))
    whole = np.concatenate(data).astype(np.float64)
    observ = random.normal([1, -20, 300], [0.2, 10, 80], size=(6, 7, 3)).astype(np.float32)
    expected = (observ - whole.mean(axis=0)) / whole.std(axis=0)
    assert np.abs(expected).max() > 2
    np.testing.assert_allclose(
        normalizer.normalize(tf.constant(observ)), np.clip(expected, -2, 2), atol=1e-4
    )
    statistics = normalizer.statistics()
    np.testing.assert_allclose(statistics["observ_mean"], whole.mean(axis=0), rtol=1e-6)
    np.testing.assert_allclose(statistics["observ_std"], whole.std(axis=0), rtol=1e-5)


def test_a_constant_feature_becomes_zero():
    normalizer = ObservNormalizer(2, clip=10.0)
    observ = tf.constant([[0.1, 1e5]] * 100)
    normalizer.update(observ)
    np.testing.assert_array_equal(normalizer.normalize(observ), np.zeros([100, 2]))


def loop_returns(reward, done, start, discount):
    """Discounted returns so far [T, B] by a plain loop, and those to continue with, [B]."""
    returns = np.zeros_like(reward)
    for step in range(len(reward)):
        returns[step] = start = discount * start + reward[step]
        start = np.where(done[step], 0, start)
    return returns, start


@given(
    st.integers(1, 3),
    st.lists(st.integers(1, 6), min_size=1, max_size=4),
    st.floats(0, 1),
    st.integers(0, 2**31),
)
@settings(max_examples=30, deadline=None)
def test_rewards_are_divided_by_the_deviation_of_returns(num_envs, lengths, discount, seed):
    random = np.random.default_rng(seed)
    normalizer = RewardNormalizer(num_envs, discount, clip=3.0)
    returns, start = [], np.zeros(num_envs)
    for length in lengths:
        reward = random.normal(size=(length, num_envs)).astype(np.float32)
        done = random.random((length, num_envs)) < 0.3
        rollout, start = loop_returns(reward.astype(np.float64), done, start, discount)
        returns.extend(rollout)
        normalized = normalizer.update_and_normalize(tf.constant(reward), tf.constant(done))
        expected = np.clip(reward / np.sqrt(np.var(returns) + 1e-8), -3, 3)
        np.testing.assert_allclose(normalized, expected, rtol=2e-3, atol=1e-4)
    normalizer.reset_episode_state()
    np.testing.assert_array_equal(normalizer.variables()["sums"], np.zeros(num_envs))
    assert float(normalizer.variables()["count"]) == sum(lengths) * num_envs


def test_values_are_normalized_and_denormalized():
    random = np.random.default_rng(0)
    normalizer = ValueNormalizer()
    values = random.normal(size=[4, 3]).astype(np.float32)
    for unchanged in (normalizer.normalize(values), normalizer.denormalize(values)):
        np.testing.assert_allclose(unchanged, values, rtol=1e-6)
    targets = [random.normal(50, 20, size=[6, 3]).astype(np.float32) for _ in range(2)]
    for batch in targets:
        normalizer.update(tf.constant(batch))
    mean, std = np.mean(targets), np.std(targets)
    normalized = normalizer.normalize(tf.constant(targets[0]))
    np.testing.assert_allclose(normalized, (targets[0] - mean) / std, atol=1e-5)
    np.testing.assert_allclose(normalizer.denormalize(normalized), targets[0], rtol=1e-5)
    np.testing.assert_allclose(normalizer.statistics()["value_mean"], [mean], rtol=1e-6)
    np.testing.assert_allclose(normalizer.statistics()["value_std"], [std], rtol=1e-6)


def test_disabled_normalizers_change_nothing_and_have_no_state():
    observ = ObservNormalizer(1, clip=1.0, enabled=False)
    reward = RewardNormalizer(1, 0.9, clip=1.0, enabled=False)
    value = ValueNormalizer(enabled=False)
    numbers = tf.constant([[5.0], [-70.0]])
    observ.update(numbers)
    value.update(numbers)
    np.testing.assert_array_equal(observ.normalize(numbers), numbers)
    np.testing.assert_array_equal(
        reward.update_and_normalize(numbers, tf.zeros([2, 1], tf.bool)), numbers
    )
    np.testing.assert_array_equal(value.normalize(numbers), numbers)
    np.testing.assert_array_equal(value.denormalize(numbers), numbers)
    for normalizer in (observ, reward, value):
        assert normalizer.variables() == normalizer.statistics() == {}


# Several learners.


def assert_equal_state(*normalizers):
    states = [normalizer.variables() for normalizer in normalizers]
    for name in states[0]:
        for state in states[1:]:
            np.testing.assert_allclose(state[name], states[0][name], rtol=1e-9, atol=1e-9)


def test_normalizers_of_two_learners_equal_those_of_one():
    random = np.random.default_rng(0)
    features = random.normal([1, 9], [1, 30], size=[8, 4, 2]).astype(np.float32)  # [T, B, O]
    reward = random.normal(size=[8, 4]).astype(np.float32)  # [T, B]
    done = random.random([8, 4]) < 0.3

    def normalize(rows, **reducer):
        """Normalized features, rewards and values of some environments, and the normalizers."""
        observ, rewards = ObservNormalizer(2, 5.0), RewardNormalizer(4, 0.9, 5.0)
        values = ValueNormalizer()
        observ.update(tf.reshape(features[:, rows], [-1, 2]), **reducer)
        values.update(tf.constant(10 * reward[:, rows]), **reducer)
        results = [
            observ.normalize(tf.constant(features[:, rows])),
            rewards.update_and_normalize(
                tf.constant(reward[:, rows]), tf.constant(done[:, rows]), **reducer
            ),
            values.normalize(tf.constant(reward[:, rows])),
        ]
        return results, (observ, rewards, values)

    group = LearnerGroup()
    halves = group.run(
        lambda: normalize(slice(0, 2), reducer=group.reducers[0]),
        lambda: normalize(slice(2, 4), reducer=group.reducers[1]),
    )
    expected, (observ, rewards, values) = normalize(slice(None))
    for index, result in enumerate(expected):
        both = np.concatenate([half[0][index] for half in halves], axis=1)
        np.testing.assert_allclose(both, result, rtol=1e-5, atol=1e-6)
    for _, (own_observ, own_rewards, own_values) in halves:
        assert_equal_state(observ, own_observ)
        assert_equal_state(values, own_values)
        for name in ("count", "mean", "squares"):  # The running sums are of its own environments.
            np.testing.assert_allclose(
                own_rewards.variables()[name], rewards.variables()[name], rtol=1e-6
            )


def test_what_float32_would_round_is_normalized():
    random = np.random.default_rng(0)
    observ = 1.7e9 + random.normal(size=[200, 2]) * [1e-3, 10.0]
    normalizer = ObservNormalizer(2, clip=10.0, dtype=tf.float64)
    normalizer.update(tf.constant(observ))
    normalized = normalizer.normalize(tf.constant(observ))
    assert normalized.dtype == tf.float32
    expected = (observ - observ.mean(axis=0)) / np.sqrt(observ.var(axis=0) + 1e-8)
    # Even float64 has but 2e-7 of a second there.
    np.testing.assert_allclose(normalized, expected, atol=2e-3)
