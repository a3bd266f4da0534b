"""Checks across several settings of an experiment."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NoReturn

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
    """Raises PydanticCustomError for settings that contradict each other."""
    _check_sizes(config)
    _check_environments(config)
    for setting, (known, example) in ENTRY_POINTS.items():
        name = getattr(config, setting)
        if name not in known and ":" not in name:
            _refuse(
                f"{setting}: unknown {setting} '{name}'{did_you_mean(name, known)}\n"
                f"expected {', '.join(known)}, or {example}"
            )
    if config.critic_learning_rate and config.shared_torso:
        _refuse(
            "critic_learning_rate: a shared_torso has no separate layers of the value function; "
            "expected 0, or shared_torso false"
        )
    if config.critic_keys and config.shared_torso:
        _refuse(
            "critic_keys: with a shared_torso, policy and value function see the same\n"
            "expected shared_torso false, or no critic_keys"
        )
    limits_kl = config.kl_stop or config.learning_rate_schedule == "kl"
    if config.reduce_every == "epoch" and limits_kl:  # Each learner would decide for itself.
        _refuse(
            "reduce_every: with epoch, learners can't agree on kl_stop or the schedule kl of the "
            "learning rate\nexpected reduce_every minibatch, or kl_stop 0 and another "
            "learning_rate_schedule"
        )


def _check_sizes(config: Config) -> None:
    total = config.num_envs * config.rollout_length
    if total % config.minibatch_size:  # The update has static shapes.
        _refuse(
            f"minibatch_size: {config.minibatch_size} does not divide the {total} steps of a rollout "
            f"({config.num_envs} num_envs x {config.rollout_length} rollout_length)\n"
            f"the nearest size that does is {nearest_divisor(total, config.minibatch_size)}"
        )
    longest = math.gcd(config.rollout_length, config.minibatch_size)
    if config.recurrent != "none" and config.sequence_length and longest % config.sequence_length:
        _refuse(
            f"sequence_length: sequences of {config.sequence_length} steps do not divide both "
            f"rollouts and minibatches (rollout_length {config.rollout_length}, "
            f"minibatch_size {config.minibatch_size})\n"
            f"the longest that does is {longest}; 0 selects it"
        )


def _check_environments(config: Config) -> None:
    if config.wait_for < 1 and config.env_backend != "process":
        _refuse(
            f"wait_for: environments with env_backend '{config.env_backend}' make each step together, "
            f"got {config.wait_for}\n"
            "expected env_backend process, or wait_for 1"
        )
    if config.env_restarts.limit and config.env_backend not in PYTHON_BACKENDS:
        _refuse(
            f"env_restarts: environments with env_backend '{config.env_backend}' can't be restarted\n"
            "expected env_backend process, hybrid or inline, or a limit of 0"
        )
    if config.reset_options and config.env_backend not in PYTHON_BACKENDS:
        _refuse(
            f"reset_options: environments with env_backend '{config.env_backend}' take none\n"
            "expected env_backend process, hybrid or inline, or no reset_options"
        )


def _refuse(message: str) -> NoReturn:
    raise PydanticCustomError("inconsistent", "{message}", {"message": message})


def nearest_divisor(total: int, wanted: int) -> int:
    """Returns the divisor of `total` that is nearest to `wanted`; the smaller one of two."""
    small = [number for number in range(1, int(total**0.5) + 1) if total % number == 0]
    divisors = {*small, *(total // number for number in small)}
    return min(divisors, key=lambda number: (abs(number - wanted), number))
