"""Trains with Stable-Baselines3 by RL-Zoo's settings: `python -m benchmarks.clock_sb3 ENV STEPS SEED`.

The settings are those of `hyperparams/ppo.yml` in https://github.com/DLR-RM/rl-baselines3-zoo, commit
22e3ff2; those of HalfCheetah and Hopper are for version 4. It prints a line for every episode.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecEnv, VecNormalize

from benchmarks.episode_lines import episode_line
from benchmarks.machine import cores


@dataclass(frozen=True)
class Tuned:
    """An entry of RL-Zoo.

    Attributes:
      num_envs: Number of environments, in a DummyVecEnv as there.
      ppo: Arguments of PPO.
      normalizes: Whether observations and rewards are normalized.
      policy: The policy.
    """

    num_envs: int
    ppo: Mapping[str, Any]
    normalizes: bool = False
    policy: str = "MlpPolicy"
    network: Mapping[str, Any] = field(default_factory=dict)


_MUJOCO_NETWORK = {
    "log_std_init": -2,
    "ortho_init": False,
    "activation_fn": torch.nn.ReLU,
    "net_arch": {"pi": [256, 256], "vf": [256, 256]},
}
TUNED = {
    "HalfCheetah-v5": Tuned(
        num_envs=1,
        ppo={
            "batch_size": 64, "n_steps": 512, "gamma": 0.98, "learning_rate": 2.0633e-05,
            "ent_coef": 0.000401762, "clip_range": 0.1, "n_epochs": 20, "gae_lambda": 0.92,
            "max_grad_norm": 0.8, "vf_coef": 0.58096,
        },
        normalizes=True,
        network=_MUJOCO_NETWORK,
    ),
    "Hopper-v5": Tuned(
        num_envs=1,
        ppo={
            "batch_size": 32, "n_steps": 512, "gamma": 0.999, "learning_rate": 9.80828e-05,
            "ent_coef": 0.00229519, "clip_range": 0.2, "n_epochs": 5, "gae_lambda": 0.99,
            "max_grad_norm": 0.7, "vf_coef": 0.835671,
        },
        normalizes=True,
        network=_MUJOCO_NETWORK,
    ),
    "LunarLander-v3": Tuned(
        num_envs=16,
        ppo={
            "n_steps": 1024, "batch_size": 64, "gae_lambda": 0.98, "gamma": 0.999, "n_epochs": 4,
            "ent_coef": 0.01,
        },
    ),
    "Pong": Tuned(
        num_envs=8,
        ppo={
            "n_steps": 128, "n_epochs": 4, "batch_size": 256, "vf_coef": 0.5, "ent_coef": 0.01,
            "learning_rate": lambda remaining: remaining * 2.5e-4,
            "clip_range": lambda remaining: remaining * 0.1,
        },
        policy="CnnPolicy",
    ),
}  # fmt: skip


class EpisodePrinter(BaseCallback):
    """Prints the returns of finished episodes, before normalization and clipping."""

    def _on_step(self) -> bool:
        for info in self.locals["infos"]:
            if "episode" in info:  # Of the monitor, which is the innermost wrapper.
                print(episode_line(self.num_timesteps, float(info["episode"]["r"])))
        return True


def make_ppo(env: str, seed: int) -> PPO:
    """Makes PPO with the settings of an environment."""
    tuned = TUNED[env]
    envs = _make_envs(env, tuned, seed)
    arguments: Mapping[str, Any] = {**tuned.ppo, "policy_kwargs": dict(tuned.network)}
    return PPO(tuned.policy, envs, **arguments, device="cpu", seed=seed)


def train(env: str, steps: int, seed: int) -> None:
    """Trains for some environment steps."""
    # Of small networks, one thread is the fastest.
    torch.set_num_threads(len(cores()) if TUNED[env].policy == "CnnPolicy" else 1)
    make_ppo(env, seed).learn(steps, callback=EpisodePrinter(), log_interval=10**9)


def _make_envs(env: str, tuned: Tuned, seed: int) -> VecEnv:
    if tuned.policy == "CnnPolicy":
        from benchmarks.sb3_atari import make_atari_envs

        return make_atari_envs("DummyVecEnv", env, tuned.num_envs)
    make: Callable[..., VecEnv] = make_vec_env
    envs = make(env, n_envs=tuned.num_envs, seed=seed)
    return VecNormalize(envs, gamma=tuned.ppo["gamma"]) if tuned.normalizes else envs


if __name__ == "__main__":
    train(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
