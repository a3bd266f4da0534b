"""Adam as in PyTorch."""

from __future__ import annotations

import keras
import tensorflow as tf


class TorchAdam(keras.optimizers.Adam):
    """Adam whose epsilon is added after the bias correction.

    That is algorithm 1 of Kingma and Ba, 2015, arXiv 1412.6980, as in PyTorch. Keras' Adam adds epsilon
    before it ("epsilon hat"; end of section 2), where the same number acts 1 / sqrt(1 - beta_2^t)
    times as strong: 32 times in the first step, 1.3 times in the thousandth.

    Attributes:
      epsilon: What is added to the square root of the second moment.
    """

    epsilon: float | tf.Tensor

    def update_step(
        self, gradient: tf.Tensor, variable: keras.Variable, learning_rate: tf.Tensor
    ) -> None:
        """Updates a variable."""
        step = keras.ops.cast(self.iterations + 1, variable.dtype)
        correction = keras.ops.sqrt(1 - keras.ops.power(self.beta_2, step))
        epsilon = self.epsilon
        try:
            self.epsilon = epsilon * correction
            super().update_step(gradient, variable, learning_rate)
        finally:
            self.epsilon = epsilon
