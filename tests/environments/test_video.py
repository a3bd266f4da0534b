import os

import numpy as np
import pytest

from agents.environments.rendering import RenderingError
from agents.environments.video import RecordEpisode, RecordFilm, caption_frame
from tests.environments.countdown import Countdown, play, read


def test_the_first_episode_is_recorded_from_first_to_last_state(tmp_path):
    env = RecordEpisode(Countdown(length=5), tmp_path / "video.mp4")
    env.reset()
    env.step(0)
    play(env)  # The reset before the end discards what was recorded.
    assert (tmp_path / "video.mp4").exists()
    play(env, episodes=2)
    env.close()
    properties, frames = read(tmp_path / "video.mp4")
    assert properties == ("h264", "yuv420p", 25)
    assert frames.shape == (6, 32, 48, 3)
    np.testing.assert_allclose(frames.mean(axis=(1, 2, 3)), [0, 10, 20, 30, 40, 50], atol=4)
    assert env.unwrapped.num_rendered == 2 + 6
    assert os.listdir(tmp_path) == ["video.mp4"]


def test_close_keeps_the_recorded_frames(tmp_path):
    RecordEpisode(Countdown(), tmp_path / "video.mp4").close()
    assert not os.listdir(tmp_path)
    env = RecordEpisode(Countdown(length=100), tmp_path / "video.mp4")
    env.reset()
    env.step(0)
    assert not (tmp_path / "video.mp4").exists()
    env.close()
    env.close()
    assert len(read(tmp_path / "video.mp4")[1]) == 2


@pytest.mark.parametrize(
    ("size", "even", "speed", "fps"),
    [((33, 48), (34, 48), 0.5, 12.5), ((32, 47), (32, 48), 1 / 3, 8.33)],
)
def test_odd_sizes_are_padded_and_speed_is_a_frame_rate(tmp_path, size, even, speed, fps):
    env = RecordEpisode(Countdown(length=10, size=size), tmp_path / "video.mp4", speed)
    play(env)
    env.close()
    (_, _, found), frames = read(tmp_path / "video.mp4")
    assert found == fps
    assert frames.shape == (11, *even, 3)
    np.testing.assert_allclose(frames[-1, :24, :40], 100, atol=4)  # Compression blurs the edge.


def test_frames_are_not_kept_in_memory(tmp_path):
    env = RecordEpisode(Countdown(length=10**6, size=(500, 500)), tmp_path / "video.mp4")
    env.reset()
    before = resident_bytes()
    for _ in range(300):  # 225 MB of pixels.
        env.step(0)
    assert resident_bytes() - before < 50e6
    env.close()


def resident_bytes():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_views_of_arrays_and_an_alpha_channel(tmp_path):
    class Flipped(Countdown):
        def render(self):
            frame = np.zeros([32, 48, 4], np.uint8)
            frame[:8, :, 0] = 200
            return frame[::-1]

    env = RecordEpisode(Flipped(), tmp_path / "video.mp4")
    play(env)
    env.close()
    frame = read(tmp_path / "video.mp4")[1][0]
    assert frame[28, 20, 0] > 180 and frame[4, 20, 0] < 20 and frame[28, 20, 2] < 20


def test_environments_that_render_no_pixels_raise(tmp_path):
    path = tmp_path / "video.mp4"
    for mode in (None, "human", "rgb_array_list"):
        with pytest.raises(RenderingError, match=f"render_mode is {mode}, not rgb_array"):
            RecordEpisode(Countdown(render_mode=mode), path)
    images = None, np.zeros([8, 8], np.uint8), np.zeros([8, 8, 3], np.float32), "text"
    for image in images:
        env = Countdown()
        env.render = lambda image=image: image
        with pytest.raises(RenderingError, match=r"it renders .*, not uint8 \[height, width, 3\]"):
            RecordEpisode(env, path).reset()
    env.render = lambda: 1 / 0
    with pytest.raises(RenderingError, match="can't be rendered: ZeroDivisionError: division by"):
        RecordEpisode(env, path).reset()


def test_frames_of_another_size_raise(tmp_path):
    env = RecordEpisode(Countdown(), tmp_path / "video.mp4")
    env.reset()
    env.unwrapped._render_size = (64, 48)
    with pytest.raises(ValueError, match=r"Expected a frame \[32, 48, 3\], got \[64, 48, 3\]"):
        env.step(0)
    env.close()


def test_a_missing_folder_raises(tmp_path):
    env = RecordEpisode(Countdown(length=200, size=(400, 400)), tmp_path / "gone" / "video.mp4")
    with pytest.raises(OSError, match="ffmpeg could not write .*gone/video.mp4: .*No such file"):
        play(env)
    with pytest.raises(OSError, match="ffmpeg could not write"):
        env.close()


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


def test_a_scene_can_end_before_its_episode_and_nothing_else_is_drawn(tmp_path):
    env = RecordFilm(Countdown(length=100), tmp_path / "film.mp4")
    play(env)
    env.end_scene()
    assert env.unwrapped.num_rendered == 0
    env.begin_scene("")
    env.reset()
    env.step(0)
    env.end_scene()
    env.step(0)
    env.close()
    assert len(read(tmp_path / "film.mp4")[1]) == 2 + 25


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
