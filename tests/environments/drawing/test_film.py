import os

import numpy as np

from agents.environments.drawing.film import RecordFilm, caption_frame
from tests.environments.countdown import Countdown, play, read


def test_scenes_follow_each_other_with_a_pause(tmp_path):
    env = RecordFilm(Countdown(length=5), tmp_path / "film.mp4", speed=0.4)
    assert env.frame_rate == 10
    for caption in ("before training", "step 1,000"):
        env.begin_scene(caption)
        play(env, episodes=2)  # The second one is not part of the scene.
        env.end_scene()
    env.close()
    (codec, _, frame_rate), frames = read(tmp_path / "film.mp4")
    assert (codec, frame_rate) == ("h264", 10)
    brightness = frames[:, -50:, :].mean(axis=(1, 2, 3))
    scene = [0, 10, 20, 30, 40, 50] + 10 * [50]  # A second of the last frame.
    np.testing.assert_allclose(brightness, 2 * scene, atol=4)
    assert os.listdir(tmp_path) == ["film.mp4"]


def test_a_scene_can_end_before_its_episode(tmp_path):
    env = RecordFilm(Countdown(length=100), tmp_path / "film.mp4")
    env.begin_scene("")
    env.reset()
    env.step(0)
    env.end_scene()
    env.step(0)
    env.close()
    assert len(read(tmp_path / "film.mp4")[1]) == 2 + 25


def test_nothing_is_drawn_outside_of_scenes(tmp_path):
    env = RecordFilm(Countdown(), tmp_path / "film.mp4")
    play(env)
    env.end_scene()
    env.close()
    assert env.unwrapped.num_rendered == 0 and not os.listdir(tmp_path)


def test_captions_stand_above_the_frame_and_fit_small_ones():
    frame = np.full([48, 64, 3], 200, np.uint8)
    first, second = (
        caption_frame(frame, "step 10,000,000", f"return {score}") for score in ("-1,234.5", "9.0")
    )
    assert first.shape[1] == 320 and (first[-240:] == 200).all()
    line, other = first[:-240].astype(int), second[:-240].astype(int)
    assert line.max() == 255  # White text.
    assert (line[:, :160] == other[:, :160]).all()  # The step, on the left.
    assert (line[:, 160:] != other[:, 160:]).any()
    text = np.flatnonzero((line > 200).all(axis=2).any(axis=0))
    assert text.min() > 2 and text.max() < 317
    assert np.diff(text).max() > 20  # Between step and return.
