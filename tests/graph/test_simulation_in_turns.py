"""Rollouts in turns equal those in which environments make each step together, bit for bit."""

import contextlib
import functools
import os
import random
import signal
import sys
import threading
import time

import cloudpickle
import gymnasium
import numpy as np
import pytest
import tensorflow as tf
from gymnasium.error import ResetNeeded

from agents import stop_signals
from agents.errors import EnvironmentRaisedError, WorkerDiedError, WorkerTimeoutError
from agents.graph.algorithm import Actor, can_act_in_turns
from agents.graph.in_graph_batch_env import InGraphBatchEnv
from agents.graph.mock_algorithm import MockAlgorithm
from agents.graph.simulation import simulate
from agents.graph.step import Turn
from agents.ppo.ppo import PPO
from agents.settings.config_file import load_config
from agents.vector.process_batch import make_batch_env
from tests.faulty_toys import CommandedEnv, FaultyEnv
from tests.toys import MIXED_ACTIONS, MIXED_OBSERVATIONS, BanditEnv, CueEnv, RandomEnv

# Workers need not be able to import this module.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

T, B = 20, 4


class Uneven(gymnasium.Wrapper):
    """Steps take up to two milliseconds, now and then ten, each time other ones."""

    def step(self, action):
        time.sleep(0.01 if random.random() < 0.1 else 0.002 * random.random())
        return self.env.step(action)


def count_info(steps):
    return {} if steps == 2 else {"steps": steps}


def make_random(observation_space=None, action_space=None, fault=None):
    given = {"observation_space": observation_space, "action_space": action_space}
    given = {name: space for name, space in given.items() if space is not None}
    return Uneven(FaultyEnv(RandomEnv(**given, info=count_info), *(fault or ())))


class Mean(Actor):
    """Acts by its row, and counts the calls for each environment."""

    acts_in_turns = True

    def __init__(self, envs, config):
        zeros = tf.zeros([envs.num_envs], tf.int32)
        self.acted, self.begun = tf.Variable(zeros), tf.Variable(zeros)

    def begin_turn(self, turn):
        assert isinstance(turn, Turn)
        self.acted.assign_add(tf.cast(turn.mask, tf.int32))

    def begin_episode(self, mask):
        self.begun.assign_add(tf.cast(mask, tf.int32))

    def perform(self, observ, deterministic):
        return tf.reduce_mean(observ, axis=-1, keepdims=True)[:, :1] * 0.1


@contextlib.contextmanager
def agent(constructors, wait_for, actor=PPO, settings=None, processes=3, **kwargs):
    """Yields an actor in environments that were reset, and a function that collects a rollout."""
    with contextlib.closing(
        make_batch_env(constructors, processes, wait_for=wait_for, **kwargs)
    ) as batch:
        envs = InGraphBatchEnv(batch)
        sizes = {"num_envs": len(constructors), "rollout_length": T, "epochs": 1, "layers": (8,)}
        sizes["minibatch_size"] = T * len(constructors) // 2
        actor = actor(envs, load_config("default", **{**sizes, **(settings or {})}))
        graph = tf.function(lambda: simulate(envs, actor, T), autograph=False)

        def collect():
            with envs.raising():
                return graph()

        envs.reset(seed=tf.range(len(constructors), dtype=tf.int64))
        yield envs, actor, collect


def results(constructors, wait_for, actor=PPO, trains=False, **kwargs):
    """Three rollouts, and everything that they and the updates have changed."""
    with agent(constructors, wait_for, actor, **kwargs) as (envs, actor, collect):
        rollouts = []
        for _ in range(3):
            rollout = collect()
            if trains:
                actor.train(rollout)
            rollouts.append(tf.nest.map_structure(lambda tensor: tensor.numpy(), rollout))
        # Of a Mean, turns are counted only where there are any.
        is_ppo = isinstance(actor, PPO)
        kept = (actor._samples, actor._states, actor.variables()) if is_ppo else actor.begun
        kept = kept, envs._results(), envs.action, envs.episode_return, envs.episode_length
        after = tf.nest.map_structure(lambda variable: variable.numpy(), kept)
        return rollouts, after, sorted(envs.info_names)


