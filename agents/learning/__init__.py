"""Parts of algorithms: returns, normalizers, optimizers, schedules, replay, reductions."""

from agents.keras_settings import check_keras

check_keras()  # Before the modules of this package import Keras.
