"""One of several learners, and how `agents train` starts them; not called by users."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agents import stop_signals
from agents.distributed.cluster import (
    Cluster,
    check_learners,
    check_trusted,
    divides,
    read_cluster,
    read_slurm,
)
from agents.distributed.launcher import (
    DONE,
    JOINED,
    JOINING,
    LearnerProcess,
    LocalProcess,
    start_on_this_machine,
    supervise,
)
from agents.distributed.ray_session import connected
from agents.distributed.shared_exchange import shared_bytes
from agents.errors import (
    LEARNER_LOST,
    LearnerLostError,
    NonFiniteError,
    RunLostError,
    UsageError,
    first_line,
)
from agents.runs.run_directory import RunDirectory
from agents.scripts.train import resume_hints, scheduler_of, train, train_in_console
from agents.settings.config import Config, device_of
from agents.settings.entry_points import refusing_modules_in
from agents.settings.parser import option_name
from agents.settings.reports import exit_code, report_error, run, say
from agents.tensorflow_setup import start_tensorflow
from agents.vector.process_batch import available_cores
from agents.workers.heartbeat import report
from agents.workers.shared_block import create_anonymous_file

if TYPE_CHECKING:
    from agents.distributed.team_reducer import TeamReducer
    from agents.scripts.train import TrainOptions


def train_together(
    config: Config,
    run_directory: RunDirectory,
    command: str,
    options: TrainOptions,
    note: str,
) -> int:
    """Trains with several learners: of this machine, of Ray, of `TF_CONFIG`, or of Slurm.

    Returns:
      The exit code of the command.

    Raises:
      UsageError: The settings do not allow for it.
    """
    task = {
        "config": config.settings(),
        "run": str(run_directory.path),
        "command": command,
        "track": options.track,
        "note": note,
        "is_resumed": options.timestamp is not None,
        "resume_options": [
            f"{option_name(name)}={getattr(options, name)}"
            for name in ("learners", "cluster", "learner_cpus", "learner_gpus", "trust_network")
            if name in options.model_fields_set
        ],
    }
    scheduler = scheduler_of(os.environ)
    try:
        if scheduler and options.learners > 1:
            raise UsageError(f"--learners and {scheduler} both start learners; use one of them")
        if scheduler and options.cluster:
            raise UsageError(
                f"--cluster={options.cluster} and {scheduler} both place learners; use one of them"
            )
        if options.cluster:
            return _train_on_ray(config, run_directory, task, options)
        if scheduler:
            return _train_in_cluster(config, run_directory, task, options)
        return _train_on_this_machine(config, run_directory, task, options)
    finally:
        run_directory.discard()


def _train_on_this_machine(
    config: Config, run_directory: RunDirectory, task: dict[str, Any], options: TrainOptions
) -> int:
    """Starts all learners, and starts them again when one of them is lost."""
    check_learners(config, options.learners)
    progress = Progress(run_directory)
    say(f"Starting {options.learners} learners", file=sys.stderr)

    def start(num_learners: int, attempt: int) -> list[LearnerProcess]:
        cores = max(available_cores() // num_learners, 1)
        return start_on_this_machine({**task, "cores": cores}, num_learners)

    def fewer(num_learners: int) -> int:
        """As many again; fewer where they have not come to another checkpoint."""
        return num_learners if progress.is_made() else _next_fewer(config, num_learners)

    return supervise(
        start, options.learners, options.restarts, fewer, lambda: _hints(task, run_directory)
    )


def _train_on_ray(
    config: Config, run_directory: RunDirectory, task: dict[str, Any], options: TrainOptions
) -> int:
    """Starts all learners on nodes of Ray, and restarts them on the remaining nodes."""
    check_learners(config, options.learners)
    task = {**task, "cores": options.learner_cpus}
    progress = Progress(run_directory)
    with connected():  # Imports Ray.
        from agents.distributed.ray_cluster import RayCluster

        def start(num_learners: int, attempt: int) -> list[LearnerProcess]:
            return cluster.start(task, num_learners)

        def fewer(num_learners: int) -> int:
            """As many as there is place for; fewer where they have not come to a checkpoint."""
            most = options.learners if progress.is_made() else _next_fewer(config, num_learners)
            places = cluster.place_again(most)
            return places if divides(config, places) else _next_fewer(config, places)

        def hints() -> list[str]:
            return _hints(task, run_directory)

        resources = options.learner_cpus, options.learner_gpus
        with RayCluster(*resources, options.trust_network) as cluster:
            cluster.place(options.learners, config.start_timeout)
            try:
                return supervise(start, options.learners, options.restarts, fewer, hints)
            except KeyboardInterrupt as interrupt:  # While places are looked for.
                return report_error(interrupt, *hints())


def _next_fewer(config: Config, num_learners: int) -> int:
    """The next smaller number of learners that can share the work, at least 1."""
    return max((n for n in range(1, num_learners) if divides(config, n)), default=1)


class Progress:
    """Watches a run for new checkpoints."""

    def __init__(self, run_directory: RunDirectory):
        """Looks at the run's folder."""
        self._folder = run_directory.checkpoints
        self._seen = self._names()

    def is_made(self) -> bool:
        """Whether there is a new checkpoint since the last call."""
        before, self._seen = self._seen, self._names()
        return self._seen != before

    def _names(self) -> set[str]:
        return {path.name for path in self._folder.glob("*")}


