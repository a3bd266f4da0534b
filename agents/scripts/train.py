"""Trains an agent: `python -m agents.scripts.train --logdir=logdir --config=pendulum`."""

from __future__ import annotations

import contextlib
import functools
import gc
import os
import re
import shlex
import sys
import tempfile
import warnings
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal, NoReturn

from pydantic import BaseModel, ConfigDict, Field

from agents import stop_signals
from agents.deployment.scores import outcome
from agents.errors import (
    CheckpointError,
    EnvironmentFailure,
    InvalidActionError,
    NonFiniteError,
    UsageError,
    WorkerTimeoutError,
)
from agents.graph.backend import EnvBackend, make_backend
from agents.keras_settings import check_keras
from agents.paths import absolute_path
from agents.runs.initial_weights import copy_initial_weights, find_initial_weights
from agents.runs.run_directory import SWEEP_FILE, RunDirectory, resolve_run
from agents.runs.wandb_tracker import is_tracked, wandb_tracker
from agents.settings.config import PYTHON_BACKENDS, Config, device_of
from agents.settings.config_file import config_text, load_config
from agents.settings.entry_points import (
    check_entry_points,
    name_modules,
    refusing_modules_in,
)
from agents.settings.parser import parse_command
from agents.settings.peer_names import argument_hint
from agents.settings.reports import command_line, interpreter, report_error, run, say
from agents.settings.resumption import check_resumption, differences
from agents.settings.validation import abbreviate
from agents.tensorflow_setup import quiet_tensorflow, start_tensorflow
from agents.training.episode_cuts import (
    episode_limit,
    warn_of_cut_episodes,
    warn_of_endless_episodes,
)
from agents.types import PlainData
from agents.workers.spawner import pinned_working_directory

if TYPE_CHECKING:
    from gymnasium.envs.registration import EnvSpec

    from agents.distributed.team_reducer import TeamReducer
    from agents.training.evaluation import EvaluationScore

EXAMPLES = """\
examples:
  agents train --logdir=logdir --config=pendulum
  agents train --logdir=logdir --env=my_module:MyEnv-v0 --num-envs=16
  agents train --logdir=logdir --timestamp=20260131T120000
Guide: docs/guides/training.md"""


class TrainOptions(BaseModel):
    """Trains an agent, evaluates it regularly, and writes checkpoints, metrics and events."""

    model_config = ConfigDict(extra="forbid")

    settings: ClassVar[type[BaseModel]] = Config  # All of its fields are options of the command.
    essentials: ClassVar[frozenset[str]] = frozenset(
        {"logdir", "config", "name", "timestamp", "learners", "dry_run", "list"}
    )

    logdir: str = Field(
        "logdir",
        min_length=1,
        description="Folder for runs. This run creates <time>-<config>[-<env>][-<name>] in it.",
    )
    config: str | None = Field(
        None,
        min_length=1,
        description="Preset, or path of a YAML file. The default is the preset 'default'.",
    )
    name: str | None = Field(
        None,
        min_length=1,
        description="End of the name of the new run's folder. It tells runs apart.",
    )
    timestamp: str | None = Field(
        None,
        min_length=1,
        description="<time> of the run to resume; latest for the newest. The run in logdir "
        "continues from its last checkpoint.",
    )
    track: Literal["wandb"] | None = Field(
        None, description="Also sends metrics to Weights & Biases. It needs the package wandb."
    )
    learners: int = Field(
        1,
        ge=1,
        le=1024,
        description="Processes that train together, on this machine or with --cluster. They share "
        "environments and minibatches. With TF_CONFIG or srun, each command is one.",
    )
    cluster: Literal["ray"] | None = Field(
        None,
        description="Places --learners on the nodes of a Ray cluster. It needs the package ray.",
    )
    learner_cpus: int = Field(
        1, ge=1, le=1024, description="CPUs that --cluster=ray reserves for each learner."
    )
    learner_gpus: float = Field(
        0.0,
        ge=0.0,
        le=1.0,
        description="GPUs that --cluster=ray reserves for each learner: 1, or a fraction.",
    )
    trust_network: bool = Field(
        False,
        description="Allows public addresses of learners. Use it behind a firewall only: anybody "
        "who reaches their ports can execute code.",
    )
    restarts: int = Field(
        0,
        ge=0,
        le=1_000_000,
        description="Number of restarts of the learners from the last checkpoint. A restart "
        "follows if a learner dies, hangs or is cut off.",
    )
    dry_run: bool = Field(
        False, description="Prints settings, spaces, network and memory without training."
    )
    list: bool = Field(
        False,
        description="Prints presets with environments, expected returns and minutes.",
    )


