import io

import gymnasium
import numpy as np
import pytest
from PIL import Image

from agents.environments.frame_strip import FRAMES, HEIGHT, FrameStrip
from agents.environments.rendering import RenderingError
from tests.environments.countdown import Countdown, play


class Grayscale(Countdown):
    """Frames whose brightness is the share of the episode that is over."""

    def render(self):
        share = self.steps / self._episodes[0][0]
        return np.full_like(super().render(), round(255 * share))


def shown(env):
    """Brightness of each frame of a strip."""
    image = np.asarray(Image.open(io.BytesIO(env.strip())))  # [rows * 160 + gaps, ...]
    assert image.dtype == np.uint8
    brightness = []
    for top in range(0, len(image), HEIGHT + 2):
        row = image[top : top + HEIGHT]
        assert len(row) == HEIGHT
        is_gap = (row == 128).all(axis=(0, 2))  # Of the columns.
        starts = np.flatnonzero(~is_gap & np.append(True, is_gap[:-1]))
        brightness += [int(row[0, start, 0]) for start in starts]
    return brightness


@pytest.mark.parametrize("length", [7, 16, 1000])
def test_frames_are_spread_over_the_episode_and_few_are_drawn(length):
    env = FrameStrip(Grayscale(length))
    play(env, episodes=2)
    frames = shown(env)
    assert len(frames) == FRAMES and frames[0] == 0 and frames[-1] == 255
    np.testing.assert_allclose(np.diff(frames), 255 / 7, atol=30)
    assert env.unwrapped.num_rendered <= min(length + 1, 80)


def test_short_and_unfinished_episodes_are_shown_and_pixels_are_needed():
    env = FrameStrip(Grayscale(length=3))
    play(env)
    assert shown(env) == [0, 85, 170, 255]
    env = FrameStrip(Grayscale(length=100))
    with pytest.raises(ValueError, match="before the first reset"):
        env.strip()
    env.reset()
    for _ in range(50):
        env.step(0)
    frames = shown(env)
    assert len(frames) == FRAMES and frames[0] == 0 and 110 < frames[-1] < 128
    with pytest.raises(RenderingError, match="render_mode is None"):
        FrameStrip(gymnasium.make("CartPole-v1"))
