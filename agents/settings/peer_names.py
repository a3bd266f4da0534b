"""What other libraries call settings, and what to use for settings that do not exist here."""

from __future__ import annotations

from collections.abc import Callable, Collection

from agents.suggestion import did_you_mean

# Settings by the names that they have in Stable-Baselines3, CleanRL, skrl, rl_games, RLlib, OpenAI's
# Baselines and batch-ppo.
PEER_NAMES = {
    "activation_fn": "activation",
    "algo": "algorithm",
    "anneal_lr": "learning_rate_schedule",
    "batch_size": "minibatch_size",
    "capture_video": "video_interval",
    "clip_coef": "clip_ratio",
    "clip_obs": "observ_clip",
    "clip_range": "clip_ratio",
    "clip_range_vf": "value_clip",
    "clip_reward": "reward_clip",
    "clip_vloss": "value_clip",
    "cliprange": "clip_ratio",
    "critic_coef": "value_coef",
    "critic_lr": "critic_learning_rate",
    "cuda": "device",
    "discount_factor": "discount",
    "discount_rate": "discount",
    "e_clip": "clip_ratio",
    "ent_coef": "entropy_coef",
    "entropy_loss_scale": "entropy_coef",
    "entropy_weight": "entropy_coef",
    "env_id": "env",
    "env_name": "env",
    "env_processes": "env_backend",
    "eval_freq": "eval_interval",
    "exp_name": "name",
    "experiment_name": "name",
    "gamma": "discount",
    "gpu": "device",
    "grad_norm": "max_gradient_norm",
    "grad_norm_clip": "max_gradient_norm",
    "hidden_layers": "layers",
    "hidden_sizes": "layers",
    "horizon_length": "rollout_length",
    "init_std": "initial_log_std",
    "kl_threshold": "kl_stop",
    "lam": "gae_lambda",
    "lambda": "gae_lambda",
    "learning_epochs": "epochs",
    "log_dir": "logdir",
    "log_std_init": "initial_log_std",
    "lr": "learning_rate",
    "lstm_hidden_size": "recurrent_units",
    "max_ep_len": "max_episode_steps",
    "max_episode_length": "max_episode_steps",
    "max_grad_norm": "max_gradient_norm",
    "max_length": "max_episode_steps",
    "max_steps": "steps",
    "mini_batches": "minibatch_size",
    "mini_epochs": "epochs",
    "mixed_precision": "precision",
    "n_actors": "num_envs",
    "n_envs": "num_envs",
    "n_epochs": "epochs",
    "n_eval_episodes": "eval_episodes",
    "n_steps": "rollout_length",
    "n_timesteps": "steps",
    "net_arch": "layers",
    "nminibatches": "minibatch_size",
    "noptepochs": "epochs",
    "norm_adv": "normalize_advantages",
    "norm_obs": "normalize_observ",
    "norm_reward": "normalize_reward",
    "nsteps": "rollout_length",
    "num_actors": "num_envs",
    "num_agents": "num_envs",
    "num_environments": "num_envs",
    "num_epochs": "epochs",
    "num_minibatches": "minibatch_size",
    "num_steps": "rollout_length",
    "num_workers": "num_processes",
    "observation_preprocessor": "normalize_observ",
    "output_dir": "logdir",
    "policy_layers": "layers",
    "preset": "config",
    "presets": "list",
    "ratio_clip": "clip_ratio",
    "resume": "timestamp",
    "rewards_shaper": "normalize_reward",
    "rollout_steps": "rollout_length",
    "rollouts": "rollout_length",
    "run_name": "name",
    "save_dir": "logdir",
    "save_freq": "checkpoint_interval",
    "target_kl": "kl_stop",
    "tau": "gae_lambda",
    "tensorboard_log": "logdir",
    "timesteps": "steps",
    "total_steps": "steps",
    "total_timesteps": "steps",
    "update_epochs": "epochs",
    "update_every": "rollout_length",
    "value_loss_scale": "value_coef",
    "value_preprocessor": "normalize_value",
    "vf_coef": "value_coef",
    "wandb": "track",
}

