"""A toy that renders, and what its videos show."""

import re
import subprocess

import imageio_ffmpeg
import numpy as np
from gymnasium import spaces

from tests.toys import CountingEnv


class Countdown(CountingEnv):
    """Ends after `length` steps; the brightness of its frames is ten times the step."""

    def __init__(self, length=5, size=(32, 48), render_mode="rgb_array"):
        super().__init__(
            [(length, "terminated")],
            spaces.Box(-1, 1e6, (1,), np.float32),
            render_mode=render_mode,
            render_size=size,
        )


def play(env, episodes=1):
    for _ in range(episodes):
        env.reset()
        done = False
        while not done:
            _, _, terminated, truncated, _ = env.step(0)
            done = terminated or truncated


def read(path):
    """Returns (codec, pixel format, frames per second) and frames uint8 [T, height, width, 3]."""
    raw = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-fps_mode", "passthrough", "pipe:"]
    command = [imageio_ffmpeg.get_ffmpeg_exe(), "-i", path, *raw]
    decoded = subprocess.run(command, check=True, capture_output=True)
    stream = re.search(
        r"Video: (\w+) .*?, (\w+)\(.*?, (\d+)x(\d+)[ ,].*?, ([\d.]+) fps", decoded.stderr.decode()
    )
    width, height = int(stream[3]), int(stream[4])
    frames = np.frombuffer(decoded.stdout, np.uint8).reshape(-1, height, width, 3)
    return (stream[1], stream[2], float(stream[5])), frames
