"""Which learners there are, and where: what a scheduler says in `TF_CONFIG`."""

from __future__ import annotations

import json
import socket
from typing import NamedTuple

from agents.errors import UsageError
from agents.settings.config import Config
from agents.settings.derived import elements_per_minibatch

# The kinds of tasks in `TF_CONFIG` that learn; the others have no place here.
_KINDS = ("chief", "worker")


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
    expected = (
        'expected {"cluster": {"worker": ["host:port", ...]}, "task": {"type": "worker", '
        '"index": 0}}, with a "chief" besides if there is one'
    )
    try:
        content = json.loads(tf_config)
        kinds, task = dict(content["cluster"]), content["task"]
        kind, index = task["type"], int(task["index"])
        addresses = {name: [parse_address(text) for text in kinds[name]] for name in kinds}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"TF_CONFIG: {type(error).__name__}: {error}\n{expected}") from None
    others = sorted((kinds.keys() | {kind}) - set(_KINDS))
    if others:
        raise UsageError(
            f"TF_CONFIG: tasks of type '{others[0]}' have no place in data-parallel training\n"
            f"{expected}"
        )
    listed = [one for name in _KINDS for one in addresses.get(name, [])]
    if not 0 <= index < len(addresses.get(kind, [])):
        raise UsageError(f"TF_CONFIG: the cluster has no task {index} of type '{kind}'\n{expected}")
    if len(set(listed)) < len(listed):
        raise UsageError(f"TF_CONFIG: two tasks have the same address\n{expected}")
    offset = len(addresses.get("chief", [])) if kind == "worker" else 0
    return Cluster(tuple(listed), offset + index)


def parse_address(text: str) -> Address:
    """Reads `host:port`; IPv6 addresses are in brackets.

    Raises:
      ValueError: It is something else.
    """
    host, colon, port = text.rpartition(":")
    host = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if not colon or not host or not port.isdecimal() or int(port) > 65535:
        raise ValueError(f"'{text}' is no host:port")
    return Address(host, int(port))


def listen(address: Address) -> socket.socket:
    """Returns a socket that listens at an address, and at no other interface.

    Raises:
      UsageError: This machine has no such interface, or the port is taken.
    """
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    try:
        return socket.create_server((address.host, address.port), family=family, backlog=1024)
    except OSError as error:
        raise UsageError(
            f"can't listen at {address}: {error.strerror or error}\n"
            "expected an address of this machine, and a port that no other program has"
        ) from None


def check_learners(config: Config, num_learners: int) -> None:
    """Refuses numbers of learners that environments or minibatches can't be divided among.

    Raises:
      UsageError: They can't.
    """
    for setting, number in _divided(config).items():
        if number % num_learners:
            possible = [
                str(count)
                for count in range(1, min(config.num_envs, 2 * num_learners) + 1)
                if divides(config, count)
            ]
            raise UsageError(
                f"{num_learners} learners can't share {number} {setting}\n"
                f"expected {' or '.join(possible)} learners, or other settings: num_envs and "
                "minibatch_size are those of all learners together"
            )


def divides(config: Config, num_learners: int) -> bool:
    """Whether environments and minibatches can be divided among so many learners."""
    return not any(number % num_learners for number in _divided(config).values())


def _divided(config: Config) -> dict[str, int]:
    """What learners share, by name."""
    elements = "steps" if config.recurrent == "none" else "sequences"
    return {
        "environments": config.num_envs,
        f"{elements} of a minibatch": elements_per_minibatch(config),
    }
