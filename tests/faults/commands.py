"""Real commands in folders of their own, and what they print."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import agents

ROOT = Path(agents.__file__).parents[1]


class Command:
    """A command that runs in `folder`, as users call it, with its standard error in a file.

    Attributes:
      process: The process.
    """

    def __init__(self, folder, *arguments, paths=()):
        """Starts `agents train arguments`; modules are found in `paths` as well."""
        self._file = folder / f"stderr-{time.monotonic_ns()}"
        self._read = 0
        search = os.pathsep.join(map(str, [ROOT, *paths]))
        with self._file.open("wb") as file:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "agents.scripts.train", *arguments],
                stdout=subprocess.DEVNULL,
                stderr=file,
                cwd=folder,
                env={**os.environ, "PYTHONPATH": search},
            )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()

    def printed(self):
        """All that it printed so far."""
        return self._file.read_text()

    def new_lines(self):
        """What it printed since the last call."""
        text = self.printed()[self._read :]
        self._read += len(text)
        return text.splitlines()

    def wait_for(self, condition, seconds=300, pause=0.01):
        """Waits until `condition()` is true or the process ends; returns its value."""
        deadline = time.monotonic() + seconds
        while not (value := condition()):
            if self.process.poll() is not None:
                return condition()
            assert time.monotonic() < deadline, self.printed()
            time.sleep(pause)
        return value

    def wait_for_line(self, part):
        assert self.wait_for(lambda: part in self.printed()), self.printed()

    def wait(self, seconds=300):
        """Waits for the end; returns the exit code."""
        return self.process.wait(seconds)

    def stop(self, signum):
        """Sends a signal and waits for the end; returns the time of sending, and seconds since."""
        self.new_lines()
        sent = time.time()
        self.process.send_signal(signum)
        self.wait(300)
        return sent, time.time() - sent


def processes_with(text):
    """Ids of processes whose environment or command line has a text, such as a folder."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and int(folder.name) != os.getpid():
            try:
                held = (folder / "environ").read_bytes() + (folder / "cmdline").read_bytes()
            except OSError:
                continue
            if os.fsencode(str(text)) in held:
                found.append(int(folder.name))
    return found


def kill(process):
    process.send_signal(signal.SIGKILL)
    process.wait()
