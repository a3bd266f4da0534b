import gc
import os

import hypothesis
import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import strategies
from hypothesis.extra import numpy as hypothesis_numpy

from agents.workers import shared_arrays

SHAPES = hypothesis_numpy.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)
BOXES = strategies.builds(
    lambda shape, dtype: spaces.Box(0, 1, shape, dtype),
    SHAPES,
    strategies.sampled_from([np.uint8, np.int16, np.float32, np.float64]),
)
SPACES = strategies.one_of(
    BOXES,
    strategies.just(spaces.Discrete(3)),
    strategies.lists(BOXES, min_size=1, max_size=3).map(spaces.Tuple),
)


def make(num_envs, observation_space, action_space):
    layout = shared_arrays.Layout(num_envs, observation_space, action_space)
    mine = shared_arrays.BatchArrays(layout)
    theirs = shared_arrays.BatchArrays(layout, os.dup(mine.descriptor))
    mine.close(), theirs.close()
    return [mine, theirs]


def results(arrays):
    flags = [arrays.reward, arrays.terminated, arrays.truncated]
    return [*arrays.observ, *flags, *arrays.final_observ]


def all_arrays(arrays):
    return [*arrays.action, arrays.mask, arrays.seed, *results(arrays)]


def fill(arrays, seed):
    """Fills arrays with random numbers, flags with random flags; returns these."""
    generator = np.random.default_rng(seed)
    values = []
    for array in arrays:
        array[...] = generator.integers(0, 2 if array.dtype == bool else 100, array.shape)
        values.append(array.copy())
    return values


@hypothesis.given(strategies.integers(1, 5), SPACES, SPACES)
@hypothesis.settings(deadline=None, max_examples=50)
def test_two_mappings_share_arrays_that_do_not_overlap_and_copies_do_not_change(
    num_envs, observation_space, action_space
):
    mine, theirs = make(num_envs, observation_space, action_space)
    arrays = all_arrays(mine)
    assert all(len(array) == num_envs for array in arrays)
    values = fill(arrays, seed=0)  # Overlapping arrays would overwrite each other.
    for array, other, value in zip(arrays, all_arrays(theirs), values, strict=True):
        np.testing.assert_array_equal(array, value)
        np.testing.assert_array_equal(other, value)
    copies = results(shared_arrays.Results(mine.layout, mine.copy_results()))
    fill(arrays, seed=1)
    for copy, value in zip(copies, values[-len(copies) :], strict=True):
        assert (copy.dtype, copy.shape) == (value.dtype, value.shape)
        np.testing.assert_array_equal(copy, value)
        # TensorFlow uses aligned arrays without a second copy.
        assert copy.size == 0 or copy.ctypes.data % shared_arrays.ALIGNMENT == 0
        assert copy.flags.c_contiguous


LAYOUT = shared_arrays.Layout(2, spaces.Discrete(3), spaces.Discrete(3))


def test_closing_keeps_the_arrays_and_can_be_repeated():
    arrays = shared_arrays.BatchArrays(LAYOUT)
    descriptor = arrays.descriptor
    arrays.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)
    with pytest.raises(ValueError, match="closed"):
        _ = arrays.descriptor
    reused = os.open(os.devnull, os.O_RDONLY)  # Gets the number that has become free.
    arrays.close()
    os.fstat(reused)
    os.close(reused)
    view = arrays.reward
    del arrays
    gc.collect()
    view[:] = 3
    assert view.sum() == 6
