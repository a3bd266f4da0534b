"""Whole updates: every objective, optimizer and stop against plain numpy in double precision."""

import numpy as np
import pytest
import tensorflow as tf

from agents.attr_dict import AttrDict
from agents.learning.optimizers import make_optimizers
from agents.ppo.kl_stop import make_stop
from agents.ppo.loss import make_loss
from agents.ppo.update import Update
from agents.settings.config_file import load_config

N, M, EPOCHS = 24, 8, 3
ROWS = np.arange(N)


class Gaussian:
    """Independent normal distributions."""

    def __init__(self, mean, log_std):
        self.mean, self.log_std = mean, log_std

    def log_prob(self, sample):
        standard = (sample - self.mean) / tf.exp(self.log_std)
        return -tf.reduce_sum(standard**2 / 2 + self.log_std + np.log(2 * np.pi) / 2, axis=-1)

    def entropy(self):
        return tf.reduce_sum(
            self.log_std + tf.zeros_like(self.mean) + np.log(2 * np.pi * np.e) / 2, axis=-1
        )

    def kl(self, other):
        squares = tf.exp(2 * self.log_std) + (self.mean - other.mean) ** 2
        return tf.reduce_sum(
            other.log_std - self.log_std + squares / 2 / tf.exp(2 * other.log_std) - 0.5, axis=-1
        )


class Categorical:
    """One of some actions."""

    def __init__(self, logits):
        self.log_probs = tf.nn.log_softmax(logits)

    def log_prob(self, sample):
        return tf.gather(self.log_probs, sample, batch_dims=1)

    def entropy(self):
        return -tf.reduce_sum(tf.exp(self.log_probs) * self.log_probs, axis=-1)

    def kl(self, other):
        return tf.reduce_sum(tf.exp(self.log_probs) * (self.log_probs - other.log_probs), axis=-1)


class LinearNetwork:
    """A linear policy and a linear value function, with weights of their own."""

    def __init__(self, weights):
        self.weights = {
            name: tf.Variable(array, dtype=tf.float32) for name, array in weights.items()
        }

    def distribution(self, parameters, observ=None):
        return (
            Gaussian(*parameters) if "policy/log_std" in self.weights else Categorical(*parameters)
        )

    def evaluate(self, minibatch):
        outputs = minibatch.observ @ self.weights["policy/kernel"]
        log_std = [self.weights["policy/log_std"]] if "policy/log_std" in self.weights else []
        value = (
            tf.linalg.matvec(minibatch.observ, self.weights["value/kernel"])
            + self.weights["value/bias"]
        )
        return self.distribution([outputs, *log_std]), value

    def variables(self):
        return self.weights