# What to do where there is no such setting, by its name in those libraries.
_ADVICE = {
    "callback": "in Python, loop over agents.train(...), which yields the score of each evaluation",
    "callbacks": "in Python, loop over agents.train(...), which yields the score of each evaluation",
    "eval_env": "evaluations have environments of their own; see eval_episodes",
    "features_extractor_class": "see network",
    "frame_stack": "wrap the environment, see env_wrappers",
    "hyperparams": "give the settings one by one",
    "n_stack": "wrap the environment, see env_wrappers",
    "n_trials": "see agents sweep",
    "normalize": "see normalize_observ and normalize_reward",
    "ortho_init": "weights always start orthogonal",
    "policy_kwargs": "see layers, value_layers, activation and initial_log_std",
    "progress_bar": "progress is always shown",
    "render": "see agents visualize",
    "render_mode": "see agents visualize",
    "reset_num_timesteps": "a run that is resumed continues its steps; see timestamp",
    "reward_threshold": "leave the loop over agents.train(...) at this score",
    "sampler": "see agents sweep",
    "save_model": "checkpoints are always saved; see checkpoint_interval",
    "use_sde": "there is no such exploration; see noise_correlation",
    "vec_env": "see env_backend",
    "vec_env_cls": "see env_backend",
    "verbose": "see log_interval",
}

# Options of the command that trains, and arguments of `agents.train`, which are no settings.
_TRAIN_ARGUMENTS = ("logdir", "name", "track")

# What to use instead of names that other libraries have in Python, in lower case.
_ATTRIBUTES = {
    "asyncvectorenv": "see agents.make_batch_env",
    "check_env": "run the command agents check",
    "config": "see agents.load_config",
    "dummyvecenv": "see agents.make_batch_env",
    "enjoy": "see agents.visualize",
    "evaluate": "see agents.visualize",
    "evaluate_policy": "see agents.visualize",
    "fit": "see agents.train",
    "learn": "see agents.train",
    "load": "see agents.load_policy",
    "make": "see agents.load_config for experiments, or agents.make_batch_env for environments",
    "make_env": "see agents.make_batch_env",
    "make_vec": "see agents.make_batch_env",
    "make_vec_env": "see agents.make_batch_env",
    "predict": "see agents.load_policy",
    "run": "see agents.train",
    "save": "checkpoints are always saved; see agents.load_policy",
    "subprocvecenv": "see agents.make_batch_env",
    "syncvectorenv": "see agents.make_batch_env",
    "vecnormalize": "policies contain their normalizers; see the setting normalize_observ",
    **{name: f"run the command agents {name}" for name in ("check", "compare", "export", "sweep")},
}


def hint(name: str, known: Collection[str], spelling: Callable[[str], str]) -> str:
    """Returns the end of an error message about an unknown setting.

    Args:
      name: The setting, with hyphens or underscores.
      known: Names of those that exist.
      spelling: Formats the name of a setting.
    """
    key = name.lower().replace("-", "_")
    ours = PEER_NAMES.get(key, key)
    if key in PEER_NAMES and ours in known:
        return f"; did you mean {spelling(ours)}?"
    if key in _ADVICE:
        return f"; {_ADVICE[key]}"
    if ours in _TRAIN_ARGUMENTS and ours not in known and "env" in known:
        return f"; {ours} is an argument of agents.train(...) and of the command, not a setting"
    return did_you_mean(key, known, spelling)


def attribute_hint(name: str, known: Collection[str]) -> str:
    """Returns the end of an error message about a name that the package `agents` does not have.

    Args:
      name: The name.
      known: Names of those that it has.
    """
    if name.lower() in _ATTRIBUTES:
        return f"; {_ATTRIBUTES[name.lower()]}"
    return did_you_mean(name, known, "agents.{}".format)


def argument_hint(name: str, known: Collection[str], settings: Collection[str]) -> str:
    """Returns the end of an error message about an unknown argument of `agents.train`.

    Args:
      name: The argument.
      known: Names of those that exist.
      settings: Names of settings.
    """
    setting = PEER_NAMES.get(name, name)
    if setting in settings:
        return f"; settings are given to agents.load_config, as {setting}=..."
    return hint(name, known, repr)