def _train_in_cluster(
    config: Config, run_directory: RunDirectory, task: dict[str, Any], options: TrainOptions
) -> int:
    """Starts this machine's learner, and starts it again when another one is lost."""
    tf_config = os.environ.get("TF_CONFIG")
    cluster = read_cluster(tf_config) if tf_config else read_slurm(os.environ)
    check_learners(config, cluster.num_learners)
    if not options.trust_network:
        check_trusted(cluster.addresses)
    if cluster.rank:
        run_directory.discard()  # The chief's is the only one.
    say(f"Starting learner {cluster.rank} of {cluster.num_learners}", file=sys.stderr)

    def hints() -> list[str]:
        return [] if cluster.rank else _hints(task, run_directory)

    def start(num_learners: int, attempt: int) -> list[LearnerProcess]:
        return [LocalProcess(task, cluster, is_quiet=False)]

    return supervise(start, 1, options.restarts, lambda num_learners: num_learners, hints)


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
    cluster = Cluster(**task["cluster"])
    config = Config(**task["config"])
    if cores := task.get("cores"):
        config = config.model_copy(update={"num_processes": config.num_processes or cores})
    try:
        reducer = make_reducer(cluster, config)
        if cluster.rank == 0:
            run_directory = RunDirectory(Path(task["run"]))
            if not run_directory.path.is_dir():
                raise RunLostError(run_directory.path, None)
            options, note = task["resume_options"], task["note"]
            command, track = task["command"], task["track"]
            train_in_console(config, run_directory, command, track, reducer, options, note)
        else:
            _follow(task, config, reducer)
    except LearnerLostError as error:
        _report_lost(error)
        raise SystemExit(LEARNER_LOST) from None
    except (KeyboardInterrupt, NonFiniteError, UsageError) as error:
        if not task["is_quiet"]:
            raise
        # The chief says the same, or the launcher does.
        host = cluster.host(cluster.rank)
        _report_lost(LearnerLostError(cluster.rank, host, f"failed: {first_line(error)}"))
        raise SystemExit(exit_code(error)) from None


def _follow(task: dict[str, Any], config: Config, reducer: TeamReducer) -> None:
    """Trains as any other learner."""
    run_directory = RunDirectory(Path(task["run"]))
    with contextlib.ExitStack() as stack:
        if task["is_resumed"]:  # The chief's training does this itself.
            stack.enter_context(refusing_modules_in(run_directory.path, run_directory.path.parent))
        if task["is_quiet"]:  # The launcher signals the chief.
            for signum in stop_signals.SIGNALS:
                if signal.getsignal(signum) is not signal.SIG_IGN:
                    signal.signal(signum, lambda *_: None)
        else:
            stack.enter_context(stop_signals.handling("training stops"))
        for _ in train(config, reducer=reducer):
            pass


def make_reducer(cluster: Cluster, config: Config) -> TeamReducer:
    """Starts TensorFlow, and joins the other learners."""
    device = device_of(config)
    if cluster.num_learners == 1 and cluster.memory is None:
        cluster = cluster._replace(memory=create_anonymous_file(shared_bytes(1)))
    if cluster.memory is not None:
        start_tensorflow(config.threads, device, cluster.rank)
        from agents.distributed.shared_reducer import SharedReducer

        return SharedReducer(cluster)

    def join() -> None:
        from agents.distributed import collective_reducer

        report(JOINING)
        collective_reducer.join(cluster, config.start_timeout)
        report(JOINED)

    start_tensorflow(config.threads, device, cluster.rank, join=join)
    from agents.distributed.collective_reducer import CollectiveReducer

    return CollectiveReducer(cluster, config)


def _report_lost(error: LearnerLostError) -> None:
    """Reports a lost learner to the launcher, which prints one message for all learners."""
    report(json.dumps([error.rank, error.host, error.cause]))
