"""REINFORCE with a learned baseline, trained by the library's own training loop.

    cd examples
    python -m agents.scripts.train --logdir=logdir --config=reinforce.yaml

Williams, 1992; Sutton and Barto, 2018, section 13.4. For feed-forward policies of Discrete actions.
"""

import tensorflow as tf

from agents import Algorithm
from agents.errors import UsageError
from agents.graph.algorithm import Report
from agents.graph.in_graph_env import InGraphEnv
from agents.graph.step import Rollout, Step
from agents.learning.nonfinite import find_nonfinite
from agents.learning.optimizers import make_optimizers
from agents.learning.returns import generalized_advantages, standardize, successor_values
from agents.policies.policy import Policy
from agents.settings.config import Config


class Reinforce(Algorithm):
    """One gradient step per rollout, weighted by Monte Carlo advantages."""

    def __init__(self, batch_env: InGraphEnv, config: Config):
        """Creates the policy, with the value function as baseline, and an optimizer."""
        if config.recurrent != "none":
            raise UsageError("recurrent: Reinforce has feed-forward policies; use recurrent none")
        self._batch_env, self._config = batch_env, config
        spaces = batch_env.observation_space, batch_env.action_space
        self.policy = Policy(*spaces, config)
        self.steps = tf.Variable(0, dtype=tf.int64, trainable=False)
        self._weights = self.policy.network.trainable_variables()
        [self._optimizer] = make_optimizers(self._weights, config)
        samples = tf.zeros([config.rollout_length, batch_env.num_envs], tf.int32)  # [T, B]
        self._samples = tf.Variable(samples, trainable=False)

    def perform(self, observ: tf.Tensor, deterministic: bool) -> tf.Tensor:
        """Samples actions."""
        self._sample, action, _ = self.policy.act(observ, deterministic)  # [B]
        return action

    def experience(self, step: tf.Tensor, transition: Step) -> None:
        """Stores the samples of a step."""
        self._samples.scatter_update(tf.IndexedSlices(self._sample, step))

    def train(self, rollout: Rollout) -> Report:
        """Learns from a rollout [T, B, ...]."""
        network, samples = self.policy.network, tf.convert_to_tensor(self._samples)  # [T, B]
        inputs = self.policy.preprocess(rollout.observ)  # [T, B, O]
        with tf.GradientTape() as tape:
            parameters, _ = network.policies(inputs, {}, rollout.done)
            log_prob = network.distribution(parameters, inputs).log_prob(samples)  # [T, B]
            value, _ = network.values(inputs, {}, rollout.done)  # [T, B]
            advantage = tf.stop_gradient(self._advantage(rollout, value))  # [T, B]
            target = tf.stop_gradient(advantage + value)  # [T, B]
            policy_loss = -tf.reduce_mean(log_prob * standardize(advantage))
            value_loss = tf.reduce_mean((value - target) ** 2)
            loss = policy_loss + 0.5 * value_loss
        progress = tf.cast(self.steps, tf.float32) / float(self._config.steps)
        norm = self._optimizer.apply(tape.gradient(loss, self._weights), progress)
        self.steps.assign_add(tf.size(rollout.reward, tf.int64))
        scalars = {"losses/policy": policy_loss, "losses/value": value_loss}
        nonfinite = find_nonfinite(rollout.reward, rollout.done, samples, loss, gradient=norm)
        return Report(scalars, {"rollout/advantage": advantage}, nonfinite)

    def variables(self) -> dict[str, tf.Variable]:
        """The state that a checkpoint holds."""
        learned = {**self.policy.variables(), **self._optimizer.variables()}
        return {**learned, "steps": self.steps}

    def _advantage(self, rollout: Rollout, value: tf.Tensor) -> tf.Tensor:
        network, preprocess = self.policy.network, self.policy.preprocess
        last_value = network.value(preprocess(self._batch_env.observ), {})  # [B]
        final_value, _ = network.values(preprocess(rollout.final_observ), {}, rollout.done)
        ends = rollout.terminated, rollout.truncated
        next_value = successor_values(value, final_value, last_value, *ends)  # [T, B]
        steps = rollout.reward, value, next_value, rollout.done
        return generalized_advantages(*steps, self._config.discount, gae_lambda=1.0)
