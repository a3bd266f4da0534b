"""The inference side of an agent: preprocessing, networks, action distribution."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import tensorflow as tf

from agents.distributions.factory import make_action_distribution
from agents.errors import UsageError
from agents.learning.grouped_variables import grouped
from agents.learning.normalization import ObservNormalizer
from agents.learning.reduction import SINGLE_LEARNER, Reducer
from agents.policies.actor_critic import ActorCritic, States
from agents.policies.inputs import CRITIC, Inputs, NetworkInputs
from agents.seeds import Seeds
from agents.settings.config import WITHOUT_VALUES, Config
from agents.types import NestedTensor, Space


class Policy:
    """Chooses actions for any number of environments, independent of how many it was trained in.

    Attributes:
      inputs: Converts observations to network inputs.
      network: Policy and value function of normalized inputs.
      action_distribution: Distributions over the action space.
      observ_normalizer: Normalizes the vector of the inputs; acting leaves its statistics alone.
      critic_normalizer: Normalizes the vector that only the value function gets.
      generator: Samples actions; not among its `variables`.
    """

    def __init__(
        self,
        observation_space: Space,
        action_space: Space,
        config: Config,
        generator: tf.random.Generator | None = None,
    ):
        """Creates networks with initial weights, and a normalizer without data.

        Args:
          observation_space: Space of one environment's observations.
          action_space: Space of one environment's actions.
          config: The experiment's settings.
          generator: Samples actions; by default one that the configuration seeds.

        Raises:
          UnsupportedSpaceError: There is no network or action distribution for a space.
          UsageError: The network does not exist, or does not fit the observations.
        """
        seeds = Seeds(config.seed)
        self.generator = generator or tf.random.Generator.from_seed(seeds.one("algorithm"))
        keep_images = config.network != "feed_forward"
        self.inputs = Inputs(observation_space, keep_images, config.action_mask, config.critic_keys)
        self.action_distribution = make_action_distribution(action_space, config)
        self.network = ActorCritic(
            self.inputs, self.action_distribution, config, seeds.one("weights")
        )

        def normalizer(size: int, dtype: tf.DType) -> ObservNormalizer:
            enabled = config.normalize_observ and size > 0
            return ObservNormalizer(size, config.observ_clip, enabled, dtype)

        (size,) = self.inputs.shapes.get("vector", (0,))
        self.observ_normalizer = normalizer(size, self.inputs.dtype)
        self.critic_normalizer = normalizer(self.inputs.critic_size, self.inputs.critic_dtype)

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
          The samples (see `Distribution.sample`), the actions that environments take, and the next
          recurrent state.
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
        return self.action_distribution.noise(self.generator, batch_shape)

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
        """Normalizes the vectors of inputs [..., O]."""
        with tf.name_scope("normalize_observ"):
            normalized = {
                name: normalizer.normalize(inputs[name])
                for name, normalizer in self._normalizers.items()
                if name in inputs
            }
        return {**inputs, **normalized}

    def update_normalizers(self, inputs: NetworkInputs, reducer: Reducer = SINGLE_LEARNER) -> None:
        """Adds the vectors of inputs [N, O] of each learner to the normalizers' statistics.

        Nothing else updates them; an algorithm does so once for each rollout.

        Args:
          inputs: Inputs as observed, from `self.inputs.convert`, not from `preprocess`.
          reducer: Combines several learners.
        """
        for name, normalizer in self._normalizers.items():
            if name in inputs:
                normalizer.update(inputs[name], reducer)

    def assign_statistics(self, other: Policy) -> None:
        """Takes over the normalizers' statistics of a policy of the same configuration."""
        for name, normalizer in self._normalizers.items():
            variables = normalizer.variables()
            for key, value in other._normalizers[name].variables().items():
                variables[key].assign(value)

    def variables(self) -> dict[str, tf.Variable]:
        """The state that a checkpoint holds, by name."""
        return grouped(
            network=self.network.variables(),
            normalize_observ=self.observ_normalizer.variables(),
            normalize_critic_observ=self.critic_normalizer.variables(),
        )

    @property
    def _normalizers(self) -> dict[str, ObservNormalizer]:
        """By the input that they normalize."""
        return {"vector": self.observ_normalizer, f"{CRITIC}vector": self.critic_normalizer}


def check_size(
    observation_space: Space,
    action_space: Space,
    config: Config,
    max_bytes: int,
    with_critics: bool = False,
) -> None:
    """Checks that a file can hold the weights of a policy, before memory is allocated for them.

    Args:
      observation_space: See `Policy`.
      action_space: See `Policy`.
      config: See `Policy`.
      max_bytes: Size of the file.
      with_critics: Whether it also holds the critics of an algorithm that has no value function.

    Raises:
      UsageError: It is smaller than the weights.
    """
    is_own = ":" in config.network  # Its features may be fewer than anything else.
    inputs = Inputs(
        observation_space, config.network != "feed_forward", config.action_mask, config.critic_keys
    )
    parameters = make_action_distribution(action_space, config).parameters
    outputs = sum(parameter.size for parameter in parameters if not parameter.independent)

    def least(shapes: dict[str, tuple[int, ...]], layers: Sequence[int], outputs: int) -> int:
        """A lower bound of the weights from inputs to outputs."""
        # Convolutions shrink sides to an eighth and a margin, and have 32 filters or more.
        features = sum(
            shape[0]
            if name == "vector"
            else 32 * max(shape[0] // 8 - 5, 1) * max(shape[1] // 8 - 5, 1)
            for name, shape in shapes.items()
        )
        sizes = [1] if is_own else [features, *layers]
        sizes += [] if config.recurrent == "none" else [config.recurrent_units] * 2
        return sum(math.prod(pair) for pair in itertools.pairwise([*sizes, outputs]))

    weights = least(inputs.shapes, config.layers, outputs)
    if config.algorithm in WITHOUT_VALUES:
        number, outputs = config.num_critics if with_critics else 0, config.num_quantiles
    else:
        number, outputs = 0 if config.shared_torso else 1, 1
    weights += number * least(inputs.shapes, config.value_layers or config.layers, outputs)
    if 4 * weights > max_bytes:
        raise UsageError(
            f"the checkpoint does not fit the configuration: it has {max_bytes:,} bytes, the policy "
            f"needs {4 * weights:,} or more"
        )
