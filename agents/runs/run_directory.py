"""Run directories: the files of a run, and how runs and checkpoints are found by name."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shlex
import tempfile
import time
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path

from agents.errors import RunLostError, UsageError
from agents.paths import absolute_path
from agents.regular_files import (
    UNFINISHED,
    check_folder,
    check_regular,
    read_regular,
    write_atomically,
)
from agents.runs import run_lock
from agents.runs.checkpoint_files import (
    AVERAGED,
    BEST,
    CheckpointFile,
    DamagedError,
    find_files,
    newest_intact,
    newest_record,
    read,
)
from agents.runs.metrics_file import read_metrics
from agents.runs.replay_files import FOLDER as REPLAY
from agents.settings.config import Config
from agents.settings.config_file import has_right_checksum, load_config, save_config
from agents.settings.entry_points import MODULES
from agents.settings.resumption import check_resumption, differences
from agents.settings.validation import abbreviate
from agents.types import PlainData

MAX_COMMANDS_BYTES = 1_000_000
SWEEP_FILE = "journal.jsonl"  # In the folder of a sweep, which has its runs inside.
LATEST = "latest"  # Names the newest run of a logdir.
_TIME = r"(\d{8}T\d{6})(?:_(\d+))?"  # In the name of a run; counts those of the same second.


class RunDirectory:
    """The folder `<logdir>/<time>-<config>` of one run; its name may go on, see `new`.

    Attributes:
      path: The folder, absolute.
      timestamp: The time in its name, which `--timestamp` takes to resume the run.
      config_file: The configuration as YAML.
      command_file: The commands that trained the run, with versions.
      spaces_file: The spaces of the environment as JSON.
      metrics_file: The metrics as JSON lines.
      restarts_file: The restarts of environments as JSON lines, if there were any.
      error_file: The traceback that training ended with, if it did.
      checkpoints: The folder of checkpoints, with one named `best` in it.
      train_events: The folder of TensorBoard event files of training.
      eval_events: The folder of TensorBoard event files of evaluation.
      videos: The folder of videos, `step-<N>.mp4`, of evaluation episodes during training.
      lock_file: The lock that a training process holds.
    """

    def __init__(self, path: str | Path):
        """Stores the paths; neither reads nor writes files."""
        self.path = absolute_path(path)
        self.timestamp = self.path.name.partition("-")[0]
        self.config_file = self.path / "config.yaml"
        self.command_file = self.path / "command.txt"
        self.spaces_file = self.path / "spaces.json"
        self.metrics_file = self.path / "metrics.jsonl"
        self.restarts_file = self.path / "restarts.jsonl"
        self.error_file = self.path / "error.txt"
        self.checkpoints = self.path / "checkpoints"
        self.initial = self.checkpoints / "initial"  # The copy of another run's checkpoint.
        self.train_events = self.path / "train"
        self.eval_events = self.path / "eval"
        self.videos = self.path / "videos"
        self.lock_file = self.path / "lock"
        self._made: list[Path] = []  # Folders that were made for this run, the outermost last.
        self._lock: int | None = None  # Descriptor of the lock file while this process holds it.

    @classmethod
    def new(cls, logdir: str | Path, *names: str) -> RunDirectory:
        """Makes the folder of a new run, named by the time and by what tells it apart.

        Of several that start in the same second, each gets a folder of its own.

        Args:
          logdir: The folder for runs.
          *names: Such as the configuration, the environment, and a name. Of paths and of names
            with modules only the end is used; characters that shells know become underscores.

        Raises:
          UsageError: `logdir` is not writable, or a run itself.
        """
        check_writable(logdir, "--logdir")
        folder = absolute_path(logdir)
        _check_no_run(logdir, folder)
        missing = [path for path in (folder, *folder.parents) if not path.exists()]
        parts, taken = [_file_name(name) for name in names], 0
        while True:
            timestamp = time.strftime("%Y%m%dT%H%M%S") + (f"_{taken}" if taken else "")
            run = cls(folder / "-".join([timestamp, *parts]))
            try:
                run.path.parent.mkdir(parents=True, exist_ok=True)
                run.path.mkdir()
            except FileExistsError:
                taken += 1
            except FileNotFoundError:
                pass  # Another run that failed has just removed the logdir that it made.
            except OSError as error:
                raise UsageError(f"can't create {run.path}: {error.strerror}") from None
            else:
                run._made = [run.path, *missing]
                return run

    @classmethod
    def existing(
        cls, logdir: str | Path, timestamp: str, name: str | None = None, is_sweep: bool = False
    ) -> RunDirectory:
        """Finds the run that was started at `timestamp`, with the configuration `name` if given.

        Args:
          logdir: The folder for runs.
          timestamp: The time, the folder's name, or `latest` for the newest run.
          name: Name of a preset or path of a YAML file.
          is_sweep: Whether to find a sweep's folder instead.

        Raises:
          UsageError: No run has this time, or several do, or a sweep does.
        """
        kind, file = ("sweep", SWEEP_FILE) if is_sweep else ("run", "config.yaml")
        start = "sweep-" if is_sweep else ""
        rest = f"{start}{re.escape(_file_name(name))}(-.*)?" if name else ".+"
        place = absolute_path(logdir)
        if timestamp == LATEST:
            started, folders = re.compile(".*"), find_runs(place, file)
        else:
            started = re.compile(f"{re.escape(timestamp)}(-.+)?")  # A time, or the whole name.
            folders = sorted(place.iterdir()) if place.is_dir() else []
        found = [folder for folder in folders if started.fullmatch(folder.name)]
        if name or timestamp == LATEST:
            named = re.compile(f"{_TIME}-{rest}")
            found = [folder for folder in found if named.fullmatch(folder.name)]
        found = found[-1:] if timestamp == LATEST else found
        if len(found) == 1:
            if not is_sweep and (found[0] / SWEEP_FILE).is_file():
                raise UsageError(
                    f"--timestamp={timestamp}: {found[0]} is a sweep\n"
                    "continue it with agents sweep, or train a trial's settings with --config=.../config.yaml"
                )
            check_writable(found[0], "--timestamp")
            return cls(found[0])
        wanted = f"--timestamp={timestamp}" + (f" with --config={name}" if name else "")
        if found:
            names = ", ".join(folder.name for folder in found)
            rest = found[0].name.partition("-")[2].removeprefix(start)
            raise UsageError(
                f"{wanted} fits several runs: {names}; choose one with --config={rest}"
            )
        _check_no_run(logdir, resolve_run(place))
        others = [folder.name for folder in folders if (folder / file).is_file()]
        known = f"it has {', '.join(others[-3:])}" if others else f"there are no {kind}s"
        raise UsageError(f"{wanted}: no such {kind} in {logdir}; {known}")

    @classmethod
    def of(cls, path: RunDirectory | str | Path) -> RunDirectory:
        """Returns the run in folder `path`, see `resolve_run`.

        Raises:
          UsageError: It is not the folder of a run; the message suggests one inside of it.
        """
        run = path if isinstance(path, RunDirectory) else cls(resolve_run(path))
        path = run.path
        if run.config_file.is_file():
            return run
        if not run.path.is_dir():
            raise UsageError(
                f"{path} is not a folder; expected a run's folder such as logdir/<time>-<config>"
            )
        runs = find_runs(run.path)
        inside = f"did you mean {runs[-1]}?" if runs else "a run's folder is named <time>-<config>"
        raise UsageError(f"{path} is not a run: it has no config.yaml; {inside}")

    def prepare(self, config: Config) -> None:
        """Creates the folder and writes the configuration, unless it is there already.

        A configuration that can't be replaced, as on a full disk, issues a warning.

        Raises:
          UsageError: A new one can't be written.
          RunLostError: See `check_in_place`.
        """
        with contextlib.suppress(UsageError):
            if self.config_file.exists() and self.load_config() == config:
                return
        try:
            if self._lock is None:
                self.path.mkdir(parents=True, exist_ok=True)
            self.check_in_place()
            save_config(config, self.config_file)
        except OSError as error:
            message = f"can't write {self.config_file} ({error.strerror})"
            if not self.config_file.exists():
                raise UsageError(message) from None
            warnings.warn(f"{message}; it keeps the earlier settings", stacklevel=2)

    def record_command(self, command: str, versions: str) -> None:
        """Adds a command that trains the run to `command_file`, with the time.

        Raises:
          OSError: It can't be written, as on a full disk.
        """
        earlier = b""
        if self.command_file.exists():
            earlier = read_regular(self.command_file, MAX_COMMANDS_BYTES)
        now = time.strftime("%Y-%m-%d %H:%M:%S %z")
        line = f"# {now}, {versions}\n{command}\n"
        write_atomically(self.command_file, earlier + line.encode())

    def write_error(self, error: Exception) -> str:
        """Writes an error with its traceback to `error_file`.

        Returns:
          A line with its place, or with the reason why it could not be written, as on a full disk.
        """
        try:
            write_atomically(self.error_file, "".join(traceback.format_exception(error)).encode())
        except OSError as failure:
            return (
                f"The whole traceback could not be written to {self.error_file}: {failure.strerror}"
            )
        return f"The whole traceback is in {self.error_file}"

    def discard(self) -> None:
        """Removes the folder that `new` has made if nothing was trained in it."""
        if not self._made or not self.path.is_dir():
            return
        if not find_files(self.checkpoints) and not self.metrics_file.exists():
            for file in find_files(self.initial):
                file.path.unlink()
        for folder in reversed(self._folders()):
            with contextlib.suppress(OSError):
                folder.rmdir()
        untrained = (self.config_file, self.command_file, self.spaces_file, self.lock_file)
        if set(self.path.iterdir()) <= set(untrained):
            for path in untrained:
                path.unlink(missing_ok=True)
            with contextlib.suppress(OSError):  # Another run may use the logdir by now.
                for folder in self._made:
                    folder.rmdir()
        self._made = []

    @contextlib.contextmanager
    def locked(self, config: Config) -> Iterator[None]:
        """Holds the run's lock while it is trained, and removes what a killed process left.

        A new run's folder is removed again if a UsageError ends it before anything was trained.

        Args:
          config: The experiment; settings that would change what the run learns are refused.

        Raises:
          UsageError: Another process trains the run; a setting can't be changed; or what belongs
            to the run is no regular file.
        """
        if not self.path.exists():
            self.path.mkdir(parents=True)
            self._made = [self.path]
        with run_lock.locked(self.lock_file) as self._lock:
            try:
                self._check_files()
                if self.config_file.exists():
                    check_resumption(self.load_config(), config)
                elif find_files(self.checkpoints):
                    warnings.warn(
                        f"{self.config_file} was lost: settings can't be compared with those of the run",
                        stacklevel=4,
                    )
                self._remove_unfinished()
                yield
            except UsageError:
                self.discard()
                raise
            finally:
                self._lock = None

    def check_in_place(self) -> None:
        """Checks that the folder that this process trains in is still where it was.

        Raises:
          RunLostError: It was moved, deleted or replaced, or its lock was. What is written now would
            make another folder, without the checkpoints of this one.
        """
        if self._lock is None:
            return
        try:
            if os.path.samestat(os.stat(self.lock_file), os.fstat(self._lock)):
                return
        except (FileNotFoundError, NotADirectoryError):
            pass
        except OSError:  # Such as of a network disk that does not answer for a moment.
            return
        self._made = []  # The new folder is not discarded.
        raise RunLostError(self.path, run_lock.folder_of(self._lock))

    def is_started(self, first_checkpoint: int) -> bool:
        """Returns whether a checkpoint was saved that the run resumes from; it may be damaged now.

        A run that stopped before its first checkpoint starts over, and equals one that never
        stopped.

        Args:
          first_checkpoint: The environment step by which the first one was saved.
        """
        files = find_files(self.checkpoints)
        if any(not file.is_best or file.step > first_checkpoint for file in files):
            return True
        last = max((row["step"] for row in read_metrics(self.metrics_file)), default=None)
        return bool(files) if last is None else last > first_checkpoint

    def checkpoint(self, which: str) -> Path:
        """Finds a checkpoint and verifies it; a resumed run takes the last one.

        Args:
          which: `last`, `averaged` (it is in the last), `best` (of the highest mean return in an
            evaluation; averaged weights do not take part), or the step of one of those kept.

        Returns:
          The path of its file without the suffix; the name ends with `-<step>`.

        Raises:
          UsageError: There is no such checkpoint, or none yet, or it is damaged.
        """
        files = find_files(self.checkpoints)
        if not files:
            raise UsageError(
                f"{self.path}: the run has no checkpoint yet; it needs to train longer"
            )
        if which == AVERAGED and not self.load_config().average_decay:
            raise UsageError(f"--checkpoint={AVERAGED}: the run was trained without average_decay")
        if which in ("last", AVERAGED):
            found = newest_intact(self.checkpoints)
            if not found:
                raise UsageError(f"{self.path}: all checkpoints of the run are damaged")
            return found[0].path.with_suffix("")
        named = [
            file for file in files if (file.is_best if which == "best" else str(file.step) == which)
        ]
        if not named:
            raise UsageError(
                f"--checkpoint={which}: the run has no such checkpoint; it has {_names(files)}"
            )
        damaged = []
        for file in named:  # The best one may be of the same step as another.
            try:
                read(file)
            except DamagedError as error:
                damaged.append(f"the checkpoint {file.path} is damaged ({error})")
            else:
                return file.path.with_suffix("")
        raise UsageError(f"--checkpoint={which}: {damaged[0]}; there are {_names(files)}")

    def load_config(self, **overrides: object) -> Config:
        """Loads the run's configuration; `overrides` replace settings, see `load_config`.

        Raises:
          UsageError: The file is damaged, or differs from the record in the run's checkpoints.
        """
        check_regular(self.config_file)
        config = load_config(str(self.config_file))
        settings, recorded = config.settings(), self.record("settings")
        is_right = has_right_checksum(self.config_file)
        changed = differences(recorded, settings, changeable=not is_right)
        if is_right is None:  # A user has removed it to rename a module.
            changed = [
                name
                for name in changed
                if name not in MODULES
                or not all(":" in f"{values[name]}" for values in (settings, recorded))
            ]
        if changed or is_right is False:
            problem = "was changed after training wrote it: its checksum is wrong"
            if changed:
                values = abbreviate(settings[changed[0]]), abbreviate(recorded[changed[0]])
                problem = (
                    f"differs from the run's checkpoint in {changed[0]}: {' and '.join(values)}"
                )
            raise UsageError(
                f"{self.config_file} {problem}\nrestore it, and change settings by "
                "options; after you renamed a module in it, remove its last line"
            )
        return load_config(str(self.config_file), **overrides) if overrides else config

    def record(self, key: str) -> dict[str, PlainData]:
        """Returns the `settings` or `spaces` in the newest checkpoint; empty without any."""
        values = newest_record(self.checkpoints).get(key)
        return values if isinstance(values, dict) else {}

    def _check_files(self) -> None:
        """Rejects links, pipes and devices among the files of the run."""
        for path in (self.config_file, self.command_file, self.spaces_file):
            check_regular(path)
        for path in (self.lock_file, self.metrics_file, self.restarts_file):
            check_regular(path, in_place=True)
        for folder in self._folders():
            if check_folder(folder):
                for path in (*folder.glob("step-*.npz"), *folder.glob("step-*.mp4")):
                    check_regular(path)
                for path in folder.glob("events.out.tfevents.*"):
                    check_regular(path, in_place=True)

    def _remove_unfinished(self) -> None:
        """Removes files that a killed process did not complete."""
        for folder in (self.path, *self._folders()):
            for path in folder.glob(f"*{UNFINISHED}"):
                with contextlib.suppress(IsADirectoryError):
                    path.unlink()

    def _folders(self) -> tuple[Path, ...]:
        """Returns the folders inside of the run's, outer ones first."""
        events = self.train_events, self.eval_events
        inside = self.initial, self.checkpoints / BEST, self.checkpoints / REPLAY
        return self.checkpoints, *inside, *events, self.videos


