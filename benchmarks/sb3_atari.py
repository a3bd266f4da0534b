"""PPO of Stable-Baselines3 on Atari games, with the settings of our presets."""

from __future__ import annotations

import ale_py
import gymnasium
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_atari_env
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecEnv, VecFrameStack

from agents.settings.config import Config

gymnasium.register_envs(ale_py)


def make_atari_envs(vec_env: str, game: str, num_envs: int) -> VecEnv:
    """Makes games with its own preprocessing, which stacks four frames for the whole batch.

    Workers are forked, as in `benchmarks.sb3`.
    """
    forks = vec_env == "SubprocVecEnv"
    envs = make_atari_env(
        f"{game}NoFrameskip-v4",
        num_envs,
        vec_env_cls=SubprocVecEnv if forks else DummyVecEnv,
        vec_env_kwargs={"start_method": "fork"} if forks else {},
    )
    return VecFrameStack(envs, 4)


def make_atari_ppo(envs: VecEnv, config: Config) -> PPO:
    """Makes PPO with one network of its CnnPolicy, which is the Nature CNN of 512 features."""
    return PPO(
        "CnnPolicy",
        envs,
        n_steps=config.rollout_length,
        n_epochs=config.epochs,
        batch_size=config.minibatch_size,
        learning_rate=config.learning_rate,
        gamma=config.discount,
        gae_lambda=config.gae_lambda,
        clip_range=config.clip_ratio,
        clip_range_vf=config.value_clip,
        vf_coef=config.value_coef,
        ent_coef=config.entropy_coef,
        max_grad_norm=config.max_gradient_norm,
        normalize_advantage=config.normalize_advantages,
        policy_kwargs={"optimizer_kwargs": {"eps": config.adam_epsilon}},
        device="cpu",
        seed=0,
    )
