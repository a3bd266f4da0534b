import os
from types import SimpleNamespace

import gymnasium
import pytest
from gymnasium.envs.registration import EnvSpec

from agents.environments.registration import find_spec, make_env
from agents.environments.rendering import (
    RenderingError,
    check_rendering,
    choose_camera,
    reduce_render_quality,
    rendering_error,
    rendering_without_display,
)
from agents.errors import UsageError


def test_environments_that_do_not_render_pixels_raise():
    class Blind(gymnasium.Env):
        metadata = {"render_modes": ["ansi"]}

    spec = EnvSpec("Blind-v0", entry_point=Blind)
    with pytest.raises(
        RenderingError, match=r"'Blind-v0' .* no render mode rgb_array \(only ansi\)"
    ):
        make_env(spec, {"render_mode": "rgb_array"})
    Blind.metadata = {}
    with pytest.raises(RenderingError, match="no rendering at all"):
        check_rendering(spec)


def test_environments_that_render_pixels_pass_and_others_raise():
    check_rendering(gymnasium.spec("Pendulum-v1"))
    # Only the environments that it makes have metadata.
    check_rendering(EnvSpec("Function-v0", entry_point=lambda: None))
    spec = EnvSpec("Lost-v0", entry_point="agents.no_such_module:Env")
    with pytest.raises(RenderingError, match="'Lost-v0' can't be rendered: ModuleNotFoundError"):
        check_rendering(spec)


def test_errors_of_mujoco_name_a_missing_library_or_the_backend(monkeypatch):
    monkeypatch.setenv("MUJOCO_GL", "osmesa")
    monkeypatch.setattr("ctypes.util.find_library", lambda name: None)
    error = rendering_error("HalfCheetah-v5", raised_in("mujoco/osmesa/__init__.py"))
    assert "apt-get install libosmesa6" in str(error)
    assert len(str(error).splitlines()) == 2
    assert "libosmesa6" not in str(rendering_error("Pendulum-v1", raised_in("pygame/draw.py")))
    monkeypatch.setenv("MUJOCO_GL", "egl")
    error = rendering_error("HalfCheetah-v5", raised_in("mujoco/egl/__init__.py"))
    assert (
        str(error)
        == "environment 'HalfCheetah-v5' can't be rendered: AttributeError: glGetError (MUJOCO_GL=egl)"
    )


def raised_in(filename):
    """Returns an exception that was raised in a file of this name."""
    try:
        exec(compile("raise AttributeError('glGetError')", filename, "exec"))
    except AttributeError as error:
        return error


@pytest.mark.parametrize(
    "given, expected",
    [
        ({}, "osmesa"),
        ({"DISPLAY": ":0"}, None),
        ({"MUJOCO_GL": "egl"}, "egl"),
        ({"DISPLAY": ""}, "osmesa"),
    ],
)
def test_backends_without_a_display(monkeypatch, given, expected):
    monkeypatch.setattr("os.environ", dict(given))
    monkeypatch.setattr("sys.platform", "linux")
    with rendering_without_display():
        assert os.environ.get("MUJOCO_GL") == expected
        assert os.environ["SDL_VIDEODRIVER"] == "dummy"
    assert os.environ == given


@pytest.mark.parametrize(
    ("backend", "expected"), [("osmesa", (1024, 0)), ("egl", (4096, 4)), (None, (4096, 4))]
)
@pytest.mark.parametrize("suite", [False, True])
def test_only_software_rendering_is_reduced(monkeypatch, backend, expected, suite):
    monkeypatch.setattr("os.environ", {"MUJOCO_GL": backend} if backend else {})
    quality = SimpleNamespace(shadowsize=4096, offsamples=4)
    env = gymnasium.Env()
    owner = SimpleNamespace(model=SimpleNamespace(vis=SimpleNamespace(quality=quality)))
    if suite:
        env.physics = owner
    else:
        env.model = owner.model
    reduce_render_quality(env)
    reduce_render_quality(gymnasium.make("CartPole-v1"))  # Without MuJoCo.
    assert (quality.shadowsize, quality.offsamples) == expected


def camera_after(name, camera=None, **kwargs):
    """Index of the camera that Gymnasium renders with; -1 is the one that does not move."""
    pytest.importorskip("mujoco")
    env = gymnasium.make(name, **kwargs)
    choose_camera(env, camera)
    index = env.unwrapped.mujoco_renderer.camera_id
    env.close()
    return index


@pytest.mark.parametrize(
    ("name", "kwargs", "index"),
    [
        ("HalfCheetah-v5", {}, 0),  # Follows the body.
        ("InvertedPendulum-v5", {}, -1),  # Without such a camera.
        ("HalfCheetah-v5", {"default_camera_config": {"distance": 9.0}}, -1),
        ("HalfCheetah-v5", {"camera_id": -1}, -1),
        ("Humanoid-v5", {"camera_id": 1}, 1),
        ("Humanoid-v5", {"camera_id": 1, "camera": "0"}, 0),
        ("Humanoid-v5", {"camera": "track"}, 0),
        ("Humanoid-v5", {"camera": "1"}, 1),
    ],
)
def test_cameras_are_those_of_the_user_or_follow_the_body(name, kwargs, index):
    assert camera_after(name, **kwargs) == index


@pytest.mark.parametrize("camera", ["trak", "2", "-1", ""])
def test_unknown_cameras_are_refused_with_those_that_there_are(camera):
    with pytest.raises(UsageError) as caught:
        camera_after("Humanoid-v5", camera)
    assert str(caught.value) == (
        f"--camera={camera}: the model of 'Humanoid-v5' has no such camera; "
        "expected one of 0 (track), 1"
    )


def test_models_and_environments_without_cameras_refuse_them():
    env = gymnasium.make("CartPole-v1")
    choose_camera(env)
    with pytest.raises(UsageError, match="--camera=side: environment 'CartPole-v1' has no cameras"):
        choose_camera(env, "side")
    with pytest.raises(UsageError, match="'InvertedPendulum-v5' .*; it has the default camera"):
        camera_after("InvertedPendulum-v5", "0")


@pytest.mark.parametrize(
    ("task", "render_kwargs", "camera", "expected"),
    [
        ("cheetah/run", None, None, {"camera_id": 0}),
        ("cheetah/run", None, "back", {"camera_id": 1}),
        ("cheetah/run", {"width": 64}, None, {"width": 64}),
        ("pendulum/swingup", None, None, {}),
    ],
)
def test_cameras_of_dm_control(task, render_kwargs, camera, expected):
    pytest.importorskip("dm_control")
    pytest.importorskip("shimmy")
    kwargs = {"render_kwargs": render_kwargs} if render_kwargs else {}
    env = make_env(find_spec(f"dm_control/{task}"), kwargs)
    choose_camera(env, camera)
    assert env.unwrapped.render_kwargs == expected
    env.close()
