"""The algorithm that the setting `algorithm` names."""

from __future__ import annotations

from collections.abc import Callable

from agents.graph.algorithm import Algorithm
from agents.graph.in_graph_env import InGraphEnv
from agents.settings.config import Config
from agents.settings.consistency import ALGORITHMS
from agents.settings.entry_points import load_function

# Creates an algorithm for B environments to learn from.
AlgorithmFactory = Callable[[InGraphEnv, Config], Algorithm]


def find_algorithm(name: str) -> AlgorithmFactory:
    """The algorithm of that name: a key of `ALGORITHMS`, or `my_module:MyAlgorithm`.

    Raises:
      UsageError: There is no such module or class.
    """
    factory: AlgorithmFactory = load_function(ALGORITHMS.get(name, name), "algorithm")
    return factory
