import numpy as np
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.learning.epoch_mean import EpochMean

NUMBERS = st.floats(0, 100, width=32, allow_subnormal=False)


@given(st.lists(st.lists(NUMBERS, min_size=1, max_size=4), max_size=4))
@settings(max_examples=30, deadline=None)
def test_means_restart_with_every_epoch(epochs):
    mean = EpochMean()
    for epoch in epochs:
        for index, number in enumerate(epoch):
            so_far = mean.update(tf.constant(number), tf.constant(index == len(epoch) - 1))
            np.testing.assert_allclose(so_far, np.mean(epoch[: index + 1]), rtol=1e-5, atol=1e-6)
