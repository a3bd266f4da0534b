import contextlib
import ctypes.util
import io
import json
import os
import re
import shutil
import subprocess
import sys
from urllib.parse import unquote

import gymnasium
import imageio_ffmpeg
import numpy as np
import pytest

from agents.deployment.scores import in_words
from agents.errors import UsageError
from agents.runs.checkpoint_files import find_files, write
from agents.runs.metrics_file import read_metrics
from agents.runs.run_directory import RunDirectory
from agents.scripts.train import train
from agents.scripts.visualize import main, visualize
from agents.settings import reports
from agents.settings.config_file import load_config

SMALL = {
    "steps": 3000, "num_envs": 4, "rollout_length": 250, "eval_episodes": 3, "eval_interval": 1000,
    "checkpoint_interval": 2000,
}  # fmt: skip


def read(path):
    """Codec, pixel format and frames per second; and frames, uint8 [N, height, width, 3]."""
    decode = [imageio_ffmpeg.get_ffmpeg_exe(), "-i", path, "-f", "rawvideo", "-pix_fmt", "rgb24"]
    decoded = subprocess.run(
        [*decode, "-fps_mode", "passthrough", "pipe:"], check=True, capture_output=True
    )
    stream = re.search(
        r"Video: (\w+) .*?, (\w+)\(.*?, (\d+)x(\d+)[ ,].*?, ([\d.]+) fps", decoded.stderr.decode()
    )
    frames = np.frombuffer(decoded.stdout, np.uint8).reshape(-1, int(stream[4]), int(stream[3]), 3)
    return (stream[1], stream[2], float(stream[5])), frames


