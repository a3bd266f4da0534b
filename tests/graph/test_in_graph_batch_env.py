import functools
import sys

import cloudpickle
import hypothesis
import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from agents.errors import (
    EnvironmentRaisedError,
    InvalidActionError,
    UnsupportedSpaceError,
)
from agents.graph.in_graph_batch_env import InGraphBatchEnv
from agents.graph.step import Step
from agents.vector.batch_env import BatchEnv
from agents.workers.shared_arrays import aligned_empty
from tests.faulty_toys import CountingVectorEnv, FaultyEnv
from tests.graph.all_backends import BACKENDS, in_graph
from tests.space_strategies import STRUCTURES
from tests.toys import CountingEnv, RandomEnv, leaf_sum, read_counts

# Workers need not import this module, and with it TensorFlow.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

ACTIONS = spaces.Dict(turn=spaces.Discrete(5), force=spaces.Box(-9, 9, (2,), np.float64))


def pay(steps, action):
    return leaf_sum(action["force"]) + 100.0 * action["turn"]


Counter = functools.partial(CountingEnv, action_space=ACTIONS, reward=pay, start_at_seed=True)


def fail_at(step):
    """A counter that raises in its `step`-th step."""
    return FaultyEnv(Counter(), ZeroDivisionError(f"at {step}"), countdown=step)


def constant_action(num_envs, turn=1, force=0.25):
    return {
        "turn": tf.fill([num_envs], tf.constant(turn, tf.int64)),
        "force": tf.fill([num_envs, 2], tf.constant(force, tf.float64)),
    }


@pytest.mark.parametrize("backend", BACKENDS)
def test_variables_hold_the_last_step(backend):
    constructors = [Counter, functools.partial(Counter, [(2, "truncated")], start=11)]
    with in_graph(constructors, backend) as envs:

        @tf.function
        def simulate(action):
            result = envs.simulate(action)
            for leaf, variable in zip(
                tf.nest.flatten(result), tf.nest.flatten(envs._results()), strict=True
            ):
                assert leaf.shape == variable.shape and leaf.dtype == variable.dtype
            return result

        reset = tf.function(envs.reset)
        np.testing.assert_array_equal(read_counts(reset()), [0, 11])
        for _ in range(2):
            result = simulate(constant_action(2, 2, 0.5))
        np.testing.assert_array_equal(read_counts(envs.observ), [2, 11])
        assert read_counts(envs.final_observ)[1] == 13
        np.testing.assert_array_equal(envs.reward, [201, 201])
        np.testing.assert_array_equal(envs.terminated, [False, False])
        np.testing.assert_array_equal(envs.truncated, [False, True])
        np.testing.assert_array_equal(envs.action["turn"], [2, 2])
        np.testing.assert_array_equal(envs.action["force"], np.full((2, 2), 0.5))
        assert isinstance(result, Step) and result.extras == {}
        np.testing.assert_array_equal(result.reward, envs.reward)
        np.testing.assert_array_equal(read_counts(result.observ), [2, 11])
        assert (envs.reward.dtype, envs.terminated.dtype) == (tf.float32, tf.bool)
        for leaf, dtype in ((envs.observ["image"], np.uint8), (envs.observ["pair"][0], np.float64)):
            assert leaf.dtype == dtype
        assert simulate.experimental_get_tracing_count() == 1
        envs.reset()
        blocks = tf.stack([envs.step(constant_action(2)) for _ in range(3)])
        assert blocks.dtype == tf.uint8
        assert envs.packed_spec.is_compatible_with(blocks[0])
        results = envs.unpack(blocks)
        np.testing.assert_array_equal(read_counts(results.observ), [[1, 12], [2, 11], [3, 12]])
        np.testing.assert_array_equal(results.truncated[:, 1], [False, True, False])
        np.testing.assert_array_equal(read_counts(envs.observ), [0, 11])  # Not assigned so far.


@pytest.mark.parametrize("backend", BACKENDS)
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
        np.testing.assert_array_equal(read_counts(observ), [5, 2, 0])
        np.testing.assert_array_equal(read_counts(envs.observ), [5, 2, 0])
        np.testing.assert_array_equal(envs.reward, [0, 100.5, 0])
        np.testing.assert_array_equal(envs.episode_return, [0, 1, 0])
        np.testing.assert_array_equal(envs.episode_length, [0, 1, 0])


