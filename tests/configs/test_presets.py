import math

import pytest

from agents.settings.config_file import PRESETS, load_config, preset_names

# Defaults in the systems' own files, at the versions that the presets name, as settings of this library,
# whose value loss is half the mean squared error. docs/guides/coming-from.md has the other settings of
# four of them, see tests/docs/test_coming_from.py.
COMMON = {
    "critic_learning_rate": 0, "kl_stop": 0, "normalize_advantages": True, "network": "feed_forward",
    "value_layers": (), "shared_torso": False, "recurrent": "none", "policy": "gaussian",
    "state_dependent_std": False, "normalize_value": False,
}  # fmt: skip
CLIP = {
    **COMMON, "objective": "clip", "clip_ratio_schedule": "constant", "optimizer": "torch_adam", "adam_epsilon": 1e-5,
}  # fmt: skip
SYSTEMS = {
    "cleanrl_continuous": {
        **CLIP, "minibatches": 32, "layers": (64, 64), "activation": "tanh", "initial_log_std": 0,
        "normalize_observ": True, "observ_clip": 10, "normalize_reward": True, "reward_clip": 10,
    },
    "sb3": CLIP,
    "sb3_sac": {
        "algorithm": "sac", "num_envs": 1, "rollout_length": 1, "gradient_steps": 1, "learning_starts": 100,
        "learning_rate": 3e-4, "critic_learning_rate": 0, "batch_size": 256, "replay_capacity": 1_000_000,
        "target_rate": 0.005, "discount": 0.99, "initial_entropy_coef": 1, "learn_entropy_coef": True,
        "target_entropy": -1, "layers": (256, 256), "activation": "relu", "optimizer": "torch_adam",
        "adam_epsilon": 1e-8, "normalize_observ": False, "policy": "squashed_gaussian",
    },
    "skrl": {
        **CLIP, "env": "Pendulum-v1", "minibatches": 2, "adam_epsilon": 1e-8, "layers": (64, 64),
        "activation": "relu", "initial_log_std": 0,
    },
    "batch_ppo": {
        **COMMON, "optimizer": "adam", "learning_rate_schedule": "constant", "adam_epsilon": 1e-8, "value_clip": 0,
        "value_coef": 1, "entropy_coef": 0, "max_gradient_norm": 0, "activation": "relu",
        "initial_log_std": pytest.approx(math.log(2 * 0.35), abs=1e-3), "normalize_observ": True, "observ_clip": 5,
        "normalize_reward": True, "reward_clip": 10, "objective": "kl", "kl_target": 0.01, "kl_init_penalty": 1,
        "kl_cutoff_factor": 2, "kl_cutoff_coef": 1000, "eval_episodes": 30,
    },
    "cleanrl_atari": {
        **CLIP, "env": "ALE/Breakout-v5", "env_kwargs": {"frameskip": 1, "repeat_action_probability": 0},
        "steps": 10_000_000, "num_envs": 8, "rollout_length": 128, "epochs": 4, "minibatches": 4,
        "learning_rate": 2.5e-4, "learning_rate_schedule": "linear", "discount": 0.99, "gae_lambda": 0.95,
        "clip_ratio": 0.1, "value_clip": 0.1, "value_coef": 0.5, "entropy_coef": 0.01,
        "entropy_coef_schedule": "constant", "max_gradient_norm": 0.5, "network": "nature", "layers": (512,),
        "shared_torso": True, "activation": "relu", "normalize_observ": False, "normalize_reward": False,
    },
}  # fmt: skip


def test_presets_of_the_control_suite_train_for_longer_and_differ_in_nothing_else():
    names = [name for name in preset_names() if not name.endswith("_long")]
    configs = [
        load_config(name) for name in names if load_config(name).env.startswith("dm_control/")
    ]
    assert len(configs) == len({config.env for config in configs}) == 2
    expected = load_config("mujoco", steps=2_000_000, eval_interval=200_000)
    base = expected.model_dump(exclude={"env"})
    assert all(config.model_dump(exclude={"env"}) == base for config in configs)


def test_humanoid_long_has_larger_networks_that_learn_more_slowly_and_differs_in_nothing_else():
    lengths = {"steps": 3_000_000, "eval_interval": 300_000}
    networks = {"layers": (256, 128, 64), "activation": "elu", "learning_rate": 1.5e-4}
    assert load_config("humanoid_long") == load_config("humanoid", **lengths, **networks)


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
