import math

import pytest

from agents.settings.config_file import PRESETS, load_config, preset_names

# Defaults in the systems' own files, at the versions that the presets name, as settings of this library,
# whose value loss is half the mean squared error.
SYSTEMS = {
    "cleanrl_continuous": {
        "env": "HalfCheetah-v5", "steps": 1_000_000, "num_envs": 1, "rollout_length": 2048, "epochs": 10,
        "minibatches": 32, "optimizer": "torch_adam", "learning_rate": 3e-4, "learning_rate_schedule": "linear",
        "critic_learning_rate": 0, "adam_epsilon": 1e-5, "discount": 0.99, "gae_lambda": 0.95, "objective": "clip",
        "clip_ratio": 0.2, "clip_ratio_schedule": "constant", "kl_stop": 0, "value_clip": 0.2, "value_coef": 0.5,
        "entropy_coef": 0, "max_gradient_norm": 0.5, "normalize_advantages": True, "network": "feed_forward",
        "layers": (64, 64), "value_layers": (), "shared_torso": False, "recurrent": "none", "activation": "tanh",
        "policy": "gaussian", "state_dependent_std": False, "initial_log_std": 0, "normalize_observ": True,
        "observ_clip": 10, "normalize_reward": True, "reward_clip": 10, "normalize_value": False,
    },
    "sb3": {
        "num_envs": 1, "rollout_length": 2048, "epochs": 10, "minibatch_size": 64, "optimizer": "torch_adam",
        "learning_rate": 3e-4, "learning_rate_schedule": "constant", "critic_learning_rate": 0, "adam_epsilon": 1e-5,
        "discount": 0.99, "gae_lambda": 0.95, "objective": "clip", "clip_ratio": 0.2, "clip_ratio_schedule": "constant",
        "kl_stop": 0, "value_clip": 0, "value_coef": 2 * 0.5, "entropy_coef": 0, "max_gradient_norm": 0.5,
        "normalize_advantages": True, "network": "feed_forward", "layers": (64, 64), "value_layers": (),
        "shared_torso": False, "recurrent": "none", "activation": "tanh", "policy": "gaussian",
        "state_dependent_std": False, "initial_log_std": 0, "normalize_observ": False, "normalize_reward": False,
        "normalize_value": False,
    },
    "skrl": {
        "env": "Pendulum-v1", "steps": 100_000, "rollout_length": 16, "epochs": 8, "minibatches": 2,
        "optimizer": "torch_adam", "learning_rate": 1e-3, "learning_rate_schedule": "constant",
        "critic_learning_rate": 0, "adam_epsilon": 1e-8, "discount": 0.99, "gae_lambda": 0.95,
        "objective": "clip", "clip_ratio": 0.2,
        "clip_ratio_schedule": "constant", "kl_stop": 0, "value_clip": 0.2, "value_coef": 2 * 2.5, "entropy_coef": 0,
        "max_gradient_norm": 0.5, "normalize_advantages": True, "network": "feed_forward", "layers": (64, 64),
        "value_layers": (), "shared_torso": False, "recurrent": "none", "activation": "relu", "policy": "gaussian",
        "state_dependent_std": False, "initial_log_std": 0, "normalize_observ": False, "normalize_reward": False,
        "normalize_value": False, "precision": "float32",
    },
    "batch_ppo": {
        "env": "Pendulum-v1", "steps": 1_000_000, "num_envs": 30, "rollout_length": 200, "epochs": 25,
        "minibatch_size": 20 * 50, "optimizer": "adam", "learning_rate": 1e-4, "learning_rate_schedule": "constant",
        "critic_learning_rate": 0, "adam_epsilon": 1e-8, "discount": 0.995, "gae_lambda": 1, "objective": "kl",
        "kl_target": 1e-2, "kl_init_penalty": 1, "kl_cutoff_factor": 2, "kl_cutoff_coef": 1000, "kl_stop": 0,
        "value_clip": 0, "value_coef": 1, "entropy_coef": 0, "max_gradient_norm": 0, "normalize_advantages": True,
        "network": "feed_forward", "layers": (200, 100), "value_layers": (), "shared_torso": False, "recurrent": "none",
        "activation": "relu", "policy": "gaussian", "state_dependent_std": False,
        "initial_log_std": pytest.approx(math.log(2 * 0.35), abs=1e-3), "normalize_observ": True, "observ_clip": 5,
        "normalize_reward": True, "reward_clip": 10, "normalize_value": False, "eval_episodes": 30,
    },
    "cleanrl_atari": {
        "env": "ALE/Breakout-v5", "env_kwargs": {"frameskip": 1, "repeat_action_probability": 0},
        "steps": 10_000_000, "num_envs": 8, "rollout_length": 128, "epochs": 4, "minibatches": 4,
        "optimizer": "torch_adam", "learning_rate": 2.5e-4, "learning_rate_schedule": "linear",
        "critic_learning_rate": 0, "adam_epsilon": 1e-5,
        "discount": 0.99, "gae_lambda": 0.95, "objective": "clip", "clip_ratio": 0.1, "clip_ratio_schedule": "constant",
        "kl_stop": 0, "value_clip": 0.1, "value_coef": 0.5, "entropy_coef": 0.01, "entropy_coef_schedule": "constant",
        "max_gradient_norm": 0.5, "normalize_advantages": True, "network": "nature", "layers": (512,),
        "value_layers": (), "shared_torso": True, "recurrent": "none", "activation": "relu", "normalize_observ": False,
        "normalize_reward": False, "normalize_value": False,
    },
}  # fmt: skip


