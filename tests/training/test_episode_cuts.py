import warnings

import pytest

from agents.errors import UsageError
from agents.graph.backend import make_backend
from agents.settings.config_file import load_config, preset_names
from agents.training.episode_cuts import warn_of_cut_episodes, warn_of_endless_episodes


@pytest.mark.parametrize(
    "settings, limit",
    [
        ({"num_envs": 100, "checkpoint_interval": 19_999}, 200),
        ({"num_envs": 100, "checkpoint_interval": 20_000}, None),
        ({"num_envs": 100, "checkpoint_interval": 10_000, "action_repeat": 2}, None),
        ({"num_envs": 100, "checkpoint_interval": 10_000, "max_episode_steps": 101}, 101),
        ({"num_envs": 100, "checkpoint_interval": 10_000, "max_episode_steps": 100}, None),
        ({"num_envs": 100, "checkpoint_interval": 1_000, "steps": 1_000}, None),
        # Blackjack has no time limit.
        ({"env": "Blackjack-v1", "num_envs": 100, "checkpoint_interval": 1_000}, None),
    ],
)
def test_checkpoints_that_cut_all_episodes_issue_a_warning(settings, limit, recwarn):
    config = load_config(rollout_length=64, **settings)
    warn_of_cut_episodes(config, make_backend(config).check())
    assert [f"of at most {limit} steps, " in str(warning.message) for warning in recwarn] == [
        True
    ] * (limit is not None)


@pytest.mark.parametrize("name", preset_names())
def test_presets_leave_time_for_whole_episodes(name, recwarn):
    config = load_config(name)
    try:
        spec = make_backend(config).check()
    except UsageError as error:
        pytest.skip(str(error))  # Its package is not installed.
    warn_of_cut_episodes(config, spec)
    assert not recwarn.list


@pytest.mark.parametrize(
    "settings, expected",
    [
        (
            {"env": "Blackjack-v1"},
            ["environment 'Blackjack-v1' is registered without a time limit"],
        ),
        ({"env": "Blackjack-v1", "max_episode_steps": 9}, []),
        ({"env": "Pendulum-v1"}, []),
        ({"env": "MiniGrid-Empty-5x5-v0"}, []),  # Its class has a limit.
        ({"env": "ALE/Pong-v5"}, []),
    ],
)
def test_episodes_without_a_limit_issue_a_warning(settings, expected, recwarn):
    config = load_config(**settings)
    try:
        spec = make_backend(config).check()
    except UsageError as error:
        pytest.skip(str(error))
    warnings.filterwarnings("always")
    warn_of_endless_episodes(config, spec)
    assert [str(warning.message).partition(":")[0] for warning in recwarn] == expected
