"""Ranks and addresses of a run's learners, from `TF_CONFIG` or Slurm."""

from __future__ import annotations

import contextlib
import ipaddress
import json
import re
import socket
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from agents.errors import UsageError
from agents.settings.config import ONE_LEARNER, Config, elements_per_minibatch, sequence_length
from agents.tensorflow_setup import quiet_tensorflow
from agents.types import PlainData

# The first port of learners that Slurm starts.
_SLURM_PORTS = 12_000

# The kinds of tasks in `TF_CONFIG` that learn; the others have no place here.
_KINDS = ("chief", "worker")

_ADDRESS = re.compile(r"(?:\[([\w.:%-]+)\]|([\w.-]+)):(\d{1,5})")


class Address(NamedTuple):
    """Address that a learner listens at.

    Attributes:
      host: Name or IP address.
      port: TCP port.
    """

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


class Cluster(NamedTuple):
    """The learners of a run, and the number of this one.

    Attributes:
      rank: Number of this learner; 0 is the chief.
      num_learners: Number of learners.
      addresses: `host:port` of all learners by rank; none on one machine.
      memory: Descriptor of memory that the learners of one machine share.
    """

    rank: int
    num_learners: int
    addresses: tuple[str, ...] = ()
    memory: int | None = None

    def host(self, rank: int) -> str:
        """Name or IP address of a learner's machine."""
        return parse_address(self.addresses[rank]).host if self.addresses else "127.0.0.1"


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
            raise ValueError(
                f"tasks of type {others[0]!r} are not supported in data-parallel training"
            )
        if not all(isinstance(listed, list) for listed in kinds.values()):
            raise TypeError
        addresses = {name: [parse_address(text) for text in kinds.get(name, [])] for name in _KINDS}
        if not 0 <= index < len(addresses[kind]):
            raise ValueError(f"the cluster has no task {index} of type {kind!r}")
        listed = [one for name in _KINDS for one in addresses[name]]
        if len(set(listed)) < len(listed):
            raise ValueError("two tasks have the same address")
        rank = listed.index(addresses[kind][index])
        return Cluster(rank, len(listed), tuple(map(str, listed)))
    except KeyError as error:
        problem = f"{error} is missing"
    except (AttributeError, RecursionError, TypeError):
        problem = "it has another structure"
    except ValueError as error:
        problem = str(error)
    raise UsageError(
        f"TF_CONFIG: {problem}\n"
        'expected {"cluster": {"worker": ["host:port", ...]}, "task": {"type": "worker", '
        '"index": 0}}, and optionally a "chief"'
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
    raise ValueError(f"{text!r} is not host:port")


def read_slurm(variables: Mapping[str, str]) -> Cluster:
    """Reads what `srun` sets for each task of a job's step; imports TensorFlow.

    Raises:
      UsageError: It is incomplete.
    """
    try:
        # Jobs that share a node have ports of their own.
        port = _SLURM_PORTS + 64 * (int(variables["SLURM_JOB_ID"]) % 300)
        own = Address(variables["SLURMD_NODENAME"], port + int(variables["SLURM_LOCALID"]))
        with quiet_tensorflow():
            import tensorflow as tf

            num_tasks = int(variables["SLURM_STEP_NUM_TASKS"])
            resolver = tf.distribute.cluster_resolver.SlurmClusterResolver(
                # Slurm names the GPUs of a task itself, in CUDA_VISIBLE_DEVICES.
                port_base=port,
                gpus_per_node=num_tasks,
                gpus_per_task=1,
                auto_set_gpu=False,
            )
            addresses = resolver.cluster_spec().job_tasks("worker")
        # The resolver sorts the nodes by name, unlike Slurm's numbers of tasks.
        return Cluster(addresses.index(str(own)), len(addresses), tuple(addresses))
    except (KeyError, RuntimeError, ValueError) as error:
        raise UsageError(
            f"SLURM_STEP_NUM_TASKS: srun has started several tasks, but {error}\n"
            "expected the variables that srun sets, or one task with --ntasks=1"
        ) from None


def check_trusted(addresses: Sequence[str]) -> None:
    """Refuses clusters with public addresses.

    TensorFlow's server listens on all interfaces, and executes all code that it receives.

    Raises:
      UsageError: An address is a public one.
    """
    for text in addresses:
        host = parse_address(text).host
        with contextlib.suppress(OSError, UnicodeError):
            for found in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM):
                if ipaddress.ip_address(found[4][0]).is_global:
                    raise UsageError(
                        f"{text} is a public address ({found[4][0]}): anybody who reaches TensorFlow's "
                        "server can execute code on this machine\n"
                        "expected addresses of a private network; behind a firewall, "
                        "--trust-network allows public ones"
                    )


def check_learners(config: Config, num_learners: int) -> None:
    """Refuses several learners of SAC, and numbers that do not divide environments or minibatches.

    Raises:
      UsageError: They can't train together; the message names the nearest numbers that can.
    """
    if num_learners > 1 and config.algorithm in ONE_LEARNER:
        raise UsageError(f"{config.algorithm} trains with one learner, got {num_learners}")
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
        f"{parts if by_parts else ''} of all learners together\n"
        f"expected {' or '.join(map(str, nearest))} learner{'s' if nearest != [1] else ''}, "
        f"or another --{setting.replace('_', '-')}{' or --sequence-length' if by_parts else ''}"
    )


def divides(config: Config, num_learners: int) -> bool:
    """Returns whether a number of learners divides environments and minibatches."""
    return not (config.num_envs % num_learners or elements_per_minibatch(config) % num_learners)
