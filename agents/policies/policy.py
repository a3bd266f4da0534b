"""The inference side of an agent: preprocessing, networks, action distribution."""

from __future__ import annotations

import tensorflow as tf

from agents.distributions.factory import make_action_distribution
from agents.learning.normalization import ObservNormalizer
from agents.learning.reduction import SINGLE_LEARNER, Reducer
from agents.policies.actor_critic import ActorCritic, States
from agents.policies.inputs import Inputs, NetworkInputs
from agents.seeds import Seeds
from agents.settings.config import Config
from agents.types import NestedTensor, Space


class Policy:
    """Chooses actions for any number of environments, independent of how many it was trained in.

    Attributes:
      inputs: Converts observations to network inputs.
      network: Policy and value function of normalized inputs.
      action_distribution: Distributions over the action space.
      observ_normalizer: Normalizes the vector of the inputs; acting leaves its statistics alone.
    """

    def __init__(
        self,
        observation_space: Space,
        action_space: Space,
        config: Config,
        generator: tf.random.Generator | None = None,
        reducer: Reducer = SINGLE_LEARNER,
    ):
        """Creates networks with initial weights, and a normalizer without data.

        Args:
          observation_space: Space of one environment's observations.
          action_space: Space of one environment's actions.
          config: The experiment's settings.
          generator: Samples actions; by default one that the configuration seeds.
          reducer: Combines the normalizer's statistics of several learners.

        Raises:
          UnsupportedSpaceError: There is no network or action distribution for a space.
          UsageError: The network does not exist, or does not fit the observations.
        """
        seeds = Seeds(config.seed)
        self._generator = generator or tf.random.Generator.from_seed(seeds.one("algorithm"))
        keep_images = config.network != "feed_forward"
        self.inputs = Inputs(observation_space, keep_images, config.action_mask)
        self.action_distribution = make_action_distribution(action_space, config)
        self.network = ActorCritic(
            self.inputs.shapes, self.action_distribution, config, seeds.one("weights")
        )
        (size,) = self.inputs.shapes.get("vector", (0,))
        enabled = config.normalize_observ and size > 0
        self.observ_normalizer = ObservNormalizer(size, config.observ_clip, enabled, reducer)

    def act(
        self,
        observ: NestedTensor,
        deterministic: bool,
        noise: tf.Tensor | None = None,
        states: States | None = None,
    ) -> tuple[NestedTensor, NestedTensor, States]:
        """Chooses actions.

        Args:
          observ: Structure of tensors [N, ...]; N may be unknown.
          deterministic: Whether to take the mode of the distributions.
          noise: Result of `noise([N])`; by default it is drawn here.
          states: Recurrent state, see `zero_states`; by default that of first steps.

        Returns:
          The samples (shaped as `agents.distributions` say), the actions that environments take,
          and the next recurrent state.
        """
        leaf = tf.nest.flatten(observ)[0]
        num_envs = tf.shape(leaf)[0] if leaf.shape[0] is None else leaf.shape[0]
        states = self.zero_states(num_envs) if states is None else states
        policy, states = self.network.policy(self.preprocess(observ), states)
        with tf.name_scope("action"):
            if deterministic:
                sample = policy.mode()  # [N, ...]
            else:
                sample = policy.sample(self.noise([num_envs]) if noise is None else noise)
            return sample, self.action_distribution.to_environment(sample), states

    def noise(self, batch_shape: list[int]) -> tf.Tensor:
        """Draws the random numbers of a batch of samples, float32 [*batch_shape, K]."""
        return self.action_distribution.noise(self._generator, batch_shape)

    def zero_states(self, num_envs: int | tf.Tensor) -> States:
        """Recurrent state at the start of episodes in `num_envs` environments."""
        states = self.network.zero_states(num_envs)
        return {name: state for name, state in states.items() if name == "policy"}

    def preprocess(self, observ: NestedTensor) -> NetworkInputs:
        """Converts observations [..., *leaf.shape] to normalized inputs [..., *shape]."""
        with tf.name_scope("inputs"):
            inputs = self.inputs.convert(observ)
        return self.normalize(inputs)

    def normalize(self, inputs: NetworkInputs) -> NetworkInputs:
        """Normalizes the vector of inputs [..., O]."""
        if "vector" not in inputs:
            return inputs
        with tf.name_scope("normalize_observ"):
            return {**inputs, "vector": self.observ_normalizer.normalize(inputs["vector"])}

    def update_normalizer(self, inputs: NetworkInputs) -> None:
        """Adds the vector of inputs [N, O] to the normalizer's statistics."""
        if "vector" in inputs:
            self.observ_normalizer.update(inputs["vector"])

    def assign(self, other: Policy) -> None:
        """Takes over the weights and statistics of a policy of the same configuration."""
        variables = self.variables()
        for name, value in other.variables().items():
            variables[name].assign(value)

    def variables(self) -> dict[str, tf.Variable]:
        """The state that a checkpoint holds, by name."""
        network, normalizer = self.network.variables(), self.observ_normalizer.variables()
        named = {f"network/{name}": network[name] for name in network}
        return {**named, **{f"normalize_observ/{name}": normalizer[name] for name in normalizer}}
