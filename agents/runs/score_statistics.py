"""Statistics of scores over seeds: the interquartile mean, and bootstrap intervals."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

CONFIDENCE = 0.95
NUM_RESAMPLES = 2000


def interquartile_mean(scores: np.ndarray) -> np.ndarray:
    """Returns the mean of the middle half of scores [..., S], over their last axis: [...].

    A quarter of the scores, rounded down, is dropped at either end, so that of fewer than four
    scores it is the mean. See Agarwal et al. (2021), https://arxiv.org/abs/2108.13264.
    """
    num_scores = scores.shape[-1]
    num_dropped = num_scores // 4
    middle = np.sort(scores, axis=-1)[..., num_dropped : num_scores - num_dropped]
    means: np.ndarray = middle.mean(axis=-1)
    return means


def bootstrap_interval(
    scores: np.ndarray, statistic: Callable[[np.ndarray], np.ndarray] = interquartile_mean
) -> tuple[float, float]:
    """Returns a 95 % confidence interval of a statistic of scores [S].

    It is the percentile interval of 2,000 samples of the scores, drawn with replacement: the same
    draws in every call. Of few seeds it is rough: with three, it is the range of the scores.

    Args:
      scores: The scores [S].
      statistic: Function of scores [..., S] that returns the statistic of each S of them, [...].

    Returns:
      The lower and the upper end; NaN for less than two scores.
    """
    num_scores = len(scores)
    if num_scores < 2:
        return np.nan, np.nan
    draws = np.random.default_rng(0).integers(num_scores, size=(NUM_RESAMPLES, num_scores))
    values = statistic(scores[draws])  # [NUM_RESAMPLES]
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(values, [tail, 1 - tail])
    return float(low), float(high)