def train(
    config: Config,
    run: RunDirectory | str | Path | None = None,
    logdir: str | Path | None = None,
    name: str | None = None,
    command: str = "",
    track: Literal["wandb"] | None = None,
    reducer: TeamReducer | None = None,
    **unknown: NoReturn,
) -> Generator[EvaluationScore, None, None]:
    """Returns a generator: iterating over it trains, and yields the score of each evaluation.

    ```python
    for score in agents.train(agents.load_config("pendulum"), logdir="logdir"):
        print(score.step, score, score.policy(observ))
        if score > -200:
            break
    ```

    Leaving the loop, or a `KeyboardInterrupt`, saves a final checkpoint and closes the environments;
    the run can be resumed. Only the command handles signals.

    Args:
      config: The experiment, see `agents.load_config`.
      run: Folder of the run, such as `score.run` to resume it; by default nothing is kept.
      logdir: Folder for runs, instead of `run`; a new run `<time>-<env>` is created in it.
      name: Ends the name of the new run in `logdir`.
      command: The command that trains, to record in the run.
      track: `wandb` sends metrics to Weights & Biases.
      reducer: Combines this learner with others. Only the chief has a run, and scores.
      **unknown: Not supported; the error translates other libraries' names.

    Yields:
      The score of every evaluation: a number, the mean return, with `step`, `is_best`, `scalars`,
      `run` and `policy`.

    Raises:
      UsageError: The environment is unknown, or there is no policy for its spaces; another process
        trains the run, it can't be resumed with these settings, or the tracker can't be started;
        Keras does not run on TensorFlow.
      CheckpointError: The last checkpoint could not be saved, as on a full disk.
      EnvironmentFailure: An environment, or the process that hosts it, failed.
      InvalidActionError: An action is not in the action space.
      LearnerLostError: Another learner has failed or does not answer.
      NonFiniteError: An observation, action, reward, loss, gradient or weight was NaN or infinite.
      RunLostError: The run's folder was moved, deleted or replaced.
      ValueError: Both `run` and `logdir` are given.
      TypeError: `config` is something else, such as the name of a preset; or an argument is
        unknown.
    """
    for argument in unknown:
        known = ("run", "logdir", "name", "command", "track")
        suggestion = argument_hint(argument, known, Config.model_fields)
        raise TypeError(f"train has no argument '{argument}'{suggestion}")
    if not isinstance(config, Config):
        raise TypeError(
            f"train expected a Config, got {config!r}; make one with agents.load_config(...)"
        )
    if run is not None and logdir is not None:
        raise ValueError("Give the run or a logdir for a new one, not both.")
    if name is not None and logdir is None:
        raise ValueError("The name is for a new run; give its logdir, too.")
    if name:
        _check_name(name)
    check_keras()
    # Not in the generator: the working directory may change before it starts.
    if isinstance(run, str | Path):
        run = RunDirectory(resolve_run(run))
    logdir = None if logdir is None else absolute_path(logdir)
    if os.environ.get("TF_CONFIG") and reducer is None:
        warnings.warn(
            "agents.train ignores TF_CONFIG: only the command trains with several learners",
            stacklevel=2,
        )
    return _training(config, run, logdir, name, command, track, reducer, note="")


