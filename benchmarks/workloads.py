"""What the learners of the suite `distributed` train: the work of one learner."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from benchmarks.library import make_config
from benchmarks.ppo_settings import PPOSettings

if TYPE_CHECKING:
    from agents.settings.config import Config


@dataclass(frozen=True)
class Workload:
    """A network and the work of a learner that trains it.

    Attributes:
      env: The environment.
      env_backend: Where it lives.
      num_envs: Environments of a learner.
      rollout_length: Steps of each of them in an iteration.
      minibatch_size: Steps of a learner in a minibatch.
      epochs: Passes over the rollout.
      layers: Units of the hidden layers.
      others: Further settings.
    """

    env: str
    env_backend: str
    num_envs: int
    rollout_length: int
    minibatch_size: int
    epochs: int
    layers: tuple[int, ...]
    others: Mapping[str, str | int] = field(default_factory=dict)

    @property
    def steps(self) -> int:
        """Environment steps of a learner in an iteration."""
        return self.num_envs * self.rollout_length

    @property
    def minibatches(self) -> int:
        """Minibatches of an iteration."""
        return self.epochs * self.steps // self.minibatch_size

    def config(self, num_learners: int, reduce_every: str = "minibatch") -> Config:
        """The configuration of several learners, each of which does this work."""
        settings = PPOSettings(
            epochs=self.epochs,
            minibatch_size=self.minibatch_size * num_learners,
            layers=self.layers,
        )
        return make_config(
            settings,
            env=self.env,
            env_backend=self.env_backend,
            num_envs=self.num_envs * num_learners,
            rollout_length=self.rollout_length,
            reduce_every=reduce_every,
            start_timeout=600,  # Many processes start at the same time, with few cores.
            **self.others,
        )


# By the name of the network. The images are those of the preset `breakout`, with its epochs and
# minibatches of two learners, but with shorter rollouts.
WORKLOADS: Mapping[str, Workload] = {
    "64-64": Workload("Pendulum-v1", "tf", 8, 256, 64, 10, (64, 64)),
    "256-256": Workload("Pendulum-v1", "tf", 8, 256, 64, 10, (256, 256)),
    "nature": Workload(
        env="benchmarks.image_env:BenchmarkImages-v0",
        env_backend="inline",
        num_envs=8,
        rollout_length=32,
        minibatch_size=128,
        epochs=4,
        layers=(512,),
        others={"network": "nature", "shared_torso": True, "activation": "relu"},
    ),
    # For tests.
    "tiny": Workload("Pendulum-v1", "tf", 2, 8, 8, 2, (4,)),
}
