"""Tests of settings without effect."""

import warnings

import pytest

from agents.settings.config_file import load_config, save_config

# What was given, the settings among them without effect, and a change with which they have one.
CASES = [
    ({"clip_ratio": 0.1, "objective": "kl"}, ["clip_ratio"], {"objective": "clip_kl"}),
    ({"clip_ratio_schedule": "linear", "objective": "kl"}, ["clip_ratio_schedule"], {"objective": "clip"}),
    ({"kl_init_penalty": 3}, ["kl_init_penalty"], {"objective": "kl"}),
    ({"kl_cutoff_coef": 3, "kl_cutoff_factor": 3}, ["kl_cutoff_factor", "kl_cutoff_coef"], {"objective": "clip_kl"}),
    ({"kl_target": 0.1}, ["kl_target"], {"learning_rate_schedule": "kl"}),
    ({"kl_target": 0.1, "multiply_kl_target": True}, ["kl_target", "multiply_kl_target"], {"objective": "kl"}),
    ({"kl_stop_after": "epoch"}, ["kl_stop_after"], {"kl_stop": 0.1}),
    ({"multiply_kl_stop": True}, ["multiply_kl_stop"], {"kl_stop": 0.1}),
    ({"entropy_coef_schedule": "linear"}, ["entropy_coef_schedule"], {"entropy_coef": 0.01}),
    ({"normalize_advantages": False, "min_advantage_std": 1}, ["min_advantage_std"], {"normalize_advantages": True}),
    ({"recompute_advantages": True, "epochs": 1}, ["recompute_advantages"], {"epochs": 2}),
    ({"optimizer": "sgd", "adam_epsilon": 1e-8}, ["adam_epsilon"], {"optimizer": "torch_adam"}),
    ({"sgd_momentum": 0.5}, ["sgd_momentum"], {"optimizer": "sgd"}),
    ({"shared_torso": True, "value_layers": (8,)}, ["value_layers"], {"shared_torso": False}),
    ({"shared_torso": True, "layer_norm": "critic"}, ["layer_norm"], {"shared_torso": False}),
    ({"env_restarts": {"window": 9}}, ["env_restarts"], {"env_restarts": {"limit": 1, "window": 9}}),
    ({"custom_settings": {"units": 9}}, ["custom_settings"], {"network": "my_module:my_network"}),
    ({"recurrent_units": 8}, ["recurrent_units"], {"recurrent": "gru"}),
    ({"sequence_length": 8}, ["sequence_length"], {"recurrent": "lstm"}),
    ({"policy": "beta", "initial_log_std": -1}, ["initial_log_std"], {"policy": "squashed_gaussian"}),
    ({"policy": "beta", "state_dependent_std": True}, ["state_dependent_std"], {"policy": "gaussian"}),
    ({"policy": "beta", "divide_initial_std": True}, ["divide_initial_std"], {"policy": "gaussian"}),
    ({"policy": "squashed_gaussian", "scale_actions": "never"}, ["scale_actions"], {"policy": "gaussian"}),
    ({"observ_clip": 5, "normalize_observ": False}, ["observ_clip"], {"normalize_observ": True}),
    ({"reward_clip": 5, "normalize_reward": False}, ["reward_clip"], {"normalize_reward": True}),
    ({"env_backend": "inline", "num_processes": 2}, ["num_processes"], {"env_backend": "envpool"}),
    ({"env_backend": "tf", "step_timeout": 5}, ["step_timeout"], {"env_backend": "hybrid"}),
    ({"initial_weights": "a", "initial_log_std": -1}, ["initial_log_std"], {"initial_weights": ""}),
    ({"optimizer": "sgd", "adam_epsilon": 1e-3}, ["adam_epsilon"], {"optimizer": "my_module:mine"}),
]  # fmt: skip


def load(preset="default", **given):
    """The configuration, and the settings that warnings name, with what they need."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        config = load_config(preset, **given)
    lines = [str(warning.message) for warning in caught]
    return config, [line.partition(" has no effect: it needs ")[::2] for line in lines]


@pytest.mark.parametrize(("given", "named", "change"), CASES)
def test_settings_that_another_one_turns_off_are_named(given, named, change):
    found = load(**given)[1]
    assert [name for name, _ in found] == named
    [needed] = change
    assert all(needed in f"{name} {wording}" for name, wording in found)
    assert load(**{**given, **change})[1] == []


def test_of_sac_and_of_algorithms_of_users():
    found = load("sac", learn_entropy_coef=False, target_entropy=-0.5)[1]
    assert found == [("target_entropy", "learn_entropy_coef true")]
    assert load(objective="kl", clip_ratio=0.1, algorithm="my_module:MyPPO")[1] == []


def test_defaults_and_settings_of_a_preset_or_a_run_are_not_chosen(tmp_path):
    assert load(kl_stop_after="minibatch", reward_clip=10.0, normalize_reward=False)[1] == []
    path = tmp_path / "config.yaml"
    save_config(load(objective="kl", clip_ratio=0.1)[0], path)
    assert load(path, objective="kl")[1] == []
    assert [name for name, _ in load(path, clip_ratio=0.3)[1]] == ["clip_ratio"]
    path.write_text("clip_ratio: 0.1\nobjective: kl\n")  # A file that a user has written.
    assert [name for name, _ in load(path)[1]] == ["clip_ratio"]
