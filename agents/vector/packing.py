"""Steps of any vector environment packed into one block of bytes, the graph's input format."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from gymnasium.vector import VectorWrapper

from agents.environments.data_check import DataCheck, DataError, check_reward
from agents.errors import InvalidDataError
from agents.own_copy import own_copy
from agents.spaces import flatten, leaf_spaces, pack
from agents.workers.shared_arrays import Layout, Results, aligned_empty

if TYPE_CHECKING:
    from agents.types import Info, Leaves, NestedArray, VectorEnv


class PackedSteps(VectorWrapper):
    """Adds `step_packed`, as `BatchEnv` has it, to a vector environment with same-step autoreset.

    Attributes:
      layout: Offsets and shapes of the batch's arrays in a block.
      info_names: Keys seen so far in the infos of resets, and in others without an entry of `info_keys`.
    """

    def __init__(self, env: VectorEnv, info_keys: Sequence[str] = ()):
        """Initializes the wrapper.

        Args:
          env: A vector environment with `AutoresetMode.SAME_STEP`.
          info_keys: Keys of numbers in its infos to return in every step.
        """
        super().__init__(env)
        self.layout = Layout(
            env.num_envs, env.single_observation_space, env.single_action_space, info_keys
        )
        self.info_names: set[str] = set()
        self._check = DataCheck(env.single_observation_space, env.num_envs)

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: Info | None = None
    ) -> tuple[NestedArray, Info]:
        """Resets environments; the observations [B, ...] have the space's types.

        Raises:
          InvalidDataError: Observations are of the wrong shape or type.
        """
        observ, infos = self.env.reset(seed=seed, options=options)  # type: ignore[arg-type]
        arrays = [
            np.empty((self.num_envs, *leaf.shape), leaf.dtype)
            for leaf in leaf_spaces(self.single_observation_space)
        ]
        self._write(arrays, slice(None), observ)
        self._note_names(infos)
        return pack(self.single_observation_space, arrays), infos

    def step_packed(self, actions: NestedArray) -> np.ndarray:
        """Steps all environments and returns the results as one block, uint8 [size].

        Args:
          actions: Actions of the whole batch, leaves [B, ...].

        Returns:
          A new block that `layout` describes.

        Raises:
          InvalidDataError: Observations or rewards are of the wrong shape or type or not finite, or
            integers are out of bounds.
          ValueError: The environment returned no `final_obs` for an episode that ended.
          TypeError: An entry of `info_keys` is not a number.
        """
        # A copy, because a rollout keeps the actions in the same memory.
        observ, reward, terminated, truncated, infos = self.env.step(own_copy(actions))
        block = aligned_empty(self.layout.size)  # [size]
        results = Results(self.layout, block)
        for name, array, values in (
            ("reward", results.reward, reward),
            ("terminated", results.terminated, terminated),
            ("truncated", results.truncated, truncated),
        ):
            self._assign(array, values, name)  # [B]
        self._write(results.observ, slice(None), observ)
        self._write_final(results, observ, infos)
        self._check_numbers(results)
        for key, numbers in results.info.items():
            self._write_info(key, numbers, infos)
        return block

    def _write_final(self, results: Results, observ: NestedArray, infos: Info) -> None:
        """Writes the final observations [B, ...]; rows without one get the observation."""
        arrays = results.final_observ
        final_observ: NestedArray = infos.get("final_obs", observ)
        if "final_obs" not in infos and np.any(results.terminated | results.truncated):
            raise ValueError(
                f"{self.env} has autoreset_mode SAME_STEP: expected infos['final_obs'] for an episode that ended, "
                "got none. Return the last observation there, not the first one of the next episode."
            )
        if getattr(final_observ, "dtype", None) != np.dtype(object):
            self._write(arrays, slice(None), final_observ)
            return
        self._write(arrays, slice(None), observ)
        # Gymnasium's own vector environments return an object array with one entry per ended episode.
        for row in np.flatnonzero(infos["_final_obs"]):
            self._write(arrays, int(row), final_observ[row])

    def _write(self, arrays: Leaves, rows: int | slice, observ: NestedArray) -> None:
        for array, leaf in zip(arrays, flatten(self.single_observation_space, observ), strict=True):
            self._assign(array[rows, ...], leaf, "observation")

    def _assign(self, array: np.ndarray, values: NestedArray, name: str) -> None:
        """Copies values of the same shape and kind; smaller ones would silently be broadcast."""
        kinds = {"f": "fiu", "i": "iub", "u": "iub", "b": "biu"}[array.dtype.kind]
        given = np.asarray(values)
        if given.shape != array.shape or given.dtype.kind not in kinds:
            raise InvalidDataError(
                f"The vector environment returned the {name} {given.dtype} {given.shape}, "
                f"expected {array.dtype} {array.shape}",
                traceback_text="",
                env_index=None,
                type_name=InvalidDataError.__name__,
            )
        array[...] = given

    def _check_numbers(self, results: Results) -> None:
        """Raises InvalidDataError for observations that `DataCheck` refuses, or infinite rewards."""
        check, done = self._check, results.terminated | results.truncated  # [B]
        if np.isfinite(results.reward).all() and check.are_in_bounds(results.observ):
            if not done.any():
                return
        for env in range(self.num_envs):
            try:
                check_reward(results.reward[env])
                check.check_bounds(results.observ, env)
                if done[env]:
                    check.check_bounds(results.final_observ, env)
            except DataError as error:
                message = f"An environment's step {error}"
                raise InvalidDataError(message, "", env, InvalidDataError.__name__) from None

    def _write_info(self, key: str, numbers: np.ndarray, infos: Info) -> None:
        """Writes the numbers [B] of the step; where an episode ended they are in `final_info`."""
        numbers[:] = np.nan
        done = np.asarray(infos.get("_final_info", np.zeros(self.num_envs, bool)))  # [B]
        for source, rows in ((infos, ~done), (infos.get("final_info", {}), done)):
            if key not in source:
                self._note_names(source)
                continue
            rows = rows & source.get(f"_{key}", True)  # [B]
            try:
                numbers[rows] = np.asarray(source[key])[rows]
            except (TypeError, ValueError, IndexError):
                raise TypeError(
                    f"info_keys: '{key}' is {source[key]!r} in the infos, not numbers"
                ) from None

    def _note_names(self, infos: Info) -> None:
        self.info_names.update(name for name in infos if not str(name).startswith(("_", "final_")))
