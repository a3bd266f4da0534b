"""What any algorithm needs to learn: returns, normalizers, optimizers, schedules."""

from agents.runtime.keras_settings import check_keras

check_keras()  # Before the modules of this package import Keras.
