"""Numbers in the infos, on their way from the environments to the rollout."""

import contextlib
import functools
import sys

import cloudpickle
import numpy as np
import pytest
import tensorflow as tf
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from agents.errors import EnvironmentRaisedError
from agents.graph.in_graph_batch_env import InGraphBatchEnv
from agents.graph.mock_algorithm import MockAlgorithm
from agents.graph.simulation import simulate
from tests.graph.all_backends import make_batch
from tests.toys import CountingEnv

# Workers need not import this module, and with it TensorFlow.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

KEYS = ["speed", "lap"]
BACKENDS = ["inline", *AutoresetMode]


def race(steps, driver=None):
    """The speed is the step; infos of even steps have a lap; that of a reset has other keys."""
    if steps == 0:
        return {"speed": -100.0, "pole": True}
    lap = {} if steps % 2 else {"lap": 10 * steps}
    return {"speed": driver or np.float32(steps), "name": "Ann", **lap}


def racer(duration, **driver):
    """Constructor of an environment with these infos and episodes of `duration` steps."""
    return functools.partial(
        CountingEnv, [(duration, "terminated")], info=functools.partial(race, **driver)
    )


def make(constructors, backend, info_keys=KEYS):
    if isinstance(backend, AutoresetMode):
        return SyncVectorEnv(constructors, autoreset_mode=backend)
    return make_batch(constructors, backend, info_keys)


def expected(duration, steps):
    """Speeds and laps of an environment, [T] each."""
    count = np.arange(steps) % duration + 1
    return count, np.where(count % 2 == 0, 10 * count, np.nan)


def test_a_batch_returns_them_in_every_step_with_masks():
    with contextlib.closing(make([racer(3), racer(5)], "process")) as batch:
        batch.reset()
        for step in range(12):
            infos = batch.step(np.zeros(2, int))[-1]
            for row, duration in enumerate([3, 5]):
                speed, lap = (numbers[step] for numbers in expected(duration, 12))
                assert infos["speed"][row] == speed and infos["_speed"][row]
                np.testing.assert_equal(infos["lap"][row], lap)
                assert infos["_lap"][row] == (not np.isnan(lap))


@pytest.mark.parametrize("backend", BACKENDS)
def test_rollouts_have_those_of_their_steps(backend):
    durations, steps = [3, 5, 1], 12
    batch = make([racer(duration) for duration in durations], backend)
    with contextlib.closing(InGraphBatchEnv(batch, KEYS)) as envs:
        envs.reset()
        actor = MockAlgorithm(envs)
        extras = tf.function(lambda: simulate(envs, actor, steps))().extras
        assert extras.keys() == set(KEYS)
        for row, duration in enumerate(durations):
            speed, lap = expected(duration, steps)
            np.testing.assert_array_equal(extras["speed"][:, row], speed)
            np.testing.assert_array_equal(extras["lap"][:, row], lap)
            np.testing.assert_array_equal(envs.extras["speed"][row], speed[-1])


def test_by_default_there_are_none():
    batch = make([racer(3)], "inline", ())
    batch.reset()
    assert "speed" not in batch.step(np.zeros(1, int))[-1]
    envs = InGraphBatchEnv(batch)
    assert envs.extras == {}
    assert simulate(envs, MockAlgorithm(envs), 2).extras == {}


@pytest.mark.parametrize("backend", ["inline", *AutoresetMode])
def test_infos_of_resets_are_not_those_of_steps(backend):
    batch = make([racer(2), racer(3)], backend, ["pole"])
    with contextlib.closing(InGraphBatchEnv(batch, ["pole"])) as envs:
        envs.reset()
        np.testing.assert_array_equal(envs.extras["pole"], [np.nan, np.nan])
        actor = MockAlgorithm(envs)
        assert np.isnan(tf.function(lambda: simulate(envs, actor, 6))().extras["pole"]).all()


def test_other_keys_than_those_of_the_batch_raise():
    with pytest.raises(ValueError, match="'lap'.*created with .'speed'"):
        InGraphBatchEnv(make([racer(2)], "inline", ["speed"]), ["lap"])


@pytest.mark.parametrize("backend", ["process", AutoresetMode.SAME_STEP])
def test_values_that_are_no_numbers_raise(backend):
    batch = make([racer(3, driver="Bea")], backend, ["speed"])
    with contextlib.closing(InGraphBatchEnv(batch, ["speed"])) as envs:
        envs.reset()
        with (
            pytest.raises((TypeError, EnvironmentRaisedError), match="info_keys: 'speed' is.*Bea"),
            envs.raising(),
        ):
            envs.simulate(tf.zeros([1], tf.int64))
