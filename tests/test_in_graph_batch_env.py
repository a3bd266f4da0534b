import contextlib
import sys

import cloudpickle
import gymnasium
import hypothesis
import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv
from hypothesis import strategies

from agents.tools import AttrDict, BatchEnv, InGraphBatchEnv, make_batch_env
from agents.tools.errors import EnvironmentRaisedError, InvalidActionError, UnsupportedSpaceError, WorkerDiedError
from agents.tools.shared_arrays import aligned_empty

# Workers need not be able to import this module.
cloudpickle.register_pickle_by_value(sys.modules[__name__])


class Counter(gymnasium.Env):
    """Observes its own step count, in every leaf; the reward is the action; ends after a known number of steps."""

    observation_space = spaces.Dict(
        image=spaces.Box(0, 255, (4, 4), np.uint8),
        number=spaces.Discrete(1000),
        pair=spaces.Tuple([spaces.Box(-1, 1e6, (), np.float64), spaces.Box(-1, 1e6, (64,), np.float32)]),
    )
    action_space = spaces.Dict(turn=spaces.Discrete(5), force=spaces.Box(-9, 9, (2,), np.float64))

    def __init__(self, duration=1000, start=0, fails_at=None):
        self.duration, self.start, self.fails_at = duration, start, fails_at

    def observe(self):
        return {
            "image": np.full((4, 4), self.count % 256, np.uint8),
            "number": self.count,
            "pair": (np.array(self.count, np.float64), np.full(64, self.count, np.float32)),
        }

    def reset(self, *, seed=None, options=None):
        self.count = self.start if seed is None else seed
        return self.observe(), {}

    def step(self, action):
        self.count += 1
        if self.count == self.fails_at:
            raise ZeroDivisionError(f"at {self.count}")
        ended = self.count - self.start == self.duration
        reward = float(action["force"].sum() + 100 * action["turn"])
        return self.observe(), reward, ended and self.start % 2 == 0, ended and self.start % 2 == 1, {}


BACKENDS = ["process", "inline", "gymnasium"]


@contextlib.contextmanager
def in_graph(constructors, backend):
    if backend == "process":
        batch = make_batch_env(constructors, processes=2)
    elif backend == "inline":
        batch = BatchEnv([constructor() for constructor in constructors], blocking=True)
    else:
        batch = SyncVectorEnv(constructors, autoreset_mode=AutoresetMode.SAME_STEP)
    envs = InGraphBatchEnv(batch)
    try:
        yield envs
    finally:
        envs.close()


def constant_action(num_envs, turn=1, force=0.25):
    return {
        "turn": tf.fill([num_envs], tf.constant(turn, tf.int64)),
        "force": tf.fill([num_envs, 2], tf.constant(force, tf.float64)),
    }


def counts(observ):
    """The count in every leaf of a batch of observations [..., B, ...], checked to be the same in all of them."""
    number = np.asarray(observ["number"])
    for leaf, modulus in ((observ["image"], 256), (observ["pair"][0], 10**6), (observ["pair"][1], 10**6)):
        leaf = np.asarray(leaf).reshape(*number.shape, -1)
        np.testing.assert_array_equal(leaf, np.broadcast_to((number % modulus)[..., None], leaf.shape))
    return number


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_is_stored_is_what_the_environment_gave(backend):
    steps, starts, durations = 100, [0, 101, 200], [1000, 7, 13]
    constructors = [lambda s=s, d=d: Counter(d, s) for s, d in zip(starts, durations, strict=True)]
    with in_graph(constructors, backend) as envs:
        before = tf.nest.map_structure(
            lambda leaf: tf.Variable(tf.zeros([steps, *leaf.shape], leaf.dtype)), envs.observ
        )

        @tf.function
        def collect():
            envs.reset()
            arrays = [
                tf.TensorArray(leaf.dtype, steps, element_shape=leaf.shape)
                for leaf in tf.nest.flatten(AttrDict(observ=envs.observ, final_observ=envs.final_observ))
            ]
            flags = [tf.TensorArray(tf.bool, steps) for _ in range(2)]
            for step in tf.range(steps):
                observ = tf.nest.map_structure(tf.identity, envs.observ)
                tf.nest.map_structure(
                    lambda variable, leaf, step=step: variable.scatter_nd_update([[step]], leaf[None]), before, observ
                )
                outcome = envs.simulate(constant_action(3))
                kept = AttrDict(
                    observ=tf.nest.map_structure(tf.identity, envs.observ), final_observ=outcome.final_observ
                )
                arrays = [array.write(step, leaf) for array, leaf in zip(arrays, tf.nest.flatten(kept), strict=True)]
                flags = [flags[0].write(step, outcome.terminated), flags[1].write(step, outcome.truncated)]
            stacked = [array.stack() for array in arrays]
            names = AttrDict(observ=envs.observ, final_observ=envs.final_observ)
            return tf.nest.pack_sequence_as(names, stacked), [flag.stack() for flag in flags]

        seen, (terminated, truncated) = collect()

    expected, after, final, ended = plain_loop(steps, starts, durations)
    np.testing.assert_array_equal(counts(before), expected)
    np.testing.assert_array_equal(counts(seen.observ), after)
    np.testing.assert_array_equal(counts(seen.final_observ)[ended], final[ended])
    odd = np.array(starts) % 2 == 1
    np.testing.assert_array_equal(terminated, ended & ~odd)
    np.testing.assert_array_equal(truncated, ended & odd)


