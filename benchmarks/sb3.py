"""PPO of Stable-Baselines3, with the settings of ours."""

from __future__ import annotations

from collections.abc import Callable

import torch
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecEnv

from benchmarks.environments import constructors
from benchmarks.ppo_settings import PPOSettings


def make_envs(vec_env: str, env: str, num_envs: int) -> VecEnv:
    """Makes environments in `DummyVecEnv` or `SubprocVecEnv`.

    Workers are forked, since the other start methods import PyTorch in every worker.
    """
    if vec_env == "DummyVecEnv":
        return DummyVecEnv(constructors(env, num_envs))
    return SubprocVecEnv(constructors(env, num_envs), start_method="fork")


def make_ppo(envs: VecEnv, rollout_length: int, settings: PPOSettings) -> PPO:
    """Makes PPO; policy and value function have separate networks by default."""
    layers = list(settings.layers)
    return PPO(
        "MlpPolicy",
        envs,
        n_steps=rollout_length,
        n_epochs=settings.epochs,
        batch_size=settings.minibatch_size,
        learning_rate=settings.learning_rate,
        gamma=settings.discount,
        gae_lambda=settings.gae_lambda,
        clip_range=settings.clip_ratio,
        vf_coef=settings.value_coef,
        ent_coef=settings.entropy_coef,
        max_grad_norm=settings.max_gradient_norm,
        normalize_advantage=settings.normalize_advantages,
        policy_kwargs={
            "net_arch": {"pi": layers, "vf": layers},
            "activation_fn": torch.nn.Tanh,
            "optimizer_kwargs": {"eps": settings.adam_epsilon},
        },
        device="cpu",
        seed=0,
    )


def iteration(ppo: PPO) -> Callable[[], object]:
    """Returns a function that collects one rollout and learns from it, without logging."""
    steps = ppo.n_steps * ppo.n_envs
    return lambda: ppo.learn(steps, log_interval=10**9, reset_num_timesteps=False)
