"""Videos of episodes. Worker processes import this: it must not import TensorFlow."""

from __future__ import annotations

import subprocess
from fractions import Fraction
from pathlib import Path
from typing import Any, SupportsFloat

import gymnasium
import numpy as np
from gymnasium.utils import RecordConstructorArgs
from imageio_ffmpeg import get_ffmpeg_exe

from agents.runs.rendering import RenderingError, rendering_error


class RecordEpisode(gymnasium.Wrapper, RecordConstructorArgs):
    """Records the first complete episode, from the first to the last state, and nothing after it.

    Frames go to the file as the episode goes on. Gymnasium's `RecordVideo` keeps them in memory until its end, 14 GB
    for 20 episodes of HalfCheetah at once, and writes frames of odd sizes as 4:4:4 video, which few players show.

    An episode that is reset before its end is recorded anew; one that `close` interrupts is kept as far as it came.
    """

    def __init__(self, env: gymnasium.Env, path: str | Path, speed: float = 1.0):
        """Wraps the environment.

        Args:
          env: Environment to wrap, made with `render_mode="rgb_array"`.
          path: The mp4 file; it appears, or is replaced, when the episode has ended.
          speed: Factor on the frame rate that the environment names in its metadata (30 a second if it does not).

        Raises:
          RenderingError: The environment renders no arrays of pixels.
        """
        RecordConstructorArgs.__init__(self, path=str(path), speed=speed)
        gymnasium.Wrapper.__init__(self, env)
        if env.render_mode != "rgb_array":
            raise RenderingError(f"{env} can't be recorded: its render_mode is {env.render_mode}, not rgb_array")
        self._path = Path(path)
        self._frame_rate = float(env.metadata.get("render_fps") or 30) * speed
        self._file: VideoFile | None = None
        self._recorded = False

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Resets the environment; the first time, the recording begins.

        Raises:
          RenderingError: The environment can't be rendered.
          OSError: The video can't be written.
        """
        result = self.env.reset(seed=seed, options=options)
        if not self._recorded:
            self._begin()
        return result

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Steps the environment and records its state, until the episode ends. Raises like `reset`."""
        observ, reward, terminated, truncated, info = self.env.step(action)
        if self._file:
            self._file.write(self._frame())
            if terminated or truncated:
                self._finish()
        return observ, reward, terminated, truncated, info

    def close(self) -> None:
        """Ends a recording that is under way, and closes the environment."""
        try:
            self._finish()
        finally:
            super().close()

    def _begin(self) -> None:
        if self._file:
            self._file.discard()
        frame = self._frame()
        self._file = VideoFile(self._path, frame.shape[0], frame.shape[1], self._frame_rate)
        self._file.write(frame)

    def _finish(self) -> None:
        file, self._file = self._file, None
        if file:
            self._recorded = True
            file.close()

    def _frame(self) -> np.ndarray:
        """The environment as it looks now, uint8 [height, width, 3]."""
        try:
            frame: Any = self.env.render()
        except Exception as error:
            raise rendering_error(self.env.spec.id if self.env.spec else str(self.env), error) from error
        if not isinstance(frame, np.ndarray) or frame.dtype != np.uint8 or frame.ndim != 3 or frame.shape[2] < 3:
            found = f"{frame.dtype} {list(frame.shape)}" if isinstance(frame, np.ndarray) else type(frame).__name__
            raise RenderingError(f"{self.env} can't be recorded: it renders {found}, not uint8 [height, width, 3]")
        return frame[..., :3]


class VideoFile:
    """An mp4 file that is written frame by frame, playable everywhere: H.264 in 4:2:0."""

    def __init__(self, path: Path, height: int, width: int, frame_rate: float):
        """Starts to write.

        Args:
          path: The file, which appears when it is complete.
          height: Pixels; an odd number is made even by a black line, as 4:2:0 needs it.
          width: Likewise.
          frame_rate: Frames a second.

        Raises:
          OSError: ffmpeg can't be started.
        """
        self._path, self._shape = path, (height, width, 3)
        self._unfinished = path.absolute().with_suffix(".unfinished")
        source = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-video_size", f"{width}x{height}"]
        source += ["-framerate", str(Fraction(frame_rate).limit_denominator(1000)), "-i", "pipe:"]
        # Many episodes are recorded at once: a fast preset in one thread takes a third of the usual memory.
        codec = ["-c:v", "libx264", "-preset", "veryfast", "-threads", "1", "-pix_fmt", "yuv420p"]
        codec += ["-vf", "pad=ceil(iw/2)*2:ceil(ih/2)*2", "-movflags", "+faststart", "-f", "mp4"]
        command = [get_ffmpeg_exe(), "-y", "-loglevel", "error", *source, *codec, str(self._unfinished)]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=subprocess.DEVNULL, stderr=pipe)

    def write(self, frame: np.ndarray) -> None:
        """Adds a frame, uint8 [height, width, 3].

        Raises:
          ValueError: Its shape is not that of the video.
          OSError: The file can't be written.
        """
        if frame.shape != self._shape:
            raise ValueError(f"A frame of {list(frame.shape)} in a video of {list(self._shape)}.")
        try:
            self._process.stdin.write(np.ascontiguousarray(frame).data)  # type: ignore[union-attr]
        except BrokenPipeError:
            self._end()
            raise self._failure() from None

    def close(self) -> None:
        """Completes the file. Raises OSError if it can't be written."""
        self._end()
        if self._process.returncode:
            raise self._failure()
        self._unfinished.replace(self._path)

    def discard(self) -> None:
        """Stops without leaving a file."""
        self._end()
        self._unfinished.unlink(missing_ok=True)

    def _end(self) -> None:
        if not self._process.stderr.closed:  # type: ignore[union-attr]
            self._messages = self._process.communicate()[1]

    def _failure(self) -> OSError:
        self._unfinished.unlink(missing_ok=True)
        reason = " ".join(self._messages.decode(errors="replace").split())[-500:]
        return OSError(f"ffmpeg could not write {self._path}: {reason or 'it ended without a word'}")
