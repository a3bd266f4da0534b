"""Environments in pure TensorFlow: a whole training iteration with them is one XLA program.

Nothing here imports TensorFlow until a name that needs it is used: settings are checked before that.
"""

from agents.lazy import lazy_names

__all__ = [
    "Acrobot",
    "CartPole",
    "InGraphTensorEnv",
    "MountainCarContinuous",
    "Pendulum",
    "TensorEnv",
    "make",
    "register",
]

__getattr__ = lazy_names(
    __name__,
    {
        "Acrobot": "acrobot",
        "CartPole": "cartpole",
        "InGraphTensorEnv": "in_graph_tensor_env",
        "MountainCarContinuous": "mountain_car_continuous",
        "Pendulum": "pendulum",
        "TensorEnv": "tensor_env",
        "make": "registration",
        "register": "registration",
    },
)
