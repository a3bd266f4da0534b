import os

import gymnasium
import pytest
from gymnasium.envs.registration import EnvSpec

from agents.runs.environments import make_env
from agents.runs.rendering import RenderingError, check_rendering, render_without_display, rendering_error


def test_environments_without_pixels_are_refused():
    class Blind(gymnasium.Env):
        metadata = {"render_modes": ["ansi"]}

    spec = EnvSpec("Blind-v0", entry_point=Blind)
    with pytest.raises(RenderingError, match=r"'Blind-v0' .* no rgb_array rendering.* \(only ansi\)"):
        make_env(spec, {"render_mode": "rgb_array"})
    Blind.metadata = {}
    with pytest.raises(RenderingError, match="no rendering at all"):
        check_rendering(spec)


def test_environments_with_pixels_are_not_refused():
    check_rendering(gymnasium.spec("Pendulum-v1"))
    check_rendering(EnvSpec("Function-v0", entry_point=lambda: None))  # What it makes will tell.


def test_an_environment_that_cannot_be_loaded():
    spec = EnvSpec("Lost-v0", entry_point="agents.no_such_module:Env")
    with pytest.raises(RenderingError, match="'Lost-v0' can't be rendered: ModuleNotFoundError"):
        check_rendering(spec)


def test_a_missing_library_is_named(monkeypatch):
    monkeypatch.setenv("MUJOCO_GL", "osmesa")
    monkeypatch.setattr("ctypes.util.find_library", lambda name: None)
    error = rendering_error("HalfCheetah-v5", failure_in("mujoco/osmesa/__init__.py"))
    assert "apt-get install libosmesa6" in str(error)
    assert len(str(error).splitlines()) == 2
    assert "libosmesa6" not in str(rendering_error("Pendulum-v1", failure_in("pygame/draw.py")))


def test_mujoco_failures_name_the_way_of_drawing(monkeypatch):
    monkeypatch.setenv("MUJOCO_GL", "egl")
    error = rendering_error("HalfCheetah-v5", failure_in("mujoco/egl/__init__.py"))
    assert str(error) == "environment 'HalfCheetah-v5' can't be rendered: AttributeError: glGetError (MUJOCO_GL=egl)"


def failure_in(filename):
    """An exception that was raised in a file of that name."""
    try:
        exec(compile("raise AttributeError('glGetError')", filename, "exec"))
    except AttributeError as error:
        return error


@pytest.mark.parametrize(
    "given, expected",
    [({}, "osmesa"), ({"DISPLAY": ":0"}, None), ({"MUJOCO_GL": "egl"}, "egl"), ({"DISPLAY": ""}, "osmesa")],
)
def test_drawing_without_a_display(monkeypatch, given, expected):
    monkeypatch.setattr("os.environ", dict(given))
    monkeypatch.setattr("sys.platform", "linux")
    render_without_display()
    assert os.environ.get("MUJOCO_GL") == expected
    assert os.environ["SDL_VIDEODRIVER"] == "dummy"
