"""The namespaces that other tests use as machines."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.distributed.namespaces import Namespaces, why_unusable

ROOT = Path(__file__).parents[2]
UNUSABLE = why_unusable()
pytestmark = pytest.mark.skipif(bool(UNUSABLE), reason=UNUSABLE)

LISTEN = """
import socket, sys
with socket.create_server((sys.argv[1], 2222)) as listener:
    print("ready", flush=True)
    while True:
        listener.accept()[0].close()
"""
CONNECT = "import socket, sys; socket.create_connection((sys.argv[1], 2222), 1).close()"


def start(namespaces, index, code, *arguments):
    command = namespaces.command(index, sys.executable, "-S", "-c", code, *arguments)
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)


def exists(name):
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True)
    return name in [line.split()[0] for line in listed.stdout.splitlines()]


def test_machines_reach_each_other_unless_they_are_cut_off():
    with Namespaces(3) as machines:
        with start(machines, 0, LISTEN, machines.addresses[0]) as server:
            assert server.stdout.readline() == b"ready\n"

            def reaches(index):
                with start(machines, index, CONNECT, machines.addresses[0]) as client:
                    return client.wait(10) == 0

            assert reaches(1) and reaches(2)
            machines.cut_off(1)
            assert not reaches(1) and reaches(2)
            machines.reconnect(1)
            assert reaches(1)
            server.kill()
    assert not any(exists(name) for name in machines.names)


def test_nothing_is_left_when_a_test_fails():
    with pytest.raises(RuntimeError, match="of the test"), Namespaces(1) as machines:
        sleeper = start(machines, 0, "import time; print('up', flush=True); time.sleep(100)")
        sleeper.stdout.readline()
        raise RuntimeError("of the test")
    assert sleeper.wait(1) < 0
    sleeper.stdout.close()
    assert not exists(machines.names[0])


def test_what_killed_processes_have_left_is_removed():
    code = (
        "import os; from tests.distributed.namespaces import Namespaces\n"
        "with Namespaces(1) as machines: print(machines.names[0], flush=True); os.kill(os.getpid(), 9)"
    )
    killed = subprocess.run(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    name = killed.stdout.strip()
    assert killed.returncode == -9 and exists(name)
    with Namespaces(1):
        assert not exists(name)
