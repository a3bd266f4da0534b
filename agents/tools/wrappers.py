"""Wrappers of one environment: the names that users of batch-ppo know."""

from agents.environments.wrappers import *  # noqa: F403
from agents.environments.wrappers import __all__ as __all__
