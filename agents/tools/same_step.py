"""Any vector environment as one that resets environments in the step that ends their episode."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, VectorEnv, VectorWrapper

from agents.tools.env_pool import EnvPoolEnv, is_env_pool
from agents.tools.spaces import flatten, leaf_spaces, pack


def same_step(env: VectorEnv) -> VectorEnv:
    """A vector environment with `AutoresetMode.SAME_STEP` out of one with any mode; itself if that is its mode.

    Args:
      env: Any vector environment that says in its metadata when it resets, an EnvPool as well. Where its mode is
        another one, it must take `reset(options={"reset_mask": mask})` for the reset of a part of its environments.

    Raises:
      ValueError: It doesn't say, or is known not to reset a part of its environments; the message says what to do.
    """
    if is_env_pool(env):
        env = EnvPoolEnv(env)
    mode = env.metadata.get("autoreset_mode")
    if mode == AutoresetMode.SAME_STEP:
        return env
    if not isinstance(mode, AutoresetMode):
        raise ValueError(
            f"{env} does not say when it resets environments whose episode ended: its metadata need an "
            f"'autoreset_mode' that is one of gymnasium.vector.AutoresetMode, got {mode!r}."
        )
    base = env.unwrapped
    # Those that Gymnasium wrote as batches take a mask and reset all the same, without a word.
    if type(base).__module__.startswith("gymnasium.envs."):
        raise ValueError(_no_partial_reset(base))
    # After a masked reset its workers reset once more in the next step, as they remember the end of the episode.
    if isinstance(base, AsyncVectorEnv) and mode == AutoresetMode.NEXT_STEP and not base.shared_memory:
        raise ValueError(
            "An AsyncVectorEnv with shared_memory=False resets environments in the step after the end of an episode, "
            "come what may: make it with autoreset_mode=AutoresetMode.SAME_STEP."
        )
    return SameStepEnv(env)


class SameStepEnv(VectorWrapper):
    """Resets environments by mask as soon as their episode has ended, so that no step is spent on a reset.

    Whether the wrapped environments would be reset at the next step or not at all is the same: they never get there.
    The `infos` of a step in which episodes ended have those of the resets in these rows, and as Gymnasium's do
    `final_info`, the infos of the step, with its mask `_final_info` [B]; `final_obs` is a batch [B, ...], with its mask
    `_final_obs` [B].
    """

    def __init__(self, env: VectorEnv):
        """Wraps `env`; see `same_step` for what it has to be."""
        super().__init__(env)
        self.metadata = {**env.metadata, "autoreset_mode": AutoresetMode.SAME_STEP}

    def step(self, actions: Any) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Steps every environment; those whose episode ends are reset at once.

        Raises:
          ValueError: The wrapped environments don't reset by mask.
        """
        observ, reward, terminated, truncated, infos = self.env.step(actions)
        ended = np.logical_or(terminated, truncated)
        if not ended.any():
            return observ, reward, terminated, truncated, infos
        # Copies, because some vector environments use these arrays again for the reset.
        final = [np.array(leaf) for leaf in flatten(self.single_observation_space, observ)]
        reward, terminated, truncated = np.array(reward), np.array(terminated), np.array(truncated)
        observ, reset_infos = self.env.reset(options={"reset_mask": ended.copy()})
        self._check_others(final, observ, ended)
        infos = {
            **_merged(infos, reset_infos, ended),
            "final_info": _masked(infos, ended),
            "_final_info": ended,
            "final_obs": pack(self.single_observation_space, final),
            "_final_obs": ended.copy(),
        }
        return observ, reward, terminated, truncated, infos

    def _check_others(self, before: list[np.ndarray], observ: Any, ended: np.ndarray) -> None:
        """Raises where a masked reset changed the rows [B, ...] of other environments than those that ended."""
        leaves = flatten(self.single_observation_space, observ)
        for old, new, space in zip(before, leaves, leaf_spaces(self.single_observation_space), strict=True):
            same_nan = np.issubdtype(space.dtype, np.floating)
            if len(new) != len(old) or not np.array_equal(old[~ended], np.asarray(new)[~ended], equal_nan=same_nan):
                raise ValueError(_no_partial_reset(self.env))


def _no_partial_reset(env: VectorEnv) -> str:
    return (
        f"{env} can't reset a part of its environments, so that the end of an episode would disturb the others or be "
        "followed by a step that is none. Make it of single environments: agents.tools.make_batch_env(constructors) or "
        "gymnasium.vector.SyncVectorEnv(constructors, autoreset_mode=AutoresetMode.SAME_STEP). A vector environment of "
        'your own has to reset those environments, and no others, that options["reset_mask"] names.'
    )


def _merged(step: dict[str, Any], reset: dict[str, Any], ended: np.ndarray) -> dict[str, Any]:
    """Infos of a step, with those of the resets in the rows where an episode ended; masks `_name` as Gymnasium's."""
    return _joined(_masked(step, ~ended), _masked(reset, ended))


def _masked(infos: dict[str, Any], rows: np.ndarray) -> dict[str, Any]:
    """Infos whose masks `_name` are True in no others than some rows, bool [B]; so are those of infos in infos."""
    masked: dict[str, Any] = {}
    for name, value in infos.items():
        if _is_mask(name, infos):
            continue
        masked[name] = _masked(value, rows) if isinstance(value, dict) else value
        masked[f"_{name}"] = infos.get(f"_{name}", True) & rows
    return masked


def _joined(infos: dict[str, Any], others: dict[str, Any]) -> dict[str, Any]:
    """Infos with those of others in the rows of their masks; both have all masks."""
    joined = {**infos, **others}
    for name in infos.keys() & others.keys():
        if _is_mask(name, others):
            joined[name] = infos[name] | others[name]
        else:
            joined[name] = _with_rows(infos[name], others[name], others[f"_{name}"])
    return joined


def _is_mask(name: str, infos: dict[str, Any]) -> bool:
    return name.startswith("_") and name[1:] in infos


def _with_rows(old: Any, new: Any, rows: np.ndarray) -> Any:
    if isinstance(old, dict) and isinstance(new, dict):
        return _joined(old, new)
    if np.shape(old) != np.shape(new):
        return new
    return np.where(rows.reshape(-1, *[1] * (np.ndim(new) - 1)), new, old)
