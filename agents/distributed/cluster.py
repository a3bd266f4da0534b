"""Which learners there are, and where: what a scheduler says in `TF_CONFIG`."""

from __future__ import annotations

import contextlib
import ipaddress
import json
import re
import socket
from typing import NamedTuple

from agents.errors import UsageError
from agents.settings.config import Config
from agents.settings.derived import elements_per_minibatch, sequence_length
from agents.types import PlainData

# The kinds of tasks in `TF_CONFIG` that learn; the others have no place here.
_KINDS = ("chief", "worker")

_ADDRESS = re.compile(r"(?:\[([\w.:%-]+)\]|([\w.-]+)):(\d{1,5})")


class Address(NamedTuple):
    """Where a learner listens.

    Attributes:
      host: Name or IP address of the network interface.
      port: TCP port; 0 for any that is free.
    """

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


class Cluster(NamedTuple):
    """The learners of a run.

    Attributes:
      addresses: Of all learners, by rank; the chief's is the first.
      rank: Which of them this is.
    """

    addresses: tuple[Address, ...]
    rank: int


def read_cluster(tf_config: str) -> Cluster:
    """Reads the environment variable `TF_CONFIG`.

    Args:
      tf_config: JSON, such as
        `{"cluster": {"worker": ["10.0.0.1:2222", "10.0.0.2:2222"]}, "task": {"type": "worker", "index": 1}}`.

    Raises:
      UsageError: It is not that.
    """
    try:
        content = json.loads(tf_config)
        kinds, kind = content["cluster"], content["task"]["type"]
        index = int(str(content["task"]["index"]))
        if others := sorted({*kinds.keys(), kind} - set(_KINDS)):
            raise ValueError(f"tasks of type {others[0]!r} have no place in data-parallel training")
        if not all(isinstance(listed, list) for listed in kinds.values()):
            raise TypeError
        addresses = {name: [parse_address(text) for text in kinds.get(name, [])] for name in _KINDS}
        if not 0 <= index < len(addresses[kind]):
            raise ValueError(f"the cluster has no task {index} of type {kind!r}")
        listed = [one for name in _KINDS for one in addresses[name]]
        if len(set(listed)) < len(listed):
            raise ValueError("two tasks have the same address")
        return Cluster(tuple(listed), listed.index(addresses[kind][index]))
    except KeyError as error:
        problem = f"{error} is missing"
    except (AttributeError, RecursionError, TypeError):
        problem = "it has another structure"
    except ValueError as error:
        problem = str(error)
    raise UsageError(
        f"TF_CONFIG: {problem}\n"
        'expected {"cluster": {"worker": ["host:port", ...]}, "task": {"type": "worker", '
        '"index": 0}}, with a "chief" besides if there is one'
    )


def parse_address(text: PlainData) -> Address:
    """Reads `host:port`; IPv6 addresses are in brackets.

    Raises:
      ValueError: It is something else.
    """
    match = _ADDRESS.fullmatch(text) if isinstance(text, str) else None
    host, port = (match[1] or match[2], int(match[3])) if match else ("", 0)
    with contextlib.suppress(UnicodeError):
        host.encode("idna")  # Its parts are neither empty nor too long.
        if 0 < port < 65536:
            return Address(host, port)
    raise ValueError(f"{text!r} is no host:port")


def listen(address: Address) -> socket.socket:
    """Returns a socket that listens at an address, and at no other interface.

    Raises:
      UsageError: This machine has no such interface, or the port is taken.
    """
    try:
        found = socket.getaddrinfo(*address, type=socket.SOCK_STREAM)
        family = min(one[0] for one in found)  # IPv4 if a name stands for both.
        return socket.create_server(address, family=family, backlog=1024)
    except OSError as error:
        raise UsageError(
            f"can't listen at {address}: {error.strerror or error}\n"
            "expected an address of this machine, and a port that no other program has"
        ) from None


def is_loopback(host: str) -> bool:
    """Whether only programs of this machine reach an interface, by its name or address."""
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


def check_learners(config: Config, num_learners: int) -> None:
    """Refuses numbers of learners that environments or minibatches can't be divided among.

    Raises:
      UsageError: They can't, and the message names the nearest numbers that can.
    """
    if divides(config, num_learners):
        return
    possible = [number for number in range(1, config.num_envs + 1) if divides(config, number)]
    nearest = [number for number in possible if number < num_learners][-1:]
    nearest += [number for number in possible if number > num_learners][:1]
    setting = "num_envs" if config.num_envs % num_learners else "minibatch_size"
    parts = f" into sequences of {sequence_length(config)} steps"
    by_parts = setting == "minibatch_size" and config.recurrent != "none"
    raise UsageError(
        f"{num_learners} learners do not divide {setting} {getattr(config, setting)}"
        f"{parts if by_parts else ''}, which is that of all learners together\n"
        f"expected {' or '.join(map(str, nearest))} learner{'s' if nearest != [1] else ''}, "
        f"or another --{setting.replace('_', '-')}{' or --sequence-length' if by_parts else ''}"
    )


def divides(config: Config, num_learners: int) -> bool:
    """Whether environments and minibatches can be divided among so many learners."""
    return not (config.num_envs % num_learners or elements_per_minibatch(config) % num_learners)
