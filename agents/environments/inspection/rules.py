"""Whether an environment keeps Gymnasium's rules, and is determined by seeds."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from gymnasium.utils.env_checker import check_env

from agents.environments.inspection.finding import Finding
from agents.environments.inspection.random_steps import sample_action
from agents.environments.wrappers.action_mask import KEY
from agents.environments.wrappers.reset_options import ResetOptions
from agents.spaces import flatten

if TYPE_CHECKING:
    from agents.types import Env, EnvConstructor, Options

# In findings of Gymnasium's checker that other checks of this package make, about bounds and seeds, or
# that are right for training: episodes of one step, and reset options around the environment.
_LEFT_OUT = ("Box", "space", "Casting", "eterministic", "after 1 step", "unwrapped version")

# Steps after which episodes that start from the same seed are taken for equal.
_COMPARED_STEPS = 200


def check_interface(env: Env, reset_options: Options) -> list[Finding]:
    """Runs Gymnasium's checker on an environment without wrappers.

    Nothing that it finds stops training by itself: environments that can't be trained on fail in
    random steps as well. It is skipped where actions are masked, as it takes any action.

    Args:
      env: The environment.
      reset_options: Options of every reset.
    """
    advice = "see gymnasium.farama.org, Make your own custom environment"
    texts: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            checked = ResetOptions(env, reset_options) if reset_options else env
            observ, info = checked.reset(seed=0)
            if KEY in info or (isinstance(observ, dict) and KEY in observ):
                return []
            check_env(checked, skip_render_check=True, skip_close_check=True)
        except Exception as error:  # Of its assertions, or of the environment.
            texts.append(" ".join(str(error).split()) or type(error).__name__)
    texts += [_without_prefix(str(warning.message)) for warning in caught]
    return [
        Finding(False, f"Gymnasium's checker: {text}", advice)
        for text in dict.fromkeys(texts)
        if not any(words in text for words in _LEFT_OUT)
    ]


def check_seeds(env: Env, make: EnvConstructor, seed: int) -> list[Finding]:
    """Checks that a seed determines an episode: in a new environment, and in a used one."""
    new = make()
    try:
        first = list(_episode(new, seed))
    finally:
        new.close()
    # It was used by `take_random_steps`.
    again = list(_episode(env, seed))
    other = make()
    try:
        second = list(_episode(other, seed))
    finally:
        other.close()
    if step := _first_difference(first, second):
        return [
            Finding(
                False,
                f"two environments that are reset with the same seed differ {step}",
                "draw random numbers from self.np_random only, after super().reset(seed=seed); otherwise "
                "no run can be repeated",
            )
        ]
    if step := _first_difference(first, again):
        return [
            Finding(
                False,
                "an environment that was used before and is reset with a seed differs from a new one "
                f"{step}",
                "initialize everything in reset; or let a function make it, which returns "
                "agents.tools.wrappers.RebuildOnSeed(MyEnv). Otherwise resumed runs are not exact",
            )
        ]
    return []


def _episode(env: Env, seed: int) -> Iterator[list[np.ndarray]]:
    """Yields what the first steps after a seeded reset return: leaves, reward and flags."""
    env.action_space.seed(seed)
    observ, info = env.reset(seed=seed)
    yield [np.array(leaf) for leaf in flatten(env.observation_space, observ)]
    for _ in range(_COMPARED_STEPS):
        action = sample_action(env.action_space, observ, info)
        observ, reward, terminated, truncated, info = env.step(action)
        leaves = flatten(env.observation_space, observ)
        yield [np.array(each) for each in (*leaves, reward, terminated, truncated)]
        if terminated or truncated:
            return


def _first_difference(first: list[list[np.ndarray]], second: list[list[np.ndarray]]) -> str:
    """Returns where two episodes differ, as "at step 3"; empty if they do not."""
    for index, (one, other) in enumerate(zip(first, second, strict=False)):
        if not all(map(_equal, one, other)):
            return f"at step {index}" if index else "at once"
    return "" if len(first) == len(second) else f"at step {min(len(first), len(second))}"


def _equal(one: np.ndarray, other: np.ndarray) -> bool:
    return np.array_equal(one, other, equal_nan=one.dtype.kind == "f")


def _without_prefix(text: str) -> str:
    """Returns the text of a warning of Gymnasium without colors and "WARN: "."""
    return text.replace("\033[33m", "").replace("\033[0m", "").removeprefix("WARN: ").strip()
