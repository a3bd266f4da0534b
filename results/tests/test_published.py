import pytest

from results.published import SOURCES, TASKS, published


@pytest.mark.parametrize(
    ("env", "name"),
    [
        ("HalfCheetah-v5", "HalfCheetah"),
        ("ale_py:ALE/Pong-v5", "Pong"),
        ("BreakoutNoFrameskip-v4", "Breakout"),
        ("HalfCheetahBulletEnv-v0", "HalfCheetahBulletEnv"),
        ("MountainCarContinuous-v0", "MountainCarContinuous"),
        ("dm_control/ball_in_cup/catch", "ball_in_cup/catch"),
        ("CartPole-v1, hide_velocity", "CartPole, hide_velocity"),
        ("CartPole-v1, TransformReward", "CartPole"),
        ("ALE/Pong-v5, preprocess, sticky", "Pong, sticky"),
        ("MiniGrid-DoorKey-5x5-v0, FlatObsWrapper", "MiniGrid-DoorKey-5x5"),
    ],
)
def test_tasks_are_found_by_environment_id(env, name):
    assert published(env) is TASKS[name]
    assert published("MyOwn-v0") == ()


def test_every_figure_has_a_source():
    assert {figure.source for figures in TASKS.values() for figure in figures} == set(SOURCES)
