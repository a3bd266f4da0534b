"""EnvPool's environments, which are written in C++ and stepped by threads. This does not import TensorFlow."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium.error import ClosedEnvironmentError, ResetNeeded
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from agents.tools.batch_inputs import batch_bounds, checked_actions, seed_list
from agents.tools.errors import UsageError
from agents.tools.spaces import flatten, leaf_spaces, pack

# Arguments of `envpool.make` that follow from other settings, and which.
_OWN_SETTINGS = {
    "num_envs": "num_envs",
    "batch_size": "num_envs",
    "num_threads": "num_processes",
    "seed": "seed",
    "env_seed": "seed",
    "max_episode_steps": "max_episode_steps",
}
# How EnvPool counts and numbers its environments; nothing about an environment.
_BOOKKEEPING = ("env_id", "players")


class EnvPoolEnv(VectorEnv):
    """An EnvPool that keeps to Gymnasium's interface where EnvPool doesn't.

    Seeds: EnvPool takes them only where it makes environments, so a reset with seeds makes all of them anew. A reset of
    a part returns the rows of all environments. Actions are checked, which EnvPool does not do. The spaces of the batch
    are batches.

    EnvPool says of a step that ends an episode in a final state and at its time limit that it was truncated only.
    """

    metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP}

    def __init__(self, pool: Any):
        """Takes over a pool.

        Args:
          pool: What `envpool.make_gymnasium` returns, with as many environments in a batch as in the pool. It is closed
            at the first reset with seeds, when another one takes its place.

        Raises:
          ValueError: A pool with smaller batches or with several players.
          UnsupportedSpaceError: A space that is not made of arrays.
        """
        if pool.is_async or pool.config["max_num_players"] > 1:
            raise ValueError(
                "A pool must return all environments in every batch (batch_size equal to num_envs), each of one "
                f"player; got batch_size={pool.config['batch_size']}, num_envs={pool.config['num_envs']}, "
                f"max_num_players={pool.config['max_num_players']}."
            )
        self._pool = pool
        self.num_envs = int(pool.config["num_envs"])
        self.single_observation_space, self.single_action_space = _spaces(pool)
        leaf_spaces(self.single_observation_space)  # Raises for what is no array.
        self._action_leaves = [
            (leaf, *batch_bounds(leaf, self.num_envs)) for leaf in leaf_spaces(self.single_action_space)
        ]
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self._observ: list[np.ndarray] = []

    def step(self, actions: Any) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Steps every environment; one whose episode has ended is reset instead, as of `AutoresetMode.NEXT_STEP`.

        Raises:
          InvalidActionError: An action is not in the action space; no environment was stepped.
          ResetNeeded: Before the first reset.
          ClosedEnvironmentError: The pool is closed.
        """
        self._raise_if_closed()
        if not self._observ:
            raise ResetNeeded("The environments of a pool must be reset before they are stepped.")
        observ, reward, terminated, truncated, infos = self._pool.step(self._checked(actions))
        self._observ = flatten(self.single_observation_space, observ)
        return observ, reward, terminated, truncated, _without_bookkeeping(infos)

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Resets all environments, or those whose `options["reset_mask"]`, bool [B], is set.

        Args:
          seed: One for each environment, or one to count on from; all environments are made anew, then.
          options: Nothing but the mask.

        Raises:
          ValueError: Seeds for some of the environments only, too many or too few, or negative ones.
          ResetNeeded: A part is to be reset before everything was.
          ClosedEnvironmentError: The pool is closed.
        """
        self._raise_if_closed()
        mask = np.asarray((options or {}).get("reset_mask", np.ones(self.num_envs, bool)))
        seeds = seed_list(seed, self.num_envs)
        if max(seeds) >= 0:
            if min(seeds) < 0:
                raise ValueError(f"EnvPool takes seeds only for all environments at once, got {seed}.")
            if not mask.all():
                raise ValueError("EnvPool takes seeds only for all environments at once, and the mask leaves some out.")
            self._make_anew(seeds)
        if not self._observ and not mask.all():
            raise ResetNeeded("The first reset of a pool must be that of all its environments.")
        infos: dict[str, Any] = {}
        if mask.any():
            observ, infos = self._pool.reset(np.flatnonzero(mask).astype(np.int32))
            rows = flatten(self.single_observation_space, observ)
            self._observ = rows if mask.all() else _scattered(self._observ, rows, mask)
            infos = _batched(_without_bookkeeping(infos), mask)
        return pack(self.single_observation_space, self._observ), infos

    def close_extras(self, **kwargs: Any) -> None:
        """Closes the pool and ends its threads."""
        if self._pool is not None:
            self._pool.close()
            self._pool = None  # Its threads end when it is collected.

    def _checked(self, actions: Any) -> Any:
        leaves = flatten(self.single_action_space, actions)
        checked = [checked_actions(leaf, *known) for leaf, known in zip(leaves, self._action_leaves, strict=True)]
        # EnvPool takes arrays of the space's own type.
        return pack(
            self.single_action_space,
            (
                leaf.astype(low.dtype, copy=False)
                for leaf, (_, low, _) in zip(checked, self._action_leaves, strict=True)
            ),
        )

    def _raise_if_closed(self) -> None:
        if self._pool is None:
            raise ClosedEnvironmentError("This pool of environments is closed; make a new one.")

    def _make_anew(self, seeds: list[int]) -> None:
        pool_type, spec = type(self._pool), self._pool.spec
        self.close_extras()
        self._pool = pool_type(type(spec)(spec.config._replace(seed=0, env_seed=seeds)))
        _spaces(self._pool)


def is_env_pool(env: Any) -> bool:
    """Whether this is what `envpool.make_gymnasium` returns."""
    return any(base.__module__.startswith("envpool.") for base in type(env).__mro__)


def make_env_pool(
    task: str, num_envs: int, num_threads: int, max_episode_steps: int = 0, env_kwargs: dict[str, Any] | None = None
) -> EnvPoolEnv:
    """Makes a pool of environments.

    Args:
      task: EnvPool's name for them.
      num_envs: How many.
      num_threads: Threads that step them.
      max_episode_steps: Where episodes are cut; 0 for the task's own limit.
      env_kwargs: More arguments of `envpool.make`.
    """
    import envpool

    limit = {"max_episode_steps": max_episode_steps} if max_episode_steps else {}
    return EnvPoolEnv(
        envpool.make_gymnasium(task, num_envs=num_envs, num_threads=num_threads, **limit, **(env_kwargs or {}))
    )


def check_env_pool(task: str, env_kwargs: dict[str, Any], action_repeat: int = 1) -> None:
    """Raises UsageError where EnvPool is not installed or can't make such environments; at most three lines."""
    from agents.validation import did_you_mean  # With it comes pydantic, which workers do without.

    try:
        import envpool
    except ImportError as error:
        reason = "" if error.name == "envpool" else f" ({error})"
        raise UsageError(
            f"env_backend 'envpool' needs the package envpool, which is not installed{reason}\n"
            "pip install 'agents[envpool]' (from a checkout: '.[envpool]'), with Python 3.11 or newer"
        ) from None
    tasks = envpool.list_all_envs()
    if task not in tasks:
        raise UsageError(
            f"unknown EnvPool environment '{task}'{did_you_mean(task, tasks)}\n"
            "the tasks of env_backend 'envpool' are those of envpool.list_all_envs(), which may lack Gymnasium's"
        )
    if action_repeat > 1:
        raise UsageError(
            f"action_repeat: EnvPool does not repeat actions, expected 1, got {action_repeat}\n"
            "some tasks take a number of frames, as in --env-kwargs='{\"frame_skip\": 4}'"
        )
    _check_arguments(task, env_kwargs)


