"""Settings that a run may be resumed with in place of those that it was started with."""

from __future__ import annotations

from agents.errors import UsageError
from agents.settings.config import Config
from agents.settings.consistency import PYTHON_BACKENDS
from agents.settings.validation import abbreviate

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


def check_resumption(started: Config, given: Config) -> None:
    """Refuses settings that would make the rest of a run another experiment.

    Args:
      started: The settings of the run.
      given: The settings to resume it with.

    Raises:
      UsageError: A setting differs that is not among `CHANGEABLE`.
    """
    different = [
        name
        for name in Config.model_fields
        if name not in CHANGEABLE and getattr(started, name) != getattr(given, name)
    ]
    if {started.env_backend, given.env_backend} <= PYTHON_BACKENDS:
        different = [name for name in different if name != "env_backend"]
    if not different:
        return
    name = different[0]
    more = f" (and {', '.join(different[1:4])})" if different[1:] else ""
    raise UsageError(
        f"{name}: the run has {abbreviate(getattr(started, name))}, "
        f"got {abbreviate(getattr(given, name))}{more}\n"
        "resuming can't change what is learned; start a new run for it, without --timestamp"
    )
