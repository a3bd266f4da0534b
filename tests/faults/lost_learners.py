"""A run of several learners, on this machine or on machines of their own."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from agents.runs.metrics_file import read_metrics
from agents.runs.run_directory import RunDirectory
from tests.faults.commands import ROOT, processes_with
from tests.faults.processes import is_running

PORT = 2222
LIMIT = 30.0  # Seconds until no process of a run is left.
FOREVER = 100_000_000  # Steps.


class Learners:
    """A run of several learners: the commands that were started, and all of their processes.

    Attributes:
      folder: Where they run; the run is in its folder `logs`.
      machines: `Namespaces` with one learner each; None for learners of this machine.
      num_learners: How many there are.
      commands: The processes that users start: one on this machine, or one on each machine. Each
        leads a process group.
    """

    def __init__(self, folder, machines=None, settings=()):
        """Starts nothing yet; `settings` are the arguments of a new run."""
        self.folder, self.machines, self.commands = folder, machines, []
        self.num_learners = len(machines.names) if machines else 2
        self._settings, self._consoles, self._started = settings, [], 0

    def start(self, *arguments, num_learners=None, variables=()):
        """Starts the run, or resumes it.

        Args:
          *arguments: Of the command, after others.
          num_learners: How many; by default as many as before.
          variables: Environment variables by rank, of some learners on machines of their own.
        """
        self._started += 1
        run = self.run
        given = ["--logdir=logs", *([f"--timestamp={run.timestamp}"] if run else self._settings)]
        command = [sys.executable, "-m", "agents.scripts.train", *given, f"--steps={FOREVER}"]
        self.num_learners = num_learners or self.num_learners
        self.commands, self._consoles = [], []
        if self.machines is None:
            self._start_command([*command, f"--learners={self.num_learners}", *arguments], {})
            return
        workers = [f"{address}:{PORT}" for address in self.machines.addresses[: self.num_learners]]
        for rank in range(self.num_learners):
            task = {"cluster": {"worker": workers}, "task": {"type": "worker", "index": rank}}
            others = {"TF_CONFIG": json.dumps(task), **dict(variables).get(rank, {})}
            self._start_command(self.machines.command(rank, *command, *arguments), others)

    def _start_command(self, command, variables):
        console = self.folder / f"console-{self._started}-{len(self.commands)}"
        self._consoles.append(console)
        search = os.pathsep.join([str(ROOT), str(self.folder)])
        with console.open("wb") as file:
            process = subprocess.Popen(
                command,
                stdout=file,
                stderr=file,
                cwd=self.folder,
                env={**os.environ, "PYTHONPATH": search, **variables},
                start_new_session=True,
            )
        self.commands.append(process)

    @property
    def run(self):
        """The run's folder; None before there is one."""
        found = sorted(self.folder.glob("logs/*/checkpoints"))
        return RunDirectory(found[0].parent) if found else None

    def console(self, index):
        """All that a command has printed so far."""
        return self._consoles[index].read_text(errors="replace")

    def consoles(self):
        """All that all commands have printed so far."""
        return "\n".join(self.console(index) for index in range(len(self.commands)))

    def learner(self, rank):
        """The process id of a learner; None where there is none."""
        launcher = self.commands[rank if self.machines else 0]
        found = [
            pid for reaper in children(launcher.pid) for pid in children(reaper) if _is_learner(pid)
        ]
        index = 0 if self.machines else rank
        return found[index] if len(found) > index else None

    def processes(self):
        """All processes of this run that run."""
        return [pid for pid in processes_with(self.folder) if is_running(pid)]

    def wait_for(self, condition, seconds=600):
        """Waits until a condition is true; raises with what was printed if commands end before."""
        deadline = time.monotonic() + seconds
        while not (value := condition()):
            is_over = any(command.poll() is not None for command in self.commands)
            assert not is_over and time.monotonic() < deadline, self.consoles()
            time.sleep(0.002)
        return value

    def wait_for_end(self, seconds=3 * LIMIT):
        """Waits until no process is left; returns the seconds that took, and those that are."""
        start = time.monotonic()
        while (left := self.processes()) and time.monotonic() - start < seconds:
            for command in self.commands:
                command.poll()
            time.sleep(0.05)
        return time.monotonic() - start, left

    def close(self):
        """Ends all that still runs."""
        for pid in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for command in self.commands:
            command.wait()

    def checkpoints(self):
        """Files of checkpoints by step."""
        paths = self.run.checkpoints.glob("step-*.npz") if self.run else []
        return {int(path.stem.removeprefix("step-")): path for path in paths}

    def rows(self):
        """The lines of metrics."""
        exists = self.run and self.run.metrics_file.exists()
        return read_metrics(self.run.metrics_file) if exists else []

    def finish(self, steps, **options):
        """Starts or resumes the run, and waits until it has come to its last step."""
        self.start(f"--steps={steps}", **options)
        try:
            for command in self.commands:
                assert command.wait(900) == 0, self.consoles()
            assert not self.wait_for_end(5)[1]
        finally:
            self.close()

    def differences(self, reference, last_step):
        """Names of arrays that differ from another run's checkpoints, by step, up to a step."""
        found, mine, theirs = {}, self.checkpoints(), reference.checkpoints()
        steps = [step for step in mine.keys() & theirs.keys() if step <= last_step]
        for step in steps:
            with np.load(mine[step]) as ours, np.load(theirs[step]) as others:
                assert set(ours.files) == set(others.files) and len(ours.files) > 20
                arrays = [name for name in ours.files if not name.startswith("@run")]
                names = [name for name in arrays if ours[name].tobytes() != others[name].tobytes()]
            if names:
                found[step] = names
        assert len(steps) > 1
        return found


def children(pid):
    """Ids of the children of a process, the oldest first."""
    found = []
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            found += [int(each) for each in (task / "children").read_text().split()]
    return sorted(found)


def _is_learner(pid):
    with contextlib.suppress(OSError):
        return b"agents.scripts.learner" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False
