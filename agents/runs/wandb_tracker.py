"""Weights & Biases as the tracker of a run: `--track=wandb`."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shlex
import shutil
import sys
import uuid
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from agents import stop_signals
from agents.errors import UsageError, first_line, printable
from agents.regular_files import read_regular, write_atomically
from agents.runs.event_files import histogram
from agents.runs.run_directory import RunDirectory
from agents.settings.installation import install_command

if TYPE_CHECKING:
    import wandb

PROJECT = "agents"  # Unless the variable WANDB_PROJECT names another one.
START_SECONDS, FINISH_SECONDS = 30, 30
_MAX_ID_BYTES = 100


@contextlib.contextmanager
def wandb_tracker(run: RunDirectory, folder: Path | None = None) -> Iterator[WandbTracker]:
    """A run of Weights & Biases for a run of this library; a resumed run resumes it.

    The variables of wandb apply, such as WANDB_MODE=offline. Its files lie in the run's folder. At
    the end it has half a minute to upload the rest.

    Args:
      run: The run, whose folder exists.
      folder: Where wandb keeps its files, in a folder `wandb`; by default with the run.

    Yields:
      The tracker.

    Raises:
      UsageError: The package is not installed, the user is not logged in, or the server is out of reach.
    """
    if importlib.util.find_spec("wandb") is None:
        raise UsageError(
            "--track=wandb needs the package wandb, which is not installed\n"
            f"{install_command('wandb')}"
        )
    with stop_signals.interruptible():  # It may wait for a server.
        tracker = WandbTracker(_start(run, folder or run.path))
    exit_code = 1
    try:
        yield tracker
        exit_code = 0
    except GeneratorExit:  # The caller has left the loop over its scores.
        exit_code = 0
        raise
    finally:
        tracker.close(exit_code)


class WandbTracker:
    """Sends metrics to a run of wandb. Steps are environment steps; none of its methods raises.

    After the first failure it issues a warning and sends nothing more: training is not affected.
    """

    def __init__(self, wandb_run: wandb.Run):
        """Stores the run."""
        self._run, self._works = wandb_run, True

    def config(self, settings: Mapping[str, object]) -> None:
        """Sends the settings; those of a resumed run may have changed."""
        self._try(lambda: self._run.config.update(dict(settings), allow_val_change=True))

    def scalars(self, step: int, scalars: Mapping[str, float]) -> None:
        """Sends scalars by tag."""
        self._try(lambda: self._run.log(dict(scalars), step=step))

    def histograms(self, step: int, arrays: Mapping[str, np.ndarray]) -> None:
        """Sends a histogram of all finite elements of each array, by tag."""
        import wandb

        def send() -> None:
            rows = {tag: histogram(np.asarray(array)) for tag, array in arrays.items()}
            histograms = {
                tag: wandb.Histogram(np_histogram=(row[:, 2], np.append(row[:, 0], row[-1, 1])))
                for tag, row in rows.items()
            }
            self._run.log(histograms, step=step)

        self._try(send)

    def video(self, step: int, tag: str, path: Path) -> None:
        """Sends a video file."""
        import wandb

        self._try(lambda: self._run.log({tag: wandb.Video(str(path), format="mp4")}, step=step))

    def close(self, exit_code: int) -> None:
        """Ends the run, whose state is "finished" for the exit code 0, otherwise "failed"."""
        self._try(lambda: self._run.finish(exit_code=exit_code))
        _end_process()

    def _try(self, send: Callable[[], object]) -> None:
        if not self._works:
            return
        try:
            send()
        except Exception as error:  # Of any type: it is not worth a training.
            self._works = False
            warnings.warn(
                f"wandb failed, and receives no more of this run: {first_line(error)}",
                stacklevel=3,
            )


def is_tracked(run: RunDirectory) -> bool:
    """Whether a run has a run of wandb."""
    return _id_file(run).is_file()


def _end_process() -> None:
    """Ends the process that uploads, unless the user has a run of their own."""
    import wandb

    if wandb.run is None:
        with contextlib.suppress(Exception):
            wandb.teardown()


def _start(run: RunDirectory, place: Path) -> wandb.Run:
    """Starts or resumes the run of wandb, and prints its address."""
    import wandb

    folder, id_file = place / "wandb", _id_file(run)
    existed = folder.exists()
    try:
        found = read_regular(id_file, _MAX_ID_BYTES).decode().strip()
    except (FileNotFoundError, UnicodeDecodeError):
        found = ""
    run_id = found if found.isalnum() else uuid.uuid4().hex[:8]
    try:
        settings = wandb.setup(settings=wandb.Settings(silent=True)).settings
        if settings.mode == "online" and not wandb.login(prompt=False):
            raise ValueError("no user is logged in")
        started = wandb.init(
            project=os.environ.get("WANDB_PROJECT", PROJECT),
            id=run_id,
            name=run.path.name,
            dir=str(place),
            resume="allow",
            reinit="create_new",  # Beside a run that the user has started.
            settings=wandb.Settings(
                silent=True,
                console="off",
                init_timeout=START_SECONDS,
                finish_timeout=FINISH_SECONDS,
            ),
        )
    except Exception as error:
        _end_process()
        if not existed:
            shutil.rmtree(folder, ignore_errors=True)
        raise UsageError(
            f"--track=wandb: {first_line(error)}\n"
            "run `wandb login`, or set WANDB_MODE=offline to keep its files in the run's folder"
        ) from None
    with contextlib.suppress(OSError):  # On a full disk a resumed run starts another one.
        write_atomically(id_file, run_id.encode())
    if started.offline:
        sync = shlex.quote(str(Path(started.dir).parent))
        shown = f"{folder}; upload it with: wandb sync {sync}"
    else:
        shown = started.url or "wandb"
    print(printable(f"Tracked in {shown}"), file=sys.stderr)
    return started


def _id_file(run: RunDirectory) -> Path:
    return run.path / "wandb-id.txt"
