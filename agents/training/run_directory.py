"""Run directories: the files of a run, and how runs and checkpoints are found by name."""

from __future__ import annotations

import re
import shutil
import tempfile
import time
from pathlib import Path

from agents.errors import UsageError
from agents.settings.config import Config
from agents.settings.config_file import load_config, save_config


class RunDirectory:
    """The folder `<logdir>/<time>-<config>` of one run.

    Attributes:
      path: The folder.
      timestamp: The time in its name, which `--timestamp` takes to resume the run.
      config_file: The configuration as YAML.
      metrics_file: The metrics as JSON lines.
      checkpoints: The folder of checkpoints, with one named `best` in it.
      train_events: The folder of TensorBoard event files of training.
      eval_events: The folder of TensorBoard event files of evaluation.
    """

    def __init__(self, path: str | Path):
        """Stores the paths; neither reads nor writes files."""
        self.path = Path(path)
        self.timestamp = self.path.name.partition("-")[0]
        self.config_file = self.path / "config.yaml"
        self.metrics_file = self.path / "metrics.jsonl"
        self.checkpoints = self.path / "checkpoints"
        self.train_events = self.path / "train"
        self.eval_events = self.path / "eval"

    @classmethod
    def new(cls, logdir: str | Path, name: str) -> RunDirectory:
        """Names a new run by time and configuration; `prepare` creates the folder.

        Args:
          logdir: The folder for runs.
          name: Name of a preset or path of a YAML file, of which the stem is used.

        Raises:
          UsageError: `logdir` is not writable.
        """
        check_writable(logdir, "--logdir")
        taken = 0
        while True:
            timestamp = time.strftime("%Y%m%dT%H%M%S") + (f"_{taken}" if taken else "")
            run = cls(Path(logdir) / f"{timestamp}-{Path(name).stem}")
            if not run.path.exists():
                return run
            taken += 1

    @classmethod
    def existing(cls, logdir: str | Path, timestamp: str, name: str | None = None) -> RunDirectory:
        """Finds the run that was started at `timestamp`, with the configuration `name` if given.

        Raises:
          UsageError: No run has this time, or several do.
        """
        stem = re.escape(Path(name).stem) if name else ".+"
        pattern = re.compile(f"{re.escape(timestamp)}-{stem}")
        folders = sorted(Path(logdir).iterdir()) if Path(logdir).is_dir() else []
        found = [folder for folder in folders if pattern.fullmatch(folder.name)]
        if len(found) == 1:
            check_writable(found[0], "--timestamp")
            return cls(found[0])
        wanted = f"--timestamp={timestamp}" + (f" with --config={name}" if name else "")
        if found:
            names = ", ".join(folder.name for folder in found)
            raise UsageError(f"{wanted} fits several runs: {names}; add --config=NAME")
        runs = [folder.name for folder in folders if (folder / "config.yaml").is_file()]
        known = f"it has {', '.join(runs[-3:])}" if runs else "there are no runs"
        raise UsageError(f"{wanted}: no such run in {logdir}; {known}")

    @classmethod
    def of(cls, path: str | Path) -> RunDirectory:
        """Returns the run in folder `path`.

        Raises:
          UsageError: It is not the folder of a run; the message suggests one inside of it.
        """
        run = cls(path)
        if run.config_file.is_file():
            return run
        if not run.path.is_dir():
            raise UsageError(
                f"--logdir={path} is not a folder; expected a run's folder such as "
                "logdir/<time>-<config>"
            )
        runs = sorted(folder.parent.name for folder in run.path.glob("*/config.yaml"))
        inside = (
            f"did you mean {run.path / runs[-1]}?"
            if runs
            else "a run's folder is named <time>-<config>"
        )
        raise UsageError(f"--logdir={path} is not a run: it has no config.yaml; {inside}")

    def prepare(self, config: Config) -> None:
        """Creates the folder and writes the configuration."""
        self.path.mkdir(parents=True, exist_ok=True)
        save_config(config, self.config_file)

    def discard(self) -> None:
        """Removes the folder of a run in which nothing was trained."""
        if self.path.is_dir() and {path.name for path in self.path.iterdir()} <= {"config.yaml"}:
            shutil.rmtree(self.path)

    def checkpoint(self, which: str) -> Path:
        """Finds a checkpoint by the names of its files, without TensorFlow.

        Args:
          which: `last`, `best`, or the environment step of one of those kept.

        Returns:
          The path of its files without their suffixes; the name ends with `-<step>`.

        Raises:
          UsageError: There is no such checkpoint, or none yet.
        """
        found: dict[str, Path] = {}
        for name, folder in (("best", self.checkpoints / "best"), ("last", self.checkpoints)):
            steps = sorted(
                int(path.stem.rpartition("-")[2]) for path in folder.glob("step-*.index")
            )
            found.update({str(step): folder / f"step-{step}" for step in steps})
            if steps:
                found[name] = folder / f"step-{steps[-1]}"
        if not found:
            raise UsageError(
                f"--logdir={self.path}: the run has no checkpoint yet; it needs to train longer"
            )
        if which not in found:
            steps = sorted({int(name) for name in found if name.isdecimal()})
            known = ", ".join(
                [*(name for name in ("best", "last") if name in found), *map(str, steps)]
            )
            raise UsageError(
                f"--checkpoint={which}: the run has no such checkpoint; it has {known}"
            )
        return found[which]

    def load_config(self, **overrides: object) -> Config:
        """Loads the run's configuration; `overrides` replace settings, see `load_config`."""
        return load_config(str(self.config_file), **overrides)


def check_writable(folder: str | Path, option: str) -> None:
    """Raises a UsageError if `folder` can't be created or written to; `option` names it."""
    existing = Path(folder).absolute()
    while not existing.exists():
        existing = existing.parent
    if not existing.is_dir():
        raise UsageError(f"{option}={folder}: {existing} is not a folder")
    try:
        # Permissions do not tell: root has all of them, on read-only disks, too.
        with tempfile.TemporaryFile(dir=existing):
            pass
    except OSError as error:
        raise UsageError(
            f"{option}={folder}: {existing} is not writable ({error.strerror})"
        ) from None
