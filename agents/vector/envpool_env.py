"""EnvPool's environments, which are written in C++ and stepped by threads, without TensorFlow."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from gymnasium.error import ClosedEnvironmentError, ResetNeeded
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from agents.errors import UsageError
from agents.settings.installation import install_command
from agents.spaces import flatten, leaf_spaces, pack
from agents.suggestion import did_you_mean
from agents.vector.batch_inputs import ActionCheck, seed_list

if TYPE_CHECKING:
    from agents.types import Info, Leaves, NestedArray, Options, Space

# What `envpool.make_gymnasium` returns; the package is optional and has no types.
Pool: TypeAlias = Any

# Arguments of `envpool.make` that follow from settings, and from which.
_OWN_SETTINGS = {
    "num_envs": "num_envs",
    "batch_size": "num_envs",
    "num_threads": "num_processes",
    "seed": "seed",
    "env_seed": "seed",
    "max_episode_steps": "max_episode_steps",
}
# Infos about EnvPool's own indexing, not about an environment.
_INDEX_INFOS = ("env_id", "players")


class EnvPoolEnv(VectorEnv):
    """Adapts an EnvPool to Gymnasium's vector environments.

    Seeds: EnvPool takes them only when it creates environments, so a reset with seeds creates all
    of them again. A reset of a part returns the rows of all environments. Actions are checked,
    which EnvPool does not do. The spaces of the batch are batched.

    EnvPool reports a step that ends an episode in a terminal state and at its time limit as
    truncated only.
    """

    metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP}

    def __init__(self, pool: Pool):
        """Initializes the adapter, which owns the pool.

        Args:
          pool: What `envpool.make_gymnasium` returns, with as many environments in a batch as in
            the pool. The first reset with seeds closes it and creates another one.

        Raises:
          ValueError: The pool has smaller batches or several players.
          UnsupportedSpaceError: A space is not made of arrays.
        """
        if pool.is_async or pool.config["max_num_players"] > 1:
            raise ValueError(
                "A pool must return all environments in every batch (batch_size equal to num_envs), each of one "
                f"player; got batch_size={pool.config['batch_size']}, num_envs={pool.config['num_envs']}, "
                f"max_num_players={pool.config['max_num_players']}."
            )
        self._pool = pool
        self.num_envs = int(pool.config["num_envs"])
        self.single_observation_space, self.single_action_space = _single_spaces(pool)
        leaf_spaces(self.single_observation_space)  # Raises UnsupportedSpaceError.
        self._check_actions = ActionCheck(self.single_action_space, self.num_envs)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self._observ: Leaves = []  # The last observations [B, ...], none before the first reset.

    def step(
        self, actions: NestedArray
    ) -> tuple[NestedArray, np.ndarray, np.ndarray, np.ndarray, Info]:
        """Steps all environments; those whose episode has ended are reset instead.

        That is `AutoresetMode.NEXT_STEP`.

        Args:
          actions: Elements of the action space, leaves [B, ...].

        Returns:
          `(observ, reward, terminated, truncated, infos)`: leaves [B, ...], arrays [B], and infos.

        Raises:
          InvalidActionError: An action is not in the action space; no environment was stepped.
          ResetNeeded: The environments were not reset.
          ClosedEnvironmentError: The pool is closed.
        """
        self._check_open()
        if not self._observ:
            raise ResetNeeded("The environments of a pool must be reset before they are stepped.")
        observ, reward, terminated, truncated, infos = self._pool.step(self._checked(actions))
        self._observ = flatten(self.single_observation_space, observ)  # [B, ...] each.
        return observ, reward, terminated, truncated, _without_index_infos(infos)

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: Options | None = None,
    ) -> tuple[NestedArray, Info]:
        """Resets all environments, or those of `options["reset_mask"]`, bool [B].

        Args:
          seed: One per environment, or the first of consecutive ones; all environments are created
            again then.
          options: No other option than the mask has an effect.

        Returns:
          `(observ, infos)`, with the observations [B, ...] of all environments.

        Raises:
          ValueError: Seeds for some of the environments only, too many or too few, or negative
            ones.
          ResetNeeded: The first reset is one of a part.
          ClosedEnvironmentError: The pool is closed.
        """
        self._check_open()
        mask = np.asarray((options or {}).get("reset_mask", np.ones(self.num_envs, bool)))  # [B]
        seeds = seed_list(seed, self.num_envs)
        if max(seeds) >= 0:
            if min(seeds) < 0:
                raise ValueError(
                    f"EnvPool takes seeds only for all environments at once, got {seed}."
                )
            if not mask.all():
                raise ValueError(
                    "EnvPool takes seeds only for all environments at once, and the mask leaves some out."
                )
            self._recreate(seeds)
        if not self._observ and not mask.all():
            raise ResetNeeded("The first reset of a pool must be that of all its environments.")
        infos: Info = {}
        if mask.any():
            observ, infos = self._pool.reset(np.flatnonzero(mask).astype(np.int32))
            rows = flatten(self.single_observation_space, observ)  # [N, ...] each.
            # [B, ...] each.
            self._observ = rows if mask.all() else _scatter(self._observ, rows, mask)
            infos = _batch_infos(_without_index_infos(infos), mask)
        return pack(self.single_observation_space, self._observ), infos

    def close_extras(self, **kwargs: Any) -> None:
        """Closes the pool and ends its threads."""
        if self._pool is not None:
            self._pool.close()
            self._pool = None  # Its threads end when it is garbage collected.

    def _checked(self, actions: NestedArray) -> NestedArray:
        """Returns valid actions [B, ...] in the dtypes of the space, as EnvPool needs them."""
        space = self.single_action_space
        pairs = zip(self._check_actions(actions), leaf_spaces(space), strict=True)
        return pack(space, (leaf.astype(each.dtype, copy=False) for leaf, each in pairs))

    def _check_open(self) -> None:
        if self._pool is None:
            raise ClosedEnvironmentError("This pool of environments is closed; make a new one.")

    def _recreate(self, seeds: list[int]) -> None:
        """Replaces the pool by one with other seeds, one per environment."""
        pool_type, spec = type(self._pool), self._pool.spec
        self.close_extras()
        self._pool = pool_type(type(spec)(spec.config._replace(seed=0, env_seed=seeds)))
        _single_spaces(self._pool)


def is_env_pool(env: VectorEnv | Pool) -> bool:
    """Returns whether `env` is what `envpool.make_gymnasium` returns."""
    return any(base.__module__.startswith("envpool.") for base in type(env).__mro__)


def make_env_pool(
    task: str,
    num_envs: int,
    num_threads: int,
    max_episode_steps: int = 0,
    env_kwargs: dict[str, Any] | None = None,
) -> EnvPoolEnv:
    """Makes a pool of environments.

    Args:
      task: EnvPool's name of the environment.
      num_envs: Number of environments B.
      num_threads: Number of threads that step them.
      max_episode_steps: Steps after which episodes are truncated; 0 for the task's own limit.
      env_kwargs: Further arguments of `envpool.make`.
    """
    import envpool

    limit = {"max_episode_steps": max_episode_steps} if max_episode_steps else {}
    return EnvPoolEnv(
        envpool.make_gymnasium(
            task, num_envs=num_envs, num_threads=num_threads, **limit, **(env_kwargs or {})
        )
    )


def check_env_pool(task: str, env_kwargs: dict[str, Any], action_repeat: int = 1) -> None:
    """Checks that EnvPool is installed and can make such environments.

    Args:
      task: EnvPool's name of the environment.
      env_kwargs: Further arguments of `envpool.make`.
      action_repeat: The setting, which must be 1.

    Raises:
      UsageError: It can't; the message has at most three lines.
    """
    try:
        import envpool
    except ImportError as error:
        reason = "" if error.name == "envpool" else f" ({error})"
        raise UsageError(
            f"env_backend 'envpool' needs the package envpool, which is not installed{reason}\n"
            f"{install_command('envpool')}, with Python 3.11 or newer"
        ) from None
    tasks = envpool.list_all_envs()
    if task not in tasks:
        raise UsageError(
            f"unknown EnvPool environment '{task}'{did_you_mean(task, tasks)}\n"
            "envpool.list_all_envs() lists the tasks of env_backend 'envpool'; some of Gymnasium's are missing"
        )
    if action_repeat > 1:
        raise UsageError(
            f"action_repeat: EnvPool does not repeat actions, expected 1, got {action_repeat}\n"
            "some tasks take a number of frames, as in --env-kwargs='{\"frame_skip\": 4}'"
        )
    known = [name for name in envpool.make_spec(task).config._fields if name not in _OWN_SETTINGS]
    for name in env_kwargs:
        if name in _OWN_SETTINGS:
            raise UsageError(
                f"env_kwargs: '{name}' is set by the setting {_OWN_SETTINGS[name]}; use that"
            )
        if name not in known:
            raise UsageError(
                f"env_kwargs: EnvPool's '{task}' takes no '{name}'{did_you_mean(name, known)}"
            )
    try:
        envpool.make_spec(task, **env_kwargs)
    except Exception as error:
        reason = " ".join(str(error).split())[:300]
        raise UsageError(
            f"env_kwargs: EnvPool's '{task}' does not take {env_kwargs}\n{reason}"
        ) from None


def _single_spaces(pool: Pool) -> tuple[Space, Space]:
    """Returns the spaces of one environment's observations and actions.

    A pool creates them when they are first read, with a warning about the bounds' cast to float32.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*precision lowered by casting")
        return pool.observation_space, pool.action_space


def _without_index_infos(infos: Info) -> Info:
    return {name: value for name, value in infos.items() if name not in _INDEX_INFOS}


def _batch_infos(infos: Info, mask: np.ndarray) -> Info:
    """Returns infos of the N environments of `mask` [B] as arrays [B, ...] with their masks."""
    batched: Info = {}
    for name, value in infos.items():
        if isinstance(value, dict):
            batched[name] = _batch_infos(value, mask)
        else:
            zeros = np.zeros((len(mask), *value.shape[1:]), value.dtype)  # [B, ...]
            [batched[name]] = _scatter([zeros], [value], mask)
        batched[f"_{name}"] = mask.copy()
    return batched


def _scatter(batches: Leaves, rows: Leaves, mask: np.ndarray) -> Leaves:
    """Returns copies of `batches` [B, ...] with `rows` [N, ...] in the N places of `mask` [B]."""
    copies = [batch.copy() for batch in batches]
    for copy, part in zip(copies, rows, strict=True):
        copy[mask] = part
    return copies
