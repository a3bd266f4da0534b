import os
import signal
import subprocess
import sys

import pytest

from agents.errors import UsageError
from agents.runs.run_lock import locked

HOLD = (
    "import sys, time; from pathlib import Path; from agents.runs.run_lock import locked\n"
    "with locked(Path(sys.argv[1])): print(flush=True); time.sleep(60)"
)


def refused(path):
    with pytest.raises(UsageError) as caught:
        with locked(path):
            pytest.fail("it is locked")
    assert len(str(caught.value).splitlines()) <= 3
    return str(caught.value)


def test_a_process_cannot_lock_twice(tmp_path):
    with locked(tmp_path / "lock"):
        assert f"process {os.getpid()} on host {os.uname().nodename}" in refused(tmp_path / "lock")
    with locked(tmp_path / "lock"):
        pass


def test_a_lock_is_free_when_its_owner_is_killed(tmp_path):
    path = tmp_path / "lock"
    process = subprocess.Popen([sys.executable, "-c", HOLD, path], stdout=subprocess.PIPE)
    try:
        process.stdout.readline()
        assert f"process {process.pid} on" in refused(path)
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate()
    with locked(path):
        assert path.read_text().startswith(f"process {os.getpid()} on ")


@pytest.mark.parametrize("name", ["pwrite", "ftruncate"])
def test_the_file_names_a_process_at_any_moment(tmp_path, monkeypatch, name):
    """Another one that is refused while the name is replaced reads the former or the new one."""
    path, call, seen = tmp_path / "lock", getattr(os, name), []
    path.write_text(f"process {os.getpid()} on host {'former' * 20}\n")

    def refuse_another(*arguments):
        seen.append(refused(path))
        result = call(*arguments)
        seen.append(refused(path))
        return result

    monkeypatch.setattr(os, name, refuse_another)
    with locked(path):
        assert path.read_text() == f"process {os.getpid()} on host {os.uname().nodename}\n"
    assert len(seen) == 2
    assert all(f"is being trained by process {os.getpid()} on host" in text for text in seen)


def test_children_do_not_keep_the_lock(tmp_path):
    with locked(tmp_path / "lock"):
        child = subprocess.Popen(["sleep", "60"], close_fds=False)
    try:
        with locked(tmp_path / "lock"):
            pass
    finally:
        child.kill()
        child.wait()
