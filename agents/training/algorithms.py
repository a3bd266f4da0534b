"""The algorithm that the setting `algorithm` names."""

from __future__ import annotations

from collections.abc import Callable

from agents.errors import UsageError
from agents.graph.algorithm import Algorithm
from agents.graph.in_graph_env import InGraphEnv
from agents.settings.config import Config
from agents.settings.consistency import ALGORITHMS
from agents.settings.entry_points import call, load_function

# Creates an algorithm for B environments to learn from.
AlgorithmFactory = Callable[[InGraphEnv, Config], Algorithm]


def find_algorithm(name: str) -> AlgorithmFactory:
    """The algorithm of that name: a key of `ALGORITHMS`, or `my_module:MyAlgorithm`.

    The factory of the latter raises UsageError if it fails or returns something else.

    Raises:
      UsageError: There is no such module or class.
    """
    factory: AlgorithmFactory = load_function(ALGORITHMS.get(name, name), "algorithm")
    if name in ALGORITHMS:
        return factory

    def make_algorithm(batch_env: InGraphEnv, config: Config) -> Algorithm:
        place = f"algorithm '{name}'"
        algorithm = call(factory, place, batch_env, config)
        if not isinstance(algorithm, Algorithm):
            raise UsageError(
                f"{place}: expected a subclass of agents.Algorithm, got {type(algorithm).__name__}"
            )
        return algorithm

    return make_algorithm
