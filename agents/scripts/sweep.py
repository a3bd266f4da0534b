"""Searches for good settings with Optuna: `agents sweep --logdir=logdir --config=pendulum`."""

from __future__ import annotations

import contextlib
import fcntl
import gc
import importlib.util
import json
import os
import shlex
import signal
import sys
import types
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agents import stop_signals
from agents.errors import (
    CheckpointError,
    EnvironmentFailure,
    InvalidActionError,
    JournalError,
    NonFiniteError,
    UsageError,
    first_line,
)
from agents.keras_settings import check_keras
from agents.paths import absolute_path
from agents.regular_files import check_folder, check_regular, open_regular, write_atomically
from agents.runs import run_lock
from agents.runs.checkpoint_files import find_files
from agents.runs.metrics_file import read_metrics
from agents.runs.preset_table import describe_default
from agents.runs.run_directory import SWEEP_FILE, RunDirectory
from agents.scripts.train import folders_of_other_runs, look_up, train, warn_of_kept_settings
from agents.seeds import Seeds
from agents.settings.config import ALGORITHMS, Config, nearest_divisor
from agents.settings.config_file import (
    PRESETS,
    has_right_checksum,
    load_config,
    read_mapping,
    save_config,
    with_checksum,
    yaml_text,
)
from agents.settings.entry_points import name_modules, refusing_modules_in
from agents.settings.installation import install_command
from agents.settings.parser import parse_command
from agents.settings.peer_names import hint
from agents.settings.reports import command_line, report_error, run, say
from agents.settings.validation import abbreviate, as_text, usage_error
from agents.types import PlainData

if TYPE_CHECKING:
    from optuna import Trial
    from optuna.distributions import BaseDistribution
    from optuna.trial import FrozenTrial

# Ranges `{low, high, log}` or `{choices}` by setting.
Space: TypeAlias = dict[str, dict[str, PlainData]]

SETTINGS_FILE, SPACE_FILE = "settings.yaml", "space.yaml"  # In the folder of a sweep.
STUDY = "sweep"  # The name of the study in the journal.

# Trials that differ in these have scores that can't be compared; seeds follow from their numbers.
# TensorFlow's threads are chosen once for a process.
SHARED = frozenset(
    {"env", "steps", "eval_interval", "eval_episodes", "seed", "threads", "initial_weights"}
)

# Complete trials before any is pruned: medians of fewer say little.
STARTUP_TRIALS = 5

# A trial that ended so many processes at the same step, as for lack of memory, has failed.
MAX_STARTS = 3

# When so many trials have failed before any evaluation of the sweep, others would fail as well.
MAX_FIRST_FAILURES = 3

# TensorFlow keeps the programs that it compiles, 60 MB a trial, until its process ends.
TRIALS_PER_PROCESS = 20

FAILURES = (EnvironmentFailure, InvalidActionError, NonFiniteError, UsageError)

EXAMPLES = """\
examples:
  agents sweep --logdir=logdir --config=pendulum --trials=50
  agents sweep --logdir=logdir --config=cheetah --steps=300000 --space=my_space.yaml
  agents sweep --logdir=logdir --timestamp=20260131T120000 --trials=100
The last command continues a sweep. In several terminals, it trains several trials at once.
It needs pip install '.[sweep]'. Guide: docs/guides/training.md"""


class SweepOptions(BaseModel):
    """Trains trials with different settings, and reports which settings score best."""

    model_config = ConfigDict(extra="forbid")

    settings: ClassVar[type[BaseModel]] = Config  # Its fields are options, too.

    logdir: str = Field(
        min_length=1,
        description="Folder for runs. This sweep creates <time>-sweep-<config> in it, with "
        "Optuna's journal and a run for each trial.",
    )
    config: str | None = Field(
        None,
        min_length=1,
        description="Preset, or path of a YAML file. The default is the preset 'default'.",
    )
    trials: int = Field(
        50,
        ge=1,
        le=1_000_000,
        description="Number of trials of the sweep. It counts the trials of all processes and "
        "continuations.",
    )
    space: str | None = Field(
        None,
        min_length=1,
        description="Search space: ppo, sac, or path of a YAML file. The default is the algorithm's. "
        "Settings on the command line are the same in all trials.",
    )
    timestamp: str | None = Field(
        None,
        min_length=1,
        description="<time> of the sweep to continue or to join. The sweep lies in logdir.",
    )
    sampler: Literal["tpe", "random"] = Field(
        "tpe", description="Optuna's sampler of settings: tpe (TPESampler) or random."
    )
    pruner: Literal["median", "none"] = Field(
        "median", description="Optuna's MedianPruner, which ends trials early, or none."
    )