class Numpy:
    """The same, and everything that happens in an update, in numpy."""

    def __init__(self, config, weights, batch):
        self.config, self.batch = config, batch
        self.weights = {name: np.array(array, np.float64) for name, array in weights.items()}
        self.slots = {name: [0.0, 0.0] for name in weights}
        self.steps, self.rate, self.penalty = 0, config.learning_rate, config.kl_init_penalty

    def policy(self, weights, rows):
        outputs = self.batch["observ"][rows] @ weights["policy/kernel"]
        if "policy/log_std" in weights:
            return outputs, weights["policy/log_std"]
        return (outputs - np.log(np.exp(outputs).sum(axis=1, keepdims=True)),)

    def log_prob(self, policy, rows):
        sample = self.batch["sample"][rows]
        if len(policy) == 1:
            return policy[0][np.arange(len(rows)), sample]
        mean, log_std = policy
        return np.sum(
            -(((sample - mean) / np.exp(log_std)) ** 2) / 2 - log_std - np.log(2 * np.pi) / 2,
            axis=1,
        )

    def kl(self, policy, rows):
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

    def loss(self, weights, rows, progress):
        config, batch = (
            self.config,
            {name: self.batch[name][rows] for name in self.batch if name != "old_parameters"},
        )
        left = {"constant": 1.0, "linear": 1 - progress}
        policy = self.policy(weights, rows)
        log_ratio = self.log_prob(policy, rows) - batch["old_log_prob"]
        advantage, ratio = batch["advantage"], np.exp(log_ratio)
        if config.normalize_advantages:
            advantage = (advantage - advantage.mean()) / advantage.std()
        clip = config.clip_ratio * left[config.clip_ratio_schedule]
        objective = ratio * advantage
        if config.objective != "kl":
            objective = np.minimum(objective, np.clip(ratio, 1 - clip, 1 + clip) * advantage)
        value = batch["observ"] @ weights["value/kernel"] + weights["value/bias"]
        error = (value - batch["target"]) ** 2
        if config.value_clip:
            near = batch["value"] + np.clip(
                value - batch["value"], -config.value_clip, config.value_clip
            )
            error = np.maximum(error, (near - batch["target"]) ** 2)
        scalars = {
            "policy": -objective.mean(),
            "value": error.mean() / 2,
            "entropy": self.entropy(policy),
            "approx_kl": np.mean(ratio - 1 - log_ratio),
            "clip_fraction": np.mean(np.abs(ratio - 1) > clip),
        }
        entropy_coef = config.entropy_coef * left[config.entropy_coef_schedule]
        total = (
            scalars["policy"]
            + config.value_coef * scalars["value"]
            - entropy_coef * scalars["entropy"]
        )
        if config.objective != "clip":
            kl, cutoff = self.kl(policy, rows), config.kl_cutoff_factor * config.kl_target
            total += self.penalty * kl + config.kl_cutoff_coef * (kl > cutoff) * (kl - cutoff) ** 2
        return total, scalars

    def gradient(self, rows, progress):
        gradient = {name: np.zeros_like(array) for name, array in self.weights.items()}
        for name, array in self.weights.items():
            for index in np.ndindex(array.shape):
                ends = []
                for change in (1e-6, -1e-6):
                    changed = np.array(array)
                    changed[index] += change
                    ends.append(self.loss({**self.weights, name: changed}, rows, progress)[0])
                gradient[name][index] = (ends[0] - ends[1]) / 2e-6
        return gradient

    def step(self, gradient, progress):
        config, left = (
            self.config,
            1 - progress if self.config.learning_rate_schedule == "linear" else 1.0,
        )
        self.steps += 1
        names = set(self.weights)
        critic = (
            {name for name in names if name.startswith("value/")}
            if config.critic_learning_rate
            else set()
        )
        for group, rate in [
            (names - critic, self.rate * left),
            (critic, config.critic_learning_rate * left),
        ]:
            norm = np.sqrt(sum(np.sum(gradient[name] ** 2) for name in group))
            shortened = (
                min(1.0, config.max_gradient_norm / norm)
                if config.max_gradient_norm and group
                else 1.0
            )
            for name in group:
                self.weights[name] = self.weights[name] + self.change(
                    name, gradient[name] * shortened, rate
                )

    def change(self, name, gradient, rate):
        first, second = self.slots[name]
        if self.config.optimizer == "sgd":
            self.slots[name][0] = self.config.sgd_momentum * first - rate * gradient
            return self.slots[name][0]
        self.slots[name] = [0.9 * first + 0.1 * gradient, 0.999 * second + 0.001 * gradient**2]
        rate = rate * np.sqrt(1 - 0.999**self.steps) / (1 - 0.9**self.steps)
        return (
            -rate * self.slots[name][0] / (np.sqrt(self.slots[name][1]) + self.config.adam_epsilon)
        )

    def update(self, minibatches, progress):
        """Runs minibatches [epochs, N / M, M]; returns means of the scalars."""
        config, done = self.config, []
        for epoch in minibatches:
            kls, near = [], True
            for rows in epoch:
                scalars = self.loss(self.weights, rows, progress)[1]
                kls.append(scalars["approx_kl"])
                kl = kls[-1] if config.kl_stop_after == "minibatch" else np.mean(kls)
                near = not config.kl_stop or kl <= config.kl_stop
                if not near and config.kl_stop_after == "minibatch":
                    break
                gradient = self.gradient(rows, progress)
                norm = np.sqrt(sum(np.sum(array**2) for array in gradient.values()))
                done.append({**scalars, "gradient_norm": norm})
                self.step(gradient, progress)
            if config.learning_rate_schedule == "kl":
                if np.mean(kls) > 2 * config.kl_target:
                    self.rate = max(self.rate / 1.5, 1e-6)
                elif np.mean(kls) < config.kl_target / 2:
                    self.rate = min(self.rate * 1.5, 1e-2)
            if not near:
                break
        report = {name: np.mean([scalars[name] for scalars in done]) for name in done[0]}
        kl = self.kl(self.policy(self.weights, ROWS), ROWS)
        self.penalty *= (
            1.5 if kl > 1.3 * config.kl_target else 1 / 1.5 if kl < 0.7 * config.kl_target else 1
        )
        return {**report, "kl": kl, "epochs": len(done) * M / N}


