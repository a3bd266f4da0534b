"""An environment of small pictures that does not need this library."""

import gymnasium
import numpy as np
from gymnasium import spaces


class Pictures(gymnasium.Env):
    """Rewards naming the half of the picture that has a bright bar; 20 pictures an episode."""

    observation_space = spaces.Box(0, 255, (36, 36, 1), np.uint8)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return self._draw(), {}

    def step(self, action):
        reward = 1.0 + 0.5 * self.column / 36 if action == (self.column >= 18) else 0.0
        self.steps += 1
        return self._draw(), reward, False, self.steps == 20, {}

    def _draw(self):
        self.column = int(self.np_random.integers(36))
        picture = self.np_random.integers(0, 150, (36, 36, 1)).astype(np.uint8)
        picture[:, self.column] = 255
        return picture


gymnasium.register("Pictures-v0", Pictures)
