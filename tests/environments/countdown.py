"""A toy that renders, and what its videos show."""

import re
import subprocess

import gymnasium
import imageio_ffmpeg
import numpy as np


class Countdown(gymnasium.Env):
    """Ends after `length` steps; the brightness of its frames is ten times the step."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 25}
    observation_space = gymnasium.spaces.Box(-1, 1, [1], np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, length=5, size=(32, 48), render_mode="rgb_array"):
        self.render_mode = render_mode
        self.num_rendered = 0
        self._length, self._size = length, size

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._step = 0
        return np.zeros([1], np.float32), {}

    def step(self, action):
        self._step += 1
        return np.zeros([1], np.float32), 1.0, self._step >= self._length, False, {}

    def render(self):
        self.num_rendered += 1
        return np.full([*self._size, 3], 10 * self._step % 256, np.uint8)


def play(env, episodes=1):
    for _ in range(episodes):
        env.reset()
        done = False
        while not done:
            _, _, terminated, truncated, _ = env.step(0)
            done = terminated or truncated


def read(path):
    """Returns (codec, pixel format, frames per second) and frames uint8 [T, height, width, 3]."""
    ffmpeg = imageio_ffmpeg.get_ffmpeg_exe()
    decode = [
        ffmpeg,
        "-i",
        path,
        "-f",
        "rawvideo",
        "-pix_fmt",
        "rgb24",
        "-fps_mode",
        "passthrough",
        "pipe:",
    ]
    decoded = subprocess.run(decode, check=True, capture_output=True)
    stream = re.search(
        r"Video: (\w+) .*?, (\w+)\(.*?, (\d+)x(\d+)[ ,].*?, ([\d.]+) fps", decoded.stderr.decode()
    )
    width, height = int(stream[3]), int(stream[4])
    frames = np.frombuffer(decoded.stdout, np.uint8).reshape(-1, height, width, 3)
    return (stream[1], stream[2], float(stream[5])), frames
