"""Names of other libraries, and their counterparts here."""

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
    "checkpoint_freq": "checkpoint_interval",
    "clip_coef": "clip_ratio",
    "clip_obs": "observ_clip",
    "clip_param": "clip_ratio",
    "clip_range": "clip_ratio",
    "clip_range_vf": "value_clip",
    "clip_reward": "reward_clip",
    "clip_rewards": "reward_clip",
    "clip_vloss": "value_clip",
    "cliprange": "clip_ratio",
    "critic_coef": "value_coef",
    "critic_lr": "critic_learning_rate",
    "cuda": "device",
    "discount_factor": "discount",
    "discount_rate": "discount",
    "e_clip": "clip_ratio",
    "ent_coef": "entropy_coef",
    "entropy_coeff": "entropy_coef",
    "entropy_loss_scale": "entropy_coef",
    "entropy_weight": "entropy_coef",
    "env_config": "env_kwargs",
    "env_id": "env",
    "env_name": "env",
    "env_processes": "env_backend",
    "environment": "env",
    "eval_freq": "eval_interval",
    "evaluation_duration": "eval_episodes",
    "evaluation_interval": "eval_interval",
    "exp_name": "name",
    "experiment_name": "name",
    "fcnet_activation": "activation",
    "fcnet_hiddens": "layers",
    "gamma": "discount",
    "gpu": "device",
    "grad_clip": "max_gradient_norm",
    "grad_norm": "max_gradient_norm",
    "grad_norm_clip": "max_gradient_norm",
    "hidden_layers": "layers",
    "hidden_sizes": "layers",
    "horizon": "max_episode_steps",
    "horizon_length": "rollout_length",
    "init_std": "initial_log_std",
    "kl_coeff": "kl_init_penalty",
    "kl_threshold": "kl_stop",
    "lam": "gae_lambda",
    "lambda": "gae_lambda",
    "lambda_": "gae_lambda",
    "learning_epochs": "epochs",
    "local_dir": "logdir",
    "log_dir": "logdir",
    "log_std_init": "initial_log_std",
    "lr": "learning_rate",
    "lr_schedule": "learning_rate_schedule",
    "lstm_cell_size": "recurrent_units",
    "lstm_hidden_size": "recurrent_units",
    "max_ep_len": "max_episode_steps",
    "max_episode_length": "max_episode_steps",
    "max_grad_norm": "max_gradient_norm",
    "max_length": "max_episode_steps",
    "max_seq_len": "sequence_length",
    "max_steps": "steps",
    "mini_batches": "minibatch_size",
    "mini_epochs": "epochs",
    "mixed_precision": "precision",
    "model_dir": "logdir",
    "monitor_dir": "logdir",
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
    "num_env_runners": "num_processes",
    "num_environments": "num_envs",
    "num_envs_per_env_runner": "num_envs",
    "num_envs_per_worker": "num_envs",
    "num_epochs": "epochs",
    "num_gpus": "device",
    "num_learners": "learners",
    "num_minibatches": "minibatch_size",
    "num_rollout_workers": "num_processes",
    "num_sgd_iter": "epochs",
    "num_steps": "rollout_length",
    "num_workers": "num_processes",
    "observation_filter": "normalize_observ",
    "observation_preprocessor": "normalize_observ",
    "optimizer_class": "optimizer",
    "output_dir": "logdir",
    "policy_layers": "layers",
    "preset": "config",
    "presets": "list",
    "ratio_clip": "clip_ratio",
    "resume": "timestamp",
    "rewards_shaper": "normalize_reward",
    "rollout_fragment_length": "rollout_length",
    "rollout_steps": "rollout_length",
    "rollouts": "rollout_length",
    "run_name": "name",
    "save_dir": "logdir",
    "save_freq": "checkpoint_interval",
    "storage_path": "logdir",
    "target_kl": "kl_stop",
    "tau": "gae_lambda",
    "tb_log_name": "name",
    "tensorboard_log": "logdir",
    "timesteps": "steps",
    "total_steps": "steps",
    "total_timesteps": "steps",
    "update_epochs": "epochs",
    "update_every": "rollout_length",
    "use_lstm": "recurrent",
    "value_loss_scale": "value_coef",
    "value_preprocessor": "normalize_value",
    "vf_clip_param": "value_clip",
    "vf_coef": "value_coef",
    "vf_loss_coeff": "value_coef",
    "vf_share_layers": "shared_torso",
    "wandb": "track",
    "wandb_project_name": "track",
    "workers": "learners",
    "wrapper_class": "env_wrappers",
}

