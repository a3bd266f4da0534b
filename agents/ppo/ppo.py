"""Proximal policy optimization: how it acts, what it remembers, and how it learns from that."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from agents.config import Config
from agents.networks.feed_forward import FeedForward
from agents.parts.normalize import RewardNormalizer
from agents.parts.returns import generalized_advantages, successor_values
from agents.ppo import objectives
from agents.ppo.policy import Policy
from agents.ppo.update import Loss, Update
from agents.runs.seeds import Seeds
from agents.tools.attr_dict import AttrDict
from agents.tools.in_graph_env import InGraphEnv


class PPO:
    """Proximal policy optimization (Schulman et al., 2017, arXiv 1707.06347), an algorithm for `agents.tools.simulate`.

    The loop only acts and remembers. Values, log-probabilities and statistics are computed in `train`, for the whole
    rollout at once.

    Attributes:
      policy: What acts; it can be used apart from what learns.
      steps: Variable [], int64: environment steps learned from so far.
    """

    def __init__(self, batch_env: InGraphEnv, config: Config):
        """Makes networks, normalisers, optimizer, and room for a rollout's noise and samples.

        Args:
          batch_env: The environments to learn from, B of them.
          config: See `agents.config`.

        Raises:
          UnsupportedSpaceError: A space that there is no network or policy for.
        """
        self._batch_env, self._config = batch_env, config
        self._generator = tf.random.Generator.from_seed(Seeds(config.seed).one("algorithm"))
        self.policy = Policy(batch_env.observation_space, batch_env.action_space, config, self._generator)
        self._network, self._normalize_observ = self.policy.network, self.policy.normalize_observ
        self._normalize_reward = RewardNormalizer(
            batch_env.num_envs, config.discount, config.reward_clip, config.normalize_reward
        )
        # With a name, since Keras would otherwise number the optimizers of a process, and checkpoints hold that name.
        self._optimizer = keras.optimizers.Adam(config.learning_rate, epsilon=config.adam_epsilon, name="adam")
        self._update = Update(
            self._network.variables(),
            self._optimizer,
            _Loss(self._network, config),
            self._generator,
            config.epochs,
            config.minibatch_size,
            config.max_gradient_norm,
        )
        self.steps = tf.Variable(0, dtype=tf.int64, trainable=False)
        noise_shape = [config.rollout_length, batch_env.num_envs, self._network.action_size]
        self._noise = tf.Variable(tf.zeros(noise_shape), trainable=False)  # [T, B, A]
        self._samples = tf.Variable(self._zero_samples(), trainable=False)  # [T, B, A] or [T, B]
        self._step = tf.Variable(0, trainable=False)  # Of the rollout.

    # Acting: what `simulate` calls.

    def begin_rollout(self, steps: int) -> None:
        """Draws what is random about the actions of a rollout, at once.

        Raises:
          ValueError: The rollout is not as long as the configuration says.
        """
        if steps != self._config.rollout_length:
            raise ValueError(f"PPO was made for rollouts of {self._config.rollout_length} steps, got {steps}.")
        self._noise.assign(self.policy.noise(self._noise.shape[:2]))
        self._step.assign(0)

    def begin_episode(self, mask: tf.Tensor) -> None:
        """Nothing to do: the policy keeps no state from one step to the next."""

    def perform(self, observ: Any, deterministic: bool) -> Any:
        """Chooses actions, and remembers them as they were before they were clipped."""
        step = tf.convert_to_tensor(self._step)
        sample, action = self.policy.act(observ, deterministic, tf.gather(self._noise, step))
        self._samples.scatter_update(tf.IndexedSlices(sample, step))
        self._step.assign_add(1)
        return action

    def experience(self, step: tf.Tensor, transition: AttrDict) -> None:
        """Nothing to do: `simulate` returns the whole rollout."""

    def end_episode(self, mask: tf.Tensor) -> None:
        """Nothing to do: episodes are told apart in `train`."""

    def act(self, observ: Any, deterministic: bool) -> tuple[tf.Tensor, Any]:
        """Chooses actions for any number of environments, without remembering them; see `Policy.act`."""
        return self.policy.act(observ, deterministic)

    # Learning: what happens after a rollout.

    @tf.function(jit_compile=True, autograph=False)
    def train(self, rollout: AttrDict) -> AttrDict:
        """Learns from a rollout, as one XLA program.

        Args:
          rollout: What `simulate` returned: `observ`, `reward`, `terminated`, `truncated`, `final_observ` [T, B, ...].

        Returns:
          `scalars` by tag; `arrays` for histograms by tag, any shape; and `nonfinite`: for each of `observ`,
          `final_observ`, `reward`, `action` and `loss` the first number that is NaN or infinite, and its flat index in
          [T, B], or -1 if there is none.
        """
        learning_rate = self._learning_rate()
        self._optimizer.learning_rate.assign(learning_rate)
        rollout = AttrDict(rollout, sample=tf.convert_to_tensor(self._samples))
        batch, report = self._look_back(rollout)
        scalars, gradients = self._update(batch)
        self.steps.assign_add(self._config.rollout_length * self._batch_env.num_envs)
        scalars = {f"losses/{name}": value for name, value in scalars.items()}
        scalars["losses/explained_variance"] = objectives.explained_variance(batch["value"], batch["target"])
        scalars["schedule/learning_rate"] = learning_rate
        names = self._network.variables()
        report.update({f"weights/{name}": tf.convert_to_tensor(variable) for name, variable in names.items()})
        report.update({f"gradients/{name}": value for name, value in zip(names, gradients, strict=True)})
        loss = scalars["losses/policy"] + scalars["losses/value"] + scalars["losses/gradient_norm"]
        nonfinite = {**self._watched(rollout), "loss": loss[None, None]}
        nonfinite = {name: _first_nonfinite(values) for name, values in nonfinite.items()}
        return AttrDict(scalars=scalars, arrays=report, nonfinite=nonfinite)

    def begin_anew(self) -> None:
        """Forgets what belongs to episodes under way, when all environments are reset."""
        self._normalize_reward.begin_anew()

    def variables(self) -> dict[str, tf.Variable]:
        """Everything that a checkpoint must hold, by name."""
        optimizer = {variable.path: variable.value for variable in self._optimizer.variables}
        groups = {
            "optimizer": optimizer,
            "normalize_reward": self._normalize_reward.variables(),
            "algorithm": {"steps": self.steps, "generator": self._generator.state},
        }
        others = {f"{group}/{name}": variable for group, named in groups.items() for name, variable in named.items()}
        return {**self.policy.variables(), **others}

    def _look_back(self, rollout: AttrDict) -> tuple[AttrDict, dict[str, tf.Tensor]]:
        """From a rollout, leaves [T, B, ...], to what the update needs, [T * B, ...], and to arrays for histograms."""
        network = self._network
        raw = self.policy.features(_flatten_time(rollout.observ))  # [T * B, O]
        sample = _flatten_time(rollout.sample)  # [T * B, A] or [T * B]
        # The policy that acted saw observations with the statistics of that time; the update goes on with the new ones.
        old_policy = network.policy(self._normalize_observ(raw))
        old_log_prob = old_policy.log_prob(sample)  # [T * B]
        self._normalize_observ.update(raw)
        observ = self._normalize_observ(raw)
        value = network.value(observ)  # [T * B]
        advantage = tf.reshape(self._advantages(rollout, tf.reshape(value, rollout.reward.shape)), [-1])  # [T * B]
        batch = AttrDict(
            observ=observ,
            sample=sample,
            old_log_prob=old_log_prob,
            value=value,
            advantage=advantage,
            target=advantage + value,
        )
        report = {
            "observ": raw,
            "normalized_observ": observ,
            "action": sample,
            "log_prob": old_log_prob,
            "reward": rollout.reward,
            "value": value,
            "advantage": advantage,
            "return": batch.target,
            **old_policy.statistics(),
        }
        return batch, {f"rollout/{name}": array for name, array in report.items()}

    def _advantages(self, rollout: AttrDict, value: tf.Tensor) -> tf.Tensor:
        """Advantages [T, B] of normalised rewards; `value` is that of the rollout's observations, [T, B]."""

        def value_of(observ: Any) -> tf.Tensor:
            return self._network.value(self._normalize_observ(self.policy.features(observ)))

        final_value = tf.reshape(value_of(_flatten_time(rollout.final_observ)), value.shape)  # [T, B]
        last_value = value_of(self._batch_env.observ)  # [B]
        done = rollout.terminated | rollout.truncated
        reward = self._normalize_reward(rollout.reward, done)
        next_value = successor_values(value, final_value, last_value, rollout.terminated, rollout.truncated)
        return generalized_advantages(reward, value, next_value, done, self._config.discount, self._config.gae_lambda)

    def _watched(self, rollout: AttrDict) -> dict[str, tf.Tensor]:
        """What environments and policy gave, to be looked through for numbers that are not finite: [T, B, ...] each."""
        observ, final_observ, last_observ = map(
            self.policy.features, (rollout.observ, rollout.final_observ, self._batch_env.observ)
        )
        done = rollout.terminated | rollout.truncated
        return {
            "observ": tf.concat([observ, last_observ[None]], axis=0),  # [T + 1, B, O]
            "final_observ": tf.where(done[..., None], final_observ, 0.0),  # [T, B, O]
            "reward": rollout.reward,  # [T, B]
            "action": rollout.sample,  # [T, B, A] or [T, B]
        }

    def _learning_rate(self) -> tf.Tensor:
        config = self._config
        if config.learning_rate_schedule == "constant":
            return tf.constant(config.learning_rate)
        done = tf.cast(self.steps, tf.float32) / float(config.steps)
        return config.learning_rate * tf.maximum(1.0 - done, 0.0)

    def _zero_samples(self) -> tf.Tensor:
        observ = tf.nest.map_structure(tf.zeros_like, self._batch_env.observ)
        example = self.act(observ, deterministic=True)[0]
        return tf.zeros([self._config.rollout_length, *example.shape], example.dtype)