def _training(
    config: Config,
    run: RunDirectory | None,
    logdir: Path | None,
    name: str | None,
    command: str,
    track: Literal["wandb"] | None,
    reducer: TeamReducer | None,
    note: str,
) -> Generator[EvaluationScore, None, None]:
    """Yields the scores of `train`, and prints a note once training begins."""
    if logdir is not None:
        run = RunDirectory.new(logdir, config.env, *filter(None, [name]))
    with contextlib.ExitStack() as stack:
        # Tracked runs are kept in any case.
        tracking = run.path if run else absolute_path("") if track else None
        if reducer:
            stack.push(lambda kind, error, trace: reducer.leave(error))
        if run:
            stack.enter_context(run.locked(config))
        is_chief = reducer is None or reducer.rank == 0
        with stop_signals.interruptible():
            backend, spec = look_up(config, run, warns=is_chief)
            # The modules of settings are found by now.
            stack.enter_context(pinned_working_directory())
            make = functools.partial(backend.make, spec)
            num_envs = config.num_envs // (reducer.num_learners if reducer else 1)
            train_envs = make(num_envs, training=True)
            stack.enter_context(contextlib.closing(train_envs))
            if reducer and reducer.rank:
                from agents.training.training_loop import follow

                follow(config, train_envs, reducer)
                return
            eval_envs = make(config.eval_episodes)
            stack.enter_context(contextlib.closing(eval_envs))
        if run:
            tensorboard = f"{interpreter()} -m tensorboard.main"
            see = f"see it with: {tensorboard} --logdir={shlex.quote(str(run.path.parent))}"
            say(f"Training in {run.path}; {see}", file=sys.stderr)
        run = run or RunDirectory(stack.enter_context(tempfile.TemporaryDirectory()))
        # Before it has a file of settings, which would make it the newest run.
        copy_initial_weights(config, run)
        if not run.config_file.exists():
            run.prepare(config)
        tracker = stack.enter_context(wandb_tracker(run, tracking)) if track else None
        with stop_signals.interruptible():
            start_tensorflow(config.threads, device_of(config))
            from agents.training.training_loop import training_loop

        def on_start() -> None:
            warn_of_endless_episodes(config, spec)
            if note:
                print(note, file=sys.stderr)

        envs = train_envs, eval_envs
        several = [reducer] if reducer else []
        yield from training_loop(config, run, *envs, command, tracker, on_start, *several)


def main(arguments: list[str]) -> None:
    """Runs the command."""
    options, overrides = parse_command(
        TrainOptions,
        arguments,
        program="agents train",
        settings=TrainOptions.settings,
        examples=EXAMPLES,
    )
    if options.list:
        from agents.runs.preset_table import preset_table

        print(*preset_table(), sep="\n")
        return
    check_keras()
    if not options.cluster and options.model_fields_set & {"learner_cpus", "learner_gpus"}:
        raise UsageError("--learner-cpus and --learner-gpus need --cluster=ray")
    are_several = options.learners > 1 or options.cluster or scheduler_of(os.environ)
    if options.restarts and not are_several:
        raise UsageError(
            "--restarts is for several learners: expected --learners, --cluster, TF_CONFIG or srun\n"
            "environments are restarted with --env-restarts"
        )
    config, resumed, names = _experiment(options, overrides)
    note = ""
    if not (options.config or options.timestamp):
        from agents.runs.preset_table import describe_default

        note = describe_default(config.env)
    if options.dry_run:
        say(*_dry_run(config, resumed, options.learners), *filter(None, [note]))
        return
    run = resumed or RunDirectory.new(options.logdir, *names)
    command = f"{command_line('train')} {shlex.join(arguments)}"
    if are_several:
        from agents.scripts.learner import train_together

        raise SystemExit(train_together(config, run, command, options, note))
    train_in_console(config, run, command, options.track, note=note)


