"""Searches for good settings: `python -m agents.scripts.sweep --logdir=logdir --config=pendulum`."""

from __future__ import annotations

import contextlib
import gc
import os
import shlex
import signal
import sys
from typing import ClassVar, NoReturn

from pydantic import BaseModel, ConfigDict, Field

from agents import stop_signals
from agents.analysis.preset_table import describe_default
from agents.command_line.parser import parse_command
from agents.command_line.reports import command_line, interpreter, report_error, run, say
from agents.errors import JournalError, UsageError
from agents.paths import absolute_path
from agents.runtime.keras_settings import check_keras
from agents.scripts.train import look_up, train
from agents.settings.config import Config
from agents.settings.config_file import load_config
from agents.settings.entry_points import name_modules, refusing_modules_in
from agents.sweeps.reports import best_trial, table, write_reports
from agents.sweeps.search_space import load_space
from agents.sweeps.sweep import Sweep, check_installed
from agents.sweeps.trial_result import RUNNING
from agents.sweeps.trial_training import FAILURES, train_trials
from agents.types import PlainData

# TensorFlow keeps what it has compiled, 60 MB a trial, until its program ends.
TRIALS_PER_PROCESS = 20

EXAMPLES = """\
examples:
  agents sweep --logdir=logdir --config=pendulum --trials=50
  agents sweep --logdir=logdir --config=cheetah --steps=300000 --space=my_space.yaml
  agents sweep --logdir=logdir --timestamp=20260131T120000 --trials=100

The last one continues a sweep. Run it in several terminals to train as many trials at once."""


class SweepOptions(BaseModel):
    """Trains trials with different settings, and reports which settings score best."""

    model_config = ConfigDict(extra="forbid")

    settings: ClassVar[type[BaseModel]] = Config  # Its fields are options, too.

    logdir: str = Field(
        min_length=1,
        description="Folder for runs; this sweep creates <time>-sweep-<config> in it, with a run "
        "for each trial, results.csv and sweep.png.",
    )
    config: str | None = Field(
        None,
        min_length=1,
        description="Preset or path of a YAML file; by default the preset 'default'.",
    )
    trials: int = Field(
        50,
        ge=1,
        le=1_000_000,
        description="Trials that the sweep has at its end, over all processes and continuations.",
    )
    space: str | None = Field(
        None,
        min_length=1,
        description="Search space: ppo, which is the default, or path of a YAML file. Settings on "
        "the command line are the same in all trials.",
    )
    timestamp: str | None = Field(
        None, min_length=1, description="The <time> of a sweep in logdir to continue, or to join."
    )


def main(arguments: list[str]) -> None:
    """Runs the command."""
    options, overrides = parse_command(
        SweepOptions,
        arguments,
        program="agents sweep",
        settings=SweepOptions.settings,
        examples=EXAMPLES,
        shown=lambda given: load_config(given.get("config") or "default"),
    )
    check_installed()
    check_keras()
    folder = os.open(os.curdir, os.O_RDONLY)  # Environments may change to another.
    sweep = _open(options, overrides)
    command = shlex.join([interpreter(), *_arguments(sweep, options.trials)])
    say(f"Sweep {sweep.path}; join or continue it with: {command}")
    hints = [f"To continue: {command}"]
    try:
        with (
            _refusing_modules(sweep) if options.timestamp else contextlib.nullcontext(),
            stop_signals.handling("the trial stops and a checkpoint is saved", lambda: hints),
        ):
            signal.pthread_sigmask(signal.SIG_UNBLOCK, stop_signals.SIGNALS)  # See `_restart`.
            if train_trials(sweep, options.trials, train, at_most=TRIALS_PER_PROCESS):
                _restart(sweep, options.trials, folder)
    except KeyboardInterrupt as interrupt:
        gc.freeze()  # Python's end would look for garbage in all of TensorFlow, for seconds.
        raise SystemExit(report_error(interrupt, *hints)) from None
    except JournalError as error:
        raise SystemExit(report_error(error, *hints)) from None
    except FAILURES as error:
        raise SystemExit(report_error(error, "The first trials have all failed.", *hints)) from None
    write_reports(sweep)
    say(*_summary(sweep, options.logdir))


def _open(options: SweepOptions, overrides: dict[str, PlainData]) -> Sweep:
    """Makes a new sweep, or finds the one to continue."""
    logdir = absolute_path(options.logdir)
    space = load_space(options.space or "ppo") if options.space or not options.timestamp else None
    if options.timestamp:
        sweep = Sweep.existing(logdir, options.timestamp, options.config)
        sweep.check_shared(overrides, space)
        name_modules(overrides)
        with _refusing_modules(sweep):
            _look_up(sweep.config)
        return sweep
    assert space
    name = options.config or "default"
    config = load_config(name, **overrides)
    space = space.without(overrides)
    if not space.dimensions:
        raise UsageError("--space: the command line has a value for each of its settings")
    _look_up(config)
    if not options.config:
        print(describe_default(config.env), file=sys.stderr)
    return Sweep.new(logdir, name, config, space)


def _look_up(config: Config) -> None:
    """Imports the modules that settings name, before any trial fails for them."""
    with stop_signals.handling("nothing was started"), stop_signals.interruptible():
        look_up(config, None)


def _refusing_modules(sweep: Sweep) -> contextlib.AbstractContextManager[None]:
    """Refuses modules that a sweep names and that lie in its folder, as those of a resumed run."""
    return refusing_modules_in(sweep.path, sweep.path.parent)


def _arguments(sweep: Sweep, num_trials: int) -> list[str]:
    """Returns the arguments of Python that continue a sweep."""
    where = [f"--logdir={sweep.path.parent}", f"--timestamp={sweep.timestamp}"]
    return ["-m", "agents.scripts.sweep", *where, f"--trials={num_trials}"]


def _restart(sweep: Sweep, num_trials: int, folder: int) -> NoReturn:
    """Replaces this program by one that continues the sweep, in the same process and an open folder.

    Signals wait until it handles them, after its imports.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, stop_signals.SIGNALS)
    stop_signals.check()
    sys.stdout.flush()
    os.fchdir(folder)
    os.execv(sys.executable, [sys.executable, *_arguments(sweep, num_trials)])


def _summary(sweep: Sweep, logdir: str) -> list[str]:
    """Returns the best trials, and what to do with them."""
    results = sweep.results()
    lines = table(results)
    lines.append(f"Results are in {sweep.path / 'results.csv'} and {sweep.path / 'sweep.png'}")
    if running := [result for result in results if result.state == RUNNING]:
        lines.append(f"{len(running)} trials are being trained by other processes")
    if best := best_trial(results):
        options = [f"--logdir={logdir}", f"--sweep={sweep.path}", f"--trial={best.number}"]
        again = f"{command_line('train')} {shlex.join([*options, '--seed=1'])}"
        lines.append(f"Train the best settings again: {again}")
    return lines


if __name__ == "__main__":
    run(main)
