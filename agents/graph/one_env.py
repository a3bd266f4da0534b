"""One environment in TensorFlow with Gymnasium's interface, for checks."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
import tensorflow as tf

from agents.graph.in_graph_env import InGraphEnv
from agents.spaces import element, flatten, leaf_spaces, pack
from agents.types import NestedArray, NestedTensor

if TYPE_CHECKING:
    from gymnasium.envs.registration import EnvSpec


class OneEnv(gymnasium.Env[Any, Any]):
    """Resets and steps a batch of one environment, compiled by XLA as in training."""

    def __init__(self, envs: InGraphEnv, spec: EnvSpec, max_episode_steps: int):
        """Wraps a batch.

        Args:
          envs: A batch of one environment, which XLA can compile.
          spec: Its registration.
          max_episode_steps: The time limit of `envs`; 0 for that of the registration.
        """
        limit = max_episode_steps or spec.max_episode_steps
        self.spec = dataclasses.replace(spec, max_episode_steps=limit)
        self.observation_space, self.action_space = envs.observation_space, envs.action_space
        self._reset = tf.function(envs.reset, jit_compile=True, autograph=False)
        self._step = tf.function(envs.simulate, jit_compile=True, autograph=False)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NestedArray, dict[str, Any]]:
        """Resets the environment; see Gymnasium."""
        super().reset(seed=seed)
        seeds = tf.constant([-1 if seed is None else seed], tf.int64)
        return self._element(self._reset(seed=seeds)), {}

    def step(self, action: NestedArray) -> tuple[NestedArray, float, bool, bool, dict[str, Any]]:
        """Steps the environment; after an episode it must be reset, see Gymnasium."""
        space = self.action_space
        leaves = [
            tf.constant(np.asarray(leaf)[None], kind.dtype)
            for leaf, kind in zip(flatten(space, action), leaf_spaces(space), strict=True)
        ]
        step = self._step(pack(space, leaves))
        terminated, truncated = bool(step.terminated[0]), bool(step.truncated[0])
        observ = step.final_observ if terminated or truncated else step.observ
        return self._element(observ), float(step.reward[0]), terminated, truncated, {}

    def _element(self, observ: NestedTensor) -> NestedArray:
        leaves = [leaf.numpy() for leaf in flatten(self.observation_space, observ)]
        return element(self.observation_space, leaves, 0)
