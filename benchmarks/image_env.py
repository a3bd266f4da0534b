"""An environment that costs next to nothing and shows images, to measure networks that see them."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

_NUM_IMAGES, _EPISODE_STEPS = 16, 100


class ImageEnv(gymnasium.Env[np.ndarray, np.int64]):
    """Shows a few images of noise in turns, of the size of Atari's; rewards the image's number."""

    observation_space = gymnasium.spaces.Box(0, 255, (84, 84, 4), np.uint8)
    action_space = gymnasium.spaces.Discrete(4)

    def __init__(self) -> None:
        """Draws the images, the same in every environment."""
        random = np.random.default_rng(0)
        self._images = random.integers(0, 256, (_NUM_IMAGES, 84, 84, 4), np.uint8)
        self._steps = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Starts an episode."""
        super().reset(seed=seed)
        self._steps = 0
        return self._images[0].copy(), {}

    def step(self, action: np.int64) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Shows the next image."""
        shown = self._steps % _NUM_IMAGES
        self._steps += 1
        image = self._images[self._steps % _NUM_IMAGES].copy()
        reward = float(action == shown % 4)
        return image, reward, False, self._steps >= _EPISODE_STEPS, {}


gymnasium.register("BenchmarkImages-v0", f"{__name__}:ImageEnv")
