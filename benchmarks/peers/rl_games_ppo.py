"""PPO of rl_games on EnvPool, with the settings of ours.

    python -m benchmarks.peers.rl_games_ppo PARAMETERS

trains without end, with rl_games' parameters as JSON.
"""

from __future__ import annotations

import contextlib
import json
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from benchmarks.contestant import Measure
from benchmarks.peers.script import Script
from benchmarks.ppo_settings import PPOSettings


def training(env: str, num_envs: int, rollout_length: int, compiled: bool) -> Iterator[Measure]:
    """Measures iterations, with PyTorch's compiler, which is the default there, or without."""
    parameters = {
        **_networks(),
        "seed": 1,
        "torch_threads": 0,  # PyTorch's own number of threads.
        "config": {
            **_training_settings(),
            "env_config": {"env_name": env, "env_type": "gymnasium"},
            "num_actors": num_envs,
            "horizon_length": rollout_length,
            "torch_compile": compiled,
        },
    }
    arguments = ["-m", __name__, json.dumps(parameters)]
    steps = num_envs * rollout_length
    with (
        tempfile.TemporaryDirectory() as folder,
        contextlib.closing(Script(arguments, "^fps step: ", steps, Path(folder))) as script,
    ):
        script.warm_up()
        yield script.measure


def _networks() -> Mapping[str, object]:
    settings = PPOSettings()
    return {
        "algo": {"name": "a2c_continuous"},
        "model": {"name": "continuous_a2c_logstd"},
        "network": {
            "name": "actor_critic",
            "separate": True,
            "space": {
                "continuous": {
                    "mu_activation": "None",
                    "sigma_activation": "None",
                    "mu_init": {"name": "default"},
                    "sigma_init": {"name": "const_initializer", "val": 0},
                    "fixed_sigma": True,
                }
            },
            "mlp": {
                "units": list(settings.layers),
                "activation": settings.activation,
                "initializer": {"name": "default"},
            },
        },
    }


def _training_settings() -> Mapping[str, object]:
    settings = PPOSettings()
    return {
        "name": "benchmark",
        "env_name": "envpool",
        "device": "cpu",
        "minibatch_size": settings.minibatch_size,
        "mini_epochs": settings.epochs,
        "learning_rate": settings.learning_rate,
        "lr_schedule": None,
        "gamma": settings.discount,
        "tau": settings.gae_lambda,
        "e_clip": settings.clip_ratio,
        "clip_value": False,
        "critic_coef": settings.value_coef,
        "entropy_coef": settings.entropy_coef,
        "truncate_grads": True,
        "grad_norm": settings.max_gradient_norm,
        "bounds_loss_coef": 0.0,
        "normalize_advantage": settings.normalize_advantages,
        "normalize_input": False,
        "normalize_value": False,
        "value_bootstrap": True,
        "reward_shaper": {"scale_value": 1},
        "save_best_after": 10**9,
    }


def main() -> None:
    """Trains with the parameters of the command line."""
    from rl_games.torch_runner import Runner

    runner = Runner()
    runner.load({"params": json.loads(sys.argv[1])})
    runner.run({"train": True})


if __name__ == "__main__":
    main()
