"""A film: scenes of several policies in one video, with captions.

Worker processes import this: it must not import TensorFlow.
"""

from __future__ import annotations

from pathlib import Path

import gymnasium
import numpy as np
from gymnasium.utils import RecordConstructorArgs
from PIL import Image, ImageDraw, ImageFont

from agents.environments.drawing.rendering import check_render_mode, render_frame
from agents.environments.drawing.video import VideoFile, frame_rate
from agents.environments.wrappers.interface import Reset, Step
from agents.paths import absolute_path
from agents.types import Env, NestedArray, Options

_MIN_WIDTH = 320  # For the captions, in pixels; smaller frames are enlarged.
_PAUSE = 1.0  # Seconds for which the last frame of a scene is shown.
_TEXT, _BACKGROUND = "white", "#1f2937"


class RecordFilm(gymnasium.Wrapper, RecordConstructorArgs):
    """Records scenes into one video, each from a reset to the end of the episode or of the scene.

    Above each frame stand the caption of its scene and the return of the episode so far. The file
    is written when the wrapper is closed.

    Attributes:
      frame_rate: Frames per second.
    """

    def __init__(self, env: Env, path: str | Path, speed: float = 1.0):
        """Initializes the wrapper.

        Args:
          env: Environment made with `render_mode="rgb_array"`.
          path: The mp4 file; written or replaced by `close` if there were scenes.
          speed: See `RecordEpisode`.

        Raises:
          RenderingError: The environment does not render pixels.
        """
        RecordConstructorArgs.__init__(self, path=str(path), speed=speed)
        gymnasium.Wrapper.__init__(self, env)
        check_render_mode(env)
        self.frame_rate = frame_rate(env) * speed
        self._path = absolute_path(path)
        self._file: VideoFile | None = None
        self._caption: str | None = None  # Of the scene that is recorded.
        self._return = 0.0
        self._last: np.ndarray | None = None  # Frame of the scene, [height, width, 3].

    def begin_scene(self, caption: str) -> None:
        """Records from the next reset on."""
        self._caption, self._return, self._last = caption, 0.0, None

    def end_scene(self) -> None:
        """Stops recording; shows the last frame for a moment."""
        self._caption = None
        if self._file and self._last is not None:
            for _ in range(round(_PAUSE * self.frame_rate)):
                self._file.write(self._last)

    def reset(self, *, seed: int | None = None, options: Options | None = None) -> Reset:
        """Resets the environment; records its state in a scene.

        Raises:
          RenderingError: The environment can't be rendered.
          OSError: The video can't be written.
        """
        result = self.env.reset(seed=seed, options=options)
        self._record()
        return result

    def step(self, action: NestedArray) -> Step:
        """Steps the environment; records its state in a scene, until the episode ends.

        Raises:
          RenderingError: The environment can't be rendered.
          OSError: The video can't be written.
        """
        observ, reward, terminated, truncated, info = self.env.step(action)
        self._return += float(reward)
        self._record()
        if terminated or truncated:
            self._caption = None
        return observ, reward, terminated, truncated, info

    def close(self) -> None:
        """Completes the video and closes the environment."""
        file, self._file = self._file, None
        try:
            if file:
                file.close()
        finally:
            super().close()

    def _record(self) -> None:
        if self._caption is None:
            return
        frame = caption_frame(
            render_frame(self.env), self._caption, f"return {self._return:,.1f}"
        )  # [height, width, 3]
        if self._file is None:
            height, width, _ = frame.shape
            self._file = VideoFile(self._path, height, width, self.frame_rate)
        self._file.write(frame)
        self._last = frame


def caption_frame(frame: np.ndarray, left: str, right: str) -> np.ndarray:
    """Returns a frame, uint8 [height, width, 3], with two texts in a line above it."""
    scale = -(-_MIN_WIDTH // frame.shape[1])
    frame = frame.repeat(scale, axis=0).repeat(scale, axis=1)
    height, width = frame.shape[:2]
    size = width // 22  # So that a step of eight digits and a return of six fit.
    font, margin = ImageFont.load_default(size), size // 2
    line = Image.new("RGB", (width, 2 * size), _BACKGROUND)
    draw = ImageDraw.Draw(line)
    draw.text((margin, size), left, _TEXT, font, anchor="lm")
    draw.text((width - margin, size), right, _TEXT, font, anchor="rm")
    return np.concatenate([np.asarray(line), frame])
