"""Evaluation: whole episodes, deterministic actions, frozen normalisers."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from agents.networks.recurrent import reset_state
from agents.ppo.policy import Policy
from agents.runs.tensorflow_setup import graph_executor
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
        actor = _Actor(policy, envs.num_envs)

        def episodes() -> AttrDict:  # Not the whole rollout: a compiled program would have to write it to memory.
            rollout = simulate(envs, actor, STEPS_A_CALL, deterministic=True)
            return AttrDict({name: rollout[name] for name in ("ended", "episode_return", "episode_length")})

        self._actor, self._convolves = actor, policy.network.convolves
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
        with self._envs.raising(), graph_executor(self._convolves):
            self._envs.reset(seed=self._seeds)
            self._actor.begin_episode(tf.ones([self._envs.num_envs], tf.bool))
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
    """Acts like the algorithm, but remembers nothing beyond an episode."""

    def __init__(self, policy: Policy, num_envs: int):
        self._policy = policy
        self._states = tf.nest.map_structure(
            lambda zeros: tf.Variable(zeros, trainable=False), policy.zero_states(num_envs)
        )

    def begin_episode(self, mask: tf.Tensor) -> None:
        self._remember({name: reset_state(state, mask) for name, state in self._states.items()})

    def perform(self, observ: Any, deterministic: bool) -> Any:
        states = tf.nest.map_structure(tf.convert_to_tensor, self._states)
        _, action, states = self._policy.act(observ, deterministic, states=states)
        self._remember(states)
        return action

    def experience(self, step: tf.Tensor, transition: AttrDict) -> None:
        pass

    def end_episode(self, mask: tf.Tensor) -> None:
        pass

    def _remember(self, states: Any) -> None:
        tf.nest.map_structure(lambda variable, state: variable.assign(state), self._states, states)
