"""Evaluation: whole episodes, deterministic actions, frozen normalisers."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from agents.ppo.policy import Policy
from agents.runs.tensorflow_setup import one_thread_for_small_operations
from agents.tools.attr_dict import AttrDict
from agents.tools.in_graph_env import InGraphEnv
from agents.tools.simulation import simulate

STEPS_A_CALL = 50
LONGEST_EPISODE = 100_000


@dataclasses.dataclass(frozen=True)
class Scores:
    """What episodes gave: `returns` float32 [N] and `lengths` int32 [N], in steps."""

    returns: np.ndarray
    lengths: np.ndarray

    def scalars(self) -> dict[str, float]:
        """The figures that are logged."""
        return {
            "eval/return_mean": float(np.mean(self.returns, dtype=np.float64)),
            "eval/return_std": float(np.std(self.returns, dtype=np.float64)),
            "eval/length_mean": float(np.mean(self.lengths)),
        }


class Evaluation:
    """Runs one whole episode in every environment of a batch.

    Each environment counts for exactly one episode: taking the first episodes to finish would favour short ones.
    """

    def __init__(self, envs: InGraphEnv, policy: Policy, seeds: np.ndarray):
        """Evaluates `policy` in `envs`, N of them, whose episodes begin with `seeds`, int64 [N], every time."""
        self._envs, self._seeds = envs, tf.constant(seeds, tf.int64)
        actor = _Actor(policy)

        def episodes() -> AttrDict:  # Not the whole rollout: a compiled program would have to write it to memory.
            rollout = simulate(envs, actor, STEPS_A_CALL, deterministic=True)
            return AttrDict({name: rollout[name] for name in ("ended", "episode_return", "episode_length")})

        self._simulate = tf.function(episodes, autograph=False, jit_compile=envs.compiles)

    def __call__(self, progress: Callable[[int, int], None] = lambda steps, ended: None) -> Scores:
        """Resets all environments and runs an episode in each.

        Args:
          progress: Called now and then, with the steps that every environment has made, and how many episodes ended.

        Raises:
          EnvironmentFailure: An environment failed.
        """
        returns = np.zeros(self._envs.num_envs, np.float32)
        lengths = np.zeros(self._envs.num_envs, np.int32)
        under_way = np.ones(self._envs.num_envs, bool)
        with self._envs.raising(), one_thread_for_small_operations():
            self._envs.reset(seed=self._seeds)
            for steps in range(STEPS_A_CALL, LONGEST_EPISODE + 1, STEPS_A_CALL):
                episodes = self._simulate()
                ended = episodes.ended.numpy()  # [T, N]
                for env in np.flatnonzero(under_way & ended.any(axis=0)):
                    first = int(np.argmax(ended[:, env]))
                    returns[env] = episodes.episode_return[first, env]
                    lengths[env] = episodes.episode_length[first, env]
                under_way &= ~ended.any(axis=0)
                progress(steps, int(np.sum(~under_way)))
                if not under_way.any():
                    return Scores(returns, lengths)
        returns[under_way] = self._envs.episode_return.numpy()[under_way]
        lengths[under_way] = self._envs.episode_length.numpy()[under_way]
        message = (
            f"{under_way.sum()} evaluation episodes had not ended after {LONGEST_EPISODE:,} steps and count as far as"
        )
        warnings.warn(f"{message} they came; set --max-episode-steps.", stacklevel=2)
        return Scores(returns, lengths)


class _Actor:
    """Acts like the algorithm, but remembers nothing."""

    def __init__(self, policy: Policy):
        self._policy = policy

    def begin_episode(self, mask: tf.Tensor) -> None:
        pass

    def perform(self, observ: Any, deterministic: bool) -> Any:
        return self._policy.act(observ, deterministic)[1]

    def experience(self, step: tf.Tensor, transition: AttrDict) -> None:
        pass

    def end_episode(self, mask: tf.Tensor) -> None:
        pass
