"""What a vector environment gives in a step as one block of bytes: how any of them comes to the graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium.vector import VectorEnv, VectorWrapper

from agents.tools.shared_arrays import Layout, Results, aligned_empty
from agents.tools.spaces import flatten


class Packing(VectorWrapper):
    """Adds to a vector environment with same-step resets what `BatchEnv` has of itself.

    Attributes:
      layout: Where the arrays of the batch lie in a block.
      info_names: Names that have come with the infos.
    """

    def __init__(self, env: VectorEnv, info_keys: Sequence[str] = ()):
        """Wraps `env`; `info_keys` are the names of numbers in its infos that are wanted in every step."""
        super().__init__(env)
        self.layout = Layout(env.num_envs, env.single_observation_space, env.single_action_space, info_keys)
        self.info_names: set[str] = set()

    def step_packed(self, actions: Any) -> np.ndarray:
        """Like `step`, but returns what the environments gave as one block, uint8 [size], laid out as `layout` says."""
        observ, reward, terminated, truncated, infos = self.env.step(actions)
        block = aligned_empty(self.layout.size)
        results = Results(self.layout, block)
        results.reward[:], results.terminated[:], results.truncated[:] = reward, terminated, truncated
        self._write(results.observ, slice(None), observ)
        self._write_final(results, observ, infos)
        for key, numbers in results.info.items():
            self._write_info(key, numbers, infos)
        return block

    def _write_final(self, results: Results, observ: Any, infos: dict[str, Any]) -> None:
        arrays, final_observ = results.final_observ, infos.get("final_obs", observ)
        if "final_obs" not in infos and np.any(results.terminated | results.truncated):
            raise ValueError(
                f"{self.env} has autoreset_mode SAME_STEP but gave no infos['final_obs'] for an episode that ended: "
                "the first observation of the next episode would be taken for the last of this one."
            )
        if getattr(final_observ, "dtype", None) != np.dtype(object):
            self._write(arrays, slice(None), final_observ)
            return
        self._write(arrays, slice(None), observ)
        for row in np.flatnonzero(infos["_final_obs"]):  # Gymnasium's own batches give those there are, one by one.
            self._write(arrays, row, final_observ[row])

    def _write(self, arrays: list[np.ndarray], rows: Any, observ: Any) -> None:
        for array, leaf in zip(arrays, flatten(self.single_observation_space, observ), strict=True):
            array[rows] = leaf

    def _write_info(self, key: str, numbers: np.ndarray, infos: dict[str, Any]) -> None:
        """Numbers in the infos of the step, [B]; they are elsewhere where it ended an episode."""
        numbers[:] = np.nan
        ended = np.asarray(infos.get("_final_info", np.zeros(self.num_envs, bool)))
        for source, rows in ((infos, ~ended), (infos.get("final_info", {}), ended)):
            if key not in source:
                self.info_names.update(name for name in source if not name.startswith(("_", "final_")))
                continue
            rows = rows & source.get(f"_{key}", True)
            try:
                numbers[rows] = np.asarray(source[key])[rows]
            except (TypeError, ValueError, IndexError):
                raise TypeError(f"info_keys: '{key}' is {source[key]!r} in the infos, not numbers") from None
