import hypothesis
import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces
from hypothesis import strategies

from agents.graph.in_graph_batch_env import InGraphBatchEnv
from agents.graph.mock_algorithm import MockAlgorithm
from agents.vector.batch_env import BatchEnv
from tests.toys import CountingEnv


def acting_in(space, num_envs=64, seed=0):
    envs = [CountingEnv(action_space=space) for _ in range(num_envs)]
    return MockAlgorithm(InGraphBatchEnv(BatchEnv(envs, blocking=True)), seed)


LEAVES = strategies.one_of(
    strategies.builds(
        lambda low, high, dtype: spaces.Box(low, high, (2,), dtype),
        strategies.sampled_from([-np.inf, -7.3, 5.0]),
        strategies.sampled_from([5.5, 20.0, np.inf]),
        strategies.sampled_from([np.float32, np.float64]),
    ),
    strategies.just(spaces.Box(-np.inf, -3, (2,), np.float32)),
    strategies.just(spaces.Box(0, 255, (), np.uint8)),
    strategies.just(spaces.Discrete(5, start=-2)),
    strategies.just(spaces.MultiDiscrete([3, 2], start=[4, 0])),
    strategies.just(spaces.MultiBinary(3)),
)
STRUCTURES = strategies.one_of(
    LEAVES,
    strategies.dictionaries(strategies.sampled_from("zya"), LEAVES, min_size=1).map(spaces.Dict),
    strategies.lists(LEAVES, min_size=1, max_size=3).map(spaces.Tuple),
)


@hypothesis.given(STRUCTURES, strategies.booleans())
@hypothesis.settings(deadline=None, max_examples=30)
def test_actions_are_in_the_space(space, deterministic):
    actor = acting_in(space, num_envs=3)
    actions = actor.perform(None, deterministic)
    for row in range(3):
        assert tf.nest.map_structure(lambda leaf, row=row: np.asarray(leaf[row]), actions) in space


@pytest.mark.parametrize(
    ("space", "values"),
    [
        (spaces.Discrete(3, start=5), [5, 6, 7]),
        (spaces.MultiBinary(1), [0, 1]),
        (spaces.Box(0, 3, (), np.uint8), [0, 1, 2, 3]),
    ],
)
def test_actions_are_uniform(space, values):
    actor = acting_in(space)
    actions = np.concatenate([np.ravel(actor.perform(None, False)) for _ in range(50)])
    frequencies = [np.mean(actions == value) for value in values]
    np.testing.assert_allclose(frequencies, 1 / len(values), atol=0.04)


def test_numbers_are_uniform_in_the_box_or_from_minus_one_to_one():
    space = spaces.Box(np.array([2, -np.inf]), np.array([6, np.inf]), dtype=np.float64)
    actor = acting_in(space)
    actions = np.concatenate([actor.perform(None, False) for _ in range(50)])
    np.testing.assert_allclose(actions.mean(axis=0), [4, 0], atol=0.1)
    np.testing.assert_allclose(actions.min(axis=0), [2, -1], atol=0.1)
    np.testing.assert_allclose(actions.max(axis=0), [6, 1], atol=0.1)


def test_actions_derive_from_the_seed_and_deterministic_ones_are_constant():
    space = spaces.Box(-1, 1, (3,), np.float32)
    one, same, other = (acting_in(space, 2, seed) for seed in (1, 1, 2))
    first = one.perform(None, False)
    np.testing.assert_array_equal(first, same.perform(None, False))
    assert not np.array_equal(first, other.perform(None, False))
    assert not np.array_equal(first, one.perform(None, False))
    np.testing.assert_array_equal(one.perform(None, True), np.zeros((2, 3)))
    np.testing.assert_array_equal(
        acting_in(spaces.Discrete(2, start=3), 2).perform(None, True), [3, 3]
    )
