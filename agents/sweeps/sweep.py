"""The folder of a sweep, and how processes share its trials."""

from __future__ import annotations

import contextlib
import fcntl
import importlib.util
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from agents.command_line.installation import install_command
from agents.errors import JournalError, UsageError
from agents.paths import absolute_path
from agents.regular_files import open_regular, write_atomically
from agents.seeds import Seeds
from agents.settings.config import Config
from agents.settings.config_file import load_config, save_config, yaml_text
from agents.settings.consistency import nearest_divisor
from agents.settings.validation import abbreviate
from agents.storage import run_lock
from agents.storage.checkpoint_files import find_files
from agents.storage.run_directory import SWEEP_FILE, RunDirectory
from agents.sweeps.search_space import SearchSpace, load_space
from agents.sweeps.trial_result import COMPLETE, FAILED, RUNNING, TrialResult, trial_name
from agents.types import PlainData

# A trial that ended so many processes in a row without progress, as for lack of memory, has failed.
MAX_STARTS = 3

_SPACE_FILE = "space.yaml"


class Trial(NamedTuple):
    """A trial that this process trains, and no other one meanwhile.

    Attributes:
      number: Counts from 0.
      settings: The settings that the sweep varies.
      run: The folder of its run.
    """

    number: int
    settings: dict[str, PlainData]
    run: RunDirectory


