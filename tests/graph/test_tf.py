import sys

import numpy as np
import pytest

from agents.errors import UnsupportedSpaceError, UsageError
from agents.graph.backend import make_backend
from agents.graph.in_graph_env import InGraphEnv
from agents.settings.config_file import load_config


def make(env="Pendulum-v1", num_envs=2, **settings):
    backend = make_backend(load_config("default", env=env, env_backend="tf", **settings))
    return backend.make(backend.check(), num_envs)


@pytest.mark.parametrize(
    ("settings", "limit", "gravity"),
    [
        ({}, 200, 10.0),
        ({"max_episode_steps": 9, "action_repeat": 3}, 3, 10.0),
        ({"env_kwargs": {"g": 2.5}}, 200, 2.5),
    ],
)
def test_settings(settings, limit, gravity):
    envs = make(**settings)
    assert isinstance(envs, InGraphEnv) and envs.num_envs == 2
    _, sin, speed = np.float64(envs.reset()[0])
    for step in range(1, limit + 1):
        result = envs.simulate(np.zeros((2, 1), np.float32))
        if step == 1 and "action_repeat" not in settings:
            np.testing.assert_allclose(
                result.final_observ[0, 2], speed + 0.05 * 1.5 * gravity * sin, rtol=1e-5
            )
        assert result.truncated.numpy().tolist() == [step == limit] * 2


def test_environments_are_compiled():
    assert make().compiles


def test_unknown_environments_raise():
    with pytest.raises(UsageError, match="Hopper-v5") as raised:
        make_backend(load_config(env="Hopper-v5", env_backend="tf")).check()
    assert "CartPole-v1" in str(raised.value) and len(str(raised.value).splitlines()) <= 3


def test_environments_of_a_module(tmp_path, monkeypatch):
    (tmp_path / "my_tensor_env.py").write_text(
        "from agents.tensor_envs import register\n"
        "register('MyPendulum-v0', 'agents.graph.pendulum:Pendulum', max_episode_steps=3)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(
        "agents.graph.tensor_registration._specs",
        dict(sys.modules["agents.graph.tensor_registration"]._specs),
    )
    envs = make("my_tensor_env:MyPendulum-v0")
    sys.modules.pop("my_tensor_env")
    envs.reset()
    truncated = [envs.simulate(np.zeros((2, 1), np.float32)).truncated.numpy() for _ in range(3)]
    assert np.all(truncated, axis=1).tolist() == [False, False, True]


def test_a_missing_module_raises():
    with pytest.raises(UsageError, match="needs the module 'no_module', which was not found"):
        make("no_module:MyEnv-v0")


def test_info_keys_raise():
    with pytest.raises(UsageError, match="info_keys: .* 'tf' have no infos"):
        make(info_keys=["speed"])


def test_unknown_arguments_of_the_environment_raise():
    with pytest.raises(UsageError, match="incline"):
        make(env_kwargs={"incline": 2})


def test_environments_that_observe_no_mask_raise():
    with pytest.raises(UnsupportedSpaceError, match="expected observations with 'action_mask'"):
        make("CartPole-v1", action_mask=True)
