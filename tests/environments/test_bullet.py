import importlib.util

import gymnasium
import numpy as np
import pytest

from agents.environments.registration import make_env

pytestmark = pytest.mark.skipif(
    not importlib.util.find_spec("pybullet_envs_gymnasium"), reason="needs the extra bullet"
)


def test_every_seed_has_its_own_physics_server_and_it_prints_nothing(capfd):
    import pybullet_envs_gymnasium

    assert pybullet_envs_gymnasium
    spec = gymnasium.spec("InvertedPendulumBulletEnv-v0")
    env = make_env(spec, {"render_mode": "rgb_array"})
    env.reset(seed=1)
    client = env.unwrapped._p
    assert env.render().dtype == np.uint8
    env.reset(seed=1)
    assert env.unwrapped._p is not client
    print("printed by Python is kept")
    env.close()
    assert capfd.readouterr().out == "printed by Python is kept\n"