def _check_arguments(task: str, env_kwargs: dict[str, Any]) -> None:
    import envpool

    from agents.validation import did_you_mean

    known = [name for name in envpool.make_spec(task).config._fields if name not in _OWN_SETTINGS]
    for name in env_kwargs:
        if name in _OWN_SETTINGS:
            raise UsageError(f"env_kwargs: '{name}' follows from the setting {_OWN_SETTINGS[name]}; give that")
        if name not in known:
            raise UsageError(f"env_kwargs: EnvPool's '{task}' takes no '{name}'{did_you_mean(name, known)}")
    try:
        envpool.make_spec(task, **env_kwargs)
    except Exception as error:
        reason = " ".join(str(error).split())[:300]
        raise UsageError(f"env_kwargs: EnvPool's '{task}' does not take {env_kwargs}\n{reason}") from None


def _spaces(pool: Any) -> tuple[Any, Any]:
    """Spaces of one environment's observations and actions; a pool makes them when it is first asked."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*precision lowered by casting")  # Of its bounds to float32.
        return pool.observation_space, pool.action_space


def _without_bookkeeping(infos: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in infos.items() if name not in _BOOKKEEPING}


def _batched(infos: dict[str, Any], mask: np.ndarray) -> dict[str, Any]:
    """Infos of the N environments whose `mask` [B] is set, arrays [N, ...], as arrays [B, ...] with their masks."""
    batched: dict[str, Any] = {}
    for name, value in infos.items():
        if isinstance(value, dict):
            batched[name] = _batched(value, mask)
        else:
            [batched[name]] = _scattered([np.zeros((len(mask), *value.shape[1:]), value.dtype)], [value], mask)
        batched[f"_{name}"] = mask.copy()
    return batched


def _scattered(batches: list[np.ndarray], rows: list[np.ndarray], mask: np.ndarray) -> list[np.ndarray]:
    """Copies of arrays [B, ...] with rows [N, ...] in the N places whose `mask` [B] is set."""
    copies = [batch.copy() for batch in batches]
    for copy, part in zip(copies, rows, strict=True):
        copy[mask] = part
    return copies
