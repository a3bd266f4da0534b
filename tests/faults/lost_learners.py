"""Learners that are killed, stopped or cut off while they train together, and what follows.

python -m tests.faults.lost_learners --count=20  # Prints a table; takes two hours.
"""

import argparse
import contextlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

from agents.errors import LEARNER_LOST
from agents.runs.metrics_file import read_metrics
from agents.runs.run_directory import RunDirectory
from tests.distributed.namespaces import Namespaces
from tests.faults.commands import ROOT, processes_with
from tests.faults.processes import is_running

PORT = 2222
LIMIT = 30.0  # Seconds until no process of a run is left.
START_TIMEOUT = 25
FAULTS = ("kill", "hang", "cut off")
MOMENTS = ("start", "training", "evaluation", "checkpoint")

ITERATION, INTERVAL, EVALUATION = 2000, 8000, 24_000  # Environment steps.
SETTINGS = [
    "--config=pendulum", "--num-envs=4", "--rollout-length=500", "--minibatch-size=250",
    "--epochs=4", "--layers=300,300", "--eval-episodes=40", "--learning-rate-schedule=constant",
    f"--log-interval={ITERATION}", f"--checkpoint-interval={INTERVAL}",
    f"--eval-interval={EVALUATION}", "--histogram-interval=0", "--num-processes=1",
]  # fmt: skip
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

    def __init__(self, folder, machines=None, settings=SETTINGS):
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
            self.start_command([*command, f"--learners={self.num_learners}", *arguments])
            return
        for rank in range(self.num_learners):
            others = dict(variables).get(rank, {})
            self.start_command([*command, *arguments], rank, **others)

    def start_command(self, command, rank=None, **variables):
        """Starts one of the commands, on the machine of a learner if a rank is given."""
        if rank is not None:
            command = self.machines.command(rank, *command)
            variables["TF_CONFIG"] = self._tf_config(rank)
        console = self.folder / f"console-{self._started}-{len(self.commands)}"
        self._consoles.append(console)
        variables["LEARNERS"] = str(self.folder)
        search = os.pathsep.join([str(ROOT), str(self.folder)])
        with console.open("wb") as file:
            self.commands.append(
                subprocess.Popen(
                    command,
                    stdout=file,
                    stderr=file,
                    cwd=self.folder,
                    env={**os.environ, **variables, "PYTHONPATH": search},
                    start_new_session=True,
                )
            )

    def _tf_config(self, rank):
        addresses = [f"{address}:{PORT}" for address in self.machines.addresses]
        return json.dumps(
            {
                "cluster": {"worker": addresses[: self.num_learners]},
                "task": {"type": "worker", "index": rank},
            }
        )

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
            pid
            for reaper in _children(launcher.pid)
            for pid in _children(reaper)
            if b"agents.scripts.learner" in _line(pid)
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

    def last_step(self):
        """The step of the last line of metrics."""
        if not self.run or not self.run.metrics_file.exists():
            return 0
        return max((row["step"] for row in read_metrics(self.run.metrics_file)), default=0)

    def checkpoints(self):
        """Files of checkpoints by step."""
        paths = self.run.checkpoints.glob("step-*.npz") if self.run else []
        return {int(path.stem.removeprefix("step-")): path for path in paths}

    def is_evaluating(self):
        """Whether the chief evaluates."""
        rows = read_metrics(self.run.metrics_file) if self.run else []
        step = max((row["step"] for row in rows), default=0)
        is_done = any("eval/return_mean" in row for row in rows if row["step"] == step)
        return step and step % EVALUATION == 0 and not is_done

    def is_saving(self):
        """Whether a checkpoint is being written."""
        return self.run and list(self.run.checkpoints.glob("step-*.unfinished"))


def wait_for_moment(learners, moment, draw):
    """Waits until a run is at a random moment of a kind."""
    if moment == "start":
        time.sleep(draw.uniform(0.3, 8))
        return
    # At least one more checkpoint, so that a chain goes on.
    first = learners.last_step() + INTERVAL
    learners.wait_for(lambda: learners.last_step() > first)
    if moment == "training":
        time.sleep(draw.uniform(0, 1.5))
    elif moment == "evaluation":
        learners.wait_for(learners.is_evaluating)
        time.sleep(draw.uniform(0, 0.1))
    else:
        learners.wait_for(learners.is_saving)


class Case(NamedTuple):
    """What followed from a fault.

    Attributes:
      fault: What was done.
      rank: To whom.
      moment: When.
      step: Of the last line of metrics.
      seconds: Until the last process had ended.
      codes: Exit codes of the commands.
      message: How the console of a survivor names the learner.
      problems: What was not as it should be.
    """

    fault: str
    rank: int
    moment: str
    step: int
    seconds: float
    codes: list[int]
    message: str
    problems: list[str]


