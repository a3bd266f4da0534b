"""Settings that a run may be resumed with in place of those that it was started with."""

from __future__ import annotations

from collections.abc import Mapping

from agents.errors import UsageError
from agents.settings.config import Config
from agents.settings.consistency import PYTHON_BACKENDS
from agents.settings.validation import abbreviate
from agents.types import PlainData

# None of them changes what is learned from a given step on, but for how far schedules reach and for
# `reset_options`, in which a curriculum has its levels.
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
        "reset_options",
        "start_timeout",
        "step_timeout",
        "threads",
        "video_interval",
        "wait_for",
    }
)


def differences(
    started: Mapping[str, PlainData], given: Mapping[str, PlainData], changeable: bool = False
) -> list[str]:
    """Returns the settings that differ, without settings that one of both lacks.

    Args:
      started: The settings of a run, by name.
      given: Other settings.
      changeable: Whether to include those that a run may be resumed with.
    """
    names = [name for name in given if name in started and started[name] != given[name]]
    if changeable:
        return names
    if {started.get("env_backend"), given.get("env_backend")} <= PYTHON_BACKENDS:
        names = [name for name in names if name != "env_backend"]
    return [name for name in names if name not in CHANGEABLE]


def check_resumption(started: Config, given: Config) -> None:
    """Refuses settings that would make the rest of a run another experiment.

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
    raise UsageError(
        f"{name}: the run has {abbreviate(before[name])}, got {abbreviate(now[name])}{more}\n"
        "resuming can't change what is learned; start a new run for it, without --timestamp"
    )