class Sweep:
    """The folder `<logdir>/<time>-sweep-<config>` of one sweep, with a run for each trial.

    Attributes:
      path: The folder.
      timestamp: The time in its name, which `--timestamp` takes to continue the sweep.
      config: The settings of trials, apart from those that vary.
      space: The settings that vary.
    """

    def __init__(self, path: str | Path):
        """Reads the settings and opens the journal.

        Raises:
          UsageError: The files can't be read, or Optuna is not installed.
        """
        check_installed()
        from agents.sweeps.study import Study

        folder = RunDirectory(path)
        self.path, self.timestamp = folder.path, folder.timestamp
        self.config = load_config(self.path / SWEEP_FILE)
        self.space = load_space(self.path / _SPACE_FILE)
        self._locks = self.path / "locks"
        self._locks.mkdir(exist_ok=True)
        journal, lock = self.path / "journal.jsonl", self._locks / "journal"
        self.study = Study(journal, lock, warmup_steps=self.config.steps // 3)

    @classmethod
    def new(cls, logdir: str | Path, name: str, config: Config, space: SearchSpace) -> Sweep:
        """Makes the folder of a new sweep.

        Args:
          logdir: The folder for runs.
          name: Name of a preset or path of a YAML file, of which the stem is used.
          config: The settings of trials, apart from those that vary.
          space: The settings that vary.

        Raises:
          UsageError: `logdir` is not writable, or Optuna is not installed.
        """
        check_installed()
        path = RunDirectory.new(logdir, "sweep", name).path
        try:
            write_atomically(path / _SPACE_FILE, yaml_text(space.as_data()).encode())
            save_config(config, path / SWEEP_FILE)
        except OSError as error:
            raise UsageError(f"can't write to {path}: {error.strerror}") from None
        return cls(path)

    @classmethod
    def existing(cls, logdir: str | Path, timestamp: str, name: str | None = None) -> Sweep:
        """Finds the sweep that was started at `timestamp`, of the configuration `name` if given.

        Raises:
          UsageError: There is none, or it can't be read.
        """
        path = RunDirectory.existing(logdir, timestamp, name, is_sweep=True).path
        _check_folder(path, f"--timestamp={timestamp}")
        return cls(path)

    def check_shared(self, overrides: Mapping[str, PlainData], space: SearchSpace | None) -> None:
        """Refuses other settings than the sweep was started with: scores would not be comparable.

        Args:
          overrides: Settings of the command line.
          space: The search space of the command line, if any.

        Raises:
          UsageError: Something differs.
        """
        advice = "trials of a sweep are compared; start a new one, without --timestamp"
        given = load_config(self.path / SWEEP_FILE, **overrides)
        for name in overrides:
            if name in self.space.dimensions:
                raise UsageError(f"{name}: the sweep varies it\n{advice}")
            has, got = getattr(self.config, name), getattr(given, name)
            if has != got:
                raise UsageError(
                    f"{name}: the sweep has {abbreviate(has)}, got {abbreviate(got)}\n{advice}"
                )
        if space and space.without(overrides).as_data() != self.space.as_data():
            raise UsageError(f"--space: {self.path / _SPACE_FILE} has another one\n{advice}")

    @contextlib.contextmanager
    def claimed(self, num_trials: int) -> Iterator[Trial | None]:
        """Claims a trial for this process: one that was interrupted, or a new one.

        Args:
          num_trials: How many trials the sweep shall have, those of other processes included.

        Yields:
          The trial; None if there are as many, and other processes train the unfinished ones.
        """
        with contextlib.ExitStack() as stack:
            with self.exclusive():
                number = self._take_over(stack)
                if number is None and len(self.study.results()) < num_trials:
                    number = self._start(stack)
            if number is None:
                yield None
                return
            try:
                yield Trial(number, self.study.notes(number)["settings"], self.run(number))
            except (KeyboardInterrupt, JournalError):
                with contextlib.suppress(JournalError):
                    self.study.note(number, starts=0)  # It is not the trial's fault.
                raise

    def run(self, number: int) -> RunDirectory:
        """Returns the run of a trial."""
        return RunDirectory(self.path / trial_name(number))

    def trial_config(self, trial: Trial) -> Config:
        """Returns all settings of a trial; its seed depends on that of the sweep and its number.

        Raises:
          UsageError: They contradict each other.
        """
        seed = Seeds(self.config.seed).one("trial", trial.number)
        return load_config(self.path / SWEEP_FILE, **trial.settings, seed=seed)

    def finish(self, number: int, state: str, score: float | None = None, cause: str = "") -> None:
        """Ends a trial; only complete ones have a score."""
        with self.exclusive():
            self.study.tell(number, state, score, cause)

    def results(self) -> list[TrialResult]:
        """Returns all trials by number."""
        return [
            result._replace(step=self.config.steps) if result.state == COMPLETE else result
            for result in self.study.results()
        ]

    @contextlib.contextmanager
    def exclusive(self) -> Iterator[None]:
        """A section that no two processes are in at the same time; it should be short."""
        descriptor = open_regular(self._locks / "sweep", os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def _take_over(self, stack: contextlib.ExitStack) -> int | None:
        """Claims a trial whose process has ended before it; fails those that end processes."""
        for result in self.study.results():
            if result.state != RUNNING:
                continue
            try:
                self._lock(result.number, stack)
            except UsageError:
                continue  # It is being trained.
            notes = self.study.notes(result.number)
            if "starts" not in notes:
                self.study.tell(result.number, FAILED, None, "its settings were not stored")
                continue
            # A second interrupt ends a process at once, as if it were killed: progress tells.
            step = self._saved_step(result.number)
            starts = 0 if step > notes.get("start_step", 0) else notes["starts"]
            if starts < MAX_STARTS:
                self.study.note(result.number, starts=starts + 1, start_step=step)
                return result.number
            self.study.tell(result.number, FAILED, None, "its process was killed repeatedly")
        return None

    def _saved_step(self, number: int) -> int:
        """Returns the step of a trial's newest checkpoint; 0 before the first one."""
        files = find_files(self.run(number).checkpoints)
        return max((file.step for file in files), default=0)

    def _start(self, stack: contextlib.ExitStack) -> int:
        """Starts a new trial and claims it."""
        seed = Seeds(self.config.seed).one("sampler", len(self.study.results()))
        number, settings = self.study.ask(self.space, seed)
        self._lock(number, stack)
        self.study.note(number, settings=self._fit(settings), starts=1)
        return number

    def _fit(self, settings: dict[str, PlainData]) -> dict[str, PlainData]:
        """Returns settings whose minibatches divide a rollout: of the nearest size that does."""
        sizes = {
            name: settings.get(name, getattr(self.config, name))
            for name in ("num_envs", "rollout_length", "minibatch_size")
        }
        if not settings.keys() & sizes.keys():
            return settings
        total = sizes["num_envs"] * sizes["rollout_length"]
        return {**settings, "minibatch_size": nearest_divisor(total, sizes["minibatch_size"])}

    def _lock(self, number: int, stack: contextlib.ExitStack) -> None:
        stack.enter_context(run_lock.locked(self._locks / trial_name(number)))


def trial_run(path: str | Path, number: int) -> RunDirectory:
    """Returns the run of a trial, without Optuna.

    Args:
      path: The folder of a sweep.
      number: Of the trial.

    Raises:
      UsageError: There is no such sweep or trial.
    """
    folder = absolute_path(path)
    _check_folder(folder, f"--sweep={path}")
    run = RunDirectory(folder / trial_name(number))
    if not run.config_file.is_file():
        names = sorted(file.parent.name for file in folder.glob("trial-*/config.yaml"))
        known = f"it has {names[0]} to {names[-1]}" if names else "it has none yet"
        raise UsageError(f"--trial={number}: the sweep has no such trial; {known}")
    return run


def check_installed() -> None:
    """Raises a UsageError if Optuna is not installed."""
    if importlib.util.find_spec("optuna") is None:
        raise UsageError(
            f"sweeps need the package optuna, which is not installed\n{install_command('sweep')}"
        )


def _check_folder(path: Path, option: str) -> None:
    if not (path / SWEEP_FILE).is_file():
        raise UsageError(
            f"{option}: {path} is not a sweep, it has no {SWEEP_FILE}\n"
            "expected a folder such as logdir/<time>-sweep-<config>"
        )
