"""Proximal policy optimization (Schulman et al., 2017, arXiv 1707.06347).

ppo               acting, and an update for each rollout
correlated_noise  exploration noise whose successive steps are correlated
batch             from a rollout to a batch: log-probabilities, values, advantages, targets
update            epochs of minibatches, to the gradients
loss              the loss of a minibatch; its terms are in objectives
objectives        the terms of the loss as pure functions
kl_limits         stops of updates by the KL divergence, and limits for several action dimensions
"""

from typing import TYPE_CHECKING

from agents.lazy_import import lazy_names

if TYPE_CHECKING:
    from agents.ppo.ppo import PPO as PPO

HOMES = {"PPO": "agents.ppo.ppo"}
__all__ = list(HOMES)
__getattr__, __dir__ = lazy_names(__name__, HOMES)