@pytest.mark.parametrize("name", preset_names())
def test_every_preset_loads_and_is_evaluated_at_least_ten_times(name):
    config = load_config(name)
    assert config.steps >= 10 * config.eval_interval


def test_mujoco_presets_differ_only_in_the_environment():
    configs = _extending_mujoco(control_suite=False)
    assert len(configs) == len({config.env for config in configs}) == 11
    base = load_config("mujoco").model_dump(exclude={"env"})
    assert all(config.model_dump(exclude={"env"}) == base for config in configs)


def test_presets_of_the_control_suite_train_for_longer_and_differ_in_nothing_else():
    configs = _extending_mujoco(control_suite=True)
    assert len(configs) == len({config.env for config in configs}) == 2
    expected = load_config("mujoco", steps=2_000_000, eval_interval=200_000)
    base = expected.model_dump(exclude={"env"})
    assert all(config.model_dump(exclude={"env"}) == base for config in configs)


def test_humanoid_long_has_larger_networks_that_learn_more_slowly_and_differs_in_nothing_else():
    lengths = {"steps": 3_000_000, "eval_interval": 300_000}
    networks = {"layers": (256, 128, 64), "activation": "elu", "learning_rate": 1.5e-4}
    assert load_config("humanoid_long") == load_config("humanoid", **lengths, **networks)


def _extending_mujoco(control_suite):
    names = [name for name in preset_names() if not name.endswith("_long")]
    texts = {name: (PRESETS / f"{name}.yaml").read_text() for name in names}
    configs = [load_config(name) for name, text in texts.items() if "extends: mujoco\n" in text]
    return [each for each in configs if each.env.startswith("dm_control/") == control_suite]


@pytest.mark.parametrize("name", SYSTEMS)
def test_presets_of_other_systems_have_their_default_settings(name):
    config = load_config(name)
    settings = config.model_dump()
    settings["minibatches"] = config.num_envs * config.rollout_length // config.minibatch_size
    expected = SYSTEMS[name]
    assert {setting: settings[setting] for setting in expected} == expected


@pytest.mark.parametrize("name", SYSTEMS)
def test_presets_of_other_systems_say_what_they_follow_and_what_differs(name):
    lines = (PRESETS / f"{name}.yaml").read_text().splitlines()
    comment = [line for line in lines if line.startswith("#")]
    assert lines[: len(comment)] == comment
    text = " ".join(line.strip("# ") for line in comment)
    assert ".py" in comment[0] and any(figure.isdigit() for figure in comment[0])
    assert "Other than there" in text