def main(arguments: list[str]) -> None:
    """Runs the command."""
    options, overrides = parse_command(
        SweepOptions,
        arguments,
        program="agents sweep",
        settings=SweepOptions.settings,
        examples=EXAMPLES,
    )
    if importlib.util.find_spec("optuna") is None:
        raise UsageError(
            f"sweeps need the package optuna, which is not installed\n{install_command('sweep')}"
        )
    check_keras()
    place = os.open(os.curdir, os.O_RDONLY)  # Environments may change to another folder.
    with (
        contextlib.ExitStack() as refusals,
        stop_signals.handling("the trial stops and a checkpoint is saved"),
    ):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, stop_signals.SIGNALS)  # See below.
        path = _open_folder(options, overrides, refusals)
        again = [f"--logdir={path.parent}", f"--timestamp={path.name.partition('-')[0]}"]
        again += [f"--{name}={getattr(options, name)}" for name in ("trials", "sampler", "pruner")]
        command = f"{command_line('sweep')} {shlex.join(again)}"
        say(f"Sweep {path}; join or continue it with: {command}")
        try:
            sweep = Sweep(path, options.sampler, options.pruner)
            if train_trials(sweep, options.trials):
                # Another program continues the sweep in this process, which is then as small as at
                # first. Signals wait until that handles them, after its imports.
                signal.pthread_sigmask(signal.SIG_BLOCK, stop_signals.SIGNALS)
                stop_signals.check()
                sys.stdout.flush()
                os.fchdir(place)
                program = sys.orig_argv[1 : -len(arguments)]
                os.execv(sys.executable, [sys.executable, *program, *again])
        except (KeyboardInterrupt, *FAILURES) as error:
            gc.freeze()  # Python's end would look for garbage in all of TensorFlow, for seconds.
            raise SystemExit(report_error(error, f"To continue: {command}")) from None
    best = sweep.best()
    if best:
        say(f"Best {_result(best)}, with {_describe(sweep.settings(best))}")
    storage = [f"--storage={sweep.journal}", "--storage-class=JournalFileBackend"]
    say(f"See all trials: optuna trials {shlex.join([*storage, f'--study-name={STUDY}'])}")
    if best:
        run = sweep.run(best.number)
        same = [f"--logdir={options.logdir}", f"--config={run.config_file}"]
        same += [f"--name={run.path.name}", "--seed=1"]
        say(f"Train its settings again: {command_line('train')} {shlex.join(same)}")
    elif all(trial.state.is_finished() for trial in sweep.trials()):  # None of another process.
        say("error: every trial has failed or was pruned; none has a score", file=sys.stderr)
        raise SystemExit(1)


def _open_folder(
    options: SweepOptions, overrides: dict[str, PlainData], refusals: contextlib.ExitStack
) -> Path:
    """Returns the folder of a new sweep, or of the sweep to continue.

    Modules that only the files of other sweeps or runs name are refused from now on.
    """
    name = options.config or "default"
    if options.timestamp:
        logdir = absolute_path(options.logdir)
        path = RunDirectory.existing(logdir, options.timestamp, options.config, is_sweep=True).path
        config, space = _read_folder(path)
        _check_unchanged(path, space, options.space, overrides)
        if options.config:
            warn_of_kept_settings("sweep", config, options.config, overrides)
        others, named = [path, path.parent], overrides
    else:
        config = load_config(name, **overrides)
        if config.initial_weights:
            raise UsageError("initial_weights: a sweep trains new weights; leave it out")
        space = _varied(options.space or _space_of(config), overrides)
        _check_algorithm(space, config)
        if not space:
            raise UsageError(
                "--space: the command line sets all of its settings; no setting is left to vary"
            )
        others = folders_of_other_runs(options.config, options.space)
        named = overrides if others else {**space, **overrides}
    if others:  # Modules that the user's own file names may lie in the current folder.
        refusals.enter_context(refusing_modules_in(*others))
    name_modules(named)
    with stop_signals.interruptible():
        look_up(config, None)  # Before any trial fails for a module.
    if options.timestamp:
        return path
    if not options.config:
        print(describe_default(config.env), file=sys.stderr)
    path = RunDirectory.new(options.logdir, "sweep", name).path
    try:
        write_atomically(path / SPACE_FILE, with_checksum(yaml_text(space)))
        save_config(config, path / SETTINGS_FILE)
    except OSError as error:
        raise UsageError(f"can't write to {path}: {error.strerror}") from None
    return path