def plain_loop(steps, starts, durations):
    """Counts before and after each step, final counts, and whether the episode ended, each [T, B]."""
    before, after, final = (np.zeros((steps, len(starts)), int) for _ in range(3))
    for env, (start, duration) in enumerate(zip(starts, durations, strict=True)):
        count = start
        for step in range(steps):
            before[step, env] = count
            count += 1
            final[step, env] = count
            count = start if count - start == duration else count
            after[step, env] = count
    return before, after, final, after != final


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_variables_hold_the_last_step(backend):
    with in_graph([Counter, lambda: Counter(2, 11)], backend) as envs:
        reset, simulate = tf.function(envs.reset), tf.function(envs.simulate)
        np.testing.assert_array_equal(counts(reset()), [0, 11])
        for _ in range(2):
            outcome = simulate(constant_action(2, 2, 0.5))
        np.testing.assert_array_equal(counts(envs.observ), [2, 11])
        assert counts(envs.final_observ)[1] == 13
        np.testing.assert_array_equal(envs.reward, [201, 201])
        np.testing.assert_array_equal(envs.terminated, [False, False])
        np.testing.assert_array_equal(envs.truncated, [False, True])
        np.testing.assert_array_equal(envs.action["turn"], [2, 2])
        np.testing.assert_array_equal(envs.action["force"], np.full((2, 2), 0.5))
        assert outcome.keys() == {"reward", "terminated", "truncated", "final_observ"}
        np.testing.assert_array_equal(outcome.reward, envs.reward)
        assert (envs.reward.dtype, envs.terminated.dtype) == (tf.float32, tf.bool)
        for leaf, space in ((envs.observ["image"], np.uint8), (envs.observ["pair"][0], np.float64)):
            assert leaf.dtype == space
        assert simulate.experimental_get_tracing_count() == 1


def test_shapes_are_static_in_the_graph():
    with in_graph([Counter, Counter], "inline") as envs:

        @tf.function
        def shapes():
            observ = envs.reset()
            outcome = envs.simulate(constant_action(2))
            for leaf, variable in zip(tf.nest.flatten(observ), tf.nest.flatten(envs.observ), strict=True):
                assert leaf.shape == variable.shape and leaf.dtype == variable.dtype
            for leaf in tf.nest.flatten(outcome):
                assert leaf.shape[0] == 2 and leaf.shape.is_fully_defined()

        shapes()


@pytest.mark.parametrize("backend", ["inline", "process", "gymnasium"])
def test_resets_by_mask_with_seeds(backend):
    with in_graph([Counter, Counter, Counter], backend) as envs:

        @tf.function
        def run(mask, seed):
            envs.reset()
            envs.simulate(constant_action(3))
            envs.simulate(constant_action(3))
            for variable in (envs.episode_return, envs.episode_length):
                variable.assign(tf.ones_like(variable))
            return envs.reset(mask, seed)

        observ = run(tf.constant([True, False, True]), tf.constant([5, 6, -1], tf.int64))
        np.testing.assert_array_equal(counts(observ), [5, 2, 0])
        np.testing.assert_array_equal(counts(envs.observ), [5, 2, 0])
        np.testing.assert_array_equal(envs.reward, [0, 100.5, 0])
        np.testing.assert_array_equal(envs.episode_return, [0, 1, 0])
        np.testing.assert_array_equal(envs.episode_length, [0, 1, 0])


