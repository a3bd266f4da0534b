"""Proximal policy optimization (Schulman et al., 2017, arXiv 1707.06347)."""

from typing import TYPE_CHECKING

from agents.lazy_import import lazy_names

if TYPE_CHECKING:
    from agents.ppo.ppo import PPO as PPO

HOMES = {"PPO": "agents.ppo.ppo"}
__all__ = list(HOMES)
__getattr__, __dir__ = lazy_names(__name__, HOMES)