def make_problem(discrete=False, seed=0):
    """Weights, and a batch of a policy and a value function that were a little different."""
    random = np.random.default_rng(seed)
    weights = {
        "policy/kernel": random.normal(size=(3, 2)) / 2,
        "value/kernel": random.normal(size=3),
    }
    weights["value/bias"] = np.array(0.3)
    old_outputs = (observ := random.normal(size=(N, 3))) @ (
        weights["policy/kernel"] + 0.1 * random.normal(size=(3, 2))
    )
    if discrete:
        old_outputs -= np.log(np.exp(old_outputs).sum(axis=1, keepdims=True))
        sample = random.integers(0, 2, N)
        old_log_prob, old_parameters = old_outputs[np.arange(N), sample], (old_outputs,)
    else:
        weights["policy/log_std"] = np.array([-0.5, 0.2])
        old_log_std = np.tile(weights["policy/log_std"] + [0.05, -0.05], [N, 1])
        noise = random.normal(size=(N, 2))
        sample = old_outputs + np.exp(old_log_std) * noise
        old_log_prob = np.sum(-(noise**2) / 2 - old_log_std - np.log(2 * np.pi) / 2, axis=1)
        old_parameters = (old_outputs, old_log_std)
    batch = {
        "observ": observ,
        "sample": sample,
        "old_log_prob": old_log_prob,
        "old_parameters": old_parameters,
    }
    batch["value"] = observ @ weights["value/kernel"] + 0.3 * random.normal(size=N)
    batch["advantage"] = 0.3 + random.normal(size=N)
    batch["target"] = batch["value"] + batch["advantage"]
    return weights, batch


def as_tensor(array):
    return tf.constant(array, tf.int32 if array.dtype.kind == "i" else tf.float32)


class Learner:
    """What `PPO` ties together, on given numbers."""

    def __init__(self, weights, batch, compiles=False, **settings):
        settings = {"learning_rate": 0.01, "max_gradient_norm": 0.0, "value_coef": 0.7, **settings}
        shape = {"num_envs": 1, "rollout_length": N, "minibatch_size": M, "epochs": EPOCHS}
        self.config = load_config("default", **{**shape, **settings})
        self.network = LinearNetwork(weights)
        self.loss = make_loss(self.network, self.config)
        self.optimizers = make_optimizers(self.network.variables(), self.config)
        generator, stop = tf.random.Generator.from_seed(1), make_stop(self.config)
        self.update = Update(
            self.network.variables(),
            self.optimizers,
            self.loss,
            generator,
            self.config.epochs,
            M,
            stop,
        )
        self.minibatches = np.stack(
            [np.random.default_rng(i).permutation(N) for i in range(self.config.epochs)]
        )
        self.update.shuffled = lambda size: tf.constant(self.minibatches.reshape(-1, M), tf.int32)
        self.batch = AttrDict(tf.nest.map_structure(as_tensor, batch))
        self.compiled = tf.function(
            lambda progress: self.update(self.batch, progress),
            autograph=False,
            jit_compile=compiles,
        )

    def __call__(self, progress=0.0):
        scalars, _ = self.compiled(tf.constant(progress))
        return {tag: float(value) for tag, value in scalars.items()}


