"""Environments in pure TensorFlow, with which a training iteration is a single XLA program.

TensorFlow is imported when a name that needs it is first used, which is after settings are checked.
"""

from typing import TYPE_CHECKING

from agents.lazy_import import lazy_names

if TYPE_CHECKING:
    from agents.tensor_envs.acrobot import Acrobot as Acrobot
    from agents.tensor_envs.cartpole import CartPole as CartPole
    from agents.tensor_envs.in_graph_tensor_env import InGraphTensorEnv as InGraphTensorEnv
    from agents.tensor_envs.mountain_car_continuous import (
        MountainCarContinuous as MountainCarContinuous,
    )
    from agents.tensor_envs.pendulum import Pendulum as Pendulum
    from agents.tensor_envs.registration import make as make
    from agents.tensor_envs.registration import register as register
    from agents.tensor_envs.tensor_env import TensorEnv as TensorEnv

HOMES = {
    "Acrobot": "agents.tensor_envs.acrobot",
    "CartPole": "agents.tensor_envs.cartpole",
    "InGraphTensorEnv": "agents.tensor_envs.in_graph_tensor_env",
    "MountainCarContinuous": "agents.tensor_envs.mountain_car_continuous",
    "Pendulum": "agents.tensor_envs.pendulum",
    "TensorEnv": "agents.tensor_envs.tensor_env",
    "make": "agents.tensor_envs.registration",
    "register": "agents.tensor_envs.registration",
}
__all__ = list(HOMES)
__getattr__, __dir__ = lazy_names(__name__, HOMES)
