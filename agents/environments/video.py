"""Videos: of an episode, or of scenes with captions.

Worker processes import this: it must not import TensorFlow.
"""

from __future__ import annotations

import subprocess
from fractions import Fraction
from pathlib import Path

import gymnasium
import numpy as np
from imageio_ffmpeg import get_ffmpeg_exe
from PIL import Image, ImageDraw, ImageFont

from agents.environments.rendering import check_render_mode, render_frame
from agents.environments.wrappers.interface import Reset, Step
from agents.paths import absolute_path
from agents.types import Env, NestedArray, Options

_MIN_WIDTH = 320  # For the captions, in pixels; smaller frames are enlarged.
_PAUSE = 1.0  # Seconds for which the last frame of a scene is shown.
_TEXT, _BACKGROUND = "white", "#1f2937"


class RecordEpisode(gymnasium.Wrapper):
    """Records the first complete episode, from its first to its last state, and no later one.

    Frames are written to the file as they are rendered. Gymnasium's `RecordVideo` keeps them in
    memory until the end of the episode, 14 GB for 20 simultaneous episodes of HalfCheetah, and
    writes frames of odd sizes as 4:4:4 video, which few players show.

    An episode that is reset before its end is discarded and the next one recorded; `close` keeps
    the frames of an unfinished episode.
    """

    def __init__(self, env: Env, path: str | Path, speed: float = 1.0):
        """Initializes the wrapper.

        Args:
          env: Environment made with `render_mode="rgb_array"`.
          path: The mp4 file; written or replaced when the episode has ended.
          speed: Factor on the frame rate in the environment's metadata (30 per second if there is
            none).

        Raises:
          RenderingError: The environment does not render pixels.
        """
        super().__init__(env)
        check_render_mode(env)
        self._path = absolute_path(path)
        self._frame_rate = frame_rate(env) * speed
        self._file: VideoFile | None = None
        self._recorded = False

    def reset(self, *, seed: int | None = None, options: Options | None = None) -> Reset:
        """Resets the environment; starts a recording until an episode was recorded.

        Raises:
          RenderingError: The environment can't be rendered.
          OSError: The video can't be written.
        """
        result = self.env.reset(seed=seed, options=options)
        if not self._recorded:
            if self._file:
                self._file.discard()
            frame = render_frame(self.env)  # uint8 [height, width, 3]
            self._file = VideoFile(self._path, frame.shape, self._frame_rate)
            self._file.write(frame)
        return result

    def step(self, action: NestedArray) -> Step:
        """Steps the environment and records its state until the episode ends.

        Raises:
          RenderingError: The environment can't be rendered.
          OSError: The video can't be written.
        """
        observ, reward, terminated, truncated, info = self.env.step(action)
        if self._file:
            self._file.write(render_frame(self.env))  # uint8 [height, width, 3]
            if terminated or truncated:
                self._finish_recording()
        return observ, reward, terminated, truncated, info

    def close(self) -> None:
        """Completes an unfinished recording and closes the environment."""
        try:
            self._finish_recording()
        finally:
            super().close()

    def _finish_recording(self) -> None:
        file, self._file = self._file, None
        if file:
            self._recorded = True
            file.close()


class RecordFilm(gymnasium.Wrapper):
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
        super().__init__(env)
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
            self._file = VideoFile(self._path, frame.shape, self.frame_rate)
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


def frame_rate(env: Env) -> float:
    """Returns the frames per second in the metadata of an environment, 30 if there are none."""
    return float(env.metadata.get("render_fps") or 30)


class VideoFile:
    """An mp4 file that is written frame by frame: H.264 in 4:2:0, which all players show."""

    def __init__(self, path: Path, shape: tuple[int, ...], frame_rate: float):
        """Starts ffmpeg.

        Args:
          path: The file; it appears when it is complete.
          shape: Shape of a frame, [height, width, 3]; 4:2:0 needs even sizes, so odd ones are padded
            by a black line.
          frame_rate: Frames per second.

        Raises:
          OSError: ffmpeg can't be started.
        """
        self._path, self._shape = path, shape
        self._unfinished = path.with_suffix(".unfinished")
        size = f"{shape[1]}x{shape[0]}"
        source = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-video_size", size]
        source += ["-framerate", str(Fraction(frame_rate).limit_denominator(1000)), "-i", "pipe:"]
        # Many episodes are recorded at once: a fast preset in one thread takes a third of the
        # default's memory.
        codec = ["-c:v", "libx264", "-preset", "veryfast", "-threads", "1", "-pix_fmt", "yuv420p"]
        codec += ["-vf", "pad=ceil(iw/2)*2:ceil(ih/2)*2", "-movflags", "+faststart", "-f", "mp4"]
        command = [get_ffmpeg_exe(), "-y", "-loglevel", "error", *source, *codec]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            [*command, str(self._unfinished)], stdin=pipe, stdout=subprocess.DEVNULL, stderr=pipe
        )

    def write(self, frame: np.ndarray) -> None:
        """Appends a frame, uint8 [height, width, 3].

        Raises:
          ValueError: The frame's shape is not that of the video.
          OSError: The file can't be written.
        """
        if frame.shape != self._shape:
            raise ValueError(f"Expected a frame {list(self._shape)}, got {list(frame.shape)}.")
        try:
            self._process.stdin.write(np.ascontiguousarray(frame).data)  # type: ignore[union-attr]
        except BrokenPipeError:
            self._stop_ffmpeg()
            raise self._write_error() from None

    def close(self) -> None:
        """Completes the file.

        Raises:
          OSError: The file can't be written.
        """
        self._stop_ffmpeg()
        if self._process.returncode:
            raise self._write_error()
        self._unfinished.replace(self._path)

    def discard(self) -> None:
        """Stops ffmpeg and deletes the unfinished file."""
        self._stop_ffmpeg()
        self._unfinished.unlink(missing_ok=True)

    def _stop_ffmpeg(self) -> None:
        if not self._process.stderr.closed:  # type: ignore[union-attr]
            self._messages = self._process.communicate()[1]

    def _write_error(self) -> OSError:
        self._unfinished.unlink(missing_ok=True)
        reason = " ".join(self._messages.decode(errors="replace").split())[-500:]
        return OSError(f"ffmpeg could not write {self._path}: {reason or 'it gave no reason'}")
