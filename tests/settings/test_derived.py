import pytest

from agents.settings.config_file import load_config
from agents.settings.derived import device_of, elements_per_minibatch, sequence_length

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
