import os
import subprocess
import sys

import numpy as np
import pytest

from agents.environments.rendering import RenderingError
from agents.environments.video import RecordEpisode, RecordFilm, VideoFile, caption_frame
from tests.environments.countdown import Countdown, play, read


def test_all_states_from_first_to_last_are_recorded(tmp_path):
    env = RecordEpisode(Countdown(length=5), tmp_path / "video.mp4")
    play(env)
    properties, frames = read(tmp_path / "video.mp4")
    assert properties == ("h264", "yuv420p", 25)
    assert frames.shape == (6, 32, 48, 3)
    np.testing.assert_allclose(frames.mean(axis=(1, 2, 3)), [0, 10, 20, 30, 40, 50], atol=4)
    env.close()


def test_only_the_first_episode_is_recorded_and_rendered(tmp_path):
    env = RecordEpisode(Countdown(length=4), tmp_path / "video.mp4")
    play(env, episodes=3)
    env.close()
    assert env.unwrapped.num_rendered == 5
    assert len(read(tmp_path / "video.mp4")[1]) == 5
    assert os.listdir(tmp_path) == ["video.mp4"]


def test_the_file_appears_when_the_episode_has_ended(tmp_path):
    env = RecordEpisode(Countdown(length=2), tmp_path / "video.mp4")
    env.reset()
    env.step(0)
    assert not (tmp_path / "video.mp4").exists()
    env.step(0)
    assert (tmp_path / "video.mp4").exists()
    env.close()


def test_a_reset_before_the_end_restarts_the_recording(tmp_path):
    env = RecordEpisode(Countdown(length=3), tmp_path / "video.mp4")
    env.reset()
    env.step(0)
    play(env)
    env.close()
    assert len(read(tmp_path / "video.mp4")[1]) == 4
    assert os.listdir(tmp_path) == ["video.mp4"]


def test_close_keeps_the_recorded_frames(tmp_path):
    env = RecordEpisode(Countdown(length=100), tmp_path / "video.mp4")
    env.reset()
    env.step(0)
    env.close()
    env.close()
    assert len(read(tmp_path / "video.mp4")[1]) == 2


def test_nothing_is_written_without_an_episode(tmp_path):
    RecordEpisode(Countdown(), tmp_path / "video.mp4").close()
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize(
    "size, even", [((33, 48), (34, 48)), ((32, 47), (32, 48)), ((35, 51), (36, 52))]
)
def test_odd_sizes_are_padded(tmp_path, size, even):
    env = RecordEpisode(Countdown(length=10, size=size), tmp_path / "video.mp4")
    play(env)
    env.close()
    _, frames = read(tmp_path / "video.mp4")
    assert frames.shape == (11, *even, 3)
    np.testing.assert_allclose(frames[-1, :24, :40], 100, atol=4)  # Compression blurs the edge.


@pytest.mark.parametrize("speed, fps", [(1.0, 25), (0.5, 12.5), (1 / 3, 8.33)])
def test_speed(tmp_path, speed, fps):
    env = RecordEpisode(Countdown(), tmp_path / "video.mp4", speed=speed)
    play(env)
    env.close()
    (_, _, found), frames = read(tmp_path / "video.mp4")
    assert found == fps
    assert len(frames) == 6


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


@pytest.mark.parametrize("mode", [None, "human", "rgb_array_list"])
def test_another_render_mode_raises(tmp_path, mode):
    with pytest.raises(RenderingError, match=f"render_mode is {mode}, not rgb_array"):
        RecordEpisode(Countdown(render_mode=mode), tmp_path / "video.mp4")


@pytest.mark.parametrize(
    "frame", [None, np.zeros([8, 8], np.uint8), np.zeros([8, 8, 3], np.float32), "text"]
)
def test_frames_that_are_no_images_raise(tmp_path, frame):
    env = Countdown()
    env.render = lambda: frame
    with pytest.raises(
        RenderingError, match=r"can't be recorded: it renders .*, not uint8 \[height, width, 3\]"
    ):
        RecordEpisode(env, tmp_path / "video.mp4").reset()


def test_rendering_errors_are_translated(tmp_path):
    env = Countdown()
    env.render = lambda: 1 / 0
    with pytest.raises(
        RenderingError, match="can't be rendered: ZeroDivisionError: division by zero"
    ):
        RecordEpisode(env, tmp_path / "video.mp4").reset()


def test_frames_of_another_size_raise(tmp_path):
    env = RecordEpisode(Countdown(), tmp_path / "video.mp4")
    env.reset()
    env.unwrapped._size = (64, 48)
    with pytest.raises(ValueError, match=r"\[64, 48, 3\] in a video of \[32, 48, 3\]"):
        env.step(0)
    env.close()


def test_a_missing_folder_raises(tmp_path):
    env = RecordEpisode(Countdown(length=200, size=(400, 400)), tmp_path / "gone" / "video.mp4")
    with pytest.raises(OSError, match="ffmpeg could not write .*gone/video.mp4: .*No such file"):
        play(env)
    with pytest.raises(OSError, match="ffmpeg could not write"):
        env.close()


def test_a_discarded_video_leaves_nothing(tmp_path):
    video = VideoFile(tmp_path / "video.mp4", 32, 48, 30.0)
    video.write(np.zeros([32, 48, 3], np.uint8))
    video.discard()
    assert not os.listdir(tmp_path)


def test_module_does_not_import_tensorflow():
    code = "import sys, agents.environments.video; assert 'tensorflow' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


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
