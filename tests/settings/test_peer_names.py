import re

import pytest

import agents
from agents.errors import UsageError
from agents.scripts.main import COMMANDS
from agents.scripts.sweep import SweepOptions
from agents.scripts.train import TrainOptions
from agents.settings import peer_names
from agents.settings.config import Config
from agents.settings.peer_names import PEER_NAMES, attribute_hint, hint

KNOWN = {**TrainOptions.model_fields, **Config.model_fields}


def test_names_of_other_libraries_are_answered_with_settings():
    known = {**KNOWN, **SweepOptions.model_fields}
    for name, meant in PEER_NAMES.items():
        assert name not in known and meant in known
        in_sac = f", or {peer_names._IN_SAC[name]} for SAC" if name in peer_names._IN_SAC else ""
        assert hint(name, known, str).startswith(f"; did you mean {meant}{in_sac}?")
    assert hint("total-timesteps", KNOWN, "--{}".format) == "; did you mean --steps?"


def test_advice_names_settings_and_commands_that_exist():
    for name, advice in peer_names._ADVICE.items():
        assert name not in KNOWN and hint(name, KNOWN, str) == f"; {advice}"
        for named in re.findall(r"see agents (\w+)", advice):
            assert named in COMMANDS
        for names in re.findall(r"see (?!agents )([\w, ]+)", advice):
            assert set(re.split(", | and ", names)) <= set(KNOWN)


def test_a_counterpart_with_another_scale_says_so():
    answer = "; did you mean value_coef? It is twice Stable-Baselines3's vf_coef"
    assert hint("vf_coef", KNOWN, str) == answer


def test_a_name_that_is_not_among_the_known_is_no_answer():
    """Scripts have other options than `train`."""
    assert hint("total_timesteps", ["logdir"], str) == ""
    assert hint("lodgir", ["logdir"], str) == "; did you mean logdir?"


def test_python_names_of_other_libraries_are_answered_with_those_that_exist():
    for name, advice in peer_names._ATTRIBUTES.items():
        assert not hasattr(agents, name) and attribute_hint(name, agents.HOMES) == f"; {advice}"
        assert re.search("agents|setting", advice)
        for named in re.findall(r"agents\.(\w+)", advice):
            assert named in agents.HOMES
        for command in re.findall(r"command agents (\w+)", advice):
            assert command in COMMANDS
        for setting in re.findall(r"setting (\w+)", advice):
            assert setting in Config.model_fields


@pytest.mark.parametrize(
    "name, ending",
    [
        ("learn", "'learn'; see agents.train"),
        ("make", "'make'; see agents.load_config for experiments, or agents.make_batch_env for .*"),
        ("SubprocVecEnv", "'SubprocVecEnv'; see agents.make_batch_env"),
        ("compare", "'compare'; run the command agents compare"),
        ("load_polcy", r"'load_polcy'; did you mean agents\.load_policy\?"),
        ("xyzzy", "'xyzzy'"),
    ],
)
def test_attributes_that_do_not_exist(name, ending):
    with pytest.raises(AttributeError, match=f"^module 'agents' has no attribute {ending}$"):
        getattr(agents, name)


@pytest.mark.parametrize(
    "name, ending",
    [
        ("callback", "in Python, loop over agents.train(...), which yields the score of each evaluation"),
        ("tensorboard_log", "did you mean 'logdir'?"),
        ("total_timesteps", "settings are given to agents.load_config, as steps=..."),
        ("verbose", "see log_interval"),
    ],
)  # fmt: skip
def test_arguments_of_train_that_do_not_exist(name, ending):
    with pytest.raises(TypeError) as caught:
        agents.train(agents.load_config("pendulum"), **{name: 1})
    assert str(caught.value) == f"train has no argument '{name}'; {ending}"


@pytest.mark.parametrize(
    "name, ending",
    [
        ("tensorboard_log", "logdir is an argument of agents.train(...) and of the command, not a setting"),
        ("logdir", "logdir is an argument of agents.train(...) and of the command, not a setting"),
        ("n_envs", "did you mean 'num_envs'?"),
        ("n_steps", "did you mean 'rollout_length', or 'n_step' for SAC?"),
        ("lstm_size", "did you mean 'recurrent_units'?"),
        ("target_update_period", "targets follow in every gradient step; see target_rate"),
    ],
)  # fmt: skip
def test_settings_that_do_not_exist(name, ending):
    with pytest.raises(UsageError) as caught:
        agents.load_config("pendulum", **{name: 1})
    assert str(caught.value) == f"unknown setting '{name}'; {ending}"
