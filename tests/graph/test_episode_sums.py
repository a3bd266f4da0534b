import hypothesis
import numpy as np
import tensorflow as tf
from hypothesis import strategies
from hypothesis.extra import numpy as hypothesis_numpy

from agents.graph.episode_sums import _episode_sums


def loop_sums(reward, done, returns, lengths):
    returns, lengths = returns.copy(), lengths.copy()
    all_returns, all_lengths = [], []
    for step_reward, step_done in zip(reward, done, strict=True):
        returns, lengths = returns + step_reward, lengths + 1
        all_returns.append(returns)
        all_lengths.append(lengths)
        returns, lengths = np.where(step_done, 0, returns), np.where(step_done, 0, lengths)
    return np.array(all_returns), np.array(all_lengths), returns, lengths


SHAPES = strategies.sampled_from([(1, 1), (5, 1), (1, 4), (20, 3)])  # Each is compiled.


@hypothesis.given(SHAPES, strategies.data())
@hypothesis.settings(deadline=None, max_examples=60)
def test_episode_sums_equal_a_plain_loop(shape, data):
    numbers = strategies.integers(-100, 100)
    reward = data.draw(hypothesis_numpy.arrays(np.float32, shape, elements=numbers))
    done = data.draw(hypothesis_numpy.arrays(bool, shape))
    returns = data.draw(hypothesis_numpy.arrays(np.float32, shape[1], elements=numbers))
    lengths = data.draw(
        hypothesis_numpy.arrays(np.int32, shape[1], elements=strategies.integers(0, 100))
    )
    all_returns, all_lengths, after = _episode_sums(
        *map(tf.constant, (reward, done, returns, lengths))
    )
    for actual, expected in zip(
        (all_returns, all_lengths, *after), loop_sums(reward, done, returns, lengths), strict=True
    ):
        np.testing.assert_array_equal(actual, expected)
