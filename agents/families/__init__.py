"""Families of environments: what each needs, and how its environments are made.

Worker processes import this: it must not import TensorFlow.
"""

from agents.lazy import lazy_names

__all__ = ["check_environment", "make"]

__getattr__ = lazy_names(__name__, {"check_environment": "check", "make": "making"})
