"""The policies of the rows: the run of the median seed, small enough to be kept beside the table."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from agents.runs.checkpoint_files import newest_record, write
from agents.runs.run_directory import RunDirectory
from results.runs import Run

# Groups of variables that acting needs, and the averaged ones; not the optimizer's, twice as large.
ACTING = ("network/", "normalize_observ/", "normalize_critic_observ/", "averaged/")

# Weights of networks that see images take megabytes; a repository keeps every version of them.
MAX_BYTES = 500_000


def median_run(runs: Sequence[Run]) -> Run:
    """Returns the run with the median last return; of an even number, the lower one of two."""
    ordered = sorted(runs, key=lambda run: run.curve[max(run.curve)])
    return ordered[(len(ordered) - 1) // 2]


def keep(run: Run, folder: Path) -> bool:
    """Writes what `visualize` and `load_policy` need of a run into a folder, which is replaced.

    Args:
      run: A finished run.
      folder: The run's folder to be: configuration, evaluations, weights with the spaces.

    Returns:
      Whether the weights are small enough; otherwise there is no folder.
    """
    shutil.rmtree(folder, ignore_errors=True)
    source, kept = RunDirectory(run.path), RunDirectory(folder)
    checkpoint = source.checkpoint("last")
    with np.load(checkpoint.with_suffix(".npz")) as file:
        names = [(name, name.replace("%2F", "/")) for name in file.files]
        values = {name: file[key] for key, name in names if name.startswith(ACTING)}
    if sum(value.nbytes for value in values.values()) > MAX_BYTES:
        return False
    folder.mkdir(parents=True)
    shutil.copy(source.config_file, folder)
    lines = source.metrics_file.read_text().splitlines(keepends=True)
    kept.metrics_file.write_text("".join(line for line in lines if "eval/return_mean" in line))
    step, record = int(checkpoint.name.rpartition("-")[2]), newest_record(source.checkpoints)
    write(kept.checkpoints, step, values, best=False, record=record)
    return True
