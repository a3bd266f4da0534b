"""Gradient steps of soft actor-critic against plain numpy, in double precision."""

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces

from agents.learning.replay import Transitions
from tests.sac.agent import Agent
from tests.toys import RandomEnv

M, OBSERV, ACTION = 6, 2, 2
WIDE = spaces.Box(np.array([-2, 0], np.float32), np.array([2, 1], np.float32))


class NumpyUpdate:
    """An update of linear networks, with gradients by finite differences and Adam as in PyTorch."""

    def __init__(self, config, weights):
        self.config = config
        self.weights = {name: np.array(array, np.float64) for name, array in weights.items()}
        self.slots = {name: [0.0, 0.0] for name in weights}
        self.count = 0

    def act(self, weights, observ, noise):
        """Actions in [-1, 1] and their log-densities."""
        outputs = observ @ weights["network/policy/output/kernel"]
        mean, log_std = np.split(outputs + weights["network/policy/output/bias"], 2, axis=-1)
        log_std = np.clip(log_std, -20, 2)
        action = np.tanh(mean + np.exp(log_std) * noise)
        normal = -(noise**2) / 2 - log_std - np.log(2 * np.pi) / 2
        return action, np.sum(normal - np.log(1 - action**2), axis=-1)

    def values(self, weights, group, observ, action):
        joined = np.concatenate([observ, action], axis=-1)
        return np.stack(
            [
                joined @ weights[f"{group}/critic_{index}/output/kernel"][:, 0]
                + weights[f"{group}/critic_{index}/output/bias"]
                for index in range(self.config.num_critics)
            ]
        )

    def step(self, batch, noise):
        self.count += 1
        weights, alpha = self.weights, np.exp(self.weights["entropy/log_entropy_coef"])
        action, log_prob = self.act(weights, batch["next_observ"], noise[1])
        smallest = self.values(weights, "targets", batch["next_observ"], action).min(axis=0)
        target = batch["reward"] + batch["discount"] * (smallest - alpha * log_prob)

        def critic_loss(weights):
            values = self.values(weights, "critics", batch["observ"], batch["action"])
            return 0.5 * np.sum(np.mean((values - target) ** 2, axis=1))

        def policy_loss(weights):
            action, log_prob = self.act(weights, batch["observ"], noise[0])
            values = self.values(weights, "critics", batch["observ"], action)
            return np.mean(alpha * log_prob - values.min(axis=0))

        _, log_prob = self.act(weights, batch["observ"], noise[0])
        self.descend("critics/", critic_loss)
        self.descend("network/", policy_loss)
        goal = self.config.target_entropy * ACTION
        self.descend(
            "entropy/",
            lambda weights: -weights["entropy/log_entropy_coef"] * np.mean(log_prob + goal),
        )
        for name in [name for name in weights if name.startswith("targets/")]:
            online = weights[name.replace("targets/", "critics/")]
            weights[name] += self.config.target_rate * (online - weights[name])

    def descend(self, prefix, loss, step=1e-6):
        gradients = {}
        for name in [name for name in self.weights if name.startswith(prefix)]:
            gradient = np.array(np.zeros_like(self.weights[name]))
            for index in np.ndindex(gradient.shape):
                sides = []
                for sign in (1, -1):
                    changed = np.array(self.weights[name])
                    changed[index] += sign * step
                    sides.append(loss({**self.weights, name: changed}))
                gradient[index] = (sides[0] - sides[1]) / (2 * step)
            gradients[name] = gradient
        for name, gradient in gradients.items():
            first, second = self.slots[name]
            first, second = 0.9 * first + 0.1 * gradient, 0.999 * second + 0.001 * gradient**2
            self.slots[name] = [first, second]
            corrected = np.sqrt(second / (1 - 0.999**self.count)) + self.config.adam_epsilon
            rate = self.config.learning_rate
            self.weights[name] -= rate * first / (1 - 0.9**self.count) / corrected


def random_batch(random):
    return {
        "observ": random.normal(size=[M, OBSERV]),
        "action": random.uniform(-1, 1, [M, ACTION]),
        "reward": random.normal(size=M),
        "next_observ": random.normal(size=[M, OBSERV]),
        "discount": np.where(random.random(M) < 0.3, 0.0, 0.97),
    }


@pytest.mark.parametrize("num_critics", [2, 3])
def test_gradient_steps_equal_plain_numpy(num_critics):
    agent = Agent(
        [RandomEnv(action_space=WIDE)], num_critics=num_critics, learning_rate=0.01,
        target_rate=0.1, initial_entropy_coef=0.5,
    )  # fmt: skip
    variables = agent.sac.variables()
    groups = ("network/", "critics/", "targets/", "entropy/")
    names = [name for name in variables if name.startswith(groups)]
    random = np.random.default_rng(0)
    for name in names:  # Linear policies start near 0.
        variables[name].assign(0.5 * random.normal(size=variables[name].shape))
    plain = NumpyUpdate(agent.config, {name: variables[name].numpy() for name in names})
    for _ in range(4):
        batch, noise = random_batch(random), random.normal(size=[2, M, ACTION])
        plain.step(batch, noise)
        tensors = {name: tf.constant(value, tf.float32) for name, value in batch.items()}
        transitions = Transitions(**tensors, weight=tf.ones([M]))
        agent.sac.update(transitions, tf.constant(noise, tf.float32))
    for name in names:
        np.testing.assert_allclose(
            variables[name], plain.weights[name], rtol=1e-4, atol=1e-5, err_msg=name
        )


def test_elements_without_a_transition_do_not_count():
    results = []
    for weight in ([1, 1, 1, 0, 0, 0], [1, 1, 1]):
        agent = Agent([RandomEnv(action_space=WIDE)])
        random = np.random.default_rng(0)
        batch, noise = random_batch(random), random.normal(size=[2, M, ACTION])
        size = len(weight)
        tensors = {name: tf.constant(value[:size], tf.float32) for name, value in batch.items()}
        transitions = Transitions(**tensors, weight=tf.constant(weight, tf.float32))
        agent.sac.update(transitions, tf.constant(noise[:, :size], tf.float32))
        results.append({name: one.numpy() for name, one in agent.sac.variables().items()})
    for name, value in results[0].items():
        np.testing.assert_allclose(value, results[1][name], rtol=1e-5, atol=1e-6, err_msg=name)
