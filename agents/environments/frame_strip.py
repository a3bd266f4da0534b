"""A few frames of an episode in one image.

Worker processes import this: it must not import TensorFlow.
"""

from __future__ import annotations

import io

import gymnasium
import numpy as np
from PIL import Image

from agents.environments.rendering import check_render_mode, render_frame
from agents.environments.wrappers.interface import Reset, Step
from agents.types import Env, NestedArray, Options

FRAMES = 8
COLUMNS = 4  # TensorBoard shows images at the width of a card.
HEIGHT = 160  # Of a frame, in pixels.
_GAP = 2  # Between frames, in pixels.


class FrameStrip(gymnasium.Wrapper):
    """Draws frames of the first episode, evenly spread over it, and no others.

    The length of an episode is not known before its end. So every frame is drawn at first, every
    second one once there are sixteen, and so on: 64 frames of 1,000 steps.
    """

    def __init__(self, env: Env):
        """Wraps an environment made with `render_mode="rgb_array"`.

        Raises:
          RenderingError: The environment does not render pixels.
        """
        super().__init__(env)
        check_render_mode(env)
        self._frames: list[Image.Image] = []  # Every `_stride` steps.
        self._last: Image.Image | None = None  # Of the final state.
        self._steps, self._stride = 0, 1

    def reset(self, *, seed: int | None = None, options: Options | None = None) -> Reset:
        """Resets the environment; the first time, draws its state.

        Raises:
          RenderingError: The environment can't be rendered.
        """
        result = self.env.reset(seed=seed, options=options)
        if not self._frames:
            self._frames = [self._draw()]
        return result

    def step(self, action: NestedArray) -> Step:
        """Steps the environment; draws some states of the first episode.

        Raises:
          RenderingError: The environment can't be rendered.
        """
        observ, reward, terminated, truncated, info = self.env.step(action)
        if self._last is None:
            self._steps += 1
            if terminated or truncated:
                self._last = self._draw()
            elif self._steps % self._stride == 0:
                self._frames.append(self._draw())
                if len(self._frames) == 2 * FRAMES:
                    self._frames = self._frames[::2]
                    self._stride *= 2
        return observ, reward, terminated, truncated, info

    def strip(self) -> bytes:
        """Returns the frames so far as a PNG image, in rows from left to right.

        Raises:
          ValueError: The environment was not reset yet.
        """
        if not self._frames:
            raise ValueError("There are no frames before the first reset.")
        frames = [*self._frames, *([self._last] if self._last else [])]
        chosen = np.unique(np.linspace(0, len(frames) - 1, FRAMES).round().astype(int))
        width = max(frames[index].width for index in chosen) + _GAP
        columns, rows = min(len(chosen), COLUMNS), -(-len(chosen) // COLUMNS)
        size = columns * width - _GAP, rows * (HEIGHT + _GAP) - _GAP
        image = Image.new("RGB", size, "gray")  # Frames may be white.
        for place, index in enumerate(chosen):
            row, column = divmod(place, COLUMNS)
            image.paste(frames[index], (column * width, row * (HEIGHT + _GAP)))
        file = io.BytesIO()
        image.save(file, "png")
        return file.getvalue()

    def _draw(self) -> Image.Image:
        frame = Image.fromarray(np.ascontiguousarray(render_frame(self.env)))
        width = max(1, round(frame.width * HEIGHT / frame.height))
        return frame.resize((width, HEIGHT), Image.Resampling.BOX)
