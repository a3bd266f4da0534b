import pytest

from agents.suggestion import did_you_mean

NAMES = ["pendulum", "ant", "CartPole-v1", "learning_rate"]


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("pendulun", "; did you mean 'pendulum'?"),
        ("cartpole-v1", "; did you mean 'CartPole-v1'?"),
        ("PENDULUM", "; did you mean 'pendulum'?"),
        ("learn", "; did you mean 'learning_rate'?"),  # Starts like it.
        ("le", ""),  # Too short for that.
        ("xyz", ""),
        ("", ""),
    ],
)
def test_suggests_the_nearest_name(word, expected):
    assert did_you_mean(word, NAMES) == expected


def test_formats_the_suggestion():
    assert did_you_mean("pendulun", NAMES, str.upper) == "; did you mean PENDULUM?"


def test_known_names_may_be_an_iterator():
    assert did_you_mean("antt", iter(NAMES)) == "; did you mean 'ant'?"


def test_without_known_names_there_is_no_suggestion():
    assert did_you_mean("ant", []) == ""
