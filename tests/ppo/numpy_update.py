"""An update of linear networks in numpy, in double precision: the oracle of tests."""

import numpy as np


class NumpyUpdate:
    """Everything that happens in an update, with gradients by finite differences.

    Attributes:
      weights: The trained arrays, by name.
      rate: The learning rate that follows the KL divergence.
      penalty: Coefficient of the KL penalty.
    """

    def __init__(self, config, weights, batch):
        self.config, self.batch = config, batch
        self.weights = {name: np.array(array, np.float64) for name, array in weights.items()}
        self.slots = {name: [0.0, 0.0] for name in weights}
        self.num_applied, self.rate = 0, config.learning_rate
        self.penalty = config.kl_init_penalty

    def policy(self, weights, rows):
        """Mean and log standard deviation of a Gaussian, or log-probabilities of actions."""
        outputs = self.batch["inputs"][rows] @ weights["policy/kernel"]
        outputs = outputs + weights.get("policy/bias", 0.0)
        if "policy/log_std" in weights:
            return outputs, weights["policy/log_std"]
        return (outputs - np.log(np.exp(outputs).sum(axis=1, keepdims=True)),)

    def log_prob(self, policy, rows):
        sample = self.batch["sample"][rows]
        if len(policy) == 1:
            return policy[0][np.arange(len(rows)), sample]
        mean, log_std = policy
        standard = (sample - mean) / np.exp(log_std)
        return np.sum(-(standard**2) / 2 - log_std - np.log(2 * np.pi) / 2, axis=1)

    def kl(self, policy, rows):
        """Mean KL divergence from the policy that acted."""
        old = [parameter[rows] for parameter in self.batch["old_parameters"]]
        if len(policy) == 1:
            return np.mean(np.sum(np.exp(old[0]) * (old[0] - policy[0]), axis=1))
        (mean, log_std), (old_mean, old_log_std) = policy, old
        squares = np.exp(2 * old_log_std) + (old_mean - mean) ** 2
        return np.mean(
            np.sum(log_std - old_log_std + squares / (2 * np.exp(2 * log_std)) - 0.5, axis=1)
        )

    def entropy(self, policy):
        if len(policy) == 1:
            return -np.mean(np.sum(np.exp(policy[0]) * policy[0], axis=1))
        return np.sum(policy[1] + np.log(2 * np.pi * np.e) / 2)

    def policy_loss(self, ratio, advantage, clip_ratio):
        objective = ratio * advantage
        if self.config.objective != "kl":
            clipped = np.clip(ratio, 1 - clip_ratio, 1 + clip_ratio)
            objective = np.minimum(objective, clipped * advantage)
        return -objective.mean()

    def value_loss(self, value, old_value, target):
        clip, error = self.config.value_clip, (value - target) ** 2
        if clip:
            near = old_value + np.clip(value - old_value, -clip, clip)
            error = np.maximum(error, (near - target) ** 2)
        return error.mean() / 2

    def loss(self, weights, rows, progress):
        """The loss of a minibatch, and its metrics by name."""
        config, names = self.config, ("inputs", "old_log_prob", "value", "advantage", "target")
        inputs, old_log_prob, old_value, advantage, target = (
            self.batch[name][rows] for name in names
        )
        factors = {"constant": 1.0, "linear": 1 - progress}
        policy = self.policy(weights, rows)
        log_ratio = self.log_prob(policy, rows) - old_log_prob
        ratio, clip_ratio = (
            np.exp(log_ratio),
            config.clip_ratio * factors[config.clip_ratio_schedule],
        )
        if config.normalize_advantages:
            advantage = (advantage - advantage.mean()) / advantage.std()
        value = inputs @ weights["value/kernel"] + weights["value/bias"]
        metrics = {
            "policy": self.policy_loss(ratio, advantage, clip_ratio),
            "value": self.value_loss(value, old_value, target),
            "entropy": self.entropy(policy),
            "approx_kl": np.mean(ratio - 1 - log_ratio),
            "clip_fraction": np.mean(np.abs(ratio - 1) > clip_ratio),
        }
        entropy_coef = config.entropy_coef * factors[config.entropy_coef_schedule]
        total = metrics["policy"] + config.value_coef * metrics["value"]
        total -= entropy_coef * metrics["entropy"]
        if config.objective != "clip":
            kl, cutoff = self.kl(policy, rows), config.kl_cutoff_factor * config.kl_target
            total += self.penalty * kl + config.kl_cutoff_coef * (kl > cutoff) * (kl - cutoff) ** 2
        return total, metrics

    def gradient(self, rows, progress):
        return numeric_gradient(
            lambda weights: self.loss(weights, rows, progress)[0], self.weights, 1e-6
        )

    def apply(self, gradient, progress):
        """Clips and applies the gradients of a minibatch."""
        config = self.config
        factor = 1 - progress if config.learning_rate_schedule == "linear" else 1.0
        self.num_applied += 1
        names = set(self.weights)
        critic = {name for name in names if name.startswith("value/")}
        if not config.critic_learning_rate:
            critic = set()
        for group, rate in [(names - critic, self.rate), (critic, config.critic_learning_rate)]:
            norm = np.sqrt(sum(np.sum(gradient[name] ** 2) for name in group))
            clipped = config.max_gradient_norm and group
            scale = min(1.0, config.max_gradient_norm / norm) if clipped else 1.0
            for name in group:
                change = self.change(name, gradient[name] * scale, rate * factor)
                self.weights[name] = self.weights[name] + change

    def change(self, name, gradient, rate):
        """SGD with momentum, or Adam."""
        first, second = self.slots[name]
        if self.config.optimizer == "sgd":
            self.slots[name][0] = self.config.sgd_momentum * first - rate * gradient
            return self.slots[name][0]
        first, second = 0.9 * first + 0.1 * gradient, 0.999 * second + 0.001 * gradient**2
        self.slots[name] = [first, second]
        rate = rate * np.sqrt(1 - 0.999**self.num_applied) / (1 - 0.9**self.num_applied)
        return -rate * first / (np.sqrt(second) + self.config.adam_epsilon)

    def adapt_rate(self, kl):
        if kl > 2 * self.config.kl_target:
            self.rate = min(self.rate, max(self.rate / 1.5, 1e-6))
        elif kl < self.config.kl_target / 2:
            self.rate = max(self.rate, min(self.rate * 1.5, 1e-2))

    def epoch(self, minibatches, progress):
        """Runs an epoch; returns the metrics of applied minibatches, and whether to continue."""
        config, kls, applied = self.config, [], []
        for rows in minibatches:
            metrics = self.loss(self.weights, rows, progress)[1]
            kls.append(metrics["approx_kl"])
            kl = kls[-1] if config.kl_stop_after == "minibatch" else np.mean(kls)
            within = not config.kl_stop or kl <= config.kl_stop
            if not within and config.kl_stop_after == "minibatch":
                break
            gradient = self.gradient(rows, progress)
            norm = np.sqrt(sum(np.sum(array**2) for array in gradient.values()))
            applied.append({**metrics, "gradient_norm": norm})
            self.apply(gradient, progress)
        if config.learning_rate_schedule == "kl":
            self.adapt_rate(np.mean(kls))
        return applied, within

    def run(self, minibatches, progress):
        """Runs minibatches [epochs, N / M, M]; returns the means of their metrics."""
        applied, within = [], True
        for epoch in minibatches:
            if within:
                metrics, within = self.epoch(epoch, progress)
                applied += metrics
        means = {name: np.mean([metrics[name] for metrics in applied]) for name in applied[0]}
        kl_target, rows = self.config.kl_target, np.arange(minibatches[0].size)
        kl = self.kl(self.policy(self.weights, rows), rows)
        self.penalty *= 1.5 if kl > 1.3 * kl_target else 1 / 1.5 if kl < 0.7 * kl_target else 1
        return {**means, "kl": kl, "epochs": len(applied) / len(minibatches[0])}


def numeric_gradient(loss, weights, size):
    """Gradients by name of a loss of weights, by central differences of a size."""
    gradient = {}
    for name, array in weights.items():
        gradient[name] = np.zeros_like(array)
        for index in np.ndindex(array.shape):
            ends = []
            for change in (size, -size):
                changed = np.array(array)
                changed[index] += change
                ends.append(loss({**weights, name: changed}))
            gradient[name][index] = (ends[0] - ends[1]) / (2 * size)
    return gradient
