import gymnasium
import numpy as np
from gymnasium import spaces

from agents.environments.wrappers.rebuild_on_seed import RebuildOnSeed


class Stateful(gymnasium.Env):
    """Observes how often this object was reset."""

    observation_space = spaces.Box(0, 99, (), np.int64)

    def __init__(self):
        self.action_space = spaces.Discrete(100)
        self.resets, self.closed = 0, False

    def reset(self, *, seed=None, options=None):
        self.resets += 1
        return np.array(self.resets), {"seed": seed, "options": options}

    def close(self):
        self.closed = True


def test_a_seeded_reset_makes_a_new_environment():
    made = []

    def make():
        made.append(Stateful())
        return made[-1]

    env = RebuildOnSeed(make)
    env.action_space.seed(3)
    expected = spaces.Discrete(100, seed=3)
    assert env.reset(seed=1, options={"a": 1}) == (1, {"seed": 1, "options": {"a": 1}})
    assert len(made) == 1, "the first environment was not used yet"
    assert env.reset()[0] == 2
    assert env.reset(seed=2)[0] == 1
    assert [inner.closed for inner in made] == [True, False]
    assert env.reset()[0] == 2
    assert [env.action_space.sample() for _ in range(9)] == [expected.sample() for _ in range(9)]
