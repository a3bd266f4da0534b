"""The algorithm that the setting `algorithm` names."""

from __future__ import annotations

import inspect
from collections.abc import Callable

from agents.errors import UsageError
from agents.graph.algorithm import Algorithm, can_act_in_turns
from agents.graph.in_graph_env import InGraphEnv
from agents.learning.reduction import SINGLE_LEARNER, Reducer
from agents.settings.config import ALGORITHMS, Config
from agents.settings.entry_points import call, load_function

# Creates an algorithm for B environments to learn from. One of several learners gets a `Reducer`.
AlgorithmFactory = Callable[..., Algorithm]


def find_algorithm(name: str) -> AlgorithmFactory:
    """The algorithm of that name: a key of `ALGORITHMS`, or `my_module:MyAlgorithm`.

    The factory of the latter raises UsageError if it fails or returns something else.

    Raises:
      UsageError: There is no such module or class.
    """
    factory: AlgorithmFactory = load_function(ALGORITHMS.get(name, name), "algorithm")
    if name in ALGORITHMS:
        return factory

    def make_algorithm(
        batch_env: InGraphEnv, config: Config, reducer: Reducer = SINGLE_LEARNER
    ) -> Algorithm:
        place = f"algorithm '{name}'"
        several = [reducer] if reducer.num_learners > 1 else []
        if several and "reducer" not in inspect.signature(factory).parameters:
            raise UsageError(
                f"{place}: expected a third parameter 'reducer' to train with several learners\n"
                "the algorithm combines gradients and statistics with it, see agents.learning.reduction"
            )
        algorithm = call(factory, place, batch_env, config, *several)
        if not isinstance(algorithm, Algorithm):
            raise UsageError(
                f"{place}: expected a subclass of agents.Algorithm, got {type(algorithm).__name__}"
            )
        if config.wait_for < 1 and not can_act_in_turns(algorithm):
            raise UsageError(
                f"{place}: acts in all environments at once, got wait_for {config.wait_for:g}\n"
                "use wait_for 1, or see agents.graph.algorithm.Actor.acts_in_turns"
            )
        return algorithm

    return make_algorithm
