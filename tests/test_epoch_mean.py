import numpy as np
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.ppo.epoch_mean import EpochMean


@given(st.lists(st.lists(st.floats(0, 100, width=32, allow_subnormal=False), min_size=1, max_size=4), max_size=4))
@settings(max_examples=30, deadline=None)
def test_means_of_every_epoch_so_far(epochs):
    mean = EpochMean()
    for epoch in epochs:
        for index, number in enumerate(epoch):
            seen = mean(tf.constant(number), tf.constant(index == len(epoch) - 1))
            np.testing.assert_allclose(seen, np.mean(epoch[: index + 1]), rtol=1e-5, atol=1e-6)
