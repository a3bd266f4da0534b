"""Toys in TensorFlow for tests: environments in the graph, and learners that train together."""

import threading

import numpy as np
import tensorflow as tf
from gymnasium import spaces

from agents.graph.in_graph_env import InGraphEnv
from agents.graph.step import Step
from agents.learning.reduction import Reducer
from agents.tensor_envs import TensorEnv
from tests.toys import COUNTS, FORCE, TWO_CHOICES, UNBOUNDED


def leaf_counts(count):
    """Observations of the space `COUNTS`, structure [B, ...], for counts, int64 [B]."""
    image = tf.tile(tf.cast(count, tf.uint8)[:, None, None], [1, 4, 4])
    wide = tf.tile(tf.cast(count, tf.float32)[:, None], [1, 64])
    return {"image": image, "number": count, "pair": (tf.cast(count, tf.float64), wide)}


class CountingTensorEnv(TensorEnv):
    """Observes its step count in every leaf; terminates after a known number of steps."""

    observation_space = COUNTS

    def __init__(self, durations, action_space=TWO_CHOICES, reward=None):
        """Initializes the environment.

        Args:
          durations: Length of the episodes of each environment.
          action_space: Any space.
          reward: Function of the actions [B, ...] that returns rewards [B]; by default they are 1.
        """
        self.action_space = action_space
        self._durations = tf.constant(durations, tf.int64)
        self._reward = reward or (lambda action: tf.ones(self._durations.shape))

    def initial_state(self, uniform):
        return {"count": tf.zeros_like(self._durations)}

    def step(self, state, action, uniform):
        count = state["count"] + 1
        return {"count": count}, self._reward(action), count == self._durations

    def observe(self, state):
        return leaf_counts(state["count"])


def draw(space, uniform):
    """Random elements of a space, structure [B, ...]; those of a Box are between -2 and 2."""
    if isinstance(space, spaces.Dict):
        return {key: draw(child, uniform) for key, child in space.items()}
    if isinstance(space, spaces.Discrete):
        return tf.cast(tf.floor(uniform(0, int(space.n))), tf.int64)
    return tf.cast(uniform(-2, 2, space.shape), tf.as_dtype(space.dtype))


class RandomTensorEnv(TensorEnv):
    """Random observations, and rewards around the action; episodes have random lengths.

    Attributes:
      fault: Reward of one step in place of the random one, NaN for example; a variable, which can
        change without another compilation.
    """

    def __init__(
        self,
        durations=(1, 8),
        fault_at=0,
        fault_row=0,
        observation_space=UNBOUNDED,
        action_space=FORCE,
    ):
        """Initializes the environment.

        Args:
          durations: Smallest and largest length of episodes, which terminate.
          fault_at: Step of every episode that returns the fault; 0 for none.
          fault_row: The environment that does.
          observation_space: A Box, Discrete, or dictionary of them.
          action_space: A Box or Discrete.
        """
        self.observation_space, self.action_space = observation_space, action_space
        self.fault = tf.Variable(np.nan)
        self._durations, self._fault_at, self._fault_row = durations, fault_at, fault_row

    def initial_state(self, uniform):
        low, high = self._durations
        left = tf.floor(uniform(low, high + 1))
        observ = draw(self.observation_space, uniform)
        return {"observ": observ, "left": left, "steps": tf.zeros_like(left)}

    def step(self, state, action, uniform):
        after = {
            "observ": draw(self.observation_space, uniform),
            "left": state["left"] - 1,
            "steps": state["steps"] + 1,
        }
        rows = tf.range(action.shape[0])
        faulty = (after["steps"] == self._fault_at) & (rows == self._fault_row)
        force = tf.reshape(tf.cast(action, tf.float32), [action.shape[0], -1])[:, 0]  # [B]
        reward = force + tf.cast(uniform(-1, 1), tf.float32)
        return after, tf.where(faulty, self.fault, reward), after["left"] == 0

    def observe(self, state):
        return state["observ"]


