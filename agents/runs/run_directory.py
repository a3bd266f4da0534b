"""Where a run keeps what it writes."""

from __future__ import annotations

import re
import tempfile
import time
from pathlib import Path

from agents.config import Config, load_config, save_config
from agents.tools.errors import UsageError


class RunDirectory:
    """The folder `<logdir>/<time>-<config>` of one run.

    Attributes:
      path: The folder.
      timestamp: The time in its name, by which the run can be resumed.
      config_file, metrics_file, checkpoints, train_events, eval_events: What it holds.
    """

    def __init__(self, path: str | Path):
        """Names the folder; nothing is read or written."""
        self.path = Path(path)
        self.timestamp = self.path.name.partition("-")[0]
        self.config_file = self.path / "config.yaml"
        self.metrics_file = self.path / "metrics.jsonl"
        self.checkpoints = self.path / "checkpoints"
        self.train_events = self.path / "train"
        self.eval_events = self.path / "eval"

    @classmethod
    def new(cls, logdir: str | Path, name: str) -> RunDirectory:
        """A folder of its own for a new run, named after the time and the configuration; made by `prepare`.

        Raises:
          UsageError: `logdir` can't be written to.
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
        """The run that was started at `timestamp`, of configuration `name` if given.

        Raises:
          UsageError: There is none, or there are several.
        """
        pattern = re.compile(re.escape(timestamp) + "-" + (re.escape(Path(name).stem) if name else ".+"))
        folders = sorted(Path(logdir).iterdir()) if Path(logdir).is_dir() else []
        found = [folder for folder in folders if pattern.fullmatch(folder.name)]
        if len(found) == 1:
            check_writable(found[0], "--timestamp")
            return cls(found[0])
        wanted = f"--timestamp={timestamp}" + (f" with --config={name}" if name else "")
        if found:
            raise UsageError(
                f"{wanted} fits several runs: {', '.join(folder.name for folder in found)}; add --config=NAME"
            )
        runs = [folder.name for folder in folders if (folder / "config.yaml").is_file()]
        known = f"it has {', '.join(runs[-3:])}" if runs else "there are no runs"
        raise UsageError(f"{wanted}: no such run in {logdir}; {known}")

    @classmethod
    def of(cls, path: str | Path) -> RunDirectory:
        """The run in folder `path`.

        Raises:
          UsageError: It is no run's folder; where it holds runs, they are named.
        """
        run = cls(path)
        if run.config_file.is_file():
            return run
        if not run.path.is_dir():
            raise UsageError(f"--logdir={path} is not a folder; expected a run's folder such as logdir/<time>-<config>")
        runs = sorted(folder.parent.name for folder in run.path.glob("*/config.yaml"))
        inside = f"did you mean {run.path / runs[-1]}?" if runs else "a run's folder is named <time>-<config>"
        raise UsageError(f"--logdir={path} is no run: it has no config.yaml; {inside}")

    def prepare(self, config: Config) -> None:
        """Makes the folder and writes the configuration."""
        self.path.mkdir(parents=True, exist_ok=True)
        save_config(config, self.config_file)

    def checkpoint(self, which: str) -> Path:
        """Finds a checkpoint by the names of its files, without TensorFlow.

        Args:
          which: `last`, `best`, or the step of one of those kept.

        Returns:
          Its files without their suffixes; the name ends with `-<step>`.

        Raises:
          UsageError: No such checkpoint, or none yet.
        """
        found: dict[str, Path] = {}
        for name, folder in (("best", self.checkpoints / "best"), ("last", self.checkpoints)):
            steps = sorted(int(path.stem.rpartition("-")[2]) for path in folder.glob("step-*.index"))
            found.update({str(step): folder / f"step-{step}" for step in steps})
            if steps:
                found[name] = folder / f"step-{steps[-1]}"
        if not found:
            raise UsageError(f"--logdir={self.path}: the run has no checkpoint yet; it needs to train longer")
        if which not in found:
            steps = sorted({int(name) for name in found if name.isdecimal()})
            known = ", ".join([*(name for name in ("best", "last") if name in found), *map(str, steps)])
            raise UsageError(f"--checkpoint={which}: the run has no such checkpoint; it has {known}")
        return found[which]

    def load_config(self, **overrides: object) -> Config:
        """The run's configuration, with some settings changed."""
        return load_config(str(self.config_file), **overrides)


def check_writable(folder: str | Path, option: str) -> None:
    """Raises UsageError if `folder` can't be made or written to; `option` is what the user called it."""
    existing = Path(folder).absolute()
    while not existing.exists():
        existing = existing.parent
    if not existing.is_dir():
        raise UsageError(f"{option}={folder}: {existing} is not a folder")
    try:
        with tempfile.TemporaryFile(dir=existing):  # Permissions would not tell: root has all, on read-only disks too.
            pass
    except OSError as error:
        raise UsageError(f"{option}={folder}: {existing} is not writable ({error.strerror})") from None
