"""Soft actor-critic."""

from agents.sac.sac import SAC

__all__ = ["SAC"]
