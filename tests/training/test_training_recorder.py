import os
import shutil
import struct

import numpy as np
import pytest

from agents.runs.run_directory import RunDirectory
from agents.scripts.train import train
from agents.scripts.visualize import visualize
from agents.settings.config_file import load_config
from agents.training.training_recorder import TrainingRecorder
from agents.vector.batch_env import BatchEnv
from tests.environments.countdown import read
from tests.runs.shown_events import events
from tests.training.learners import TINY, logged, make_random_env

SMALL = {
    **TINY,
    "env_backend": "inline",
    "max_episode_steps": 8,
    "steps": 64,
    "eval_interval": 32,
    "checkpoint_interval": 32,
    "log_interval": 16,
    "histogram_interval": 0,
}
pytestmark = pytest.mark.usefixtures("frame_strips")


def trained(path, **settings):
    run = RunDirectory(path)
    for _ in train(load_config("pendulum", **{**SMALL, **settings}), run):
        pass
    return run


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run of 64 steps with a video every 32."""
    return trained(tmp_path_factory.mktemp("runs") / "run", video_interval=32)


def strips(run):
    """Size in pixels of the frame strips that TensorBoard shows, by step."""
    plugin, images = events(run.eval_events)["eval/episode"]
    assert plugin == "images"
    for _, (width, height, png) in images:
        assert struct.unpack(">II", png[16:24]) == (int(width), int(height))
    return {step: (int(width), int(height)) for step, (width, height, _) in images}


def test_videos_and_strips_are_drawn_at_their_interval(run):
    assert sorted(os.listdir(run.videos)) == ["step-32.mp4", "step-64.mp4"]
    for path in run.videos.iterdir():
        (codec, _, fps), frames = read(path)
        assert (codec, fps, frames.shape) == ("h264", 30, (9, 500, 500, 3))
    assert strips(run) == dict.fromkeys([32, 64], (4 * 160 + 3 * 2, 2 * 160 + 2))


def test_the_video_shows_the_first_episode_of_the_evaluation(run, tmp_path):
    visualize(run, tmp_path, episodes=1)
    _, expected = read(tmp_path / "episode-00.mp4")
    _, frames = read(run.videos / "step-64.mp4")
    np.testing.assert_array_equal(frames, expected)


def test_without_videos_there_is_a_last_strip_and_the_same_training(run, tmp_path):
    other = trained(tmp_path / "run")
    assert list(strips(other)) == [64] and not other.videos.exists()
    assert logged(other) == logged(run)


def test_a_resumed_run_replaces_later_videos_and_strips(run, tmp_path):
    resumed = RunDirectory(tmp_path / "run")
    shutil.copytree(run.path, resumed.path)
    (resumed.checkpoints / "step-64.npz").unlink()
    (resumed.videos / "step-640.mp4").touch()
    (resumed.videos / "step-64.mp4").write_bytes(b"an earlier one")
    hostile = ["mine.mp4", "step-9999999999999999999999.mp4", "step-x.mp4"]
    for name in hostile:
        (resumed.videos / name).touch()
    trained(resumed.path, video_interval=32)
    assert set(os.listdir(resumed.videos)) == {*hostile, "step-32.mp4", "step-64.mp4"}
    content = (resumed.videos / "step-64.mp4").read_bytes()
    assert content == (run.videos / "step-64.mp4").read_bytes()
    assert list(strips(resumed)) == [32, 64]


BROKEN = """
from gymnasium import register
from gymnasium.envs.classic_control import PendulumEnv

class Broken(PendulumEnv):
    def render(self):
        raise RuntimeError("no paint")

register("Undrawable-v0", Broken, max_episode_steps=8)
"""


def test_an_environment_that_fails_to_render_is_one_warning(tmp_path, monkeypatch):
    (tmp_path / "undrawable.py").write_text(BROKEN)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.warns(UserWarning) as issued:
        run = trained(tmp_path / "run", env="undrawable:Undrawable-v0", video_interval=32)
    assert [str(warning.message) for warning in issued] == [
        "no episode is drawn, training continues: "
        "environment 'Undrawable-v0' can't be rendered: RuntimeError: no paint"
    ]
    assert run.checkpoint("last").name == "step-64"
    assert "eval/episode" not in events(run.eval_events)


def test_an_environment_without_pixels_costs_nothing(tmp_path):
    config, run = load_config("pendulum"), RunDirectory(tmp_path)
    blind = BatchEnv([make_random_env()], blocking=True)
    recorder = TrainingRecorder(config, run, blind, 0)
    recorder.record(64, None, None)  # Neither a policy nor a process is made.
    with pytest.warns(UserWarning, match="no videos: Pendulum-v1 does not render pixels"):
        TrainingRecorder(load_config("pendulum", video_interval=32), run, blind, 0)
