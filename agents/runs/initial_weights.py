"""The checkpoint of another run, whose weights a new run starts from, and the run's copy of it."""

from __future__ import annotations

from agents.errors import UsageError
from agents.paths import absolute_path
from agents.regular_files import read_regular, write_atomically
from agents.runs.checkpoint_files import (
    BEST,
    MAX_BYTES,
    CheckpointFile,
    DamagedError,
    file_at,
    find_files,
    read,
    read_record,
)
from agents.runs.run_directory import RunDirectory
from agents.settings.config import Config
from agents.settings.resumption import differences, network_settings
from agents.settings.validation import abbreviate


def copy_initial_weights(config: Config, run: RunDirectory) -> None:
    """Copies the checkpoint that a new run starts from into its folder, unless it is there already.

    From then on, the run does not depend on the other one, which may go on or be deleted.

    Raises:
      UsageError: See `find_initial_weights`.
    """
    if config.initial_weights and not find_files(run.initial) and not find_files(run.checkpoints):
        source = find_initial_weights(config)
        run.initial.mkdir(parents=True, exist_ok=True)
        write_atomically(run.initial / source.path.name, read_regular(source.path, MAX_BYTES))


def find_initial_weights(config: Config) -> CheckpointFile:
    """Finds the checkpoint that `initial_weights` names: a file, a run's best or its last one.

    Raises:
      UsageError: There is none, it is damaged, or its run had other settings of networks.
    """
    try:
        path = absolute_path(config.initial_weights)
        if path.parts[-2:] == ("checkpoints", BEST):
            path = RunDirectory.of(path.parents[1]).checkpoint(BEST)
        elif path.suffix != ".npz":
            path = RunDirectory.of(path).checkpoint("last")
        source = file_at(path)
        if not source:
            raise UsageError(f"there is no checkpoint {path}; expected a run, or its step-<N>.npz")
        read(source)
    except (DamagedError, OSError, UsageError) as error:
        raise UsageError(f"initial_weights: {error}") from None
    before, now = read_record(source).get("settings", {}), config.settings()
    different = differences(before, now, changeable=True) if isinstance(before, dict) else []
    for name in different:
        if name in network_settings(config):
            raise UsageError(
                f"initial_weights: the run of {source.path} has {name} {abbreviate(before[name])}, got "
                f"{abbreviate(now[name])}\nexpected equal settings of networks and normalization"
            )
    return source