def assert_equal(first, second):
    tf.nest.assert_same_structure(first, second)
    for one, other in zip(tf.nest.flatten(first), tf.nest.flatten(second), strict=True):
        np.testing.assert_array_equal(one, other)


CASES = {
    "gaussian": (make_random, {"noise_correlation": 0.5}),
    "gru": (make_random, {"recurrent": "gru", "recurrent_units": 8}),
    "lstm": (make_random, {"recurrent": "lstm", "recurrent_units": 8, "shared_torso": True}),
    "structures": (functools.partial(make_random, MIXED_OBSERVATIONS, MIXED_ACTIONS), {}),
    "mask": (lambda: Uneven(BanditEnv(4, masked=True)), {"action_mask": True}),
    "memory": (lambda: Uneven(CueEnv(2)), {"recurrent": "gru", "recurrent_units": 4}),
}


def slow(*values, of):
    """Parameters of which `values` are slow."""
    return [pytest.param(each, marks=pytest.mark.slow) if each in values else each for each in of]


@pytest.mark.parametrize("case", slow("gaussian", "lstm", "structures", "memory", of=CASES))
def test_rollouts_and_updates_are_the_same_in_any_order_of_replies(case):
    constructor, settings = CASES[case]
    info_keys = ("steps",) if constructor is make_random else ()
    trains = (
        case != "gru"
    )  # Compiling its update takes ten times as long; that of "memory" is alike.
    run = functools.partial(results, trains=trains, settings=settings, info_keys=info_keys)
    together = run([constructor] * B, 1.0)
    assert any(rollout.done.any() for rollout in together[0])
    for wait_for in (0.5, 0.01):
        assert_equal(run([constructor] * B, wait_for), together)


def test_environments_of_a_process_share_its_turns():
    together = results([make_random] * 7, 1.0, processes=1)
    for processes in (1, 3):
        assert_equal(results([make_random] * 7, 0.3, processes=processes), together)


# Failures.

RESTARTS = {"restart_limit": 10, "restart_window": 60.0}
FAULTS = {
    "raises": (OSError("no luck"), 13), "nan": ({"reward": np.nan}, 13), "dies": ("die", 33), "exits": ("exit", 33),
}  # fmt: skip


@pytest.mark.parametrize("fault", slow("raises", "nan", "dies", of=FAULTS))
@pytest.mark.filterwarnings("ignore:Environment.* restart number")
def test_restarts_are_the_same_steps_of_the_same_environments(fault, tmp_path):
    """Environments 1 and 2 fail, the latter in two steps."""

    def constructors(name):
        faults = [None, FAULTS[fault], FAULTS[fault], None]
        return [
            functools.partial(make_once, one, str(tmp_path / f"{name}-{index}"))
            for index, one in enumerate(faults)
        ]

    together, *others = (
        results(constructors(wait_for), wait_for, processes=B, **RESTARTS)
        for wait_for in (1.0, 0.5, 0.01)
    )
    assert sum(rollout.restarted.sum() for rollout in together[0]) == 2
    for other in others:
        assert_equal(other, together)


def make_once(fault, path):
    """An environment that fails in the first process that makes it."""
    if os.path.exists(path):
        return make_random()
    open(path, "w").close()
    return make_random(fault=fault)


@pytest.mark.filterwarnings("ignore:Environment.* restart number")
@pytest.mark.filterwarnings("ignore:Environment.* has been in step")  # After a second.
def test_a_hung_worker_is_restarted_while_the_others_step(tmp_path):
    together, in_turns = (
        results(
            [make_random] * 3
            + [functools.partial(make_once, ("hang", 25), str(tmp_path / str(wait_for)))],
            wait_for,
            Mean,
            processes=B,
            timeout=1.0,
            **RESTARTS,
        )
        for wait_for in (1.0, 0.5)
    )
    assert_equal(in_turns, together)
    [(step, row)] = np.argwhere(in_turns[0][1].restarted)
    assert (step, row) == (4, 3)


def steps_then(fault, count=25):
    return functools.partial(make_random, fault=(fault, count))