def trained(folder, preset="pendulum", **settings):
    run = RunDirectory(folder)
    config = load_config(preset, **{**SMALL, **settings})
    for _ in train(config, run):
        pass
    return run


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Checkpoints at steps 2000 and 3000, evaluations at 1000, 2000 and 3000."""
    return trained(
        tmp_path_factory.mktemp("log") / "20260131T120000-pendulum",
        max_episode_steps=40,
        average_decay=0.5,
    )


@pytest.fixture(scope="module")
def cartpole(tmp_path_factory):
    """A run of environments in TensorFlow."""
    settings = {"env_backend": "tf", "steps": 1000, "minibatch_size": 50}
    return trained(tmp_path_factory.mktemp("log") / "run", "cartpole", **settings)


@pytest.fixture
def eager():
    """Compiles nothing, where scores are not those of the run, bit for bit."""
    import tensorflow as tf

    tf.config.run_functions_eagerly(True)
    yield
    tf.config.run_functions_eagerly(False)


def logged(run, step):
    row = next(
        row
        for row in read_metrics(run.metrics_file)
        if row["step"] == step and "eval/return_mean" in row
    )
    return {name: row[f"eval/{name}"] for name in ("return_mean", "return_std", "length_mean")}


@pytest.fixture(scope="module")
def shown(run, tmp_path_factory):
    """Folder, report, and printed lines of the command."""
    folder, printed = tmp_path_factory.mktemp("videos"), io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        main([f"--logdir={run.path}", f"--outdir={folder}"])
    report = json.loads((folder / "scores.json").read_text())
    return folder, report, printed.getvalue().splitlines()


def test_the_command_compares_the_score_with_the_logged_evaluation(run, shown):
    folder, report, printed = shown
    score = logged(run, 3000)
    assert {name: report[name] for name in score} == score == report["logged"]
    assert printed == [
        f"Recording 3 episodes of {run.path}",
        f"Wrote 3 videos, scores.json and curves.png to {folder}",
        f"Return at step 3,000: {score['return_mean']:.1f} +- {score['return_std']:.1f}; "
        "equal to the run's evaluation at this step",
    ]
    other = in_words({**report, "logged": {**score, "return_std": 1e9}})
    assert "the run's evaluation at this step gave" in other


def test_each_episode_has_a_complete_video(shown):
    folder, report, _ = shown
    videos = [f"episode-0{index}.mp4" for index in range(3)]
    assert [episode["video"] for episode in report["episodes"]] == videos
    assert sorted(os.listdir(folder)) == ["curves.png", *videos, "scores.json"]
    for episode in report["episodes"]:
        (codec, pixels, fps), frames = read(folder / episode["video"])
        assert (codec, pixels, fps) == ("h264", "yuv420p", 30)
        assert frames.shape == (episode["length"] + 1, 500, 500, 3)
        assert frames[0].std() > 5 and (frames[0] != frames[-1]).any()


def test_scores_of_other_checkpoints(run, tmp_path):
    report = visualize(run, tmp_path, checkpoint="2000")
    assert report["checkpoint_step"] == 2000 and report["logged"] == logged(run, 2000)
    report = visualize(run, tmp_path, checkpoint="best")
    scores = {step: logged(run, step)["return_mean"] for step in (1000, 2000, 3000)}
    assert report["checkpoint_step"] == max(scores, key=scores.get)
    assert report["return_mean"] == max(scores.values())
    report = visualize(run, tmp_path, checkpoint="averaged")
    [*_, row] = [row for row in read_metrics(run.metrics_file) if "eval/return_mean" in row]
    assert report["checkpoint_step"] == row["step"]
    assert report["return_mean"] == row["eval/averaged_return_mean"] != row["eval/return_mean"]
    assert report["logged"]["return_std"] == row["eval/averaged_return_std"]


def test_by_default_it_writes_into_the_folder_of_the_run(run, capsys):
    main([f"--logdir={run.path.parent}/latest", "--episodes=1"])
    names = {path.name for path in run.videos.iterdir()}
    assert names == {"episode-00.mp4", "scores.json", "curves.png"}
    printed = capsys.readouterr().out
    assert printed.startswith("Wrote 1 video, scores.json and curves.png to ")
    assert "the run's evaluation of 3 episodes at this step gave" in printed


@pytest.mark.usefixtures("eager")
def test_a_run_in_envpool_is_drawn_in_gymnasiums_environment(run, tmp_path):
    pytest.importorskip("envpool")
    pool = copied(run, tmp_path / "logs" / "run", env_backend="envpool")
    report = visualize(pool, tmp_path / "videos")
    assert report["logged"] is None  # Gymnasium's environments start other episodes.
    assert len(read(tmp_path / "videos" / "episode-00.mp4")[1]) == 41


@pytest.mark.usefixtures("eager")
def test_a_run_in_tensorflow_is_drawn_in_gymnasiums_environment(cartpole, tmp_path):
    report = visualize(cartpole, tmp_path, episodes=3)
    assert report["logged"] is None  # Gymnasium's environments start other episodes.
    assert len({episode["length"] for episode in report["episodes"]}) > 1
    for episode in report["episodes"]:
        (_, _, fps), frames = read(tmp_path / episode["video"])
        assert frames.shape == (episode["length"] + 1, 400, 600, 3)
        assert fps == 50


def test_an_environment_in_tensorflow_only_has_the_scores_of_its_evaluation(
    cartpole, tmp_path, monkeypatch
):
    monkeypatch.delitem(gymnasium.registry, "CartPole-v1")
    with pytest.warns(UserWarning, match="'tf' is rendered in Gymnasium's environment"):
        report = visualize(cartpole, tmp_path / "out")
    assert report["logged"] == {name: report[name] for name in report["logged"]}
    assert sorted(os.listdir(tmp_path / "out")) == ["curves.png", "scores.json"]


@pytest.mark.usefixtures("eager")
def test_arguments_of_the_environment_can_be_replaced(run, tmp_path):
    report = visualize(run, tmp_path, episodes=3, env_kwargs={"g": 0.0})
    assert report["logged"] is None
    assert report["return_mean"] != logged(run, 3000)["return_mean"]


def test_a_film_shows_the_policy_before_training_and_at_each_checkpoint(run, tmp_path, capsys):
    main([f"--logdir={run.path}", f"--outdir={tmp_path}", "--episodes=1", "--film"])
    assert "Wrote 1 video, film.mp4, scores.json and curves.png to" in capsys.readouterr().out
    (_, _, fps), frames = read(tmp_path / "film.mp4")
    scenes = frames.reshape(3, 41 + 30, 544, 500, 3)  # Steps 0, 2000, 3000; a pause of a second.
    assert fps == 30
    for scene in scenes:
        pixels = scene.astype(float)
        assert abs(pixels[0, 50:] - scenes[0, 0, 50:]).mean() < 1  # The same start.
        assert abs(pixels[0, :44] - pixels[40, :44]).max() > 100  # The return.
    assert abs(scenes[0, 40, 50:].astype(float) - scenes[2, 40, 50:]).mean() > 1


@pytest.mark.usefixtures("eager")
def test_number_of_episodes(run, shown, tmp_path):
    (tmp_path / "episode-07.mp4").write_bytes(b"of an earlier call")
    for name in ("mine.mp4", "episode-finale.mp4", "film-2.mp4"):
        (tmp_path / name).write_bytes(b"something else")
    few = visualize(run, tmp_path, episodes=2)
    assert few["logged"] == logged(run, 3000) and few["logged_episodes"] == 3
    videos = {path.name for path in tmp_path.glob("*.mp4")}
    mine = {"mine.mp4", "episode-finale.mp4", "film-2.mp4"}
    assert videos == {"episode-00.mp4", "episode-01.mp4", *mine}
    for one, other in zip(few["episodes"], shown[1]["episodes"][:2], strict=True):
        assert one["seed"] == other["seed"]
        np.testing.assert_allclose(one["return"], other["return"], rtol=1e-3)


def test_scores_without_videos(run, tmp_path):
    (tmp_path / "episode-00.mp4").write_bytes(b"of an earlier call")
    report = visualize(run, tmp_path, videos=False)
    assert report["logged"] == logged(run, 3000)
    assert {episode["video"] for episode in report["episodes"]} == {None}
    assert sorted(os.listdir(tmp_path)) == ["curves.png", "episode-00.mp4", "scores.json"]


def test_episodes_of_another_seed(run, tmp_path):
    one, other, again = (visualize(run, tmp_path, videos=False, seed=seed) for seed in (0, 1, 1))
    assert one["logged"] == logged(run, 3000) and other["logged"] is None
    assert "new episodes: the run has no evaluation of them at this step" in in_words(other)
    more = visualize(run, tmp_path, videos=False, episodes=4)
    assert more["logged"] is None  # The run has evaluated three of them.
    assert other == again and other["return_mean"] != one["return_mean"]
    first, second = ({episode["seed"] for episode in each["episodes"]} for each in (one, other))
    assert not first & second


@pytest.mark.usefixtures("eager")
def test_videos_of_repeated_actions_have_the_speed_of_the_environment(run, tmp_path):
    repeating = copied(run, tmp_path / "logs" / "run", action_repeat=3)
    report = visualize(repeating, tmp_path / "out", episodes=1)
    (_, _, fps), frames = read(tmp_path / "out" / "episode-00.mp4")
    assert fps == 10
    assert len(frames) == report["episodes"][0]["length"] + 1


@pytest.fixture
def errors(monkeypatch, capsys, tmp_path):
    """Returns the error lines of the command, which must not import TensorFlow."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "tensorflow", None)
    for name in ("DISPLAY", "MUJOCO_GL"):
        monkeypatch.delenv(name, raising=False)

    def errors(arguments):
        with pytest.raises(SystemExit) as caught:
            reports.run(main, arguments)
        printed = capsys.readouterr()
        assert caught.value.code == 2 and printed.out == "", printed
        assert printed.err.startswith("error: ") and len(printed.err.splitlines()) <= 3
        return printed.err

    return errors


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--outdir=out"], "--logdir is required: Folder of the run"),
        (["--logdir={run}/latest", "--outdir=out"], "latest: there are no runs in "),
        (["--logdir={log}", "--outdir=out"], "is not a run.*did you mean .*-pendulum"),
        (["--logdir=nowhere", "--outdir=out"], "is not a folder"),
        (["--logdir={empty}", "--outdir=none"], "no checkpoint yet"),
        (["--logdir={run}", "--outdir=out", "--checkpoint=7"], "--checkpoint=7: .* it has best, last, .*2000, 3000"),
        (["--logdir={run}", "--outdir=out", "--checkpoint=firstt"], "--checkpoint=firstt: .* no such checkpoint"),
        (["--logdir={run}", "--outdir=out", "--episodes=0"], "--episodes: expected an integer.*, got '?0"),
        (["--logdir={run}", "--outdir=file"], "--outdir=.*file: .*file is not a folder"),
        (["--logdir={run}", "--outdir=file/out"], "is not a folder"),
        (["--logdir={run}", "--outdir=/proc/out"], "--outdir=/proc/out: "),
        (["--logdir={run}", "--outdir=out", "--camera=side"], "'Pendulum-v1' has no cameras"),
        (["--logdir={run}", "--outdir=out", '--env-kwargs={{"h":1}}'], "does not take them: .*'h'"),
        (["--logdir={run}", "--outdir=out", '--env-kwargs={{"render_mode":"human"}}'], "leave it out"),
        (["--logdir={run}", "--outdir=out", "--seed=-1"], "--seed: .* got '?-1"),
        (["--logdir={run}", "--outdir=out", "--videos=false", "--film"], "expected no --film"),
    ],
)  # fmt: skip
def test_invalid_arguments_end_with_a_message(run, errors, tmp_path, arguments, message):
    (tmp_path / "file").write_text("")
    (tmp_path / "out").mkdir()
    earlier = tmp_path / "out" / "episode-00.mp4"
    earlier.write_text("a video of the call before")
    RunDirectory(tmp_path / "empty").prepare(load_config("pendulum"))
    paths = {"run": run.path, "log": run.path.parent, "empty": tmp_path / "empty"}
    text = errors([argument.format(**paths) for argument in arguments])
    assert re.search(message, text), text
    assert earlier.exists() and not (tmp_path / "none").exists()


