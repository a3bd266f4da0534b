"""Spellings of options: as people type them, and as other libraries call them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic.fields import FieldInfo

# Settings by the names that they have in Stable-Baselines3, CleanRL, skrl, rl_games and batch-ppo.
PEER_NAMES = {
    "agents": "num_envs",
    "algo": "algorithm",
    "batch_size": "minibatch_size",
    "clip_coef": "clip_ratio",
    "clip_range": "clip_ratio",
    "clip_vloss": "value_clip",
    "clip_range_vf": "value_clip",
    "critic_coef": "value_coef",
    "e_clip": "clip_ratio",
    "ent_coef": "entropy_coef",
    "entropy_loss_scale": "entropy_coef",
    "env_id": "env",
    "env_name": "env",
    "eval_freq": "eval_interval",
    "gae_discount": "gae_lambda",
    "gamma": "discount",
    "gradient_steps": "epochs",
    "grad_norm": "max_gradient_norm",
    "grad_norm_clip": "max_gradient_norm",
    "horizon_length": "rollout_length",
    "lam": "gae_lambda",
    "lambda": "gae_lambda",
    "learning_epochs": "epochs",
    "lr": "learning_rate",
    "max_grad_norm": "max_gradient_norm",
    "mini_epochs": "epochs",
    "n_envs": "num_envs",
    "n_epochs": "epochs",
    "n_eval_episodes": "eval_episodes",
    "n_steps": "rollout_length",
    "n_timesteps": "steps",
    "net_arch": "layers",
    "norm_adv": "normalize_advantages",
    "num_actors": "num_envs",
    "num_steps": "rollout_length",
    "num_workers": "num_processes",
    "ratio_clip": "clip_ratio",
    "rollouts": "rollout_length",
    "save_freq": "checkpoint_interval",
    "tau": "gae_lambda",
    "target_kl": "kl_stop",
    "tensorboard_log": "logdir",
    "timesteps": "steps",
    "total_timesteps": "steps",
    "update_epochs": "epochs",
    "vf_coef": "value_coef",
    "value_loss_scale": "value_coef",
}


def option_name(field: str) -> str:
    """Returns a field's option: `--learning-rate` for `learning_rate`."""
    return f"--{field.replace('_', '-')}"


def normalize(arguments: Sequence[str], fields: Mapping[str, FieldInfo]) -> list[str]:
    """Returns arguments with hyphens in the names of options, and `=true` after switches alone.

    Args:
      arguments: What follows the command's name.
      fields: The fields that are options. Other arguments stay as they are.
    """
    normalized: list[str] = []
    names = {option_name(field): field for field in fields}
    for index, argument in enumerate(arguments):
        name, equals, value = argument.partition("=")
        option = option_name(name.removeprefix("--")) if name.startswith("--") else ""
        if option not in names:
            normalized.append(argument)
            continue
        following = arguments[index + 1 : index + 2]
        is_switch = fields[names[option]].annotation is bool
        if is_switch and not equals and (not following or following[0].startswith("-")):
            option, equals, value = option, "=", "true"
        normalized.append(f"{option}{equals}{value}")
    return normalized