def find_runs(logdir: str | Path, file: str = "config.yaml") -> list[Path]:
    """Returns the folders in `logdir` that hold a file, the run that was started last at the end.

    The time is in their names. Folders with other names come first.
    """

    def start(folder: Path) -> tuple[str, int, str]:
        time, count = re.match(f"(?:{_TIME}-)?", folder.name).groups()  # type: ignore[union-attr]
        return time or "", int(count or 0), folder.name

    return sorted((path.parent for path in absolute_path(logdir).glob(f"*/{file}")), key=start)


def _check_no_run(logdir: str | Path, folder: Path) -> None:
    """Raises UsageError if the folder that `logdir` names is a run."""
    run = RunDirectory(folder)
    if run.config_file.is_file() and run.command_file.is_file():
        raise UsageError(
            f"--logdir={logdir}: {folder} is a run, expected a folder for runs\n"
            f"--logdir={shlex.quote(str(folder.parent))} --timestamp={run.timestamp} resumes that run"
        )


def resolve_run(path: str | Path) -> Path:
    """Returns the folder of a run, where `<logdir>/latest` names the newest run.

    The newest run was started last; it may be unfinished or damaged. A folder or a link with the
    name `latest` has precedence.

    Raises:
      UsageError: There are no runs in `<logdir>`.
    """
    path = absolute_path(path)
    if path.name != LATEST or os.path.lexists(path):
        return path
    runs = find_runs(path.parent)
    if not runs:
        raise UsageError(f"{path}: there are no runs in {path.parent}")
    return runs[-1]


