"""Stable-Baselines3's PPO, set up to do what ours does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecEnv

from benchmarks.ours import PPO_SETTINGS
from benchmarks.stepping import constructors


def make_envs(vec_env: str, env: str, num_envs: int) -> VecEnv:
    """Environments in `DummyVecEnv` or `SubprocVecEnv`; forked, since its other ways import PyTorch in every worker."""
    if vec_env == "DummyVecEnv":
        return DummyVecEnv(constructors(env, num_envs))
    return SubprocVecEnv(constructors(env, num_envs), start_method="fork")


def make_ppo(envs: VecEnv, rollout_length: int, **settings: Any) -> PPO:
    """PPO with `PPO_SETTINGS`, some of them changed; its policy and value have networks of their own by default."""
    same = {**PPO_SETTINGS, **settings}
    return PPO(
        "MlpPolicy",
        envs,
        n_steps=rollout_length,
        n_epochs=same["epochs"],
        batch_size=same["minibatch_size"],
        learning_rate=same["learning_rate"],
        gamma=same["discount"],
        gae_lambda=same["gae_lambda"],
        clip_range=same["clip_ratio"],
        vf_coef=same["value_coef"],
        ent_coef=same["entropy_coef"],
        max_grad_norm=same["max_gradient_norm"],
        normalize_advantage=same["normalize_advantages"],
        policy_kwargs={
            "net_arch": {"pi": list(same["layers"]), "vf": list(same["layers"])},
            "activation_fn": torch.nn.Tanh,
            "optimizer_kwargs": {"eps": same["adam_epsilon"]},
        },
        device="cpu",
        seed=0,
    )


def iteration(ppo: PPO) -> Callable[[], Any]:
    """Collects one rollout and learns from it, without callbacks and logging."""
    steps = ppo.n_steps * ppo.n_envs
    return lambda: ppo.learn(steps, log_interval=10**9, reset_num_timesteps=False)  # type: ignore[arg-type]