VARIANTS = {
    "clip": {},
    "clip, everything at once": {
        "value_clip": 0.2, "entropy_coef": 0.05, "max_gradient_norm": 0.3, "normalize_advantages": False
    },
    "clip, schedules": {"clip_ratio_schedule": "linear", "entropy_coef": 0.1, "entropy_coef_schedule": "linear"},
    "clip, categorical": {"discrete": True, "entropy_coef": 0.05, "max_gradient_norm": 0.3},
    "kl, beyond the cutoff": {"objective": "kl", "kl_target": 0.005},
    "kl, within the cutoff": {"objective": "kl", "kl_target": 0.5, "kl_init_penalty": 3.0, "entropy_coef": 0.05},
    "kl, categorical": {"objective": "kl", "discrete": True, "kl_cutoff_factor": 1.0, "value_clip": 0.1},
    "clip_kl": {"objective": "clip_kl", "kl_target": 0.02, "kl_cutoff_coef": 100.0, "learning_rate": 0.03},
    "sgd": {"optimizer": "sgd", "learning_rate": 0.1, "sgd_momentum": 0.8, "max_gradient_norm": 0.4},
    "sgd without momentum, separate": {"optimizer": "sgd", "sgd_momentum": 0.0, "critic_learning_rate": 0.1},
    "separate": {"critic_learning_rate": 0.03, "max_gradient_norm": 0.3},
    "stop before a step": {"kl_stop": 0.1, "learning_rate": 0.05, "learning_rate_schedule": "constant"},
    "stop after an epoch": {"kl_stop": 0.075, "kl_stop_after": "epoch", "learning_rate": 0.03},
    "kl rate": {"learning_rate_schedule": "kl", "kl_target": 0.01, "critic_learning_rate": 0.02},
    "kl rate, stopped": {"learning_rate_schedule": "kl", "kl_target": 0.02, "kl_stop": 0.1, "learning_rate": 0.03},
}  # fmt: skip


