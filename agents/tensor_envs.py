"""Environments in TensorFlow, with which a training iteration is a single XLA program: names for users."""

from typing import TYPE_CHECKING

from agents.lazy_import import lazy_names

if TYPE_CHECKING:
    from agents.graph.acrobot import Acrobot as Acrobot
    from agents.graph.cartpole import CartPole as CartPole
    from agents.graph.in_graph_tensor_env import InGraphTensorEnv as InGraphTensorEnv
    from agents.graph.mountain_car_continuous import MountainCarContinuous as MountainCarContinuous
    from agents.graph.pendulum import Pendulum as Pendulum
    from agents.graph.tensor_env import TensorEnv as TensorEnv
    from agents.graph.tensor_registration import make as make
    from agents.graph.tensor_registration import register as register

HOMES = {
    "Acrobot": "agents.graph.acrobot",
    "CartPole": "agents.graph.cartpole",
    "InGraphTensorEnv": "agents.graph.in_graph_tensor_env",
    "MountainCarContinuous": "agents.graph.mountain_car_continuous",
    "Pendulum": "agents.graph.pendulum",
    "TensorEnv": "agents.graph.tensor_env",
    "make": "agents.graph.tensor_registration",
    "register": "agents.graph.tensor_registration",
}
__all__ = list(HOMES)
__getattr__, __dir__ = lazy_names(__name__, HOMES)
