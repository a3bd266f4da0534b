import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from agents.learning.nonfinite import describe, find_nonfinite, first_nonfinite, nonfinite_of_all
from tests.tensor_toys import LearnerGroup

T, B, O = 4, 3, 2  # noqa: E741 - The letters of shapes.


def make_rollout():
    """Finite arguments of `find_nonfinite`."""
    random = np.random.default_rng(0)
    return {
        "reward": random.normal(size=[T, B]).astype(np.float32),
        "done": np.zeros([T, B], bool),
        "sample": {
            "steer": random.normal(size=[T, B, 2]).astype(np.float32),
            "gear": np.zeros([T, B], np.int64),
        },
        "loss": np.float32(0.5),
        "gradient": np.float32(2.5),
        "observ": random.normal(size=[T, B, O]).astype(np.float32),
        "final_observ": np.full([T, B, O], np.nan, np.float32),  # Arbitrary where not done.
        "last_observ": random.normal(size=[B, O]).astype(np.float32),
    }


def find(rollout, compiled=False):
    """Number and index by name, as Python numbers."""
    rollout = tf.nest.map_structure(tf.constant, rollout)
    found = tf.function(lambda: find_nonfinite(**rollout), jit_compile=compiled, autograph=False)()
    return {name: (float(number), int(index)) for name, (number, index) in found.items()}


@pytest.mark.parametrize("compiled", [False, True])
def test_finite_rollouts_have_the_index_minus_one(compiled):
    rollout = make_rollout()
    found = find(rollout, compiled)
    assert set(found) == {"reward", "action", "observ", "final_observ", "loss", "gradient"}
    assert {index for _, index in found.values()} == {-1}
    rollout["loss"] = np.float32(np.nan)
    np.testing.assert_equal(find(rollout, compiled)["loss"], (np.nan, 0))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize(
    ("name", "place", "reported"),
    [
        ("reward", (2, 1), "reward"),
        ("observ", (2, 1, 1), "observ"),
        ("steer", (2, 1, 0), "action"),
    ],
)
def test_the_first_number_that_is_not_finite_is_found(value, name, place, reported):
    rollout = make_rollout()
    values = rollout["sample"] if name == "steer" else rollout
    values[name][place] = value
    values[name][3] = -value  # A later one is not reported.
    found = find(rollout)
    np.testing.assert_equal(found[reported], (value, 2 * B + 1))
    assert {other: index for other, (_, index) in found.items() if other != reported} == {
        other: -1 for other in found if other != reported
    }


def test_final_observations_count_only_at_the_end_of_an_episode():
    rollout = make_rollout()
    rollout["done"][1, 2] = True
    rollout["final_observ"][1, 2] = [3, np.inf]
    assert find(rollout)["final_observ"] == (np.inf, B + 2)
    rollout["final_observ"][1, 2] = [3, 4]
    assert find(rollout)["final_observ"][1] == -1


def test_observations_after_the_rollout_are_a_further_step():
    rollout = make_rollout()
    rollout["last_observ"][1, 0] = -np.inf
    assert find(rollout)["observ"] == (-np.inf, T * B + 1)


SHAPES = st.sampled_from([(1, 1), (3, 2), (3, 2, 4), (2, 1, 2, 3)])
NUMBERS = st.sampled_from([0.0, -7.5, 1e38, np.nan, np.inf, -np.inf])


@given(SHAPES.flatmap(lambda shape: arrays.arrays(np.float32, shape, elements=NUMBERS)))
@settings(max_examples=60, deadline=None)
def test_the_first_one_equals_that_of_a_plain_loop(values):
    number, index = first_nonfinite(tf.constant(values))
    expected = -1
    for row, numbers in enumerate(values.reshape(values.shape[0] * values.shape[1], -1)):
        bad = [one for one in numbers if not np.isfinite(one)]
        if bad:
            expected = row
            np.testing.assert_equal(float(number), float(bad[0]))
            break
    assert int(index) == expected


# Several learners.


def find_of_all(reward):
    """What each of some learners gets: number and index of the rewards [T, learners, B]."""
    num_learners, num_envs = reward.shape[1:]
    group = LearnerGroup(num_learners)

    def find_part(rank):
        found = {"reward": first_nonfinite(tf.constant(reward[:, rank]))}
        return nonfinite_of_all(found, group.reducers[rank], num_envs)["reward"]

    results = group.run(*(lambda rank=rank: find_part(rank) for rank in range(num_learners)))
    return [(float(number), int(index)) for number, index in results]


PARTS = st.sampled_from([(1, 2, 1), (3, 2, 2), (2, 3, 4)])  # [T, learners, B].


@given(PARTS.flatmap(lambda shape: arrays.arrays(np.float32, shape, elements=NUMBERS)))
@settings(max_examples=40, deadline=None)
def test_the_first_learner_that_found_a_number_names_it(reward):
    flat = reward.reshape(len(reward), -1)  # [T, environments of all learners]
    ranks = np.flatnonzero(~np.isfinite(reward).all(axis=(0, 2)))
    for number, index in find_of_all(reward):
        if not ranks.size:
            assert index == -1
            continue
        step, env = divmod(index, flat.shape[1])
        assert env // reward.shape[2] == ranks[0]
        np.testing.assert_equal(number, float(flat[step, env]))
        # No earlier number of this learner is bad.
        own = np.isfinite(reward[:, ranks[0]]).reshape(-1)
        assert own[: step * reward.shape[2] + env % reward.shape[2]].all()
        assert not np.isfinite(number)


def test_names_are_joined_one_by_one():
    group = LearnerGroup()
    numbers = [
        {"reward": (0.0, -1), "observ": (-np.inf, 3)},
        {"reward": (np.inf, 0), "observ": (0.0, -1)},
    ]
    found = tf.nest.map_structure(
        lambda one: tf.constant(one, tf.float32 if isinstance(one, float) else tf.int32), numbers
    )
    joined = group.run(
        *(lambda r=r: nonfinite_of_all(found[r], group.reducers[r], 2) for r in range(2))
    )
    for one in joined:
        reward, observ = one["reward"], one["observ"]
        assert (float(reward[0]), int(reward[1])) == (np.inf, 2)  # Step 0, environment 2 of 4.
        assert (float(observ[0]), int(observ[1])) == (-np.inf, 5)  # Step 1, environment 1.


@pytest.mark.parametrize("value", [1e200, -1e39])
def test_finite_numbers_beyond_float32_are_found_as_they_are(value):
    rollout = make_rollout()
    rollout["observ"] = rollout["observ"].astype(np.float64)
    for name in ("final_observ", "last_observ"):
        rollout[name] = np.zeros_like(rollout[name], np.float64)
    rollout["observ"][2, 1, 0] = value
    assert find(rollout)["observ"] == (value, 2 * B + 1)


def test_descriptions_tell_what_is_wrong_with_a_number():
    assert describe(float("nan")) == "nan" and describe(float("-inf")) == "-inf"
    assert describe(-1e200) == "-1e+200, which exceeds float32,"


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float64"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_numbers_of_all_types_are_looked_at(dtype, value):
    values = np.ones([T, B, O])
    assert int(first_nonfinite(tf.cast(values, dtype))[1]) == -1
    values[2, 1, 0] = value
    number, index = first_nonfinite(tf.cast(values, dtype))
    assert int(index) == 2 * B + 1
    np.testing.assert_equal(float(number), value)