@pytest.mark.parametrize("settings", VARIANTS.values(), ids=VARIANTS)
def test_two_updates_equal_plain_numpy(settings):
    settings = dict(settings)
    weights, batch = make_problem(settings.pop("discrete", False))
    learner = Learner(weights, batch, **settings)
    reference = Numpy(learner.config, weights, batch)
    for progress in (0.25, 0.5):
        expected = reference.update(learner.minibatches.reshape(-1, N // M, M), progress)
        scalars = learner(progress)
        for name, array in reference.weights.items():
            np.testing.assert_allclose(
                learner.network.weights[name], array, atol=1e-5, err_msg=name
            )
        for name in {"policy", "value", "entropy", "approx_kl", "gradient_norm", "epochs"}:
            np.testing.assert_allclose(
                scalars[f"losses/{name}"], expected[name], rtol=1e-4, atol=1e-5, err_msg=name
            )
        clip_fraction = 0.0 if learner.config.objective == "kl" else expected["clip_fraction"]
        np.testing.assert_allclose(scalars["losses/clip_fraction"], clip_fraction, atol=1e-6)
        if learner.config.objective != "clip":
            np.testing.assert_allclose(scalars["losses/kl"], expected["kl"], rtol=1e-4)
            np.testing.assert_allclose(scalars["schedule/kl_penalty"], reference.penalty, rtol=1e-6)
        left = 1 - progress if learner.config.learning_rate_schedule == "linear" else 1.0
        np.testing.assert_allclose(
            scalars["schedule/learning_rate"], reference.rate * left, rtol=1e-5
        )


def test_an_update_that_stops_is_the_same_as_one_xla_program():
    weights, batch = make_problem()
    settings = {
        "objective": "clip_kl",
        "kl_target": 0.1,
        "kl_init_penalty": 0.1,
        "kl_cutoff_coef": 0.0,
    }
    settings.update(kl_stop=0.05, learning_rate=0.05, learning_rate_schedule="kl")
    learners = [Learner(weights, batch, compiles, **settings) for compiles in (False, True)]
    scalars = [learner(0.5) for learner in learners]
    assert 0 < scalars[0]["losses/epochs"] < EPOCHS
    for tag in scalars[0]:
        np.testing.assert_allclose(
            scalars[0][tag], scalars[1][tag], rtol=1e-4, atol=1e-6, err_msg=tag
        )
    for name in weights:
        np.testing.assert_allclose(
            *(learner.network.weights[name] for learner in learners), atol=1e-6
        )


@pytest.mark.parametrize(
    ("kl_stop", "after", "epochs"), [(1e-6, "minibatch", 0), (1e-6, "epoch", 1), (50, "epoch", 3)]
)
def test_an_update_ends_where_the_divergence_is_above_the_threshold(kl_stop, after, epochs):
    weights, batch = (
        make_problem()
    )  # The old policy was another one: there is a divergence from the beginning.
    learner = Learner(weights, batch, kl_stop=kl_stop, kl_stop_after=after)
    scalars = learner()
    assert scalars["losses/epochs"] == epochs
    (steps,) = (
        value for name, value in learner.update.variables().items() if name.endswith("iteration")
    )
    assert int(steps) == epochs * N // M
    moved = any((variable.numpy() != weights[name].astype(np.float32)).any()
                for name, variable in learner.network.weights.items())  # fmt: skip
    assert moved == (epochs > 0)
    assert np.isfinite(list(scalars.values())).all()


@pytest.mark.parametrize("after", ["minibatch", "epoch"])
def test_a_loss_that_is_not_a_number_does_not_pass_for_a_small_divergence(after):
    weights, batch = make_problem()
    batch["old_log_prob"][3] = np.nan
    assert np.isnan(Learner(weights, batch, kl_stop=50, kl_stop_after=after)()["losses/policy"])


@pytest.mark.parametrize(("kl_target", "factor"), [(1e-4, 1.5), (0.0, 1.0), (10.0, 1 / 1.5)])
def test_the_penalty_follows_the_divergence_of_the_whole_batch(kl_target, factor):
    weights, batch = make_problem()
    reference = Numpy(load_config("default"), weights, batch)
    kl_target = kl_target or reference.kl(reference.policy(weights, ROWS), ROWS)
    learner = Learner(weights, batch, objective="kl", kl_init_penalty=4.0, kl_target=kl_target)
    (penalty,) = learner.loss.variables().values()
    for update in (1, 2):
        scalars = learner.loss.after_update(learner.batch)
        np.testing.assert_allclose(penalty, 4 * factor**update, rtol=1e-6)
        np.testing.assert_allclose(scalars["schedule/kl_penalty"], penalty)


def test_what_the_clipped_objective_does_not_need_is_left_out():
    weights, batch = make_problem()
    del batch["old_parameters"]
    learner = Learner(weights, batch)
    assert learner.loss.variables() == {}
    assert set(learner()) == {
        "schedule/learning_rate", *(f"losses/{name}" for name in ("epochs", "gradient_norm", *learner.loss.scalars))
    }  # fmt: skip


def test_elements_may_have_two_dimensions_as_in_sequences():
    weights, batch = make_problem()
    learner = Learner(weights, batch, objective="clip_kl")
    flat, flat_scalars = learner.loss(learner.batch, tf.constant(0.0))
    names = ["advantage", "target", "value", "old_log_prob"]
    folded = {name: tf.reshape(learner.batch[name], [4, 6]) for name in names}
    folded["observ"] = tf.reshape(learner.batch.observ, [4, 6, 3])
    folded["sample"] = tf.reshape(learner.batch["sample"], [4, 6, 2])
    folded["old_parameters"] = tuple(
        tf.reshape(one, [4, 6, 2]) for one in learner.batch.old_parameters
    )
    total, scalars = learner.loss(AttrDict(folded), tf.constant(0.0))
    np.testing.assert_allclose(total, flat, rtol=1e-5)
    for name, value in flat_scalars.items():
        np.testing.assert_allclose(scalars[name], value, rtol=1e-5)