# Advice for settings of other libraries that do not exist here.
_ADVICE = {
    "best_model_save_path": "the best checkpoint is always kept; see eval_interval",
    "callback": "in Python, loop over agents.train(...), which yields the score of each evaluation",
    "callbacks": "in Python, loop over agents.train(...), which yields the score of each evaluation",
    "clip_actions": "actions are always clipped to their bounds",
    "deterministic": "evaluations are deterministic, training samples actions",
    "eval_env": "evaluations have environments of their own; see eval_episodes",
    "features_extractor_class": "see network",
    "frame_stack": "wrap the environment, see env_wrappers",
    "framestack": "wrap the environment, see env_wrappers",
    "hyperparams": "give the settings one by one",
    "n_stack": "wrap the environment, see env_wrappers",
    "n_trials": "see agents sweep",
    "n_updates": "training takes environment steps; see steps",
    "normalize": "see normalize_observ and normalize_reward",
    "num_samples": "see agents sweep",
    "num_iterations": "training takes environment steps; see steps",
    "num_updates": "training takes environment steps; see steps",
    "ortho_init": "weights always start orthogonal",
    "policy_kwargs": "see layers, value_layers, activation and initial_log_std",
    "progress_bar": "progress is always shown",
    "render": "see agents visualize",
    "render_env": "see agents visualize",
    "render_mode": "see agents visualize",
    "reset_num_timesteps": "a run that is resumed continues its steps; see timestamp",
    "reward_threshold": "leave the loop over agents.train(...) at this score",
    "sampler": "see agents sweep",
    "save_model": "checkpoints are always saved; see checkpoint_interval",
    "train_batch_size": "a rollout has num_envs times rollout_length steps; see minibatch_size",
    "train_batch_size_per_learner": "a rollout has num_envs times rollout_length steps; see minibatch_size",
    "use_sde": "there is no such exploration; see noise_correlation",
    "vec_env": "see env_backend",
    "vec_env_cls": "see env_backend",
    "verbose": "see log_interval",
}

# Options of the command that trains, and arguments of `agents.train`, which are no settings.
_TRAIN_ARGUMENTS = ("logdir", "name", "track")

# Counterparts of Python names of other libraries, in lower case.
_ATTRIBUTES = {
    "a2c": "see agents.PPO, or agents.Algorithm for one of your own",
    "asyncvectorenv": "see agents.make_batch_env",
    "basecallback": "see agents.train, which yields the score of each evaluation",
    "callbacks": "see agents.train, which yields the score of each evaluation",
    "check_env": "run the command agents check",
    "config": "see agents.load_config",
    "dqn": "see agents.PPO, or agents.Algorithm for one of your own",
    "dummyvecenv": "see agents.make_batch_env",
    "enjoy": "see agents.visualize",
    "evalcallback": "see agents.train, which yields the score of each evaluation",
    "evaluate": "see agents.visualize",
    "evaluate_policy": "see agents.visualize",
    "fit": "see agents.train",
    "learn": "see agents.train",
    "load": "see agents.load_policy",
    "make": "see agents.load_config for experiments, or agents.make_batch_env for environments",
    "make_env": "see agents.make_batch_env",
    "make_vec": "see agents.make_batch_env",
    "make_vec_env": "see agents.make_batch_env",
    "ppoconfig": "see agents.load_config",
    "predict": "see agents.load_policy",
    "resume": "see agents.train",
    "run": "see agents.train",
    "sac": "see agents.PPO, or agents.Algorithm for one of your own",
    "save": "checkpoints are always saved; see agents.load_policy",
    "subprocvecenv": "see agents.make_batch_env",
    "syncvectorenv": "see agents.make_batch_env",
    "td3": "see agents.PPO, or agents.Algorithm for one of your own",
    "test": "see agents.visualize",
    "trainer": "see agents.train",
    "vecnormalize": "policies contain their normalizers; see the setting normalize_observ",
    **{name: f"run the command agents {name}" for name in ("check", "compare", "export", "sweep")},
}


def hint(name: str, known: Collection[str], spelling: Callable[[str], str]) -> str:
    """Returns the end of an error message about an unknown setting.

    Args:
      name: The setting, with hyphens or underscores.
      known: Names that exist.
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
      known: Names that it has.
    """
    if name.lower() in _ATTRIBUTES:
        return f"; {_ATTRIBUTES[name.lower()]}"
    return did_you_mean(name, known, "agents.{}".format)


def argument_hint(name: str, known: Collection[str], settings: Collection[str]) -> str:
    """Returns the end of an error message about an unknown argument of `agents.train`.

    Args:
      name: The argument.
      known: Names that exist.
      settings: Names of settings.
    """
    setting = PEER_NAMES.get(name, name)
    if setting in settings:
        return f"; settings are given to agents.load_config, as {setting}=..."
    return hint(name, known, repr)
