import contextlib
import sys

import numpy as np
import pytest

from agents.errors import UnsupportedSpaceError, UsageError
from agents.graph.backend import make_backend
from agents.settings.config_file import load_config
from agents.settings.installation import install_command


@contextlib.contextmanager
def make(num_envs=2, **settings):
    pytest.importorskip("envpool")
    backend = make_backend(load_config(env_backend="envpool", **settings))
    with contextlib.closing(backend.make(backend.check(), num_envs)) as envs:
        yield envs


def test_without_envpool_the_message_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "envpool", None)  # As if it were not there.
    with pytest.raises(UsageError) as raised:
        make_backend(load_config(env_backend="envpool")).check()
    assert "needs the package envpool" in str(raised.value)
    assert install_command("envpool") in str(raised.value)
    assert len(str(raised.value).splitlines()) == 2


@pytest.mark.parametrize(
    ("settings", "limit", "num_threads"),
    [
        ({"num_processes": 2}, 200, 2),
        ({"num_processes": 5, "max_episode_steps": 9}, 9, 3),
        ({"max_episode_steps": 9}, 9, 3),
    ],
)
def test_settings_reach_the_pool(settings, limit, num_threads, monkeypatch):
    monkeypatch.setattr("agents.vector.process_batch.available_cores", lambda: 4)
    with make(3, env="Pendulum-v1", **settings) as envs:
        assert envs.num_envs == 3
        assert envs._pool.config["num_threads"] == num_threads
        envs.reset()
        for step in range(1, limit + 1):
            truncated = envs.step(np.zeros((3, 1), np.float32))[3]
            assert truncated.tolist() == [step == limit] * 3


def test_environments_that_observe_no_mask_raise():
    with pytest.raises(UnsupportedSpaceError, match="expected observations with 'action_mask'"):
        with make(env="CartPole-v1", action_mask=True):
            pass
