"""Batched reinforcement learning in TensorFlow: environments stepped in parallel, inside the graph that learns."""

from agents.lazy import lazy_names

__version__ = "0.1.0"
__all__ = ["load_config"]
__getattr__ = lazy_names(__name__, {"load_config": "config"})
