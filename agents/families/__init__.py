"""Families of environments: what each needs, and how its environments are made.

Worker processes import this: it must not import TensorFlow.
"""

from agents.lazy import lazy_names

__all__ = ["check_environment", "make", "warn_of_cut_episodes"]

__getattr__ = lazy_names(__name__, {"check_environment": "check", "make": "making", "warn_of_cut_episodes": "check"})
