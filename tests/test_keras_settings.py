import functools
import json
import os
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

import agents
from agents.errors import UsageError
from agents.keras_settings import check_keras
from agents.learning.optimizers import make_optimizers
from agents.policies.policy import Policy
from agents.scripts import export, train
from agents.settings.config_file import load_config
from tests.deployment.untrained import KINDS, batches

OTHER_SETTINGS = {
    "float64": (keras.config.set_floatx, "float64"),
    "float16": (keras.config.set_floatx, "float16"),
    "channels first": (keras.config.set_image_data_format, "channels_first"),
    "mixed precision": (keras.config.set_dtype_policy, "mixed_float16"),
}

# Content of keras.json, KERAS_BACKEND, and words of the message.
REFUSED = [
    ({}, "torch", "got the backend 'torch' in KERAS_BACKEND; set KERAS_BACKEND=tensorflow"),
    ({"backend": "tensorflow"}, "jax", "got the backend 'jax' in KERAS_BACKEND"),
    ({"backend": "torch"}, None, "got the backend 'torch' in .*keras.json"),
    ({"backend": "torch"}, "", "got the backend 'torch' in .*keras.json"),
    ({"floatx": "bfloat16"}, None, "expected float32 or .*, got 'bfloat16'"),
    ({"image_data_format": 1}, None, "expected channels_last or .*, got 1"),
    ({"epsilon": 1}, None, "expected a float for epsilon in .*keras.json"),
    ({"nnx_enabled": True}, None, "expected False for nnx_enabled in .*keras.json, got True"),
    ([], None, "expected a JSON object in .*keras.json, got \\[\\]"),
]
ACCEPTED = [
    ({"backend": "torch"}, "tensorflow"),
    ({"floatx": "float64", "image_data_format": "channels_first", "epsilon": 1e-3}, None),
    ("{", None),  # Keras takes its defaults.
    (None, None),
]


@pytest.fixture
def keras_home(tmp_path, monkeypatch):
    """A function that writes the settings of a Keras that is not imported yet."""

    def write(settings, backend):
        if settings is not None:
            text = settings if isinstance(settings, str) else json.dumps(settings)
            (tmp_path / "keras.json").write_text(text)
        monkeypatch.setenv("KERAS_HOME", str(tmp_path))
        monkeypatch.delenv("KERAS_BACKEND", raising=False)
        if backend is not None:
            monkeypatch.setenv("KERAS_BACKEND", backend)
        monkeypatch.delitem(sys.modules, "keras")

    return write


@pytest.mark.parametrize(("settings", "backend", "message"), REFUSED)
def test_other_backends_and_damaged_settings_are_refused(settings, backend, message, keras_home):
    keras_home(settings, backend)
    with pytest.raises(UsageError, match=message) as caught:
        check_keras()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("settings", "backend"), ACCEPTED)
def test_settings_that_keras_runs_with_are_accepted(settings, backend, keras_home):
    keras_home(settings, backend)
    check_keras()


def test_keras_that_is_imported_counts(monkeypatch, tmp_path):
    monkeypatch.setenv("KERAS_BACKEND", "torch")  # Comes too late.
    check_keras()
    monkeypatch.setattr(keras.backend, "backend", lambda: "jax")
    with pytest.raises(UsageError, match="got the backend 'jax' in this process"):
        next(agents.train(load_config("cartpole"), logdir=tmp_path / "logdir"))
    assert not list(tmp_path.iterdir())
    monkeypatch.setattr(keras, "__version__", "2.15.0")
    with pytest.raises(UsageError, match=r"expected Keras 3, got 2\.15\.0"):
        check_keras()


@pytest.mark.parametrize(
    ("main", "arguments"),
    [
        (train.main, ["--logdir=made", "--config=cartpole"]),
        (train.main, ["--logdir=made", "--config=cartpole", "--learners=2"]),
        (export.main, ["--logdir=run", "--outdir=made"]),
    ],
)
def test_commands_refuse_other_backends_before_anything_is_made(
    main, arguments, keras_home, tmp_path, monkeypatch
):
    keras_home(None, "torch")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="^expected Keras on TensorFlow, got .* in KERAS_BACKEND"):
        main(arguments)
    assert not list(tmp_path.iterdir())


def test_names_of_the_package_refuse_other_backends():
    code = "import agents\ntry:\n    agents.load_policy\nexcept ValueError as error: print(error)"
    process = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "KERAS_BACKEND": "torch"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert process.stdout.startswith("expected Keras on TensorFlow, got the backend 'torch'")


def trained_once(kind, optimizer):
    """Actions before, and weights after a step along given gradients."""
    config = load_config("default", optimizer=optimizer, **kind.settings)
    policy = Policy(*kind.spaces, config)
    observ = tf.nest.map_structure(tf.constant, batches(kind.spaces[0], 3))
    _, action, _ = policy.act(observ, deterministic=True)
    weights = policy.network.variables()
    [optimizer] = make_optimizers(weights, config)
    gradients = {name: tf.ones_like(weight) * 0.3 for name, weight in weights.items()}
    optimizer.apply(gradients, tf.constant(0.5))
    return [action, *weights.values(), *optimizer.variables().values()]


@functools.cache
def usual(name, optimizer):
    return trained_once(KINDS[name], optimizer)


@pytest.mark.parametrize(
    ("setting", "name", "optimizer"),
    [
        *((setting, "image", "adam") for setting in OTHER_SETTINGS),
        ("float64", "recurrent", "torch_adam"),
        ("mixed precision", "beta", "sgd"),
    ],
)
def test_other_settings_of_keras_change_no_number(setting, name, optimizer):
    expected = usual(name, optimizer)
    before = keras.config.floatx(), keras.config.image_data_format(), keras.config.dtype_policy()
    setter, value = OTHER_SETTINGS[setting]
    setter(value)
    try:
        actual = trained_once(KINDS[name], optimizer)
        now = keras.config.floatx(), keras.config.image_data_format(), keras.config.dtype_policy()
        assert value in (*now[:2], now[2].name)  # They are the user's.
    finally:
        keras.config.set_floatx(before[0])
        keras.config.set_image_data_format(before[1])
        keras.config.set_dtype_policy(before[2])
    for one, other in zip(actual, expected, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)
