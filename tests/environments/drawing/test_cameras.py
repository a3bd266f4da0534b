import gymnasium
import pytest

from agents.environments.drawing.cameras import choose_camera
from agents.environments.registration import find_spec, make_env
from agents.errors import UsageError


def camera_after(name, camera=None, **kwargs):
    """Index of the camera that Gymnasium renders with; -1 is the one that does not move."""
    pytest.importorskip("mujoco")
    env = gymnasium.make(name, **kwargs)
    choose_camera(env, camera)
    index = env.unwrapped.mujoco_renderer.camera_id
    env.close()
    return index


@pytest.mark.parametrize("name", ["HalfCheetah-v5", "Hopper-v5"])
def test_the_body_is_followed_by_default(name):
    assert camera_after(name) == 0


@pytest.mark.parametrize("name", ["InvertedPendulum-v5", "Reacher-v5"])
def test_models_without_a_tracking_camera_keep_theirs(name):
    assert camera_after(name) == -1


def test_a_camera_of_the_arguments_is_kept():
    assert camera_after("HalfCheetah-v5", default_camera_config={"distance": 9.0}) == -1
    assert camera_after("HalfCheetah-v5", camera_id=-1) == -1
    assert camera_after("Humanoid-v5", camera_id=1) == 1
    assert camera_after("Humanoid-v5", camera="0", camera_id=1) == 0


@pytest.mark.parametrize("camera, index", [("track", 0), ("0", 0), ("1", 1)])
def test_cameras_are_chosen_by_name_or_index(camera, index):
    assert camera_after("Humanoid-v5", camera) == index


@pytest.mark.parametrize("camera", ["trak", "2", "-1", ""])
def test_unknown_cameras_are_refused_with_those_that_there_are(camera):
    with pytest.raises(UsageError) as caught:
        camera_after("Humanoid-v5", camera)
    assert str(caught.value) == (
        f"--camera={camera}: the model of 'Humanoid-v5' has no such camera; "
        "expected one of 0 (track), 1"
    )


def test_a_model_without_cameras_refuses_them():
    with pytest.raises(UsageError, match="'InvertedPendulum-v5' .*; it has none besides"):
        camera_after("InvertedPendulum-v5", "0")


def test_environments_without_mujoco_have_no_cameras():
    env = gymnasium.make("CartPole-v1")
    choose_camera(env)
    with pytest.raises(UsageError, match="--camera=side: environment 'CartPole-v1' has no cameras"):
        choose_camera(env, "side")


def test_dm_control():
    pytest.importorskip("dm_control")
    pytest.importorskip("shimmy")
    spec = find_spec("dm_control/cheetah/run")
    env = make_env(spec, {})
    choose_camera(env)
    assert env.unwrapped.render_kwargs == {"camera_id": 0}
    choose_camera(env, "back")
    assert env.unwrapped.render_kwargs == {"camera_id": 1}
    env.close()
    chosen = make_env(spec, {"render_kwargs": {"width": 64}})
    choose_camera(chosen)
    assert chosen.unwrapped.render_kwargs == {"width": 64}
    chosen.close()
    pendulum = make_env(find_spec("dm_control/pendulum/swingup"), {})
    choose_camera(pendulum)
    assert pendulum.unwrapped.render_kwargs == {}
    pendulum.close()
