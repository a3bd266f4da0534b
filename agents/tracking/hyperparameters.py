"""The settings of a run for TensorBoard's HParams page, which compares runs by them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from agents.tracking.event_files import EventFile
from agents.types import PlainData


def write_hyperparameters(folder: Path, settings: Mapping[str, PlainData]) -> None:
    """Writes a run's settings as an event file, in place of an earlier one.

    TensorBoard finds the metrics in the folders below, and which settings differ between runs.

    Args:
      folder: Folder of the run.
      settings: The values by name. Lists and dictionaries are shown as JSON.
    """
    from tensorboard.plugins.hparams import summary_v2  # Without Keras, unlike `api`.

    if not folder.is_dir():
        return  # It was moved: no other one is made.
    for path in folder.glob("events.out.tfevents.*"):
        path.unlink()
    file = EventFile(folder)
    file.summary(0, summary_v2.hparams_pb(_plain(settings), trial_id=folder.name))
    file.close()


def _plain(settings: Mapping[str, PlainData]) -> dict[str, bool | float | str]:
    """Returns numbers, switches and texts as they are, anything else as JSON."""
    return {
        name: value if isinstance(value, bool | int | float | str) else json.dumps(value)
        for name, value in settings.items()
    }
