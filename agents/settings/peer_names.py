"""Names of other libraries, and their counterparts here."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from agents.suggestion import did_you_mean


def _by_name(names: Mapping[str, str]) -> dict[str, str]:
    """Returns the answer to each name, of names separated by spaces by answer."""
    return {name: answer for answer, each in names.items() for name in each.split()}


# Settings, and the names that they have in Stable-Baselines3, CleanRL, skrl, rl_games, RLlib, TF-Agents,
# OpenAI's Baselines and batch-ppo.
PEER_NAMES = _by_name(
    {
        "action_mask": "invalid_action_mask mask masking",
        "action_repeat": "frame_skip",
        "activation": "activation_fn fcnet_activation",
        "algorithm": "algo",
        "batch_size": "sample_batch_size",
        "checkpoint_interval": "checkpoint_freq save_freq train_checkpoint_interval",
        "clip_ratio": "clip_coef clip_param clip_range cliprange e_clip importance_ratio_clipping ratio_clip",
        "config": "preset",
        "critic_learning_rate": "critic_lr q_lr",
        "device": "cuda gpu num_gpus",
        "discount": "discount_factor discount_rate gamma",
        "entropy_coef": (
            "ent_coef entropy_coeff entropy_loss_scale entropy_regularization entropy_weight"
        ),
        "env": "env_id env_name environment",
        "env_backend": "env_processes",
        "env_kwargs": "env_config",
        "env_wrappers": "wrapper_class",
        "epochs": "learning_epochs mini_epochs n_epochs noptepochs num_epochs num_sgd_iter update_epochs",
        "eval_episodes": "evaluation_duration n_eval_episodes num_eval_episodes",
        "eval_interval": "eval_freq evaluation_interval",
        "gae_lambda": "lam lambda lambda_ lambda_value",
        "initial_log_std": "init_action_stddev init_std log_std_init",
        "gradient_steps": "train_steps_per_iteration",
        "kl_init_penalty": "initial_adaptive_kl_beta kl_coeff",
        "kl_stop": "kl_threshold target_kl",
        "kl_target": "adaptive_kl_target",
        "layers": (
            "actor_fc_layer_params actor_fc_layers fc_layer_params fcnet_hiddens hidden_layers hidden_sizes "
            "input_fc_layer_params net_arch policy_layers"
        ),
        "learners": "num_learners workers",
        "learning_rate": "actor_learning_rate actor_lr alpha_learning_rate alpha_lr lr policy_lr",
        "learning_starts": "initial_collect_steps start_steps warmup_steps",
        "learning_rate_schedule": "anneal_lr lr_schedule",
        "list": "presets",
        "log_interval": "summary_interval",
        "logdir": (
            "local_dir log_dir model_dir monitor_dir output_dir root_dir save_dir storage_path tensorboard_log"
        ),
        "max_episode_steps": "horizon max_ep_len max_episode_length max_length",
        "max_gradient_norm": "grad_clip grad_norm grad_norm_clip gradient_clipping max_grad_norm",
        "replay_capacity": "buffer_size memory_size replay_buffer_capacity replay_size",
        "num_critics": "n_critics",
        "num_quantiles": "n_quantiles",
        "dropped_quantiles": "top_quantiles_to_drop_per_net",
        "minibatch_size": "mini_batches nminibatches num_minibatches",
        "name": "exp_name experiment_name run_name tb_log_name",
        "normalize_advantages": "norm_adv",
        "normalize_observ": "norm_obs observation_filter observation_preprocessor",
        "normalize_reward": "norm_reward rewards_shaper",
        "normalize_value": "value_preprocessor",
        "num_envs": (
            "n_actors n_envs num_actors num_agents num_environments num_envs_per_env_runner "
            "num_envs_per_worker num_parallel_environments"
        ),
        "num_processes": "num_env_runners num_rollout_workers num_workers",
        "observ_clip": "clip_obs",
        "optimizer": "optimizer_class",
        "precision": "mixed_precision",
        "recurrent": "use_lstm use_rnns",
        "recurrent_units": "lstm_cell_size lstm_hidden_size lstm_size",
        "reward_clip": "clip_reward clip_rewards reward_norm_clipping",
        "rollout_length": (
            "collect_steps_per_iteration horizon_length n_steps nsteps num_steps rollout_fragment_length "
            "rollout_steps rollouts train_freq update_every"
        ),
        "seed": "random_seed",
        "sequence_length": "max_seq_len",
        "shared_torso": "vf_share_layers",
        "steps": "max_steps n_timesteps num_environment_steps timesteps total_steps total_timesteps",
        "target_rate": "polyak target_update_tau",
        "timestamp": "resume",
        "track": "wandb wandb_project_name",
        "trials": "n_trials num_samples",
        "value_clip": "clip_range_vf clip_vloss vf_clip_param",
        "value_coef": "critic_coef value_loss_scale value_pred_loss_coef vf_coef vf_loss_coeff",
        "value_layers": (
            "critic_joint_fc_layer_params critic_joint_fc_layers joint_fc_layer_params qf_layers "
            "value_fc_layer_params value_fc_layers"
        ),
        "video_interval": "capture_video",
    }
)

# Names that Stable-Baselines3's SAC uses for another setting than its PPO.
_IN_SAC = {"ent_coef": "initial_entropy_coef", "n_steps": "n_step"}

# Counterparts whose value is a multiple of the one in Stable-Baselines3.
_MULTIPLES = {"vf_coef": "twice", "target_kl": "1.5 times"}

# Advice for settings of other libraries that do not exist here.
_ADVICE = _by_name(
    {
        "the best checkpoint is always kept; see eval_interval": "best_model_save_path",
        "in Python, loop over agents.train(...), which yields the score of each evaluation": "callback callbacks",
        "actions are always clipped to their bounds": "clip_actions",
        "evaluations are deterministic, training samples actions": "deterministic greedy_eval",
        "evaluations have environments of their own; see eval_episodes": "eval_env",
        "see network": "features_extractor_class features_extractor_kwargs",
        "wrap the environment, see env_wrappers": "frame_stack framestack n_stack",
        "give the settings one by one": "hyperparams",
        "see agents sweep": "n_trials num_samples optimize optimize_hyperparameters sampler",
        "start the command in several terminals": "n_jobs",
        "training takes environment steps; see steps": "n_updates num_iterations num_updates",
        "see normalize_observ and normalize_reward": "normalize vec_normalize",
        "built-in networks always start orthogonal; see network": "ortho_init",
        "see layers, value_layers, activation and initial_log_std": "policy_kwargs",
        "progress is always shown": "progress_bar",
        "see agents visualize": "render render_env render_mode",
        "a run that is resumed continues its steps; see timestamp": "reset_num_timesteps",
        "leave the loop over agents.train(...) at this score": "reward_threshold",
        "checkpoints are always saved; see checkpoint_interval": "save_model",
        "a rollout has num_envs times rollout_length steps; see minibatch_size": (
            "train_batch_size train_batch_size_per_learner"
        ),
        "there is no gSDE; PPO has noise_correlation": (
            "action_noise sde_sample_freq use_sde use_sde_at_warmup"
        ),
        "all keys or none are normalized; see normalize_observ": "norm_obs_keys",
        "the newest five checkpoints, five earlier ones and the best are kept": "max_to_keep",
        "no extractor is shared alone; see shared_torso": "share_features_extractor",
        "episode/return is the mean since the last log point; see log_interval": "stats_window_size",
        "targets follow in every gradient step; see target_rate": (
            "target_update_interval target_update_period"
        ),
        "a rollout has steps, not episodes; see rollout_length": "collect_episodes_per_iteration",
        "advantages are always GAE; see gae_lambda": "use_gae use_td_lambda_return",
        "see adam_epsilon and sgd_momentum": "optimizer_kwargs",
        "see env_backend": "vec_env vec_env_cls",
        "there is one kind of replay; see replay_capacity": (
            "optimize_memory_usage replay_buffer_class replay_buffer_kwargs"
        ),
        "time limits never count as terminal": "handle_timeout_termination",
        "see log_interval": "verbose",
        "for targets of critics see target_rate; for advantages see gae_lambda": "tau",
        "see initial_entropy_coef and learn_entropy_coef": "alpha autotune initial_log_alpha",
        "wrap the training environments, see train_wrappers": "reward_scale reward_scale_factor",
    }
)

# Options of the command that trains, and arguments of `agents.train`, which are no settings.
_TRAIN_ARGUMENTS = ("logdir", "name", "track")

# Counterparts of Python names of other libraries, in lower case.
_ATTRIBUTES = _by_name(
    {
        "see agents.PPO": "ppoagent ppoclipagent",
        "see agents.SAC": "sacagent",
        "see agents.export_policy": "policysaver",
        "see agents.train, or agents.simulate in a loop of your own": (
            "driver dynamicepisodedriver dynamicstepdriver"
        ),
        "see agents.PPO, and the setting action_mask": "maskableppo",
        "see agents.PPO, and the setting recurrent": "recurrentppo",
        "see agents.SAC, and the settings num_quantiles and dropped_quantiles": "tqc",
        "checkpoints are always saved; see the setting checkpoint_interval": "checkpointcallback",
        "metrics are always written; see agents.train": "monitor vecmonitor",
        "there are agents.PPO and agents.SAC, and agents.Algorithm for one of your own": (
            "a2c ddpg dqn her herreplaybuffer td3"
        ),
        "see the setting action_mask": "actionmasker",
        "see the setting network": "basefeaturesextractor",
        "wrap the environment; see the setting env_wrappers": "vecframestack",
        "see agents.make_batch_env": (
            "asyncvectorenv dummyvecenv make_env make_vec make_vec_env parallelpyenvironment "
            "subprocvecenv syncvectorenv tfpyenvironment"
        ),
        "see agents.train, which yields the score of each evaluation": (
            "basecallback callbacks evalcallback stoptrainingonrewardthreshold"
        ),
        "run the command agents check": "check_env check",
        "see agents.load_config": "config ppoconfig",
        "see agents.visualize": "enjoy eval evaluate evaluate_policy play record_video test",
        "run the command agents sweep": "optimize sweep tune",
        "see agents.train": "fit learn resume run trainer",
        "see agents.load_policy": "load predict",
        "see agents.load_config for experiments, or agents.make_batch_env for environments": "make",
        "checkpoints are always saved; see agents.load_policy": "save",
        "policies contain their normalizers; see the setting normalize_observ": "vecnormalize",
        **{f"run the command agents {name}": name for name in ("compare", "export")},
    }
)


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
        other = f", or {spelling(_IN_SAC[key])} for SAC" if key in _IN_SAC else ""
        multiple = _MULTIPLES.get(key)
        remark = f" It is {multiple} Stable-Baselines3's {key}" if multiple else ""
        return f"; did you mean {spelling(ours)}{other}?{remark}"
    if key in _ADVICE:
        return f"; {_ADVICE[key]}"
    if ours in _TRAIN_ARGUMENTS and ours not in known and "env" in known:
        return f"; {ours} is an argument of agents.train(...) and of the command, not a setting"
    return did_you_mean(key, known, spelling)


def attribute_hint(
    name: str, known: Collection[str], spelling: Callable[[str], str] = "agents.{}".format
) -> str:
    """Returns the end of an error message about a name that the package or command lacks.

    Args:
      name: The name.
      known: Names that it has.
      spelling: Formats one of them.
    """
    if name.lower() in _ATTRIBUTES:
        return f"; {_ATTRIBUTES[name.lower()]}"
    return did_you_mean(name, known, spelling)


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
