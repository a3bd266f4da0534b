"""Checks across several settings of an experiment."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from pydantic_core import PydanticCustomError

from agents.suggestion import did_you_mean

if TYPE_CHECKING:
    from agents.settings.config import Config

# Entry points by the names of the setting `algorithm`, which takes entry points of users, too.
ALGORITHMS = {"ppo": "agents.ppo:PPO"}

# Values of `env_backend` that run Gymnasium's environments, with equal episodes.
PYTHON_BACKENDS = frozenset({"process", "hybrid", "inline"})

# Names of the setting `network`; the functions are in `agents.policies.torsos`.
NETWORKS = ("feed_forward", "nature", "impala")

# Names of the setting `policy`; the classes are in `agents.distributions`.
POLICIES = ("gaussian", "squashed_gaussian", "beta")

# Settings that take a known name, or an entry point of the user such as the example.
ENTRY_POINTS = {
    "algorithm": (tuple(ALGORITHMS), "my_module:MyAlgorithm"),
    "network": (NETWORKS, "my_module:my_function"),
    "policy": (POLICIES, "my_module:my_function"),
}


def check(config: Config) -> None:
    """Refuses settings that contradict each other."""
    check_minibatches(config.num_envs, config.rollout_length, config.minibatch_size)
    for setting in ENTRY_POINTS:
        check_name(setting, getattr(config, setting))
    if config.recurrent != "none":
        check_sequences(config.sequence_length, config.rollout_length, config.minibatch_size)
    check_wait_for(config.wait_for, config.env_backend)
    check_restarts(config.env_restarts.limit, config.env_backend)
    check_reset_options(bool(config.reset_options), config.env_backend)
    check_critic_optimizer(config.critic_learning_rate, config.shared_torso)
    check_overlap(config.overlap, config.env_backend)
    check_critic_keys(config.critic_keys, config.shared_torso)
    check_reductions(config.reduce_every, config.kl_stop, config.learning_rate_schedule)


def check_minibatches(num_envs: int, rollout_length: int, minibatch_size: int) -> None:
    """Refuses minibatches that do not divide a rollout: the update has static shapes."""
    total = num_envs * rollout_length
    if total % minibatch_size:
        raise PydanticCustomError(
            "minibatch_size",
            "minibatch_size: {size} does not divide the {total} steps of a rollout "
            "({num_envs} num_envs x {rollout_length} rollout_length)\n"
            "the nearest size that does is {divisor}",
            {
                "size": minibatch_size,
                "total": total,
                "num_envs": num_envs,
                "rollout_length": rollout_length,
                "divisor": nearest_divisor(total, minibatch_size),
            },
        )


def check_name(setting: str, name: str) -> None:
    """Refuses a name that is neither known nor an entry point; see `ENTRY_POINTS`."""
    known, example = ENTRY_POINTS[setting]
    if name in known or ":" in name:
        return
    raise PydanticCustomError(
        "name",
        "{setting}: unknown {setting} '{name}'{suggestion}\nexpected {known}, or {example}",
        {
            "setting": setting,
            "name": name,
            "suggestion": did_you_mean(name, known),
            "known": ", ".join(known),
            "example": example,
        },
    )


def check_sequences(sequence_length: int, rollout_length: int, minibatch_size: int) -> None:
    """Refuses sequences that do not divide both rollouts and minibatches; 0 always does."""
    if not sequence_length:
        return
    if rollout_length % sequence_length or minibatch_size % sequence_length:
        raise PydanticCustomError(
            "sequence_length",
            "sequence_length: sequences of {length} steps do not divide both rollouts and "
            "minibatches (rollout_length {rollout}, minibatch_size {minibatch})\n"
            "the longest that does is {longest}; 0 selects it",
            {
                "length": sequence_length,
                "rollout": rollout_length,
                "minibatch": minibatch_size,
                "longest": math.gcd(rollout_length, minibatch_size),
            },
        )


def check_wait_for(wait_for: float, env_backend: str) -> None:
    """Refuses turns of environments that do not run in processes of their own."""
    if wait_for < 1 and env_backend != "process":
        raise PydanticCustomError(
            "wait_for",
            "wait_for: environments with env_backend '{env_backend}' make each step together, "
            "got {wait_for}\nexpected env_backend process, or wait_for 1",
            {"env_backend": env_backend, "wait_for": wait_for},
        )


def check_restarts(limit: int, env_backend: str) -> None:
    """Refuses restarts of environments that are no processes or objects of Python."""
    if limit and env_backend not in PYTHON_BACKENDS:
        raise PydanticCustomError(
            "env_restarts",
            "env_restarts: environments with env_backend '{env_backend}' can't be restarted\n"
            "expected env_backend process, hybrid or inline, or a limit of 0",
            {"env_backend": env_backend},
        )


def check_reset_options(given: bool, env_backend: str) -> None:
    """Refuses options for environments whose resets take none."""
    if given and env_backend not in PYTHON_BACKENDS:
        raise PydanticCustomError(
            "reset_options",
            "reset_options: environments with env_backend '{env_backend}' take none\n"
            "expected env_backend process, hybrid or inline, or no reset_options",
            {"env_backend": env_backend},
        )


def check_critic_optimizer(critic_learning_rate: float, shared_torso: bool) -> None:
    """Refuses a separate optimizer for a value function that shares its layers."""
    if critic_learning_rate and shared_torso:
        raise PydanticCustomError(
            "critic_learning_rate",
            "critic_learning_rate: a shared_torso has no separate layers of the value function; "
            "expected 0, or shared_torso false",
        )


def check_critic_keys(critic_keys: tuple[str, ...], shared_torso: bool) -> None:
    """Refuses observations for the value function only where it shares its layers."""
    if critic_keys and shared_torso:
        raise PydanticCustomError(
            "critic_keys",
            "critic_keys: with a shared_torso, policy and value function see the same\n"
            "expected shared_torso false, or no critic_keys",
        )


def check_reductions(reduce_every: str, kl_stop: float, learning_rate_schedule: str) -> None:
    """Refuses what learners would decide within an epoch, each for itself."""
    if reduce_every == "epoch" and (kl_stop or learning_rate_schedule == "kl"):
        raise PydanticCustomError(
            "reduce_every",
            "reduce_every: with epoch, learners can't agree on kl_stop or the schedule kl of the "
            "learning rate\nexpected reduce_every minibatch, or kl_stop 0 and another "
            "learning_rate_schedule",
        )


def check_overlap(overlap: bool, env_backend: str) -> None:
    """Refuses to overlap the parts of a single program."""
    if overlap and env_backend == "tf":
        raise PydanticCustomError(
            "overlap",
            "overlap: with env_backend 'tf', collecting and learning are one program\n"
            "expected another env_backend, or overlap false",
        )


def nearest_divisor(total: int, wanted: int) -> int:
    """The divisor of `total` that is nearest to `wanted`; the smaller one of two."""
    small = [number for number in range(1, int(total**0.5) + 1) if total % number == 0]
    divisors = {*small, *(total // number for number in small)}
    return min(divisors, key=lambda number: (abs(number - wanted), number))
