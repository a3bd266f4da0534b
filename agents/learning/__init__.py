"""Returns, normalizers, optimizers and schedules of any algorithm."""

from agents.runtime.keras_settings import check_keras

check_keras()  # Before the modules of this package import Keras.
