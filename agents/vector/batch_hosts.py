"""The hosts of a batch: what runs its environments, and whether they fit together."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from agents.errors import UsageError
from agents.spaces import leaf_spaces
from agents.workers.description import innermost
from agents.workers.external_process import ExternalProcess
from agents.workers.host import Host, LocalHost

if TYPE_CHECKING:
    from agents.types import Env
    from agents.workers.description import Description


def available_cores() -> int:
    """Returns the number of processors that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def make_hosts(
    envs: Sequence[Env | ExternalProcess | LocalHost],
    blocking: bool,
    restarts: bool,
    wait_for: float = 1.0,
) -> list[Host]:
    """Returns the hosts of environments; see `BatchEnv` for the arguments and errors."""
    if not len(envs):
        raise ValueError("A batch needs at least one environment, got none.")
    objects = any(not isinstance(env, ExternalProcess | LocalHost) for env in envs)
    if not blocking and (objects or not any(isinstance(env, ExternalProcess) for env in envs)):
        raise ValueError(
            "Environments in this process can't be stepped in parallel: pass blocking=True, or wrap each of them in an "
            "ExternalProcess. A LocalHost can be beside processes."
        )
    if restarts and objects:
        raise ValueError(
            "Environments in this process are restarted with their constructors: pass "
            "LocalHost(constructor) for each."
        )
    if not 0 < wait_for <= 1:
        raise ValueError(f"wait_for must be above 0 and at most 1, got {wait_for}.")
    if wait_for < 1 and (blocking or not all(isinstance(env, ExternalProcess) for env in envs)):
        raise ValueError(
            f"Only environments in processes, stepped in parallel, can be ahead of others: got wait_for {wait_for} "
            "with environments in this process or blocking=True. Pass wait_for=1."
        )
    hosts = [_make_host(env) for env in envs]
    _check_distinct(hosts)
    return hosts


def _make_host(env: Env | ExternalProcess | LocalHost) -> Host:
    if isinstance(env, ExternalProcess):
        return env.host
    return env if isinstance(env, LocalHost) else LocalHost(lambda: env)


def _check_distinct(hosts: Sequence[Host]) -> None:
    """Raises ValueError if an environment or a process has several places in the batch."""
    rows: dict[int, int] = {}  # By the id of the environment, or of its process.
    row = 0
    for host in hosts:
        parts: list[object] = [host]
        if isinstance(host, LocalHost):
            parts = [innermost(host[index]) for index in range(host.num_envs)]
        for offset, part in enumerate(parts):
            first = rows.setdefault(id(part), row + offset)
            if first != row + offset:
                raise ValueError(
                    f"Environment {row + offset} of the batch is environment {first} again: make a new one for each."
                )
        row += host.num_envs


def check_compatible(descriptions: Sequence[Description]) -> None:
    """Raises UsageError if environments with these descriptions can't share a batch.

    An unsupported space is named before any difference: texts differ between processes.
    """
    for space in descriptions[0].observation_space, descriptions[0].action_space:
        leaf_spaces(space)
    for index, description in enumerate(descriptions):
        if description.autoreset_layer:
            raise UsageError(
                f"Environment {index} has {description.autoreset_layer}, which resets it in the step after the end of "
                "an episode. A batch would take that for a step: remove the wrapper, a batch resets its environments."
            )
        for name in ("observation_space", "action_space"):
            space, expected = getattr(description, name), getattr(descriptions[0], name)
            if space != expected:
                raise UsageError(
                    f"Environments of a batch need equal spaces, but the {name} of environment {index} is {space}, "
                    f"that of environment 0 is {expected}."
                )
