"""Updates of linear networks on given numbers, without environments."""

import numpy as np
import tensorflow as tf

from agents.distributions.categorical import Categorical
from agents.distributions.gaussian import Gaussian
from agents.learning.reduction import SINGLE_LEARNER
from agents.ppo.batch import Batch
from agents.ppo.loss import Loss
from agents.ppo.update import Update
from agents.settings.config_file import load_config

N, M, EPOCHS = 24, 8, 3


class LinearNetwork:
    """A linear policy and a linear value function."""

    def __init__(self, weights):
        self.weights = {
            name: tf.Variable(array, dtype=tf.float32) for name, array in weights.items()
        }

    def distribution(self, parameters, inputs):
        return (
            Gaussian(*parameters) if "policy/log_std" in self.weights else Categorical(*parameters)
        )

    def evaluate(self, inputs, states, is_first):
        vector, weights = inputs["vector"], self.weights
        log_std = [weights["policy/log_std"]] if "policy/log_std" in weights else []
        value = tf.linalg.matvec(vector, weights["value/kernel"]) + weights["value/bias"]
        return self.distribution([vector @ weights["policy/kernel"], *log_std], inputs), value

    def variables(self):
        return self.weights


def make_problem(discrete=False, seed=0):
    """Weights, and a batch [N] of a slightly different policy and value function, in numpy."""
    random = np.random.default_rng(seed)
    weights = {
        "policy/kernel": random.normal(size=(3, 2)) / 2,
        "value/kernel": random.normal(size=3),
    }
    weights["value/bias"] = np.array(0.3)
    inputs = random.normal(size=(N, 3))
    old_outputs = inputs @ (weights["policy/kernel"] + 0.1 * random.normal(size=(3, 2)))
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
    value = inputs @ weights["value/kernel"] + 0.3 * random.normal(size=N)
    advantage = 0.3 + random.normal(size=N)
    return weights, {
        "inputs": inputs,
        "sample": sample,
        "old_log_prob": old_log_prob,
        "old_parameters": old_parameters,
        "value": value,
        "advantage": advantage,
        "target": value + advantage,
    }


def as_batch(arrays):
    """A `Batch` of single steps from arrays by name."""
    tensors = tf.nest.map_structure(
        lambda array: tf.constant(array, tf.int32 if array.dtype.kind == "i" else tf.float32),
        arrays,
    )
    return Batch(**{**tensors, "inputs": {"vector": tensors["inputs"]}}, is_first=(), states={})


class Learner:
    """Loss, optimizers and update of a linear network, as `PPO` combines them.

    Attributes:
      minibatches: Indices [epochs, N] that take the place of the shuffled ones.
    """

    def __init__(
        self, weights, arrays, reducer=SINGLE_LEARNER, jit_compile=False, compiles=True, **settings
    ):
        """Creates the parts; `run` is a graph, or eager for `jit_compile=None`."""
        size = len(arrays["advantage"])
        minibatch_size = M * size // N
        number = reducer.num_learners
        sizes = {"num_envs": number, "rollout_length": size}
        sizes["minibatch_size"] = minibatch_size * number
        settings = {"learning_rate": 0.01, "max_gradient_norm": 0.0, "value_coef": 0.7, **settings}
        self.config = load_config("default", **{**sizes, "epochs": EPOCHS, **settings})
        self.network, self.batch = LinearNetwork(weights), as_batch(arrays)
        self.loss = Loss(self.network, self.config, reducer)
        self.update = Update(
            self.network.variables(),
            self.loss,
            self.config,
            tf.random.Generator.from_seed(1),
            reducer,
            compiles,
        )
        self.minibatches = np.stack(
            [np.random.default_rng(i).permutation(size) for i in range(self.config.epochs)]
        )
        self.update.shuffle = lambda num_elements: tf.constant(
            self.minibatches.reshape(-1, minibatch_size), tf.int32
        )
        self._run = lambda progress: self.update.run(self.batch, progress)
        if jit_compile is not None:
            self._run = tf.function(self._run, autograph=False, jit_compile=jit_compile)

    def run(self, progress=0.0):
        """The metrics of one update."""
        metrics, _ = self._run(tf.constant(progress))
        return {tag: float(value) for tag, value in metrics.items()}