def strike(learners, fault, rank, moment, draw):
    """Starts a run or resumes it, lets a fault happen to one of its learners, and waits for the end."""
    learners.start(f"--start-timeout={START_TIMEOUT}")
    try:
        wait_for_moment(learners, moment, draw)
        pid = learners.wait_for(lambda: learners.learner(rank))
        if fault == "cut off":
            learners.machines.cut_off(rank)
        else:
            os.kill(pid, {"kill": signal.SIGKILL, "hang": signal.SIGSTOP}[fault])
        seconds, left = learners.wait_for_end()
        problems = [f"{len(left)} processes are left"] if left else []
    finally:
        learners.close()
        if fault == "cut off":
            learners.machines.reconnect(rank)
    # Until all have joined, the others wait for one that is started again.
    if seconds > LIMIT + (START_TIMEOUT if moment == "start" else 0):
        problems.append(f"it took {seconds:.0f} s")
    codes = [command.returncode for command in learners.commands]
    message = ""
    for index, code in enumerate(codes):
        text = learners.console(index)
        lines = [line for line in text.splitlines() if re.search("error:", line)]
        is_victim = learners.machines and index == rank
        expected = {LEARNER_LOST, 2} if moment == "start" else {LEARNER_LOST}
        if code not in expected:
            problems.append(f"exit code {code} of command {index}")
        if "Traceback" in text or len(lines) != 1:
            problems.append(f"console {index}: {text[-2000:]}")
        elif not is_victim:
            message = lines[0]
            if f"learner {rank}" not in message and "the chief" not in message:
                problems.append(f"named another: {message}")
    return Case(fault, rank, moment, learners.last_step(), seconds, codes, message, problems)


def run_chain(learners, fault, count, seed=0, show=print):
    """Lets a fault happen `count` times to a run, which is resumed each time.

    Then one learner resumes it, and again several, which shows that nothing is broken.

    Returns:
      The cases, and the step up to which the number of learners was the same.
    """
    draw, cases = random.Random(f"{fault} {seed}"), []
    for number in range(count):
        # The first is late enough that there is a checkpoint to resume from.
        moment = MOMENTS[(number + 1) % len(MOMENTS)]
        rank = draw.randrange(learners.num_learners)
        case = strike(learners, fault, rank, moment, draw)
        cases.append(case)
        show(describe(case))
    step = max(learners.checkpoints(), default=0)
    several = learners.num_learners
    for num_learners in (1, several):
        steps = max(learners.checkpoints(), default=0) + INTERVAL
        finish(learners, steps, num_learners=num_learners)
    return cases, step


def finish(learners, steps, **options):
    """Starts or resumes a run, and waits until it has come to its last step."""
    learners.start(f"--steps={steps}", **options)
    try:
        for command in learners.commands:
            assert command.wait(900) == 0, learners.consoles()
        assert not learners.wait_for_end(5)[1]
    finally:
        learners.close()


def differences(learners, reference, last_step):
    """Names of arrays that differ between the checkpoints of two runs, by step, up to a step."""
    found, theirs = {}, reference.checkpoints()
    steps = [step for step in learners.checkpoints() if step <= last_step]
    for step in steps:
        with np.load(learners.checkpoints()[step]) as ours, np.load(theirs[step]) as others:
            assert set(ours.files) == set(others.files) and len(ours.files) > 20
            arrays = [name for name in ours.files if not name.startswith("@run")]
            names = [name for name in arrays if ours[name].tobytes() != others[name].tobytes()]
        if names:
            found[step] = names
    assert len(steps) > 1
    return found


def describe(case):
    """A row of the table."""
    who = "chief" if case.rank == 0 else f"learner {case.rank}"
    cells = (
        case.fault,
        who,
        case.moment,
        f"{case.step:,}",
        f"{case.seconds:.1f}",
        " ".join(map(str, case.codes)),
        case.message,
        "; ".join(case.problems) or "-",
    )
    return f"| {' | '.join(cells)} |"


HEADER = """\
| Fault | Who | When | Step | Seconds until the last process ended | Exit codes | Message | Problems |
|---|---|---|---|---|---|---|---|"""


def run_faults(folder, fault, count, on_machines, seed=0, show=print):
    """Runs a chain of faults and compares it with a run that was never disturbed.

    Returns:
      The cases, and the arrays that differ by step of the checkpoint.
    """
    show(f"\n{fault}, {'network namespaces' if on_machines else 'loopback'}\n\n{HEADER}")
    with Namespaces(2) if on_machines else contextlib.nullcontext() as machines:
        # Environments in worker processes, and in the graph.
        settings = [*SETTINGS, *(["--env-backend=tf"] if on_machines else [])]
        for name in ("struck", "undisturbed"):
            (folder / name).mkdir(parents=True)
        struck = Learners(folder / "struck", machines, settings)
        reference = Learners(folder / "undisturbed", machines, settings)
        cases, step = run_chain(struck, fault, count, seed, show)
        finish(reference, step + INTERVAL)
        differing = differences(struck, reference, step)
    seconds = [case.seconds for case in cases]
    compared = len([each for each in struck.checkpoints() if each <= step])
    show(
        f"\n{count} x {fault}: {sum(not case.problems for case in cases)} as they should be, "
        f"seconds until the last process ended {np.median(seconds):.1f} (median) "
        f"{max(seconds):.1f} (most), {compared - len(differing)} of {compared} checkpoints equal to "
        f"those of a run that was never disturbed {differing or ''}"
    )
    return cases, differing


def main():
    """Runs the command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=20, help="of each fault")
    parser.add_argument("--faults", nargs="*", default=FAULTS, choices=FAULTS)
    parser.add_argument("--where", nargs="*", default=["loopback", "machines"])
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    wrong = 0
    for where in options.where:
        for fault in options.faults:
            if where == "loopback" and fault == "cut off":
                continue
            with tempfile.TemporaryDirectory() as folder:
                cases, differing = run_faults(
                    Path(folder), fault, options.count, where == "machines", options.seed, _show
                )
            wrong += len(differing) + sum(bool(case.problems) for case in cases)
    sys.exit(bool(wrong))


def _show(text):
    print(text, flush=True)


def _children(pid):
    """Ids of the children of a process, the oldest first."""
    found = []
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            found += [int(each) for each in (task / "children").read_text().split()]
    return sorted(found)


def _line(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


if __name__ == "__main__":
    main()
