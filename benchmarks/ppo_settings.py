"""The settings of PPO that all libraries share; imports the standard library only, for peers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PPOSettings:
    """The settings that all libraries share: the peers' defaults, or what they are set to.

    Observations and rewards are not normalized, since the peers leave that to wrappers.
    """

    epochs: int = 10
    minibatch_size: int = 64
    layers: tuple[int, ...] = (64, 64)
    activation: str = "tanh"
    learning_rate: float = 3e-4
    learning_rate_schedule: str = "constant"
    adam_epsilon: float = 1e-5
    discount: float = 0.99
    gae_lambda: float = 0.95
    clip_ratio: float = 0.2
    value_clip: float = 0.0
    value_coef: float = 0.5
    entropy_coef: float = 0.0
    max_gradient_norm: float = 0.5
    normalize_advantages: bool = True
    normalize_observ: bool = False
    normalize_reward: bool = False