def _file_name(name: str) -> str:
    """Returns the part of a run's name for a preset, a path of a file, or an environment."""
    name = (re.findall("[^:/<>]+", name) or [name])[-1].removesuffix(".yaml").removesuffix(".yml")
    return re.sub(r"[^\w.+-]", "_", name)


def _names(files: list[CheckpointFile]) -> str:
    """Returns the names that checkpoints have on the command line: "best, last, 1000, 2000"."""
    names = ["best"] if any(file.is_best for file in files) else []
    steps = sorted({file.step for file in files})
    return ", ".join([*names, "last", *map(str, steps)])


def check_writable(folder: str | Path, option: str) -> None:
    """Raises a UsageError if `folder` can't be created or written to; `option` names it.

    No folder named `latest` is created: it would hide the newest run, see `resolve_run`.
    """
    existing = absolute_path(folder)
    while not existing.exists():
        if existing.is_symlink():
            raise UsageError(
                f"{option}={folder}: {existing} is a link to {existing.readlink()}, which does not exist"
            )
        if existing.name == LATEST:
            raise UsageError(
                f"{option}={folder}: {LATEST} is the name of the newest run, not of a new folder\n"
                f"choose another folder; to resume the newest run, use agents train --timestamp={LATEST}"
            )
        existing = existing.parent
    if not existing.is_dir():
        raise UsageError(f"{option}={folder}: {existing} is not a folder")
    try:
        # Permissions do not tell: root has all of them, also on read-only disks.
        with tempfile.TemporaryFile(dir=existing):
            pass
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return  # A run can be resumed on a full disk.
        raise UsageError(
            f"{option}={folder}: {existing} is not writable ({error.strerror})"
        ) from None
