"""Environments in parallel and in the graph: the names that users of batch-ppo know.

TensorFlow is imported when a name that needs it is used, not before.
"""

from typing import TYPE_CHECKING

from agents.lazy_import import lazy_names

if TYPE_CHECKING:
    from agents.attr_dict import AttrDict as AttrDict
    from agents.environments import wrappers as wrappers
    from agents.environments.mock_environment import MockEnvironment as MockEnvironment
    from agents.graph.in_graph_batch_env import InGraphBatchEnv as InGraphBatchEnv
    from agents.graph.mock_algorithm import MockAlgorithm as MockAlgorithm
    from agents.graph.simulation import simulate as simulate
    from agents.vector.batch_env import BatchEnv as BatchEnv
    from agents.vector.process_batch import make_batch_env as make_batch_env
    from agents.workers.external_process import ExternalProcess as ExternalProcess

HOMES = {
    "AttrDict": "agents.attr_dict",
    "BatchEnv": "agents.vector.batch_env",
    "ExternalProcess": "agents.workers.external_process",
    "InGraphBatchEnv": "agents.graph.in_graph_batch_env",
    "MockAlgorithm": "agents.graph.mock_algorithm",
    "MockEnvironment": "agents.environments.mock_environment",
    "make_batch_env": "agents.vector.process_batch",
    "simulate": "agents.graph.simulation",
    "wrappers": "agents.environments",
}
__all__ = list(HOMES)
__getattr__, __dir__ = lazy_names(__name__, HOMES)