MODULE = """
import gymnasium
import numpy as np
from gymnasium.envs.classic_control import PendulumEnv

class Sized(gymnasium.Env):
    metadata = {"render_modes": ["rgb_array"]}
    action_space = gymnasium.spaces.Box(-2, 2, [1])
    def __init__(self, size=3, high=1, render_mode=None):
        self.render_mode = render_mode
        self.observation_space = gymnasium.spaces.Box(-1, high, [size])
    def reset(self, seed=None, options=None):
        return self.observation_space.low, {}
    def step(self, action):
        return self.observation_space.low, 1.0, True, False, {}
    def render(self):
        return np.zeros([16, 16, 3], np.uint8)

class Broken(Sized):
    def render(self):
        raise RuntimeError("no paint")

class Blind(Broken):
    metadata = {"render_modes": ["ansi"]}

class Failing(PendulumEnv):
    def step(self, action):
        return {}["torque"]

for kind in (Sized, Broken, Blind, Failing):
    gymnasium.register(f"{kind.__name__}-v0", kind, max_episode_steps=50)
"""


@pytest.fixture
def made(run, tmp_path, monkeypatch):
    """Makes a run in an environment of a module."""
    (tmp_path / "drawn.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    return lambda name: copied(run, tmp_path / "logs" / "run", env=f"drawn:{name}-v0")


@pytest.mark.usefixtures("eager")
def test_arguments_must_leave_the_spaces_as_the_policy_knows_them(tmp_path, made):
    sized = made("Sized")
    with pytest.raises(
        UsageError, match=r"--env-kwargs: .* observations of Box.*\(3,\)(?s:.*)\(4,\)"
    ):
        visualize(sized, tmp_path / "out", episodes=1, env_kwargs={"size": 4})
    report = visualize(sized, tmp_path / "out", episodes=1, env_kwargs={"high": 2})
    assert report["return_mean"] == 1.0


@pytest.mark.usefixtures("eager")
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("Blind", "it has no render mode rgb_array (only ansi)"),
        ("Broken", "environment 'Broken-v0' can't be rendered: RuntimeError: no paint"),
    ],
)
def test_an_environment_that_cannot_be_drawn_has_scores_and_curves(
    tmp_path, made, capfd, name, reason
):
    out = tmp_path / "out"
    out.mkdir()
    (out / "film.mp4").write_bytes(b"of an earlier call")
    run = made(name)
    reports.run(main, [f"--logdir={run.path}", f"--outdir={out}", "--episodes=2", "--film"])
    printed = capfd.readouterr()
    assert printed.out.startswith(f"Wrote scores.json and curves.png to {out}\n")
    *_, line = printed.err.splitlines()
    assert line.startswith("warning: no videos, but scores and curves: ") and line.endswith(reason)
    assert sorted(os.listdir(out)) == ["curves.png", "scores.json"]
    report = json.loads((out / "scores.json").read_text())
    assert report["return_mean"] == 1.0 and report["length_mean"] == 1
    assert [episode["video"] for episode in report["episodes"]] == [None, None]


