"""Settings without effect: those that only count beside another setting."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from agents.settings.config import ALGORITHM_SETTINGS, SCALED_POLICIES, Config


class Condition(NamedTuple):
    """When settings have an effect.

    Attributes:
      names: The settings.
      holds: Whether they have an effect in an experiment.
      wording: What they need, as users set it.
    """

    names: tuple[str, ...]
    holds: Callable[[Config], bool]
    wording: str


_CONDITIONS = (
    Condition(
        ("num_processes",),
        lambda config: config.env_backend in {"process", "hybrid", "envpool"},
        "env_backend process, hybrid or envpool",
    ),
    Condition(
        ("step_timeout",),
        lambda config: config.env_backend in {"process", "hybrid"},
        "env_backend process or hybrid",
    ),
    Condition(("env_restarts",), lambda config: config.env_restarts.limit > 0, "a limit above 0"),
    Condition(
        ("custom_settings",),
        lambda config: any(
            ":" in name for name in (config.network, config.policy, config.optimizer)
        ),
        "an algorithm, network, policy or optimizer of your own",
    ),
    Condition(
        ("adam_epsilon",),
        lambda config: config.optimizer != "sgd",
        "optimizer adam or torch_adam",
    ),
    Condition(
        ("sgd_momentum",),
        lambda config: config.optimizer not in {"adam", "torch_adam"},
        "optimizer sgd",
    ),
    Condition(
        ("clip_ratio", "clip_ratio_schedule"),
        lambda config: config.objective != "kl",
        "objective clip or clip_kl",
    ),
    Condition(
        ("kl_init_penalty", "kl_cutoff_factor", "kl_cutoff_coef"),
        lambda config: config.objective != "clip",
        "objective kl or clip_kl",
    ),
    Condition(
        ("kl_target", "multiply_kl_target"),
        lambda config: config.objective != "clip" or config.learning_rate_schedule == "kl",
        "objective kl or clip_kl, or learning_rate_schedule kl",
    ),
    Condition(
        ("kl_stop_after", "multiply_kl_stop"),
        lambda config: config.kl_stop > 0,
        "kl_stop above 0",
    ),
    Condition(
        ("entropy_coef_schedule",), lambda config: config.entropy_coef > 0, "entropy_coef above 0"
    ),
    Condition(
        ("min_advantage_std",),
        lambda config: config.normalize_advantages,
        "normalize_advantages true",
    ),
    Condition(("recompute_advantages",), lambda config: config.epochs > 1, "epochs above 1"),
    Condition(
        ("target_entropy",), lambda config: config.learn_entropy_coef, "learn_entropy_coef true"
    ),
    Condition(
        ("layer_norm",),
        lambda config: not config.shared_torso or config.layer_norm == "all",
        "shared_torso false, or the value all",
    ),
    Condition(("value_layers",), lambda config: not config.shared_torso, "shared_torso false"),
    Condition(
        ("recurrent_units", "sequence_length"),
        lambda config: config.recurrent != "none",
        "recurrent gru or lstm",
    ),
    Condition(
        ("initial_log_std", "divide_initial_std", "state_dependent_std"),
        lambda config: config.policy in {"gaussian", "squashed_gaussian"} or ":" in config.policy,
        "policy gaussian or squashed_gaussian",
    ),
    Condition(
        ("scale_actions",),
        lambda config: config.policy in SCALED_POLICIES or ":" in config.policy,
        "policy gaussian",
    ),
    Condition(
        ("initial_log_std", "divide_initial_std"),
        lambda config: not config.initial_weights,
        "new weights, without initial_weights",
    ),
    Condition(
        ("initial_entropy_coef",),
        lambda config: not (config.initial_weights and config.learn_entropy_coef),
        "new weights, without initial_weights, or learn_entropy_coef false",
    ),
    Condition(("observ_clip",), lambda config: config.normalize_observ, "normalize_observ true"),
    Condition(("reward_clip",), lambda config: config.normalize_reward, "normalize_reward true"),
)


def settings_without_effect(config: Config, given: Iterable[str]) -> list[str]:
    """Returns a line for each given setting that another setting leaves without effect.

    Algorithms of users may read settings as they like: nothing is said about them.

    Args:
      config: The experiment.
      given: Names of the settings that a user has chosen. A default is no choice.
    """
    if config.algorithm not in ALGORITHM_SETTINGS:
        return []
    chosen = [name for name in given if getattr(config, name) != Config.model_fields[name].default]
    return [
        f"{name} has no effect: it needs {condition.wording}"
        for condition in _CONDITIONS
        for name in condition.names
        if name in chosen and not condition.holds(config)
    ]
