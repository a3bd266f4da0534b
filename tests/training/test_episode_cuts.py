import pytest

from agents.backends.backend import make_backend
from agents.errors import UsageError
from agents.settings.config_file import load_config, preset_names
from agents.training.episode_cuts import warn_of_cut_episodes


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
    assert [f"may last {limit}:" in str(warning.message) for warning in recwarn] == [True] * (
        limit is not None
    )


@pytest.mark.parametrize("name", preset_names())
def test_presets_leave_time_for_whole_episodes(name, recwarn):
    config = load_config(name)
    try:
        spec = make_backend(config).check()
    except UsageError as error:
        pytest.skip(str(error))  # Its package is not installed.
    warn_of_cut_episodes(config, spec)
    assert not recwarn.list
