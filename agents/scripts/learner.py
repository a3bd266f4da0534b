"""One of several learners, and how `agents train` starts them; not called by users."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agents.command_line.parser import option_name
from agents.command_line.reports import exit_code, report_error, run
from agents.distributed.cluster import Address, check_learners, divides, is_loopback, read_cluster
from agents.distributed.group import Group, passing_signals
from agents.distributed.rendezvous import Place
from agents.errors import LEARNER_LOST, LearnerLostError, NonFiniteError, RunLostError, UsageError
from agents.launchers.launcher import (
    DONE,
    LearnerProcess,
    LocalProcess,
    start_on_this_machine,
    supervise,
)
from agents.launchers.ray_session import connected
from agents.processes.heartbeat import report
from agents.runtime.tensorflow_setup import start_tensorflow
from agents.scripts.train import resume_hints, train, train_in_console
from agents.settings.config import Config
from agents.settings.derived import device_of
from agents.settings.entry_points import refusing_modules_in
from agents.storage.run_directory import RunDirectory
from agents.vector.process_batch import available_cores

if TYPE_CHECKING:
    from agents.scripts.train import TrainOptions

# What learners on several machines know, and strangers do not.
KEY_VARIABLE = "AGENTS_CLUSTER_KEY"


def train_together(
    config: Config,
    run_directory: RunDirectory,
    command: str,
    options: TrainOptions,
    tf_config: str | None,
    note: str,
) -> int:
    """Trains with several learners: of this machine, on the nodes of Ray, or those of `TF_CONFIG`.

    Returns:
      The exit code of the command.

    Raises:
      UsageError: The settings do not allow for it.
    """
    task = {
        "config": config.model_dump(mode="json"),
        "run": str(run_directory.path),
        "command": command,
        "track": options.track,
        "note": note,
        "is_resumed": options.timestamp is not None,
        "resume_options": [
            f"{option_name(name)}={getattr(options, name)}"
            for name in ("workers", "cluster", "learner_cpus", "learner_gpus")
            if name in options.model_fields_set
        ],
    }
    try:
        if tf_config and options.workers > 1:
            raise UsageError(
                "--workers starts learners on one machine, and TF_CONFIG on several; use one"
            )
        if tf_config and options.cluster:
            raise UsageError(
                f"--cluster={options.cluster} places learners, and so does TF_CONFIG; use one"
            )
        if options.cluster:
            return _train_on_ray(config, run_directory, task, options)
        if tf_config:
            return _train_in_cluster(config, run_directory, task, tf_config, options.restarts)
        return _train_on_this_machine(config, run_directory, task, options)
    finally:
        run_directory.discard()


def _train_on_this_machine(
    config: Config, run_directory: RunDirectory, task: dict[str, Any], options: TrainOptions
) -> int:
    """Starts all learners, and starts them again when one of them is lost."""
    check_learners(config, options.workers)
    progress = Progress(run_directory)

    def start(num_learners: int, attempt: int) -> list[LearnerProcess]:
        cores = max(available_cores() // num_learners, 1)
        return start_on_this_machine({**task, "cores": cores}, num_learners)

    def fewer(num_learners: int) -> int:
        """As many again; fewer where they have not come to another checkpoint."""
        return num_learners if progress.is_made() else _next_fewer(config, num_learners)

    return supervise(
        start, options.workers, options.restarts, fewer, lambda: _hints(task, run_directory)
    )


def _train_on_ray(
    config: Config, run_directory: RunDirectory, task: dict[str, Any], options: TrainOptions
) -> int:
    """Starts all learners on nodes of Ray, and again on what is left of them."""
    check_learners(config, options.workers)
    task = {**task, "cores": options.learner_cpus}
    progress = Progress(run_directory)
    with connected():  # Imports Ray.
        from agents.launchers.ray_cluster import RayCluster

        def start(num_learners: int, attempt: int) -> list[LearnerProcess]:
            return cluster.start(task, num_learners)

        def fewer(num_learners: int) -> int:
            """As many as there is place for; fewer where they have not come to a checkpoint."""
            most = options.workers if progress.is_made() else _next_fewer(config, num_learners)
            places = cluster.place_again(most)
            return places if divides(config, places) else _next_fewer(config, places)

        def hints() -> list[str]:
            return _hints(task, run_directory)

        with RayCluster(options.learner_cpus, options.learner_gpus) as cluster:
            cluster.place(options.workers, config.start_timeout)
            try:
                return supervise(start, options.workers, options.restarts, fewer, hints)
            except KeyboardInterrupt as interrupt:  # While places are looked for.
                return report_error(interrupt, *hints())


def _next_fewer(config: Config, num_learners: int) -> int:
    """The next smaller number of learners that can share the work, at least 1."""
    return max((n for n in range(1, num_learners) if divides(config, n)), default=1)


class Progress:
    """Tells whether a run has another checkpoint than it had when this was asked last."""

    def __init__(self, run_directory: RunDirectory):
        """Looks at the run's folder."""
        self._folder = run_directory.checkpoints
        self._seen = self._names()

    def is_made(self) -> bool:
        """Whether there is another checkpoint."""
        before, self._seen = self._seen, self._names()
        return self._seen != before

    def _names(self) -> set[str]:
        return {path.name for path in self._folder.glob("*")}