def _check_unchanged(
    path: Path, space: Space, given_space: str | None, overrides: Mapping[str, PlainData]
) -> None:
    """Rejects other settings than the sweep's own: scores would not be comparable."""
    config = load_config(path / SETTINGS_FILE)
    given = load_config(path / SETTINGS_FILE, **overrides)
    changed = [
        name for name in overrides if name in space or getattr(config, name) != getattr(given, name)
    ]
    if given_space and _varied(given_space, overrides) != space:
        changed.append("--space")
    if changed:
        raise UsageError(
            f"{changed[0]}: the value differs from the sweep's; trials would not be comparable\n"
            "leave it out, or start a new sweep without --timestamp"
        )


def _space_of(config: Config) -> str:
    """Returns the name of the search space of the settings' algorithm."""
    if config.algorithm not in ALGORITHMS:
        raise UsageError(
            f"--space: algorithm {config.algorithm} has no search space of its own\n"
            f"expected {', '.join(ALGORITHMS)}, or the path of a YAML file"
        )
    return config.algorithm


def _check_algorithm(space: Space, config: Config) -> None:
    """Rejects settings of another algorithm, with which no trial could train."""
    if foreign := sorted(space.keys() & config.foreign_settings()):
        raise UsageError(
            f"--space: algorithm {config.algorithm} does not read {', '.join(foreign)}; leave "
            f"{'it' if len(foreign) == 1 else 'them'} out, or use a preset of another algorithm"
        )


def _varied(space: str, overrides: Mapping[str, PlainData]) -> Space:
    """Returns a search space without the settings of the command line."""
    return {name: values for name, values in load_space(space).items() if name not in overrides}


def _read_folder(path: Path) -> tuple[Config, Space]:
    """Returns the settings that trials share, and the search space.

    Raises:
      UsageError: A file can't be read, is no regular file, or was changed: trials would not be comparable.
    """
    for name in (SETTINGS_FILE, SPACE_FILE):
        check_regular(path / name)
    content = load_config(path / SETTINGS_FILE), load_space(path / SPACE_FILE)
    for name in (SETTINGS_FILE, SPACE_FILE):
        if has_right_checksum(path / name) is False:
            raise UsageError(
                f"{path / name} was changed after the sweep wrote it: its checksum is wrong\n"
                "restore it, or start a new sweep, without --timestamp"
            )
    return content


def train_trials(sweep: Sweep, num_trials: int) -> bool:
    """Trains trials until the sweep has enough of them; several processes may do so at a time.

    Args:
      sweep: The sweep.
      num_trials: Trials that it has at its end, those of other processes included.

    Returns:
      Whether trials may be left that no process trains.

    Raises:
      KeyboardInterrupt: Training was interrupted. The next process resumes the trial.
      CheckpointError, JournalError: A file can't be written. The next process resumes the trial.
      EnvironmentFailure, InvalidActionError, NonFiniteError, UsageError: The first trials of the
        sweep have all failed, the last one with this error.
    """
    for _ in range(TRIALS_PER_PROCESS):
        stop_signals.check()
        with sweep.claimed(num_trials) as trial:
            if trial is None:
                return False
            described = _describe(sweep.settings(trial))
            say(f"Trial {trial.number} of {num_trials}: {described}", file=sys.stderr)
            error = _train_trial(sweep, trial)
        trials, best = sweep.trials(), sweep.best()
        line = _result(trials[trial.number]).capitalize()
        line += f": {first_line(error)}" if error else ""
        say(line + (f" (best: {_result(best)})" if best else ""), file=sys.stderr)
        has_scores = any(trial.values or trial.intermediate_values for trial in trials)
        if error and not has_scores and len(trials) >= MAX_FIRST_FAILURES:
            say("The first trials have all failed.", file=sys.stderr)
            raise error
        gc.collect()  # Graphs are cycles of objects.
    return True


