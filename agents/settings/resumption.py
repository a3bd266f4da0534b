"""Settings that may change when a run is resumed."""

from __future__ import annotations

from collections.abc import Mapping

from agents.errors import UsageError
from agents.settings.config import PYTHON_BACKENDS, Config
from agents.settings.validation import abbreviate
from agents.types import PlainData

# They leave the learning from a given step on unchanged, except for the length of schedules, for
# `reset_options`, which hold the levels of a curriculum, and for a replay that is filled again.
CHANGEABLE = frozenset(
    {
        "steps",
        "device",
        "eval_interval",
        "eval_episodes",
        "env_restarts",
        "log_interval",
        "histogram_interval",
        "info_keys",
        "num_processes",
        "on_nonfinite",
        "replay_checkpoints",
        "reset_options",
        "start_timeout",
        "step_timeout",
        "threads",
        "video_interval",
        "wait_for",
    }
)

# With other values, the same weights mean something else.
_OF_NETWORKS = frozenset(
    {
        "algorithm",
        "network",
        "layers",
        "value_layers",
        "shared_torso",
        "critic_keys",
        "recurrent",
        "recurrent_units",
        "activation",
        "layer_norm",
        "policy",
        "scale_actions",
        "state_dependent_std",
        "action_mask",
        "normalize_observ",
        "normalize_reward",
        "normalize_value",
        "num_critics",
        "num_quantiles",
    }
)


def network_settings(config: Config) -> frozenset[str]:
    """Returns the settings that must be equal where `initial_weights` come from."""
    is_own = ":" in config.network or ":" in config.policy
    return _OF_NETWORKS | {"custom_settings"} if is_own else _OF_NETWORKS


def differences(
    started: Mapping[str, PlainData], given: Mapping[str, PlainData], changeable: bool = False
) -> list[str]:
    """Returns the settings that differ, without settings that one of both lacks.

    Args:
      started: The settings of a run, by name.
      given: Other settings.
      changeable: Whether to include settings of `CHANGEABLE`.
    """
    names = [name for name in given if name in started and started[name] != given[name]]
    if changeable:
        return names
    if {started.get("env_backend"), given.get("env_backend")} <= PYTHON_BACKENDS:
        names = [name for name in names if name != "env_backend"]
    return [name for name in names if name not in CHANGEABLE]


def check_resumption(started: Config, given: Config) -> None:
    """Rejects settings that would make the rest of a run another experiment.

    Args:
      started: The settings of the run.
      given: The settings to resume it with.

    Raises:
      UsageError: A setting differs that is not among `CHANGEABLE`.
    """
    before, now = dict(started), dict(given)
    different = differences(before, now)
    if not different:
        return
    name = different[0]
    more = f" (and {', '.join(different[1:4])})" if different[1:] else ""
    hint = "from these weights with --initial-weights"
    if network_settings(given).union({"initial_weights"}).intersection(different):
        hint = "which has new weights"
    raise UsageError(
        f"{name}: the run has {abbreviate(before[name])}, got {abbreviate(now[name])}{more}\n"
        f"a resumed run keeps this setting; to change it, start a new run, {hint}"
    )