class CountingInGraphEnv(InGraphEnv):
    """The least that a batch of environments in the graph implements; see `CountingTensorEnv`.

    Rewards are the counts; a seed is the count that a reset starts at.
    """

    def __init__(self, durations, info_keys=()):
        """Creates the variables; `durations` are the lengths of the environments' episodes."""
        super().__init__(len(durations), COUNTS, TWO_CHOICES, info_keys)
        self._durations = tf.constant(durations, tf.int64)
        self._count = tf.Variable(tf.zeros_like(self._durations), trainable=False)

    def step(self, action):
        count = self._count + 1
        done = count == self._durations
        self._count.assign(tf.where(done, tf.zeros_like(count), count))
        return Step(
            observ=leaf_counts(tf.convert_to_tensor(self._count)),
            reward=tf.cast(count, tf.float32),
            terminated=done,
            truncated=tf.zeros_like(done),
            final_observ=leaf_counts(count),
            extras={key: 10 * tf.cast(count, tf.float32) for key in self.extras},
        )

    def _reset(self, mask, seed):
        self._count.assign(tf.where(mask, tf.maximum(seed, 0), self._count))
        self._assign(self.observ, leaf_counts(tf.convert_to_tensor(self._count)))
        self._clear(mask)
        return tf.nest.map_structure(tf.convert_to_tensor, self.observ)


class LearnerGroup:
    """Learners in threads of this process, whose reducers exchange tensors.

    They run eagerly, also the graphs: threads of graphs might all wait for the other learners.

    Attributes:
      reducers: A reducer for each learner.
    """

    def __init__(self, num_learners=2):
        """Creates the reducers."""
        self.reducers = [GroupReducer(self, rank, num_learners) for rank in range(num_learners)]
        self._tensors = [None] * num_learners
        self._barrier = threading.Barrier(num_learners, timeout=60)

    def run(self, *functions):
        """Calls a function for each learner, all at the same time; returns their results."""
        results, errors = [None] * len(functions), []

        def run(index, function):
            try:
                results[index] = function()
            except BaseException as error:
                errors.append(error)
                self._barrier.abort()

        threads = [
            threading.Thread(target=run, args=arguments) for arguments in enumerate(functions)
        ]
        tf.config.run_functions_eagerly(True)
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        finally:
            tf.config.run_functions_eagerly(False)
        if errors:
            raise errors[0]
        return results

    def exchange(self, rank, tensors):
        """Returns the tensors of all learners, once each of them has called this."""
        self._tensors[rank] = tensors
        self._barrier.wait()
        tensors = list(self._tensors)
        self._barrier.wait()
        return tensors


class GroupReducer(Reducer):
    """The reducer of one of the learners of a `LearnerGroup`."""

    compiles = False

    def __init__(self, group, rank, num_learners):
        """Initializes the reducer of learner `rank`."""
        self._group, self.rank, self.num_learners = group, rank, num_learners

    def mean(self, tensors):
        return self._join(tensors, lambda *each: tf.add_n(each) / len(each))

    def sum(self, tensors):
        return self._join(tensors, lambda *each: tf.add_n(each))

    def gather(self, tensors, axis=0):
        return self._join(tensors, lambda *each: tf.concat(each, axis))

    def copy_from_chief(self, variables):
        values = {name: variable.numpy() for name, variable in variables.items()}
        for name, value in self._group.exchange(self.rank, values)[0].items():
            variables[name].assign(value)

    def _join(self, tensors, function):
        return tf.nest.map_structure(function, *self._group.exchange(self.rank, tensors))


class PlainGraphReducer(Reducer):
    """The identity, in an operation that XLA can't compile, as communication would be."""

    compiles = False

    def mean(self, tensors):
        return tf.nest.map_structure(self._identity, tensors)

    def sum(self, tensors):
        return tf.nest.map_structure(self._identity, tensors)

    def gather(self, tensors, axis=0):
        return tf.nest.map_structure(self._identity, tensors)

    def _identity(self, tensor):
        result = tf.numpy_function(lambda array: array, [tensor], tensor.dtype)
        return tf.ensure_shape(result, tensor.shape)
