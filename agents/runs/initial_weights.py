"""Checkpoints of other runs, whose weights a new run starts from."""

from __future__ import annotations

from pathlib import Path

from agents.errors import UsageError
from agents.paths import absolute_path
from agents.runs.checkpoint_files import find_files, read_record
from agents.runs.run_directory import RunDirectory
from agents.settings.config import Config
from agents.settings.resumption import differences
from agents.settings.validation import abbreviate
from agents.types import PlainData

# Settings of networks and normalization that give weights their meaning.
_OF_WEIGHTS = frozenset(
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
        "normalize_observ",
        "normalize_reward",
        "normalize_value",
        "num_critics",
        "num_quantiles",
    }
)


def with_initial_weights(config: Config) -> Config:
    """Returns the configuration with the file of a checkpoint as its `initial_weights`, if it has any.

    The last checkpoint stands for a run, which may go on.

    Raises:
      UsageError: The run has no intact checkpoint, or had other settings of networks.
    """
    if not config.initial_weights:
        return config
    path = absolute_path(config.initial_weights)
    if path.suffix != ".npz":
        try:
            path = RunDirectory.of(path).checkpoint("last").with_suffix(".npz")
        except UsageError as error:
            raise UsageError(f"initial_weights: {error}") from None
    before, now = _settings_in(path), config.settings()
    for name in differences(before, now, changeable=True):
        if name in _OF_WEIGHTS:
            raise UsageError(
                f"initial_weights: the run of {path} has {name} {abbreviate(before[name])}, got "
                f"{abbreviate(now[name])}\nexpected equal settings of networks and normalization"
            )
    return config.model_copy(update={"initial_weights": str(path)})


def _settings_in(checkpoint: Path) -> dict[str, PlainData]:
    """Returns the settings in the file of a checkpoint; none if it can't be read."""
    files = [file for file in find_files(checkpoint.parent) if file.path == checkpoint]
    settings = read_record(files[0]).get("settings") if files else None
    return settings if isinstance(settings, dict) else {}
