"""skrl's PPO, set up to do what ours does."""

from __future__ import annotations

import logging
import tempfile
from typing import Any

import gymnasium
import torch
from skrl.agents.torch.ppo import PPO, PPO_CFG
from skrl.envs.wrappers.torch import wrap_env
from skrl.memories.torch import RandomMemory
from skrl.models.torch import CategoricalMixin, DeterministicMixin, GaussianMixin, Model
from skrl.trainers.torch import SequentialTrainer

from benchmarks.ours import PPO_SETTINGS
from benchmarks.stepping import constructors

logging.getLogger("skrl").setLevel(logging.WARNING)


class Gaussian(GaussianMixin, Model):
    """A policy for continuous actions, with a deviation that is the same in all states."""

    def __init__(self, env: Any):
        """Makes the network."""
        Model.__init__(self, observation_space=env.observation_space, action_space=env.action_space, device="cpu")
        GaussianMixin.__init__(self)
        self.net = network(self.num_observations, self.num_actions)
        self.log_std = torch.nn.Parameter(torch.zeros(self.num_actions))

    def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[torch.Tensor, dict[str, Any]]:
        """From observations [N, O] to means [N, A]."""
        return self.net(inputs["observations"]), {"log_std": self.log_std}


class Categorical(CategoricalMixin, Model):
    """A policy for discrete actions."""

    def __init__(self, env: Any):
        """Makes the network."""
        Model.__init__(self, observation_space=env.observation_space, action_space=env.action_space, device="cpu")
        CategoricalMixin.__init__(self)
        self.net = network(self.num_observations, self.num_actions)

    def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[torch.Tensor, dict[str, Any]]:
        """From observations [N, O] to logits [N, A]."""
        return self.net(inputs["observations"]), {}


class Value(DeterministicMixin, Model):
    """A value function."""

    def __init__(self, env: Any):
        """Makes the network."""
        Model.__init__(self, observation_space=env.observation_space, action_space=env.action_space, device="cpu")
        DeterministicMixin.__init__(self)
        self.net = network(self.num_observations, 1)

    def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[torch.Tensor, dict[str, Any]]:
        """From observations [N, O] to values [N, 1]."""
        return self.net(inputs["observations"]), {}


def network(inputs: int, outputs: int) -> torch.nn.Sequential:
    """Dense layers with tanh in between."""
    sizes = [inputs, *PPO_SETTINGS["layers"]]
    hidden = [(torch.nn.Linear(*pair), torch.nn.Tanh()) for pair in zip(sizes, sizes[1:], strict=False)]
    return torch.nn.Sequential(*(layer for pair in hidden for layer in pair), torch.nn.Linear(sizes[-1], outputs))


def make_trainer(env: str, num_envs: int, rollout_length: int, **settings: Any) -> SequentialTrainer:
    """A trainer whose `train()` collects one rollout and learns from it, and which writes nothing."""
    same = {**PPO_SETTINGS, **settings}
    envs = wrap_env(gymnasium.vector.SyncVectorEnv(constructors(env, num_envs)), verbose=False)
    config = PPO_CFG(
        rollouts=rollout_length,
        learning_epochs=same["epochs"],
        mini_batches=num_envs * rollout_length // same["minibatch_size"],
        discount_factor=same["discount"],
        gae_lambda=same["gae_lambda"],
        learning_rate=same["learning_rate"],
        grad_norm_clip=same["max_gradient_norm"],
        ratio_clip=same["clip_ratio"],
        value_clip=same["value_clip"],
        entropy_loss_scale=same["entropy_coef"],
        value_loss_scale=same["value_coef"],
        time_limit_bootstrap=True,
        experiment={"directory": tempfile.gettempdir(), "write_interval": 0, "checkpoint_interval": 0},
    )
    policy = Gaussian(envs) if isinstance(envs.action_space, gymnasium.spaces.Box) else Categorical(envs)
    agent = PPO(
        models={"policy": policy, "value": Value(envs)},
        memory=RandomMemory(memory_size=rollout_length, num_envs=num_envs, device="cpu"),
        observation_space=envs.observation_space,
        action_space=envs.action_space,
        device="cpu",
        cfg=config,
    )
    silent = {"timesteps": rollout_length, "headless": True, "disable_progressbar": True}
    return SequentialTrainer(env=envs, agents=agent, cfg=silent)
