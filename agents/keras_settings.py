"""Keras' own settings: its backend must be TensorFlow, the others make no difference.

All names of Keras that are not public stand here.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from agents.errors import UsageError
from agents.types import PlainData

if TYPE_CHECKING:
    import keras

# Values that Keras accepts in its file; others end its import.
_VALUES = {
    "floatx": ("float32", "float16", "float64"),
    "image_data_format": ("channels_last", "channels_first"),
    "nnx_enabled": (False,),  # For JAX only.
}

# Keras' counters of default names, which it keeps for each thread.
_NUMBERS = "object_name_uids"


def check_keras() -> None:
    """Raises UsageError unless Keras 3 runs on TensorFlow, or will; does not import it."""
    keras = sys.modules.get("keras")
    if keras is not None:
        version, place = keras.__version__, "in this process"
        backend = keras.backend.backend()
    else:
        version = ""  # If unknown, as of a nightly.
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            version = importlib.metadata.version("keras")
        backend, place = _chosen_backend()
    if version and int(version.partition(".")[0]) < 3:
        raise UsageError(f"expected Keras 3, got {version}; pip install --upgrade keras")
    if backend != "tensorflow":
        raise UsageError(
            f"expected Keras on TensorFlow, got the backend '{backend}' {place}; "
            "set KERAS_BACKEND=tensorflow"
        )


@contextlib.contextmanager
def default_settings(dtype_policy: str = "float32") -> Iterator[None]:
    """Makes layers and optimizers independent of the user's Keras and its earlier layers.

    Default names are numbered from zero, since checkpoints hold them.

    Args:
      dtype_policy: The policy of layers.
    """
    import keras
    from keras.src.backend.common import global_state

    numbers = global_state.get_global_attribute(_NUMBERS)
    global_state.set_global_attribute(_NUMBERS, None)
    before = (
        keras.config.floatx(),
        keras.config.image_data_format(),
        keras.config.dtype_policy(),
    )
    keras.config.set_floatx("float32")
    keras.config.set_image_data_format("channels_last")
    keras.config.set_dtype_policy(dtype_policy)
    try:
        yield
    finally:
        global_state.set_global_attribute(_NUMBERS, numbers)
        keras.config.set_floatx(before[0])
        keras.config.set_image_data_format(before[1])
        keras.config.set_dtype_policy(before[2])


def sublayers(layer: keras.layers.Layer, recursive: bool = False) -> list[keras.layers.Layer]:
    """Returns the layers inside of a layer, inner ones after outer ones."""
    layers: list[keras.layers.Layer] = layer._flatten_layers(
        include_self=False, recursive=recursive
    )
    return layers


def _chosen_backend() -> tuple[PlainData, str]:
    """Returns the backend that Keras will choose, and the place that names it.

    Raises:
      UsageError: Keras does not accept its file of settings.
    """
    home = os.path.expanduser("~")
    home = home if os.access(home, os.W_OK) else "/tmp"
    folder = os.environ.get("KERAS_HOME", os.path.join(home, ".keras"))
    path = os.path.expanduser(os.path.join(folder, "keras.json"))
    settings: PlainData = {}
    if os.path.exists(path):
        try:
            with open(path) as file:
                settings = json.load(file)
        except ValueError:
            pass  # Keras takes its defaults.
        except OSError as error:
            raise UsageError(f"can't read Keras' settings {path} ({error.strerror})") from None
    if not isinstance(settings, dict):
        raise UsageError(f"expected a JSON object in Keras' settings {path}, got {settings!r:.80}")
    for name, values in _VALUES.items():
        value = settings.get(name, values[0])
        if value not in values:
            raise UsageError(
                f"expected {' or '.join(map(str, values))} for {name} in Keras' settings {path}, got {value!r}"
            )
    if not isinstance(settings.get("epsilon", 1e-7), float):
        raise UsageError(f"expected a float for epsilon in Keras' settings {path}")
    if backend := os.environ.get("KERAS_BACKEND"):
        return backend, "in KERAS_BACKEND"
    return settings.get("backend", "tensorflow"), f"in {path}"