def _train_trial(sweep: Sweep, trial: Trial) -> Exception | None:
    """Trains a trial to its end, or until it is pruned or fails; returns why it failed.

    Its score is the last evaluation's. Settings that contradict each other prune it at once: the
    sampler learns to avoid them.
    """
    run, last = sweep.run(trial.number), None
    try:
        config = sweep.trial_config(trial)
    except UsageError as error:
        sweep.finish(trial, "PRUNED")
        return error
    try:
        with contextlib.closing(train(config, run)) as scores:
            for score in scores:
                last = float(score)
                if is_pruned := score.step < config.steps and sweep.prunes(trial, score.step, last):
                    break
        if last is None:  # It was complete when its process was killed.
            rows = read_metrics(run.metrics_file)
            logged = [row["eval/return_mean"] for row in rows if "eval/return_mean" in row]
            if not logged:
                raise UsageError(f"{run.metrics_file} has no evaluation")
            last, is_pruned = logged[-1], False
    except (CheckpointError, JournalError):  # The disk is full: no trial's fault.
        raise
    except FAILURES as error:
        run.write_error(error)
        sweep.finish(trial, "FAIL")
        return error
    # Training has ended: an interrupt while it did leaves a trial that can be resumed.
    if is_pruned:
        sweep.finish(trial, "PRUNED")
    else:
        sweep.finish(trial, "COMPLETE", last)
    return None


