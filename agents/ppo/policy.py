"""What acting needs, and nothing of what learning needs besides."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
from gymnasium import spaces

from agents.config import Config
from agents.distributions.make_family import make_family
from agents.networks.actor_critic import ActorCritic, States
from agents.networks.inputs import Inputs
from agents.parts.normalize import ObservNormalizer
from agents.runs.seeds import Seeds


class Policy:
    """Chooses actions for any number of environments. Its variables do not depend on how many it learned from.

    Attributes:
      network: Policy and value function of normalised inputs.
      family: Of its distributions over actions.
      normalize_observ: Normalises the vector among the inputs; acting leaves its statistics as they are.
    """

    def __init__(
        self,
        observation_space: spaces.Space,
        action_space: spaces.Space,
        config: Config,
        generator: tf.random.Generator | None = None,
    ):
        """Makes networks with initial weights, and a normaliser without data.

        Args:
          observation_space: Of one environment.
          action_space: Of one environment.
          config: See `agents.config`.
          generator: Draws actions; by default one that is seeded by the configuration.

        Raises:
          UnsupportedSpaceError: A space that there is no network or policy for.
          UsageError: A network that is not there, or does not fit the observations.
        """
        seeds = Seeds(config.seed)
        self._generator = generator or tf.random.Generator.from_seed(seeds.one("algorithm"))
        self.inputs = Inputs(observation_space, config.network != "feed_forward", config.action_mask)
        self.family = make_family(action_space, config)
        self.network = ActorCritic(self.inputs.shapes, self.family, config, seeds.one("weights"))
        (size,) = self.inputs.shapes.get("vector", (0,))
        self.normalize_observ = ObservNormalizer(size, config.observ_clip, config.normalize_observ and size > 0)

    def act(
        self, observ: Any, deterministic: bool, noise: tf.Tensor | None = None, states: States | None = None
    ) -> tuple[Any, Any, States]:
        """Chooses actions.

        Args:
          observ: Structure of tensors [N, ...].
          deterministic: Whether to take the most likely actions.
          noise: What `noise([N])` drew; by default it is drawn here.
          states: What a recurrent policy remembers, see `zero_states`; by default these are first steps of episodes.

        Returns:
          The policy's actions (`agents.distributions` say of which shape), what the environments get for them, and what
          is remembered then.
        """
        number = tf.nest.flatten(observ)[0].shape[0]
        states = self.zero_states(number) if states is None else states
        policy, states = self.network.policy(self.normalized(self.inputs(observ)), states)
        if deterministic:
            sample = policy.mode()
        else:
            sample = policy.sample(self.noise([number]) if noise is None else noise)
        return sample, self.family.to_environment(sample), states

    def noise(self, batch_shape: list[int]) -> tf.Tensor:
        """Draws what is random about a batch of actions: [*batch_shape, K]."""
        return self.family.noise(self._generator, batch_shape)

    def zero_states(self, number: int) -> States:
        """What a recurrent policy remembers at the beginning of episodes, of `number` environments."""
        return {name: state for name, state in self.network.zero_states(number).items() if name == "policy"}

    def normalized(self, inputs: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Inputs [..., ] with the vector normalised."""
        return {**inputs, "vector": self.normalize_observ(inputs["vector"])} if "vector" in inputs else inputs

    def variables(self) -> dict[str, tf.Variable]:
        """What a checkpoint holds of it, by name."""
        groups = {"network": self.network.variables(), "normalize_observ": self.normalize_observ.variables()}
        return {f"{group}/{name}": variable for group, named in groups.items() for name, variable in named.items()}
