import functools
import itertools

import numpy as np
import pytest
import scipy.stats

from agents.runs.comparison import bootstrap_interval, interquartile_mean


@pytest.mark.parametrize("num_scores", range(1, 14))
def test_the_interquartile_mean_is_scipys_trimmed_mean(num_scores):
    scores = np.random.default_rng(num_scores).normal(size=(3, 5, num_scores))
    expected = scipy.stats.trim_mean(scores, 0.25, axis=-1)
    np.testing.assert_allclose(interquartile_mean(scores), expected)


@pytest.mark.parametrize("num_scores", [2, 3, 4, 5, 6])
def test_the_interval_is_that_of_all_resamples(num_scores):
    scores = np.random.default_rng(num_scores).normal(size=num_scores)
    resamples = np.array(list(itertools.product(scores, repeat=num_scores)))
    means = scipy.stats.trim_mean(resamples, 0.25, axis=-1)
    low, high = bootstrap_interval(scores)
    # The share of all resamples below either end, which 2,000 of them know within a percent.
    assert np.mean(means < low - 1e-9) <= 0.035 and np.mean(means <= low + 1e-9) >= 0.015
    assert np.mean(means > high + 1e-9) <= 0.035 and np.mean(means >= high - 1e-9) >= 0.015


def test_intervals_of_another_statistic():
    draws = np.random.default_rng(1).normal(size=99)
    low, high = bootstrap_interval(draws, functools.partial(np.median, axis=-1))
    # From order statistics, which contain the median with at least this probability.
    ranks = scipy.stats.binom(99, 0.5).ppf([0.025, 0.975]).astype(int)
    expected = np.sort(draws)[ranks]
    width = expected[1] - expected[0]
    np.testing.assert_allclose([low, high], expected, rtol=0, atol=0.15 * width)


def test_the_interval_of_three_scores_is_their_range_and_a_single_score_has_none():
    assert bootstrap_interval(np.array([3.0, 1.0, 2.0])) == (1.0, 3.0)
    assert np.isnan(bootstrap_interval(np.array([1.0]))).all()
