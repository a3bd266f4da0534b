"""PPO of skrl, with the settings of ours."""

from __future__ import annotations

import logging
import tempfile

import gymnasium
import torch
from skrl.agents.torch.ppo import PPO, PPO_CFG
from skrl.envs.wrappers.torch import Wrapper, wrap_env
from skrl.memories.torch import RandomMemory
from skrl.models.torch import CategoricalMixin, DeterministicMixin, GaussianMixin, Model
from skrl.trainers.torch import SequentialTrainer

from benchmarks.environments import constructors
from benchmarks.ppo_settings import PPOSettings

logging.getLogger("skrl").setLevel(logging.WARNING)


class Gaussian(GaussianMixin, Model):
    """A policy for continuous actions, with a state-independent standard deviation."""

    def __init__(self, env: Wrapper, layers: tuple[int, ...]):
        """Builds the network."""
        Model.__init__(
            self,
            observation_space=env.observation_space,
            action_space=env.action_space,
            device="cpu",
        )
        GaussianMixin.__init__(self)
        self.net = network(self.num_observations, layers, self.num_actions)
        self.log_std = torch.nn.Parameter(torch.zeros(self.num_actions))

    def compute(
        self, inputs: dict[str, torch.Tensor], role: str = ""
    ) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """Maps observations [N, O] to means [N, A]."""
        return self.net(inputs["observations"]), {"log_std": self.log_std}


class Categorical(CategoricalMixin, Model):
    """A policy for discrete actions."""

    def __init__(self, env: Wrapper, layers: tuple[int, ...]):
        """Builds the network."""
        Model.__init__(
            self,
            observation_space=env.observation_space,
            action_space=env.action_space,
            device="cpu",
        )
        CategoricalMixin.__init__(self)
        self.net = network(self.num_observations, layers, self.num_actions)

    def compute(
        self, inputs: dict[str, torch.Tensor], role: str = ""
    ) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """Maps observations [N, O] to logits [N, A]."""
        return self.net(inputs["observations"]), {}


class Value(DeterministicMixin, Model):
    """A value function."""

    def __init__(self, env: Wrapper, layers: tuple[int, ...]):
        """Builds the network."""
        Model.__init__(
            self,
            observation_space=env.observation_space,
            action_space=env.action_space,
            device="cpu",
        )
        DeterministicMixin.__init__(self)
        self.net = network(self.num_observations, layers, 1)

    def compute(
        self, inputs: dict[str, torch.Tensor], role: str = ""
    ) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """Maps observations [N, O] to values [N, 1]."""
        return self.net(inputs["observations"]), {}


def network(inputs: int, layers: tuple[int, ...], outputs: int) -> torch.nn.Sequential:
    """Builds dense hidden layers with tanh, and a linear output layer."""
    sizes = [inputs, *layers]
    hidden = [
        (torch.nn.Linear(*pair), torch.nn.Tanh()) for pair in zip(sizes, sizes[1:], strict=False)
    ]
    return torch.nn.Sequential(
        *(layer for pair in hidden for layer in pair), torch.nn.Linear(sizes[-1], outputs)
    )


def make_trainer(
    env: str, num_envs: int, rollout_length: int, settings: PPOSettings
) -> SequentialTrainer:
    """Makes a trainer whose `train()` collects one rollout and learns from it, without output."""
    envs = wrap_env(gymnasium.vector.SyncVectorEnv(constructors(env, num_envs)), verbose=False)
    continuous = isinstance(envs.action_space, gymnasium.spaces.Box)
    agent = PPO(
        models={
            "policy": (Gaussian if continuous else Categorical)(envs, settings.layers),
            "value": Value(envs, settings.layers),
        },
        memory=RandomMemory(memory_size=rollout_length, num_envs=num_envs, device="cpu"),
        observation_space=envs.observation_space,
        action_space=envs.action_space,
        device="cpu",
        cfg=_agent_config(num_envs, rollout_length, settings),
    )
    silent = {"timesteps": rollout_length, "headless": True, "disable_progressbar": True}
    return SequentialTrainer(env=envs, agents=agent, cfg=silent)


def _agent_config(num_envs: int, rollout_length: int, settings: PPOSettings) -> PPO_CFG:
    """Translates the settings into skrl's."""
    return PPO_CFG(
        rollouts=rollout_length,
        learning_epochs=settings.epochs,
        mini_batches=num_envs * rollout_length // settings.minibatch_size,
        discount_factor=settings.discount,
        gae_lambda=settings.gae_lambda,
        learning_rate=settings.learning_rate,
        grad_norm_clip=settings.max_gradient_norm,
        ratio_clip=settings.clip_ratio,
        value_clip=settings.value_clip,
        entropy_loss_scale=settings.entropy_coef,
        value_loss_scale=settings.value_coef,
        time_limit_bootstrap=True,
        experiment={
            "directory": tempfile.gettempdir(),
            "write_interval": 0,
            "checkpoint_interval": 0,
        },
    )