def aligned(shape, dtype):
    """Arrays that TensorFlow adopts without copying."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    return aligned_empty(size).view(dtype).reshape(shape)


def test_other_vector_environments_may_reuse_their_arrays():
    envs = InGraphBatchEnv(CountingVectorEnv([2], allocate=aligned))

    @tf.function
    def run():
        kept = [envs.reset()[0, 0]]
        for _ in range(4):
            result = envs.simulate(tf.zeros([1], tf.int64))
            done = tf.cast(result.terminated[0], tf.float32)
            final = tf.where(result.terminated[0], result.final_observ[0, 0], 0.0)
            kept.append(tf.stack([envs.observ[0, 0], result.reward[0], done, final]))
        return kept

    first, *kept = run()
    assert first == 0
    np.testing.assert_array_equal(kept, [[1, 1, 0, 0], [0, 2, 1, 2], [1, 1, 0, 0], [0, 2, 1, 2]])


def test_unsupported_spaces_are_named():
    constructor = functools.partial(CountingEnv, observation_space=spaces.Text(5))
    with pytest.raises(UnsupportedSpaceError, match="Text"):
        InGraphBatchEnv(SyncVectorEnv([constructor], autoreset_mode=AutoresetMode.SAME_STEP))


# Failures.


@pytest.mark.parametrize(
    ("backend", "eager"),
    [("process", False), ("inline", True), ("gymnasium", False)],
)
def test_an_exception_of_an_environment_is_raised_as_it_is(backend, eager):
    with in_graph([Counter, lambda: fail_at(2)], backend) as envs:
        simulate = envs.simulate if eager else tf.function(envs.simulate)
        envs.reset()
        simulate(constant_action(2))
        kind = ZeroDivisionError if backend == "gymnasium" else EnvironmentRaisedError
        with pytest.raises(kind, match="at 2") as caught, envs.raising():
            simulate(constant_action(2))
        if backend != "gymnasium":
            assert caught.value.env_index == 1
            assert "raise self.fault" in str(caught.value)  # The environment's traceback.
        # Errors of the graph itself are not replaced.
        with pytest.raises(tf.errors.InvalidArgumentError), envs.raising():
            tf.debugging.assert_equal(tf.constant(1), tf.constant(2))
        with envs.raising():
            envs.reset()
        np.testing.assert_array_equal(read_counts(envs.observ), [0, 0])


def test_invalid_actions_raise_a_typed_error():
    with in_graph([Counter, Counter]) as envs:
        simulate = tf.function(envs.simulate)
        envs.reset()
        with pytest.raises(InvalidActionError, match="environment 0"), envs.raising():
            simulate(constant_action(2, force=np.nan))
        with pytest.raises(InvalidActionError, match="environment 0"), envs.raising():
            simulate(constant_action(2, turn=5))
        simulate(constant_action(2))
        np.testing.assert_array_equal(read_counts(envs.observ), [1, 1])


@pytest.mark.parametrize("backend", ["inline", "gymnasium"])
def test_a_failed_rollout_or_reset_requires_a_reset_of_all_environments(backend):
    with in_graph([Counter, lambda: fail_at(3)], backend) as envs:

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
        np.testing.assert_array_equal(read_counts(envs.observ), [1, 1])
    faulty = functools.partial(FaultyEnv, fault=OSError("no wheels"), countdown=2, method="reset")
    with in_graph([Counter, lambda: faulty(Counter())], backend) as envs:
        envs.reset()
        kind = OSError if backend == "gymnasium" else EnvironmentRaisedError
        with pytest.raises(kind, match="no wheels"), envs.raising():
            tf.function(envs.reset)()


def test_missing_final_observations_raise():
    envs = InGraphBatchEnv(CountingVectorEnv([9, 1], without_final_obs=True))
    envs.reset()
    with pytest.raises(ValueError, match="CountingVectorEnv.*final_obs"), envs.raising():
        tf.function(envs.simulate)(tf.zeros([2], tf.int64))


# Spaces of all kinds.


@hypothesis.given(STRUCTURES, STRUCTURES)
@hypothesis.settings(deadline=None, max_examples=8)
def test_structures_pass_unchanged_in_both_directions(observation_space, action_space):
    env = RandomEnv(observation_space, action_space, termination=0, truncation=0)
    envs = InGraphBatchEnv(BatchEnv([env], blocking=True))
    envs.reset()

    def first(structure):
        return tf.nest.map_structure(lambda leaf: leaf[0].numpy(), structure)

    for _ in range(2):
        np.testing.assert_equal(first(envs.observ), env.observs[-1])
        action = action_space.sample()
        envs.simulate(
            tf.nest.map_structure(lambda leaf: tf.constant(np.asarray(leaf)[None]), action)
        )
        np.testing.assert_equal(env.history[-1].action, action)
        np.testing.assert_equal(first(envs.action), action)