def scheduler_of(variables: Mapping[str, str]) -> str:
    """Name of the scheduler of several machines; empty without one."""
    if variables.get("TF_CONFIG"):
        return "TF_CONFIG"
    if "SLURM_PROCID" in variables and variables.get("SLURM_STEP_NUM_TASKS", "1") != "1":
        return "srun"
    return ""


def train_in_console(
    config: Config,
    run: RunDirectory,
    command: str,
    track: Literal["wandb"] | None,
    reducer: TeamReducer | None = None,
    resume_options: Sequence[str] = (),
    note: str = "",
) -> None:
    """Trains as a command does: signals save a checkpoint, and errors come with what to do.

    Raises:
      SystemExit: With the exit code of an error or a signal.
      UsageError: See `train`.
      LearnerLostError: See `train`.
    """
    score = None
    announcement = "training stops and a checkpoint is saved"

    def hints() -> list[str]:
        return resume_hints(run, *resume_options)

    try:
        with stop_signals.handling(announcement):
            training = _training(config, run, None, None, command, track, reducer, note)
            for score in training:  # noqa: B007 - The last one is reported.
                pass
    except KeyboardInterrupt as interrupt:
        gc.freeze()  # Python's end would look for garbage in all of TensorFlow, for seconds.
        raise SystemExit(report_error(interrupt, *hints())) from None
    except CheckpointError as error:
        raise SystemExit(report_error(error, *hints())) from None
    except (EnvironmentFailure, InvalidActionError, NonFiniteError) as error:
        # The folder is missing if the environments could not be created.
        written = [run.write_error(error)] if run.path.is_dir() else []
        restartable = config.env_backend in PYTHON_BACKENDS and not config.env_restarts.limit
        if written and restartable and isinstance(error, EnvironmentFailure):
            if isinstance(error, WorkerTimeoutError):
                written.append("If the environment is slow, raise this time limit")
            written.append("To restart environments that fail: --env-restarts='{\"limit\": 10}'")
        raise SystemExit(report_error(error, *written, *hints())) from None
    done = "" if score is not None else "Nothing left to do; a larger --steps trains longer. "
    where = f"--logdir={shlex.quote(str(run.path))}"
    say(f"{done}{outcome(run, score)}. Watch it with: {command_line('visualize')} {where}")