class _Loss(Loss):
    """Policy loss, value loss and entropy bonus, weighted."""

    scalars = ("policy", "value", "entropy", "approx_kl", "clip_fraction")

    def __init__(self, network: FeedForward, config: Config):
        self._network, self._config = network, config

    def __call__(self, minibatch: AttrDict) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
        config = self._config
        policy = self._network.policy(minibatch.observ)
        log_prob = policy.log_prob(minibatch.sample)  # [M]
        value = self._network.value(minibatch.observ)  # [M]
        advantage = minibatch.advantage
        if config.normalize_advantages:
            advantage = objectives.standardize(advantage)
        policy_loss = objectives.clipped_policy_loss(log_prob, minibatch.old_log_prob, advantage, config.clip_ratio)
        value_loss = objectives.value_loss(value, minibatch.value, minibatch.target, config.value_clip)
        entropy = tf.reduce_mean(policy.entropy())
        loss = policy_loss + config.value_coef * value_loss - config.entropy_coef * entropy
        return loss, {
            "policy": policy_loss,
            "value": value_loss,
            "entropy": entropy,
            "approx_kl": objectives.approximate_kl(log_prob, minibatch.old_log_prob),
            "clip_fraction": objectives.clip_fraction(log_prob, minibatch.old_log_prob, config.clip_ratio),
        }


def _flatten_time(structure: Any) -> Any:
    """Leaves [T, B, ...] as [T * B, ...]."""
    return tf.nest.map_structure(lambda leaf: tf.reshape(leaf, [-1, *leaf.shape[2:]]), structure)


def _first_nonfinite(values: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """First NaN or infinity in values [T, B, ...], float32 [], and its flat index in [T, B] or -1, int32 []."""
    flat = tf.reshape(tf.cast(values, tf.float32), [-1])
    bad = ~tf.math.is_finite(flat)
    first = tf.argmax(bad, output_type=tf.int32)
    numbers_each = flat.shape[0] // (values.shape[0] * values.shape[1])
    return tf.gather(flat, first), tf.where(tf.reduce_any(bad), first // numbers_each, -1)
