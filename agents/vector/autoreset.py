"""Same-step autoreset for vector environments with any autoreset mode."""

from __future__ import annotations

from typing import TYPE_CHECKING

import gymnasium as gym
import numpy as np
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, VectorWrapper

from agents.own_copy import own_copy
from agents.spaces import flatten, leaf_spaces, pack
from agents.vector.envpool_env import EnvPoolEnv, is_env_pool

if TYPE_CHECKING:
    from agents.types import Info, Leaves, NestedArray, VectorEnv


def to_same_step(env: VectorEnv) -> VectorEnv:
    """Returns a vector environment with `AutoresetMode.SAME_STEP`; `env` itself if it has that mode.

    Args:
      env: Any vector environment with an `autoreset_mode` in its metadata, or an EnvPool. With
        another mode than SAME_STEP, `reset(options={"reset_mask": mask})` must reset exactly the
        environments of the mask, bool [B].

    Raises:
      ValueError: The autoreset mode is unknown, or partial resets do not work; the message has
        the remedy.
    """
    if is_env_pool(env):
        env = EnvPoolEnv(env)
    if isinstance(env, gym.Env):
        raise ValueError(
            f"{env} is one environment; expected a vector of them, such as "
            "agents.make_batch_env(constructors) or gymnasium.make_vec(...)."
        )
    mode = env.metadata.get("autoreset_mode")
    if mode == AutoresetMode.SAME_STEP:
        return env
    if not isinstance(mode, AutoresetMode):
        raise ValueError(
            f"{env} does not say when it resets environments whose episode ended: its metadata need an "
            f"'autoreset_mode' that is one of gymnasium.vector.AutoresetMode, got {mode!r}."
        )
    base = env.unwrapped
    # Gymnasium's natively vectorized environments accept a mask, but silently reset all environments.
    if type(base).__module__.startswith("gymnasium.envs."):
        raise ValueError(_partial_reset_message(base))
    # Its workers remember the end of the episode and reset again in the step after a masked reset.
    if (
        isinstance(base, AsyncVectorEnv)
        and mode == AutoresetMode.NEXT_STEP
        and not base.shared_memory
    ):
        raise ValueError(
            "An AsyncVectorEnv with shared_memory=False always resets environments in the step after the end of an "
            "episode: make it with autoreset_mode=AutoresetMode.SAME_STEP."
        )
    return SameStepAutoreset(env)


class SameStepAutoreset(VectorWrapper):
    """Resets environments by mask in the step that ends their episode.

    The autoreset mode of the wrapped environment, NEXT_STEP or DISABLED, makes no difference: its
    environments are reset before they are stepped again. In steps that end episodes, these rows of
    `infos` hold the infos of the reset; `final_info` holds the infos of the step, with its mask
    `_final_info` [B], and `final_obs` the final observations, leaves [B, ...], with its mask
    `_final_obs` [B].
    """

    def __init__(self, env: VectorEnv):
        """Initializes the wrapper; see `to_same_step` for the requirements on `env`."""
        super().__init__(env)
        self.metadata = {**env.metadata, "autoreset_mode": AutoresetMode.SAME_STEP}

    def step(
        self, actions: NestedArray
    ) -> tuple[NestedArray, np.ndarray, np.ndarray, np.ndarray, Info]:
        """Steps all environments and resets those whose episode ended.

        Args:
          actions: Actions of the whole batch, leaves [B, ...].

        Returns:
          `(observ, reward, terminated, truncated, infos)`: leaves [B, ...], arrays [B], and infos.

        Raises:
          ValueError: The wrapped environments can't be reset by mask.
        """
        observ, reward, terminated, truncated, infos = self.env.step(actions)
        done = np.logical_or(terminated, truncated)  # [B]
        if not done.any():
            return observ, reward, terminated, truncated, infos
        # Copies [B, ...], because some vector environments reuse these arrays and infos for the reset.
        final = [np.array(leaf) for leaf in flatten(self.single_observation_space, observ)]
        reward, terminated, truncated = np.array(reward), np.array(terminated), np.array(truncated)
        infos = own_copy(infos)
        observ, reset_infos = self.env.reset(options={"reset_mask": done.copy()})
        self._check_other_rows(final, observ, done)
        infos = {
            **_join_infos(_mask_infos(infos, ~done), _mask_infos(reset_infos, done)),
            "final_info": _mask_infos(infos, done),
            "_final_info": done,
            "final_obs": pack(self.single_observation_space, final),  # [B, ...]
            "_final_obs": done.copy(),
        }
        return observ, reward, terminated, truncated, infos

    def _check_other_rows(self, before: Leaves, observ: NestedArray, done: np.ndarray) -> None:
        """Raises ValueError if a masked reset changed rows [B, ...] of episodes that continue."""
        leaves = flatten(self.single_observation_space, observ)
        for old, new, space in zip(
            before, leaves, leaf_spaces(self.single_observation_space), strict=True
        ):
            same_nan = np.issubdtype(space.dtype, np.floating)
            if len(new) != len(old) or not np.array_equal(
                old[~done], np.asarray(new)[~done], equal_nan=same_nan
            ):
                raise ValueError(_partial_reset_message(self.env))


def _partial_reset_message(env: VectorEnv) -> str:
    return (
        f"{env} can't reset a part of its environments: the end of an episode would also reset the others or "
        "cost a step. Use single environments in agents.make_batch_env(constructors) or "
        "gymnasium.vector.SyncVectorEnv(constructors, autoreset_mode=AutoresetMode.SAME_STEP). A vector environment of "
        'your own must reset exactly the environments of options["reset_mask"].'
    )


def _mask_infos(infos: Info, rows: np.ndarray) -> Info:
    """Returns infos whose masks `_name`, also nested ones, are False outside of `rows`, bool [B]."""
    masked: Info = {}
    for name, value in infos.items():
        if _is_mask(name, infos):
            continue
        masked[name] = _mask_infos(value, rows) if isinstance(value, dict) else value
        masked[f"_{name}"] = infos.get(f"_{name}", True) & rows  # [B]
    return masked


def _join_infos(infos: Info, others: Info) -> Info:
    """Returns infos with those of `others` in the rows of their masks; both have all masks."""
    joined = {**infos, **others}
    for name in infos.keys() & others.keys():
        if _is_mask(name, others):
            joined[name] = infos[name] | others[name]
        else:
            joined[name] = _replace_rows(infos[name], others[name], others[f"_{name}"])
    return joined


def _is_mask(name: str, infos: Info) -> bool:
    return isinstance(name, str) and name.startswith("_") and name[1:] in infos


def _replace_rows(old: NestedArray, new: NestedArray, rows: np.ndarray) -> NestedArray:
    """Returns `old` with the rows [B] of `new`; `new` where their shapes differ."""
    if isinstance(old, dict) and isinstance(new, dict):
        return _join_infos(old, new)
    if np.shape(old) != np.shape(new):
        return new
    return np.where(rows.reshape(-1, *[1] * (np.ndim(new) - 1)), new, old)