def test_works_eagerly():
    with in_graph([Counter], "inline") as envs:
        envs.reset()
        envs.simulate(constant_action(1))
        observ = envs.observ["pair"][1].numpy()
        envs.simulate(constant_action(1))
        np.testing.assert_array_equal(observ, np.ones((1, 64)))
        np.testing.assert_array_equal(counts(envs.observ), [2])


class Reusing(VectorEnv):
    """Returns the same arrays in every step, aligned so that TensorFlow would take them over."""

    metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}
    single_observation_space, single_action_space = spaces.Box(0, 1e6, (16,), np.float32), spaces.Discrete(2)
    num_envs = 1

    def __init__(self):
        self.observ = aligned_empty(64).view(np.float32).reshape(1, 16)
        self.reward = aligned_empty(4).view(np.float32)
        self.ended = aligned_empty(1).view(bool)

    def reset(self, *, seed=None, options=None):
        self.observ[:] = 0
        return self.observ, {}

    def step(self, actions):
        self.observ += 1
        self.reward[:] = self.observ[0, 0]
        self.ended[:] = self.observ[0, 0] % 2 == 1
        return self.observ, self.reward, self.ended, self.ended, {"final_obs": self.observ, "_final_obs": self.ended}


def test_others_vector_environments_may_reuse_their_arrays():
    envs = InGraphBatchEnv(Reusing())

    @tf.function
    def collect():
        kept = [envs.reset()[0, 0]]
        for _ in range(4):
            outcome = envs.simulate(tf.zeros([1], tf.int64))
            kept.append(tf.stack([envs.observ[0, 0], outcome.reward[0], tf.cast(outcome.truncated[0], tf.float32)]))
        return kept

    first, *kept = collect()
    assert first == 0
    np.testing.assert_array_equal(kept, [[1, 1, 1], [2, 2, 0], [3, 3, 1], [4, 4, 0]])


def test_unsupported_spaces_are_named():
    class Talker(Counter):
        observation_space = spaces.Text(5)

    with pytest.raises(UnsupportedSpaceError, match="Text"):
        InGraphBatchEnv(SyncVectorEnv([Talker], autoreset_mode=AutoresetMode.SAME_STEP))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("eager", [False, True])
def test_an_environments_own_exception_comes_out(backend, eager):
    with in_graph([Counter, lambda: Counter(fails_at=2)], backend) as envs:
        simulate = envs.simulate if eager else tf.function(envs.simulate)
        envs.reset()
        simulate(constant_action(2))
        kind = ZeroDivisionError if backend == "gymnasium" else EnvironmentRaisedError
        with pytest.raises(kind, match="at 2") as caught, envs.raising():
            simulate(constant_action(2))
        if backend != "gymnasium":
            assert caught.value.env_index == 1
            assert "raise ZeroDivisionError" in str(caught.value)
        with envs.raising():
            envs.reset()
        np.testing.assert_array_equal(counts(envs.observ), [0, 0])


@pytest.mark.parametrize("backend", ["process", "inline"])
def test_invalid_actions_come_out_typed(backend):
    with in_graph([Counter, Counter], backend) as envs:
        simulate = tf.function(envs.simulate)
        envs.reset()
        with pytest.raises(InvalidActionError, match="environment 0"), envs.raising():
            simulate(constant_action(2, force=np.nan))
        with pytest.raises(InvalidActionError, match="environment 0"), envs.raising():
            simulate(constant_action(2, turn=5))
        simulate(constant_action(2))
        np.testing.assert_array_equal(counts(envs.observ), [1, 1])


def test_a_worker_that_dies_comes_out_typed():
    import os
    import signal

    with in_graph([Counter], "process") as envs:
        simulate = tf.function(envs.simulate)
        envs.reset()
        os.kill(envs._batch_env._hosts[0].pid, signal.SIGKILL)
        with pytest.raises(WorkerDiedError, match="SIGKILL"), envs.raising():
            simulate(constant_action(1))


