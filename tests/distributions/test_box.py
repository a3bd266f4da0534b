import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from agents.distributions.box import reshape_last, to_box

BATCHES = st.lists(st.integers(1, 3), max_size=2)
SHAPES = arrays.array_shapes(min_dims=0, max_dims=3, max_side=3)
DTYPES = st.sampled_from([np.float16, np.float32, np.float64])


@given(st.data(), BATCHES, SHAPES, DTYPES)
@settings(max_examples=25, deadline=None)
def test_any_number_becomes_an_element_of_the_box(data, batch, shape, dtype):
    low = data.draw(st.sampled_from([-np.inf, -1.5, 0.1]))
    high = data.draw(st.sampled_from([np.inf, 0.7]))
    space = spaces.Box(low, high, shape, dtype)
    numbers = st.floats(width=32, allow_subnormal=False)
    flat = data.draw(arrays.arrays(np.float32, (*batch, int(np.prod(shape))), elements=numbers))
    action = to_box(space, tf.constant(flat)).numpy()
    assert action.dtype == dtype and action.shape == (*batch, *shape)
    assert all(space.contains(np.asarray(action[row])) for row in np.ndindex(*batch))
    assert np.isfinite(action).all()
    with np.errstate(over="ignore"):
        original = flat.astype(dtype).reshape(action.shape)
    inside = (original >= space.low) & (original <= space.high) & np.isfinite(original)
    np.testing.assert_allclose(action[inside], original[inside], rtol=0, atol=np.finfo(dtype).tiny)


@pytest.mark.parametrize("shape", [(), (6,), (2, 3)])
def test_one_batch_dimension_may_be_unknown(shape):
    size = int(np.prod(shape))
    reshape = tf.function(
        lambda flat: reshape_last(flat, shape), input_signature=[tf.TensorSpec([None, 2, size])]
    )
    flat = np.arange(3 * 2 * size, dtype=np.float32).reshape(3, 2, size)
    np.testing.assert_array_equal(reshape(flat), flat.reshape(3, 2, *shape))
