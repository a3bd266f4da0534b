import re

import pytest

from agents.settings.config_file import load_config

REFUSED = [
    (
        {"recurrent": "gru", "sequence_length": 48},
        "sequence_length: sequences of 48 steps do not divide both rollouts and minibatches "
        "\\(rollout_length 256, minibatch_size 64\\)\nthe longest possible sequence has 64 steps; 0 selects it",
    ),
    (
        {"reduce_every": "epoch", "kl_stop": 0.1},
        "reduce_every: .*\nexpected reduce_every minibatch",
    ),
    (
        {"reduce_every": "epoch", "learning_rate_schedule": "kl"},
        "reduce_every: .*\nexpected reduce",
    ),
    *(
        (
            {"env_backend": backend, "wait_for": 0.5},
            f"wait_for: environments with env_backend '{backend}' step together, got 0.5\n"
            "expected env_backend process, or wait_for 1",
        )
        for backend in ("hybrid", "inline", "envpool", "tf")
    ),
    ({"critic_learning_rate": 1e-3, "shared_torso": True}, "critic_learning_rate: a shared_torso"),
    ({"critic_keys": ["a"], "shared_torso": True}, "critic_keys: with a shared_torso"),
    (
        {"algorithm": "pppo"},
        "algorithm: unknown algorithm 'pppo'; did you mean 'ppo'\\?\n"
        "expected ppo, sac, or my_module:MyAlgorithm",
    ),
    ({"algorithm": "{x}"}, "algorithm: unknown algorithm '{x}'\nexpected ppo"),
    (
        {"network": "natur"},
        "network: unknown network 'natur'; did you mean 'nature'\\?\n"
        "expected feed_forward, nature, impala, or my_module:my_function",
    ),
    (
        {"max_episode_steps": 9, "env_kwargs": {"max_episode_steps": 5}},
        "env_kwargs: max_episode_steps is also a setting",
    ),
    ({"info_keys": ["speed", "mass", "speed"]}, "info_keys: expected each key once"),
    *(
        (
            {"env_backend": backend, "env_restarts": {"limit": 1}},
            f"env_restarts: environments with env_backend '{backend}' can't be restarted",
        )
        for backend in ("tf", "envpool")
    ),
    *(
        (
            {"env_backend": backend, "reset_options": {"level": 1}},
            f"reset_options: environments with env_backend '{backend}' take none",
        )
        for backend in ("tf", "envpool")
    ),
]


@pytest.mark.parametrize(("settings", "message"), REFUSED)
def test_settings_that_contradict_each_other(settings, message, refused):
    assert re.match(message, "\n".join(refused("default", **settings)))


@pytest.mark.parametrize(
    "settings",
    [
        {"recurrent": "gru"},
        {"recurrent": "gru", "sequence_length": 32},
        {"reduce_every": "epoch"},
        {"wait_for": 0.5},
        {"env_backend": "tf", "env_restarts": {"limit": 0}},
        *({name: "my_package.my_module:name"} for name in ("algorithm", "network", "policy")),
        {"algorithm": "ppo", "network": "impala", "policy": "beta"},
    ],
)
def test_settings_that_agree(settings):
    load_config("default", **settings)


@pytest.mark.parametrize("size, nearest", [(60, 64), (4096, 2048), (3, 2)])
def test_minibatches_divide_a_rollout(size, nearest, refused):
    first, second = refused("default", minibatch_size=size)
    assert first == (
        f"minibatch_size: {size} does not divide the 2048 steps of a rollout (8 num_envs x 256 rollout_length)"
    )
    assert second == f"the nearest size that divides them is {nearest}"
    assert load_config("default", minibatch_size=nearest).minibatch_size == nearest
