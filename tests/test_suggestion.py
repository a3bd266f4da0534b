import time

import pytest

from agents.suggestion import did_you_mean

NAMES = ["pendulum", "ant", "CartPole-v1", "learning_rate", "learning_rate_schedule", "env"]
ENVS = [
    "CartPole-v0", "CartPole-v1", "Pendulum-v1", "HalfCheetah-v2", "HalfCheetah-v4", "HalfCheetah-v5", "Ant-v5",
    "Reacher-v4", "Reacher-v5", "Hopper-v5", "Taxi-v3", "Walker2d-v5", "Pusher-v5", "ALE/Pong-v5",
]  # fmt: skip


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("pendulun", "pendulum"),
        ("PENDULUM", "pendulum"),
        ("cartpole-v1", "CartPole-v1"),
        ("learn", "learning_rate"),  # Starts like it; the shorter of two.
        ("learning_rat", "learning_rate"),
        ("learning_rate_", "learning_rate_schedule"),
        ("learn_rate", "learning_rate"),
        ("evn", "env"),  # Two letters swapped.
        ("antt", "ant"),
        ("at", ""),  # Too short.
        ("le", ""),
        ("pant_", ""),
        ("rate", ""),
        ("xyz", ""),
        ("", ""),
    ],
)
def test_suggests_the_nearest_name(word, expected):
    assert did_you_mean(word, NAMES) == (f"; did you mean '{expected}'?" if expected else "")


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("Pendulm-v1", "Pendulum-v1"),
        ("Pendulum-v0", "Pendulum-v1"),
        ("HalfCheetah-v9", "HalfCheetah-v5"),
        ("HalfCheetah", "HalfCheetah-v5"),
        ("HalfCheeta-v9", "HalfCheetah-v5"),
        ("halfcheetah-v4", "HalfCheetah-v4"),
        ("Hoper-v5", "Hopper-v5"),
        ("ale/pong-v5", "ALE/Pong-v5"),
        ("FetchReach-v4", ""),
        ("FetchPush-v4", ""),
        ("PandaReach-v3", ""),
        ("Nope-v0", ""),
        ("Tak-v3", ""),
        ("MyAnt-v0", ""),
        ("Pong-v5", ""),
        ("highway-v0", ""),
    ],
)
def test_environments_that_only_share_an_ending_are_not_near(word, expected):
    assert did_you_mean(word, ENVS) == (f"; did you mean '{expected}'?" if expected else "")


def test_formats_the_suggestion_of_any_names():
    assert did_you_mean("pendulun", NAMES, str.upper) == "; did you mean PENDULUM?"
    assert did_you_mean("antt", iter(NAMES)) == "; did you mean 'ant'?"
    assert did_you_mean("ant", []) == ""
    before = time.process_time()  # A file of strangers may have long names.
    assert did_you_mean("a" * 100_000, NAMES) == ""
    assert time.process_time() - before < 1
