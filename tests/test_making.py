import importlib.util
import subprocess
import sys

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.envs.registration import EnvSpec

from agents.families import make
from agents.families.making import RebuildOnSeed


class Worn(gymnasium.Env):
    """Observes how often this very object was reset."""

    observation_space = spaces.Box(0, 99, (), np.int64)

    def __init__(self):
        self.action_space = spaces.Discrete(100)
        self.resets, self.closed = 0, False

    def reset(self, *, seed=None, options=None):
        self.resets += 1
        return np.array(self.resets), {"seed": seed, "options": options}

    def close(self):
        self.closed = True


def test_a_seed_gives_a_new_environment():
    made = []

    def make_one():
        made.append(Worn())
        return made[-1]

    env = RebuildOnSeed(make_one)
    env.action_space.seed(3)
    expected = spaces.Discrete(100, seed=3)
    assert env.reset(seed=1, options={"a": 1}) == (1, {"seed": 1, "options": {"a": 1}})
    assert len(made) == 1, "the first one is new"
    assert env.reset()[0] == 2
    assert env.reset(seed=2)[0] == 1
    assert [one.closed for one in made] == [True, False]
    assert env.reset()[0] == 2
    assert [env.action_space.sample() for _ in range(9)] == [expected.sample() for _ in range(9)]


def test_other_environments_are_kept():
    env = make(gymnasium.spec("CartPole-v1"), max_episode_steps=7)
    inner = env.unwrapped
    env.reset(seed=1)
    env.reset(seed=1)
    assert env.unwrapped is inner and env.spec.max_episode_steps == 7
    make(EnvSpec("Worn-v0", entry_point=Worn)).close()


@pytest.mark.skipif(not importlib.util.find_spec("pybullet"), reason="needs the extra bullet")
def test_simulations_of_pybullet_are_its_own_and_silent(capfd):
    import pybullet_envs_gymnasium

    assert pybullet_envs_gymnasium
    env = make(gymnasium.spec("InvertedPendulumBulletEnv-v0"), render_mode="rgb_array")
    env.reset(seed=1)
    client = env.unwrapped._p
    assert env.render().dtype == np.uint8
    env.reset(seed=1)
    assert env.unwrapped._p is not client
    print("printed by Python is kept")
    env.close()
    assert capfd.readouterr().out == "printed by Python is kept\n"


def test_what_workers_import_does_not_bring_tensorflow():
    packages = ("shimmy.dm_control_compatibility", "ale_py", "minigrid.wrappers", "pybullet_envs_gymnasium")
    modules = [name for name in packages if importlib.util.find_spec(name.partition(".")[0])]
    modules += ["agents.families.atari", "agents.families.dm_control", "agents.families.making"]
    code = f"import sys, {', '.join(modules)}; sys.exit('tensorflow' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
