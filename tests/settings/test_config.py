import numpy as np
import pydantic
import pytest

from agents.settings.config import (
    ALGORITHM_SETTINGS,
    Config,
    Restarts,
    device_of,
    elements_per_minibatch,
    sequence_length,
)
from agents.settings.config_file import load_config


def test_every_setting_is_described_and_bounded():
    for name, field in Config.model_fields.items():
        assert field.description and field.description.endswith("."), name
        bounded = field.metadata or field.annotation is bool or "Literal" in str(field.annotation)
        if field.annotation is Restarts:
            bounded = all(part.metadata for part in Restarts.model_fields.values())
        assert bounded, f"{name} has no bound"
        assert not field.is_required()
        preset = "sac" if name in ALGORITHM_SETTINGS["sac"] else "default"
        load_config(preset, **{name: field.default})


def test_several_algorithms_may_read_a_setting(monkeypatch):
    monkeypatch.setitem(ALGORITHM_SETTINGS, "another", frozenset({"batch_size", "epochs"}))
    assert load_config("sac", batch_size=3).foreign_settings() == ALGORITHM_SETTINGS["ppo"]


def test_is_immutable():
    with pytest.raises(pydantic.ValidationError):
        load_config().seed = 3


@pytest.mark.parametrize(
    "overrides, expected",
    [
        ({"learning_rate": "1e-3"}, {"learning_rate": 1e-3}),
        ({"steps": "1e6"}, {"steps": 1_000_000}),
        ({"steps": 1e6}, {"steps": 1_000_000}),
        ({"seed": np.int64(7), "discount": np.float64(0.5)}, {"seed": 7, "discount": 0.5}),
        ({"normalize_reward": "false"}, {"normalize_reward": False}),
        ({"layers": [32, 16]}, {"layers": (32, 16)}),
        ({"layers": []}, {"layers": ()}),
        ({"env": "1e6"}, {"env": "1e6"}),
        ({"env_kwargs": {"range": (0.2, np.float64(1))}}, {"env_kwargs": {"range": [0.2, 1.0]}}),
        ({"env_kwargs": {"a": ((1,), None)}}, {"env_kwargs": {"a": [[1], None]}}),
    ],
)
def test_overrides_are_parsed(overrides, expected):
    config = load_config("cartpole", **overrides)
    for name, value in expected.items():
        assert getattr(config, name) == value
        assert type(getattr(config, name)) is type(value)


def test_unknown_setting_from_python(refused):
    assert refused(learing_rate=1) == [
        "unknown setting 'learing_rate'; did you mean 'learning_rate'?"
    ]
    assert refused(xyzzy=1) == ["unknown setting 'xyzzy'"]


@pytest.mark.parametrize(
    "overrides, message",
    [
        ({"learning_rate": "fast"}, "expected a number above 0 and at most 1, got 'fast'"),
        ({"learning_rate": float("nan")}, "expected a number above 0 and at most 1, got nan"),
        ({"num_envs": 1.5}, "expected an integer from 1 to 65536, got 1.5"),
        ({"epochs": True}, "expected an integer from 1 to 10000, got True"),
        ({"discount": True}, "expected a number from 0 to 1, got True"),
        ({"seed": None}, "expected an integer from 0 to 2147483647, got None"),
        ({"seed": np.zeros(3)}, "expected an integer from 0 to 2147483647, got array([0., 0., 0.])"),
        ({"normalize_reward": "perhaps"}, "expected true or false, got 'perhaps'"),
        ({"activation": "tan"}, "expected one of tanh, relu, elu, silu, gelu, got 'tan'"),
        ({"env": 3}, "expected a string, got 3"),
        ({"layers": (64, 0)}, "expected a list such as [64, 64], each item an integer from 1 to 65536, got (64, 0)"),
        ({"env_kwargs": 3}, 'expected a dictionary of plain data such as {"g": 9.81}, got 3'),
    ],
)  # fmt: skip
def test_wrong_values(overrides, message, refused):
    [name] = overrides
    assert refused(**overrides) == [f"{name}: {message}"]


@pytest.mark.parametrize(
    "value", [np.zeros((30, 30)), {"a": object()}, {"a": float("nan")}, {1: 2}, {"a": np.int64(3)}]
)
def test_constructor_arguments_that_cannot_be_saved_are_refused(value, refused):
    [line] = refused(env_kwargs=value)
    assert line.startswith(
        'env_kwargs: expected a dictionary of plain data such as {"g": 9.81}, got '
    )
    assert len(line) < 150


def test_many_errors_take_three_lines(refused):
    lines = refused(seed=-1, epochs=0, steps=0, discount=2, layers=3)
    assert len(lines) == 3
    assert lines[2] == "and 3 more"


SIZES = {"num_envs": 2, "rollout_length": 24, "minibatch_size": 12}


@pytest.mark.parametrize(
    ("settings", "length", "num_elements"),
    [
        ({}, 12, 12),
        ({"recurrent": "gru"}, 12, 1),
        ({"recurrent": "gru", "sequence_length": 4}, 4, 3),
    ],
)
def test_minibatches_have_steps_or_sequences(settings, length, num_elements):
    config = load_config("default", **SIZES, **settings)
    assert sequence_length(config) == length
    assert elements_per_minibatch(config) == num_elements


@pytest.mark.parametrize(
    ("settings", "device"),
    [
        ({}, "cpu"),
        ({"env_backend": "tf"}, "any"),
        ({"network": "nature"}, "any"),
        ({"layers": (512, 64)}, "any"),
        ({"value_layers": (1024,)}, "any"),
        ({"device": "gpu"}, "gpu"),
        ({"device": "cpu", "network": "nature"}, "cpu"),
    ],
)
def test_a_gpu_is_used_for_what_takes_long(settings, device):
    assert device_of(load_config("default", **settings)) == device