@pytest.mark.usefixtures("eager")
def test_a_failing_environment_ends_with_a_short_message(tmp_path, made, capsys):
    with pytest.raises(SystemExit) as exit:
        reports.run(main, [f"--logdir={made('Failing').path}", f"--outdir={tmp_path / 'out'}"])
    first, *lines = capsys.readouterr().err.splitlines()
    assert exit.value.code == 1 and len(lines) <= 11 and first.startswith("Recording ")
    assert lines[0].startswith("error: An environment's step raised KeyError: 'torque' (")
    assert lines[-1].strip() == 'return {}["torque"]'


def copied(run, path, **settings):
    """The same variables with another configuration, which its checkpoints do not record."""
    shutil.copytree(run.path, path)
    copy = RunDirectory(path)
    copy.prepare(run.load_config(**settings))
    shutil.rmtree(copy.checkpoints)
    for file in reversed(find_files(run.checkpoints)):
        with np.load(file.path) as arrays:
            names = [name for name in arrays.files if not name.startswith("@")]
            values = {unquote(name): arrays[name] for name in names}
        record = {"spaces": run.record("spaces")}
        write(copy.checkpoints, file.step, values, file.is_best, record)
    return copy


@pytest.mark.skipif(
    ctypes.util.find_library("OSMesa") is None,
    reason="needs libosmesa6, as a machine without a display",
)
def test_mujoco(tmp_path):
    settings = {"rollout_length": 50, "minibatch_size": 50, "steps": 200, "epochs": 1}
    run = trained(tmp_path / "run", "cheetah", max_episode_steps=20, eval_interval=200, **settings)
    report = visualize(run, tmp_path / "out", camera="track")
    assert report["logged"] == {name: report[name] for name in report["logged"]}
    frames = read(tmp_path / "out" / "episode-02.mp4")[1]
    assert frames.shape == (21, 480, 480, 3)
    assert frames[0].std() > 20
