"""Returns, normalizers, optimizers and schedules of any algorithm."""

from agents.keras_settings import check_keras

check_keras()  # Before the modules of this package import Keras.
