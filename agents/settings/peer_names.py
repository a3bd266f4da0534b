"""What other libraries call settings, and what to use for settings that do not exist here."""

from __future__ import annotations

from collections.abc import Callable, Collection

from agents.suggestion import did_you_mean

# Settings by the names that they have in Stable-Baselines3, CleanRL, skrl, rl_games, RLlib, OpenAI's
# Baselines and batch-ppo.
PEER_NAMES = {
    "algo": "algorithm",
    "anneal_lr": "learning_rate_schedule",
    "batch_size": "minibatch_size",
    "capture_video": "video_interval",
    "clip_coef": "clip_ratio",
    "clip_obs": "observ_clip",
    "clip_range": "clip_ratio",
    "clip_reward": "reward_clip",
    "clip_vloss": "value_clip",
    "clip_range_vf": "value_clip",
    "critic_coef": "value_coef",
    "e_clip": "clip_ratio",
    "ent_coef": "entropy_coef",
    "entropy_loss_scale": "entropy_coef",
    "env_id": "env",
    "env_name": "env",
    "env_processes": "env_backend",
    "eval_freq": "eval_interval",
    "discount_factor": "discount",
    "gamma": "discount",
    "grad_norm": "max_gradient_norm",
    "grad_norm_clip": "max_gradient_norm",
    "horizon_length": "rollout_length",
    "kl_threshold": "kl_stop",
    "lam": "gae_lambda",
    "lambda": "gae_lambda",
    "learning_epochs": "epochs",
    "log_std_init": "initial_log_std",
    "lr": "learning_rate",
    "lstm_hidden_size": "recurrent_units",
    "max_grad_norm": "max_gradient_norm",
    "max_length": "max_episode_steps",
    "mini_epochs": "epochs",
    "n_envs": "num_envs",
    "n_epochs": "epochs",
    "n_eval_episodes": "eval_episodes",
    "n_steps": "rollout_length",
    "n_timesteps": "steps",
    "net_arch": "layers",
    "norm_adv": "normalize_advantages",
    "norm_obs": "normalize_observ",
    "norm_reward": "normalize_reward",
    "num_actors": "num_envs",
    "num_agents": "num_envs",
    "num_steps": "rollout_length",
    "num_workers": "num_processes",
    "observation_preprocessor": "normalize_observ",
    "policy_layers": "layers",
    "ratio_clip": "clip_ratio",
    "rewards_shaper": "normalize_reward",
    "rollouts": "rollout_length",
    "save_freq": "checkpoint_interval",
    "tau": "gae_lambda",
    "target_kl": "kl_stop",
    "tensorboard_log": "logdir",
    "timesteps": "steps",
    "total_timesteps": "steps",
    "update_epochs": "epochs",
    "update_every": "rollout_length",
    "value_preprocessor": "normalize_value",
    "vf_coef": "value_coef",
    "value_loss_scale": "value_coef",
}

# What to do where there is no such setting, by its name in those libraries.
_ADVICE = {
    "features_extractor_class": "see network",
    "frame_stack": "wrap the environment, see env_wrappers",
    "hyperparams": "give the settings one by one",
    "n_stack": "wrap the environment, see env_wrappers",
    "n_trials": "see agents sweep",
    "normalize": "see normalize_observ and normalize_reward",
    "ortho_init": "weights always start orthogonal",
    "policy_kwargs": "see layers, value_layers, activation and initial_log_std",
    "reward_threshold": "leave the loop over agents.train(...) at this score",
    "sampler": "see agents sweep",
    "save_model": "checkpoints are always saved; see checkpoint_interval",
    "use_sde": "there is no such exploration; see noise_correlation",
    "vec_env": "see env_backend",
    "verbose": "see log_interval",
}


def hint(name: str, known: Collection[str], spelling: Callable[[str], str]) -> str:
    """Returns the end of an error message about an unknown setting.

    Args:
      name: The setting, with hyphens or underscores.
      known: Names of those that exist.
      spelling: Formats the name of a setting.
    """
    key = name.lower().replace("-", "_")
    if PEER_NAMES.get(key) in known:
        return f"; did you mean {spelling(PEER_NAMES[key])}?"
    if key in _ADVICE:
        return f"; {_ADVICE[key]}"
    return did_you_mean(key, known, spelling)