@pytest.mark.parametrize("backend", ["process", "inline", "gymnasium"])
def test_after_a_rollout_that_failed_on_its_way_all_must_be_reset(backend):
    with in_graph([Counter, lambda: Counter(fails_at=3)], backend) as envs:

        @tf.function
        def three_steps():
            for _ in tf.range(3):
                envs.keep(constant_action(2), envs.unpack(envs.step(constant_action(2))))

        envs.reset()
        with pytest.raises((EnvironmentRaisedError, ZeroDivisionError)), envs.raising():
            three_steps()
        with pytest.raises(ResetNeeded), envs.raising():
            tf.function(envs.simulate)(constant_action(2))
        envs.reset()
        envs.simulate(constant_action(2))
        np.testing.assert_array_equal(counts(envs.observ), [1, 1])


class Forgetful(VectorEnv):
    """Says that it resets in the same step, and forgets to say what was observed last."""

    metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}
    num_envs = 2
    single_observation_space = observation_space = spaces.Box(0, 1, (2,))
    single_action_space = action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        assert seed is None  # Not a list of nothing: it has one generator for all.
        return np.zeros((2, 2), np.float32), {}

    def step(self, actions):
        return np.zeros((2, 2), np.float32), np.zeros(2), np.array([False, True]), np.zeros(2, bool), {}


def test_a_final_observation_that_is_missing_is_noticed():
    envs = InGraphBatchEnv(Forgetful())
    envs.reset()
    with pytest.raises(ValueError, match="Forgetful.*final_obs"), envs.raising():
        tf.function(envs.simulate)(tf.zeros([2], tf.int64))


def test_errors_of_the_graph_itself_stay_what_they_are():
    with in_graph([lambda: Counter(fails_at=1)], "inline") as envs:
        envs.reset()
        with pytest.raises(EnvironmentRaisedError), envs.raising():
            envs.simulate(constant_action(1))
        with pytest.raises(tf.errors.InvalidArgumentError), envs.raising():
            tf.debugging.assert_equal(tf.constant(1), tf.constant(2))
        with pytest.raises(KeyError), envs.raising():
            raise KeyError


BOXES = strategies.builds(
    lambda shape, dtype: spaces.Box(0, 9, shape, dtype),
    strategies.sampled_from([(), (1,), (2, 3)]),
    strategies.sampled_from([np.uint8, np.float32, np.float64]),
)
LEAVES = strategies.one_of(
    BOXES,
    strategies.just(spaces.Discrete(4, start=-1)),
    strategies.just(spaces.MultiDiscrete([3, 2])),
    strategies.just(spaces.MultiBinary(3)),
)
STRUCTURES = strategies.recursive(
    LEAVES,
    lambda children: strategies.one_of(
        strategies.dictionaries(strategies.sampled_from("zya"), children, min_size=1).map(spaces.Dict),
        strategies.lists(children, min_size=1, max_size=3).map(spaces.Tuple),
    ),
    max_leaves=4,
)


class Echo(gymnasium.Env):
    """Observes random elements and keeps them, and its actions."""

    def __init__(self, observation_space, action_space):
        self.observation_space, self.action_space = observation_space, action_space
        self.observs, self.actions = [], []

    def observe(self):
        self.observs.append(self.observation_space.sample())
        return self.observs[-1]

    def reset(self, *, seed=None, options=None):
        return self.observe(), {}

    def step(self, action):
        self.actions.append(action)
        return self.observe(), 0.0, False, False, {}


@hypothesis.given(STRUCTURES, STRUCTURES)
@hypothesis.settings(deadline=None, max_examples=15)
def test_structures_pass_unchanged_in_both_directions(observation_space, action_space):
    env = Echo(observation_space, action_space)
    envs = InGraphBatchEnv(BatchEnv([env], blocking=True))
    envs.reset()
    first = lambda structure: tf.nest.map_structure(lambda leaf: leaf[0].numpy(), structure)  # noqa: E731
    for _ in range(2):
        np.testing.assert_equal(first(envs.observ), env.observs[-1])
        action = action_space.sample()
        envs.simulate(tf.nest.map_structure(lambda leaf: tf.constant(np.asarray(leaf)[None]), action))
        np.testing.assert_equal(env.actions[-1], action)
        np.testing.assert_equal(first(envs.action), action)
