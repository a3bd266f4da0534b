"""Proximal policy optimization (Schulman et al., 2017, arXiv 1707.06347)."""

from agents.lazy import lazy_names

__all__ = ["PPO"]
__getattr__ = lazy_names(__name__, {"PPO": "ppo"})