@pytest.mark.filterwarnings("ignore:Environment.* has been in step")  # After a second.
@pytest.mark.timing
@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (OSError("no luck"), EnvironmentRaisedError),
        ("hang", WorkerTimeoutError),
    ],
)
def test_a_failure_ends_the_rollout_and_a_reset_makes_it_usable(fault, error):
    make = [make_random, steps_then(fault), steps_then("nap"), make_random]
    with agent(make, 0.5, Mean, processes=B, timeout=1.0) as (envs, _, collect):
        initial = collect().observ[0]
        observ = tf.nest.map_structure(lambda variable: variable.numpy(), envs.observ)
        start = time.monotonic()
        with pytest.raises(error) as caught:
            collect()
        assert time.monotonic() - start < 30
        assert caught.value.env_index == 1
        # What the rollout had changed is that of its start.
        assert_equal(tf.nest.map_structure(lambda variable: variable.numpy(), envs.observ), observ)
        with pytest.raises(ResetNeeded):
            collect()
        if error is not EnvironmentRaisedError:
            return
        with envs.raising():
            envs.reset(seed=tf.range(B, dtype=tf.int64))  # Discards replies under way.
        np.testing.assert_array_equal(collect().observ[0], initial)


@pytest.mark.timing
@pytest.mark.parametrize("event", ["kill", "stop"])
def test_a_kill_or_a_requested_stop_ends_the_wait(event, monkeypatch):
    make = [steps_then("hang", 5), make_random, make_random, make_random]
    with agent(make, 0.5, Mean, processes=B) as (envs, _, collect):
        if event == "kill":
            pid = envs._batch_env[0]._host.pid
            act, error = functools.partial(os.kill, pid, signal.SIGKILL), WorkerDiedError
        else:
            act = functools.partial(monkeypatch.setattr, stop_signals, "requested", 2)
            error = stop_signals.StopRequested
        threading.Timer(0.5, act).start()
        start = time.monotonic()
        with pytest.raises(error):
            collect()
        assert time.monotonic() - start < 30
        monkeypatch.undo()


def test_a_slow_environment_is_named_while_the_others_step(monkeypatch):
    monkeypatch.setattr("agents.vector.exchange.MIN_SECONDS", 0.2)
    monkeypatch.setattr("agents.vector.exchange.SLOWNESS", 1)  # Others are slow on a busy machine.
    with agent([make_random] * 3 + [steps_then("nap", 5)], 0.5, Mean, processes=B) as (*_, collect):
        with pytest.warns(
            UserWarning, match=r"Environment 3 .* has been in step or reset for [\d.]+ s; oth"
        ):
            collect()


# Actors.


class Careless(PPO):
    """Overrides how PPO acts, without a word on turns."""

    def perform(self, observ, deterministic):
        return super().perform(observ, deterministic)


class Careful(Careless):
    acts_in_turns = True


class Random(Careful):
    def begin_rollout(self, steps):
        super().begin_rollout(steps)


class Experiencing(Careful):
    def experience(self, step, transition):
        pass


def test_actors_say_that_they_act_in_turns():
    kinds = {PPO: True, MockAlgorithm: False, Careless: False, Careful: True}
    kinds |= {Random: False, Experiencing: False}
    for kind, expected in kinds.items():
        assert can_act_in_turns(kind.__new__(kind)) is expected


def test_other_actors_are_refused_by_name():
    batch = make_batch_env([CommandedEnv] * 2, 2, wait_for=0.5)
    with contextlib.closing(InGraphBatchEnv(batch)) as envs:
        envs.reset()
        with pytest.raises(
            ValueError, match="MockAlgorithm does not act in turns, as wait_for=0.5"
        ):
            simulate(envs, MockAlgorithm(envs), 3)


def test_an_actor_acts_once_in_every_step_of_every_environment():
    with agent([make_random] * B, 0.5, Mean, processes=B) as (envs, actor, _):
        for _ in range(2):  # Eagerly.
            rollout = simulate(envs, actor, T)
        np.testing.assert_array_equal(actor.acted, 2 * T)
        assert (actor.begun.numpy() >= rollout.done.numpy().sum(axis=0)).all()