def _train_in_cluster(
    config: Config, run_directory: RunDirectory, task: dict[str, Any], tf_config: str, restarts: int
) -> int:
    """Starts this machine's learner, and starts it again when another one is lost."""
    cluster = read_cluster(tf_config)
    check_learners(config, len(cluster.addresses))
    own = cluster.addresses[cluster.rank]
    key = os.environ.get(KEY_VARIABLE, "")
    if not key and not is_loopback(own.host):
        warnings.warn(
            f"{KEY_VARIABLE} is not set: whoever reaches {own} can take part in the training, or "
            "stop it; give all learners the same long text",
            stacklevel=2,
        )
    place = Place(
        rank=cluster.rank,
        num_learners=len(cluster.addresses),
        chief=cluster.addresses[0],
        host=own.host,
        port=own.port,
        key=key.encode(),
    )
    if cluster.rank:
        run_directory.discard()  # The chief's is the only one.

    def hints() -> list[str]:
        return [] if cluster.rank else _hints(task, run_directory)

    def start(num_learners: int, attempt: int) -> list[LearnerProcess]:
        # Machines may be gone for good: the others go on without them.
        minimum = 1 if attempt else 0
        return [LocalProcess(task, place._replace(minimum=minimum), is_quiet=False)]

    return supervise(start, 1, restarts, lambda num_learners: num_learners, hints)


def _hints(task: dict[str, Any], run_directory: RunDirectory) -> list[str]:
    return resume_hints(run_directory, *task["resume_options"])


def main() -> None:
    """Runs a learner whose task is given on standard input."""
    task = json.load(sys.stdin)
    sys.stdin = open(os.devnull)  # noqa: SIM115 - As long as the process.
    try:
        run(lambda arguments: _learn(task), [])
        report(DONE)
    finally:
        gc.freeze()  # Python's end would look for garbage in all of TensorFlow, for seconds.


def _learn(task: dict[str, Any]) -> None:
    given = task["place"]
    place = Place(
        **{**given, "chief": Address(*given["chief"]), "key": bytes.fromhex(given["key"])}
    )
    config = Config(**task["config"])
    if cores := task.get("cores"):
        config = config.model_copy(update={"num_processes": config.num_processes or cores})
    run_directory = RunDirectory(Path(task["run"]))
    start_tensorflow(config.threads, device_of(config), place.rank)
    if place.rank == 0 and not run_directory.path.is_dir():
        raise RunLostError(run_directory.path, None)
    try:
        group = Group(place, config)
        group.on_stuck = _end
        if group.is_chief:
            options = task["resume_options"]
            command, track, note = task["command"], task["track"], task["note"]
            train_in_console(config, run_directory, command, track, group, options, note)
            return
        with contextlib.ExitStack() as stack:
            if task["is_resumed"]:  # The chief's training does this itself.
                stack.enter_context(
                    refusing_modules_in(run_directory.path, run_directory.path.parent)
                )
            stack.enter_context(passing_signals(group))
            for _ in train(config, group=group):
                pass
    except LearnerLostError as error:
        raise SystemExit(_report_lost(error)) from None
    except (KeyboardInterrupt, NonFiniteError, UsageError) as error:
        if not task["is_quiet"]:
            raise
        # The chief says the same, or that this learner has failed.
        raise SystemExit(exit_code(error)) from None


def _report_lost(error: LearnerLostError) -> int:
    """Tells the launcher, who knows more, and prints what has happened once; the exit code."""
    report(json.dumps([error.rank, error.host, error.cause]))
    return LEARNER_LOST


def _end(error: BaseException) -> None:
    """Ends the process from another thread."""
    os._exit(_report_lost(error) if isinstance(error, LearnerLostError) else exit_code(error))
