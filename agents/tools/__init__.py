"""Environments in parallel and in the graph.

Nothing here imports TensorFlow until a name that needs it is used: worker processes import this package too.
"""

from agents.lazy import lazy_names

__all__ = [
    "AttrDict",
    "BatchEnv",
    "ExternalProcess",
    "InGraphBatchEnv",
    "MockAlgorithm",
    "MockEnvironment",
    "make_batch_env",
    "simulate",
    "wrappers",
]

__getattr__ = lazy_names(
    __name__,
    {
        "AttrDict": "attr_dict",
        "BatchEnv": "batch_env",
        "ExternalProcess": "external_process",
        "InGraphBatchEnv": "in_graph_batch_env",
        "MockAlgorithm": "mock_algorithm",
        "MockEnvironment": "mock_environment",
        "make_batch_env": "batch_env",
        "simulate": "simulation",
        "wrappers": "wrappers",
    },
)
