"""Machines of one network: network namespaces with an address each, joined by a bridge."""

import contextlib
import itertools
import os
import re
import shutil
import signal
import subprocess
import time

_PREFIX_LENGTH = 24
_numbers = itertools.count()


def why_unusable():
    """Why there can be no namespaces here; empty if there can. For `pytest.mark.skipif`."""
    if shutil.which("ip") is None:
        return "needs the command ip"
    if os.geteuid() != 0:
        return "needs root, to create network namespaces"
    name = f"agents{os.getpid()}-try"
    created = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True)
    if created.returncode:
        return f"can't create network namespaces: {created.stderr.strip()}"
    _ip("netns", "delete", name)
    return ""


class Namespaces:
    """A context with `count` namespaces, in which commands can run as on machines of their own.

    The bridge is in one more namespace: the machine's own network and firewall are not involved.
    At the end all processes in the namespaces are killed, and everything is removed.

    Attributes:
      addresses: IP addresses by index.
      names: Names of the namespaces by index.
    """

    def __init__(self, count):
        pid, number = os.getpid(), next(_numbers)  # Several processes may do this at once.
        network = f"10.{pid // 256 % 256}.{pid % 256}"
        self.addresses = [f"{network}.{index + 1}" for index in range(count)]
        self.names = [f"agents{pid}-{number}-{index}" for index in range(count)]
        self._hub = f"agents{pid}-{number}-hub"

    def __enter__(self):
        _delete_stale()
        try:
            for name in (self._hub, *self.names):
                _ip("netns", "add", name)
                _ip("-n", name, "link", "set", "lo", "up")
            _ip("-n", self._hub, "link", "add", "bridge", "type", "bridge")
            _ip("-n", self._hub, "link", "set", "bridge", "up")
            for index, (name, address) in enumerate(zip(self.names, self.addresses, strict=True)):
                port = f"port{index}"
                other = ["peer", "name", "eth0", "netns", name]
                _ip("-n", self._hub, "link", "add", port, "type", "veth", *other)
                _ip("-n", self._hub, "link", "set", port, "master", "bridge", "up")
                _ip("-n", name, "address", "add", f"{address}/{_PREFIX_LENGTH}", "dev", "eth0")
                _ip("-n", name, "link", "set", "eth0", "up")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for name in (*self.names, self._hub):
            _delete(name)

    def command(self, index, *arguments):
        """A command line that runs another one in a namespace, as the same process."""
        return ["ip", "netns", "exec", self.names[index], *arguments]

    def cut_off(self, index):
        """Takes the interface of a namespace down, so that nothing leaves or reaches it."""
        _ip("-n", self.names[index], "link", "set", "eth0", "down")

    def reconnect(self, index):
        """Takes the interface up again, with the same address."""
        _ip("-n", self.names[index], "link", "set", "eth0", "up")


def _delete(name):
    """Removes a namespace with its interfaces, after all processes in it were killed."""
    for _ in range(50):  # They may start others meanwhile.
        listed = subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True)
        if not listed.stdout.split():
            break
        for pid in listed.stdout.split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        time.sleep(0.1)
    subprocess.run(["ip", "netns", "delete", name], capture_output=True)


def _delete_stale():
    """Removes the namespaces of processes that were killed."""
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True)
    for match in re.finditer(r"^agents(\d+)-\S+", listed.stdout, re.MULTILINE):
        if not os.path.exists(f"/proc/{match[1]}"):
            _delete(match[0])


def _ip(*arguments):
    subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)