class Sweep:
    """The folder `<logdir>/<time>-sweep-<config>` of one sweep, with a run for each trial.

    Attributes:
      path: The folder.
      journal: Optuna's file of all trials, which processes share.
      config: The settings that all trials share.
      space: The settings that vary.
    """

    def __init__(self, path: Path, sampler: str = "tpe", pruner: str = "median"):
        """Reads the settings and opens the journal; creates it if it is missing.

        Args:
          path: The folder, with settings and space.
          sampler: See `SweepOptions`.
          pruner: See `SweepOptions`. No trial is pruned in the first third of its steps.

        Raises:
          UsageError: A file can't be read, is damaged, or is no regular file.
          JournalError: The journal can't be written.
        """
        import optuna
        from optuna.storages.journal import JournalFileBackend, JournalStorage

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self.path, self.journal = path, path / SWEEP_FILE
        self.config, self.space = _read_folder(path)
        check_regular(self.journal, in_place=True)
        samplers = {"tpe": optuna.samplers.TPESampler, "random": optuna.samplers.RandomSampler}
        self._make_sampler = samplers[sampler]
        pruners = {
            "median": optuna.pruners.MedianPruner(STARTUP_TRIALS, self.config.steps // 3),
            "none": optuna.pruners.NopPruner(),
        }
        with self._journal_errors():
            # Optuna's locks outlive a killed process for 30 seconds, this one does not.
            lock = self.journal.with_name(f"{self.journal.name}.lock")
            self._lock = open_regular(lock, os.O_RDWR | os.O_CREAT)
            no_lock = types.SimpleNamespace(acquire=lambda: True, release=lambda: None)
            is_new = not self.journal.exists()
            storage = JournalStorage(JournalFileBackend(str(self.journal), no_lock))  # type: ignore[arg-type]
            if is_new:
                with self.exclusive():
                    optuna.create_study(
                        storage=storage,
                        study_name=STUDY,
                        direction="maximize",
                        load_if_exists=True,
                    )
            self._study = optuna.load_study(
                storage=storage, study_name=STUDY, pruner=pruners[pruner]
            )

    @contextlib.contextmanager
    def claimed(self, num_trials: int) -> Iterator[Trial | None]:
        """Claims a trial for this process: an interrupted or a new one.

        Args:
          num_trials: Trials that the sweep has at its end, those of other processes included.

        Yields:
          The trial; None if there are as many, and other processes train the unfinished ones.

        Raises:
          UsageError: The folder of the trial is a link or a file.
          JournalError: The journal can't be written.
        """
        with contextlib.ExitStack() as stack:
            with self.exclusive():
                trial = self._resume(stack)
                number = len(self.trials())
                if trial is None and number < num_trials:
                    seed = Seeds(self.config.seed).one("sampler", number)
                    self._study.sampler = self._make_sampler(seed=seed)
                    trial = self._study.ask(_distributions(self.space))
                    self._claim(number, stack)
            yield trial

    def _resume(self, stack: contextlib.ExitStack) -> Trial | None:
        """Claims a trial whose process ended before it; fails trials that end processes."""
        from optuna import Trial
        from optuna.trial import TrialState

        for trial in self.trials():
            if trial.state.is_finished() or not self._claim(trial.number, stack):
                continue
            files = find_files(self.run(trial.number).checkpoints)
            step = max((file.step for file in files), default=0)
            starts = [*trial.user_attrs.get("starts", [0]), step]
            if self.space.keys() <= trial.params.keys() and starts.count(step) <= MAX_STARTS:
                resumed = Trial(self._study, trial._trial_id)
                resumed.set_user_attr("starts", starts)
                return resumed
            self._study.tell(trial.number, state=TrialState.FAIL)
        return None

    def _claim(self, number: int, stack: contextlib.ExitStack) -> bool:
        """Claims a trial until the stack is closed; returns False if another process has it."""
        path = self.run(number).path
        lock = path.with_name(f"{path.name}.lock")
        check_folder(path)
        check_regular(lock, in_place=True)
        try:
            stack.enter_context(run_lock.locked(lock))
        except UsageError:
            return False
        return True

    def run(self, number: int) -> RunDirectory:
        """Returns the run of a trial."""
        return RunDirectory(self.path / f"trial-{number:04d}")

    def settings(self, trial: FrozenTrial | Trial) -> dict[str, PlainData]:
        """Returns the settings of a trial that vary; minibatches have the nearest size that fits.

        Raises:
          UsageError: The journal is damaged.
        """
        with self._journal_errors():
            settings = {
                name: json.loads(trial.params[name]) if "choices" in values else trial.params[name]
                for name, values in self.space.items()
            }
        sizes = {
            name: settings.get(name, getattr(self.config, name))
            for name in ("num_envs", "rollout_length", "minibatch_size")
        }
        has_minibatches = "minibatch_size" not in self.config.foreign_settings()
        if has_minibatches and settings.keys() & sizes.keys():
            total = sizes["num_envs"] * sizes["rollout_length"]
            settings["minibatch_size"] = nearest_divisor(total, sizes["minibatch_size"])
        return settings

    def trial_config(self, trial: Trial) -> Config:
        """Returns all settings of a trial; its seed depends on the sweep's seed and its number.

        Raises:
          UsageError: They contradict each other.
        """
        seed = Seeds(self.config.seed).one("trial", trial.number)
        return load_config(self.path / SETTINGS_FILE, **self.settings(trial), seed=seed)

    def trials(self) -> list[FrozenTrial]:
        """Returns all trials by number."""
        return self._study.get_trials(deepcopy=False)

    def best(self) -> FrozenTrial | None:
        """Returns the complete trial with the highest score; None before there is one.

        Raises:
          UsageError: The journal is damaged.
        """
        with self._journal_errors():
            complete = [trial for trial in self.trials() if trial.state.name == "COMPLETE"]
            return max(complete, key=lambda trial: float(trial.value or 0.0), default=None)

    def prunes(self, trial: Trial, step: int, score: float) -> bool:
        """Stores the score of an evaluation; returns whether to prune the trial."""
        # Iterations end at different steps in trials of other rollout lengths.
        step = step // self.config.eval_interval * self.config.eval_interval
        with self.exclusive():
            if step not in self.trials()[trial.number].intermediate_values:  # It was resumed.
                trial.report(score, step)
            return trial.should_prune()

    def finish(self, trial: Trial, state: str, score: float | None = None) -> None:
        """Ends a trial in a state of Optuna; only complete ones have a score."""
        from optuna.trial import TrialState

        with self.exclusive():
            self._study.tell(trial.number, score, TrialState[state])

    @contextlib.contextmanager
    def exclusive(self) -> Iterator[None]:
        """A section in which no other process writes the journal.

        It begins after the last whole line: a full disk or a killed process may have left a part.
        """
        with self._journal_errors():
            fcntl.flock(self._lock, fcntl.LOCK_EX)
            try:
                with os.fdopen(open_regular(self.journal, os.O_RDWR), "rb+") as file:
                    file.seek(max(file.seek(0, os.SEEK_END) - 1, 0))
                    if file.read() != b"\n":
                        file.seek(0)
                        file.truncate(file.read().rfind(b"\n") + 1)
                yield
            finally:
                fcntl.flock(self._lock, fcntl.LOCK_UN)

    @contextlib.contextmanager
    def _journal_errors(self) -> Iterator[None]:
        """Names the journal in errors of reading and writing it."""
        try:
            yield
        except UsageError:
            raise
        except OSError as error:
            raise JournalError(f"can't write {self.journal}: {error.strerror}") from None
        except Exception as error:  # Of any type: Optuna checks neither keys nor values.
            raise UsageError(
                f"{self.journal} is damaged ({type(error).__name__}: {first_line(error)})\n"
                "restore it from a copy, or start a new sweep, without --timestamp"
            ) from error


def load_space(name: str | Path) -> Space:
    """Loads a search space and validates it.

    Args:
      name: An algorithm whose space comes with the library, or path of a YAML file.

    Raises:
      UsageError: It can't be read, or a setting is unknown, or takes other values. The message has
        at most three lines.
    """
    is_built_in = name in ALGORITHMS
    path = PRESETS / "search_spaces" / f"{name}.yaml" if is_built_in else Path(name).expanduser()
    space = read_mapping(path)
    for setting, values in space.items():
        place = f"{setting} in {path}"
        if setting not in Config.model_fields:
            suggestion = hint(str(setting), Config.model_fields, repr)
            raise UsageError(f"unknown setting '{setting}' in {path}{suggestion}")
        if setting in SHARED:
            raise UsageError(f"{place}: all trials share it; set it with --{setting}=VALUE")
        is_number = Config.model_fields[setting].annotation in (int, float)
        match values:
            case {"low": low, "high": high, **others} if is_number and others in _SCALES:
                ends = [low, high]
            case {"choices": list(choices), **others} if not others:
                ends = choices
            case _:
                raise UsageError(
                    f"{place}: expected numbers as {{low: 1e-5, high: 1e-2, log: true}}, or any "
                    f"values as {{choices: [32, 64]}}, got {abbreviate(values)}"
                )
        for value in ends:
            _check_value(setting, value, path)
        try:
            _distributions({setting: values})
        except (TypeError, ValueError) as error:  # Of Optuna, or of values that JSON does not have.
            raise UsageError(f"{place}: {first_line(error)}") from None
    return space


# A linear scale, or a logarithmic one.
_SCALES: tuple[dict[str, bool], ...] = ({}, {"log": False}, {"log": True})


def _check_value(setting: str, value: PlainData, path: Path) -> None:
    """Raises a UsageError for a value that a setting does not take."""
    try:
        Config.model_validate({setting: value})
    except ValidationError as error:
        # Others come from checks across settings, which depend on those of the experiment.
        if any(problem["loc"] for problem in error.errors(include_url=False)):
            origin = f" in {path}"
            raise usage_error(error, Config, {setting: value}, origin=lambda name: origin) from None


def _distributions(space: Space) -> dict[str, BaseDistribution]:
    """Returns Optuna's distributions by setting; choices are JSON texts."""
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    distributions: dict[str, BaseDistribution] = {}
    for name, values in space.items():
        if "choices" in values:
            distributions[name] = CategoricalDistribution(list(map(json.dumps, values["choices"])))
        elif Config.model_fields[name].annotation is int:
            distributions[name] = IntDistribution(**values)
        else:
            distributions[name] = FloatDistribution(**values)
    return distributions


def _result(trial: FrozenTrial) -> str:
    """Describes how a trial has ended: `trial 3 pruned with score -150.2 at step 20,000`."""
    state = {"COMPLETE": "complete", "PRUNED": "pruned", "FAIL": "failed"}[trial.state.name]
    if state == "complete":
        return f"trial {trial.number} {state} with score {trial.value:.5g}"
    if trial.last_step is None:
        return f"trial {trial.number} {state}"
    score = trial.intermediate_values[trial.last_step]
    return f"trial {trial.number} {state} with score {score:.5g} at step {trial.last_step:,}"


def _describe(settings: Mapping[str, PlainData]) -> str:
    """Returns settings in one line: `learning_rate 0.001, layers 64,64`."""
    return ", ".join(f"{name} {as_text(value, 3)}" for name, value in settings.items())


if __name__ == "__main__":
    run(main)