def _experiment(
    options: TrainOptions, overrides: dict[str, PlainData]
) -> tuple[Config, RunDirectory | None, list[str]]:
    """The settings, the run to resume, if any, and otherwise what tells a new run apart."""
    if options.timestamp:
        if options.name:
            raise UsageError("--name is for new runs; leave it out to resume one")
        resumed = RunDirectory.existing(options.logdir, options.timestamp, options.config)
        name_modules(overrides)
        config = resumed.load_config(**overrides)
        if options.config:
            warn_of_kept_settings("run", config, options.config, overrides)
        if is_tracked(resumed) and not options.track:
            warnings.warn(
                "the run was tracked, and is not from now on: give --track=wandb", stacklevel=2
            )
        return config, resumed, []
    if options.name:
        _check_name(options.name)
    preset = options.config or "default"
    config = load_config(preset, **overrides)
    if others := folders_of_other_runs(preset):
        name_modules(overrides)
        with refusing_modules_in(*others):
            look_up(config, None, warns=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # They were given above.
        unchanged = load_config(preset)
    other_env = config.env != unchanged.env
    lost = sorted(unchanged.env_kwargs.keys() - config.env_kwargs.keys())
    if lost and not other_env:
        warnings.warn(
            f"--env-kwargs replaces all of {preset}: the environment has its defaults for {', '.join(lost)}",
            stacklevel=2,
        )
    source = [preset, *([config.env] if other_env else [])]
    if Path(preset).name == "config.yaml":  # Of another run, which tells nothing.
        source = [config.env]
    names = [*source, *filter(None, [options.name])]
    return config, None, names


def _check_name(name: str) -> None:
    """Raises UsageError for a name that the run's folder could not have as it is."""
    if not re.fullmatch(r"[\w.+-]+", name):
        raise UsageError(f"name: expected letters, digits and _.+-, got {name!r}")


def warn_of_kept_settings(
    kind: str, config: Config, file: str, overrides: Mapping[str, PlainData]
) -> None:
    """Warns if a file that only names what to resume has other settings.

    Args:
      kind: What is resumed, a run or a sweep.
      config: Its settings.
      file: The file, or a preset.
      overrides: Settings on the command line.
    """
    try:
        in_file = dict(load_config(file))
    except UsageError:
        return  # It may be gone.
    kept = differences(dict(config), in_file, changeable=True)
    if names := [name for name in kept if name not in overrides]:
        name, more = names[0], f"; likewise {', '.join(names[1:4])}" if names[1:] else ""
        warnings.warn(
            f"the resumed {kind} keeps its settings: {name} is {abbreviate(dict(config)[name])} in it, and "
            f"{abbreviate(in_file[name])} in {file}{more}. To change a setting, give it as an option.",
            stacklevel=2,
        )


def folders_of_other_runs(*files: str | None) -> list[Path]:
    """Returns the folders of the runs and sweeps that files belong to, and their logdirs.

    Modules that only a file of another run names are refused where they lie in these folders.
    """
    folders: list[Path] = []
    for path in (Path(file).absolute() for file in files if file):
        is_run = path.name == "config.yaml" and path.with_name("checkpoints").is_dir()
        if (path.parent.parent / SWEEP_FILE).exists():  # The folder of a sweep has its trials.
            folders += path.parents[:3]
        elif is_run or (path.parent / SWEEP_FILE).exists():
            folders += path.parents[:2]
    return folders


def _dry_run(config: Config, resumed: RunDirectory | None, num_learners: int) -> list[str]:
    """Describes the training; creates one environment for its spaces.

    Raises:
      UsageError: The training would not start with these settings.
    """
    if num_learners > 1:
        from agents.distributed.cluster import check_learners

        check_learners(config, num_learners)
    if resumed:
        check_resumption(resumed.load_config(), config)
    elif config.initial_weights:
        find_initial_weights(config)
    with stop_signals.handling("nothing was started"), stop_signals.interruptible():
        backend, spec = look_up(config, resumed)
        with contextlib.closing(backend.make(spec, 1)) as envs:
            with quiet_tensorflow(reports=True):
                start_tensorflow(config.threads, device_of(config))
            from agents.deployment.trained_policy import single_spaces
            from agents.training.summary import summarize

            lines = summarize(config, *single_spaces(envs), episode_limit(config, spec))
            return [config_text(config), *lines]


def look_up(
    config: Config, run: RunDirectory | None, warns: bool = True
) -> tuple[EnvBackend, EnvSpec]:
    """Imports the modules that settings name, finds the environment, and may warn of cut episodes.

    A run that is resumed may name nothing that lies in its own folder.
    """
    with contextlib.ExitStack() as stack:
        if run and run.config_file.is_file():
            stack.enter_context(refusing_modules_in(run.path, run.path.parent))
        check_entry_points(config)
        backend = make_backend(config)
        spec = backend.check()
    if warns:
        warn_of_cut_episodes(config, spec)
    return backend, spec


def resume_hints(run: RunDirectory, *options: str) -> list[str]:
    """Lines that tell how to resume a stopped run."""
    try:
        checkpoint = run.checkpoint("last")
    except UsageError:
        run.discard()
        return ["The run has no checkpoint to resume from: start a new one."]
    step = int(re.findall("[0-9]+", checkpoint.name)[0])
    where = f"--logdir={shlex.quote(str(run.path.parent))} --timestamp={run.timestamp}"
    others = [*(["--track=wandb"] if is_tracked(run) else []), *options]
    return [f"To resume from step {step:,}: {' '.join([command_line('train'), where, *others])}"]


if __name__ == "__main__":
    run(main)
