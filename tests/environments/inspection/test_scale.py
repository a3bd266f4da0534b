import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from agents.environments.inspection.scale import Scale


@given(arrays(np.float64, (7, 3), elements=st.floats(-1e3, 1e3)), st.sampled_from([0.0, 1.7e9]))
def test_scales_are_those_of_all_numbers(numbers, offset):
    scale = Scale(3)
    for row in numbers + offset:
        scale.add(row)
    np.testing.assert_array_equal(scale.largest, np.abs(numbers + offset).max(axis=0))
    expected = (numbers + offset).std(axis=0)
    np.testing.assert_allclose(scale.deviation(), expected, rtol=1e-3, atol=1e-3)
