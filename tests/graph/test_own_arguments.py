"""Environments share nothing that they may change."""

import collections
import contextlib
import functools
import sys
import threading

import cloudpickle
import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from agents.environments.wrappers import (
    ActionRepeat,
    RandomStart,
    RebuildOnSeed,
    ResetOptions,
)
from agents.errors import EnvironmentRaisedError, UsageError
from agents.graph.backend import make_backend
from agents.scripts.check import inspect
from agents.settings.config_file import config_text, load_config
from agents.vector.batch_env import BatchEnv
from agents.vector.process_batch import make_batch_env
from agents.workers.external_process import ExternalProcess
from agents.workers.host import LocalHost

# Workers need not be able to import this module.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

KWARGS = {"config": {"gain": 5.0, "place": [1.0]}}
OPTIONS = {"world": {"level": 3, "path": [2]}}
ACTIONS = spaces.Dict(force=spaces.Box(-9, 9, (1,)), pair=spaces.Tuple([spaces.Box(-9, 9, (2,))]))


class Taking(gymnasium.Env):
    """Changes all that it is given; observes gain, place, level and path as they were given.

    The reward is the sum of the action as it was given; a force of 9 is a failure. Its info is the
    same dictionary in all steps.
    """

    observation_space = spaces.Box(-99, 99, (4,))
    action_space = ACTIONS

    def __init__(self, config=None):
        config = {} if config is None else config
        self.gain, place = config.pop("gain", -1.0), config.pop("place", [-1.0])
        self.place = place.pop() if place else -1.0
        self.info = {"steps": [0]}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        world = (options or {}).pop("world", {})
        path = world.get("path", [])
        self.start = world.pop("level", -1), path.pop() if path else -1
        self.info["steps"][0] = self.steps = 0
        return self._observ(), self.info

    def step(self, action):
        if action["force"][0] == 9:
            raise ValueError("too much")
        [pair] = action.pop("pair")
        reward = float(action["force"][0] + pair.sum())
        action["force"] *= 2
        pair += 100
        self.steps += 1
        self.info["steps"][0] = self.steps
        return self._observ(), reward, False, self.steps == 3, self.info

    def _observ(self):
        return np.array([self.gain, self.place, *self.start], np.float32)


def actions(force, num_envs):
    return {
        "force": np.full((num_envs, 1), force, np.float32),
        "pair": (np.ones((num_envs, 2), np.float32),),
    }


@contextlib.contextmanager
def batch_of(config, num_envs=4):
    backend = make_backend(config)
    with contextlib.closing(backend.make(backend.check(), num_envs)) as batch:
        yield batch


@pytest.mark.parametrize(
    ("backend", "how"),
    [("process", "object"), ("inline", "partial"), ("hybrid", "arguments")],
)
def test_every_construction_reset_restart_and_row_has_its_own(backend, how):
    kwargs, options = KWARGS, OPTIONS
    settings = {"env": Taking, "env_kwargs": kwargs}
    if how == "partial":
        settings = {"env": functools.partial(Taking, **kwargs)}
    if how == "object":
        settings = {"env": functools.partial(Taking, collections.UserDict(kwargs["config"]))}
    config = load_config(
        "default", **settings, reset_options=options, env_backend=backend, action_repeat=2,
        env_restarts={"limit": 100, "window": 1e6}, num_processes=0 if backend == "inline" else 2,
    )  # fmt: skip
    before = config_text(config)
    expected = np.tile([5.0, 1.0, 3.0, 2.0], [4, 1])
    for _ in range(2):  # As for training and evaluations.
        with batch_of(config) as batch:
            kept = actions(0.5, 4)
            np.testing.assert_array_equal(batch.reset(seed=1)[0], expected)
            np.testing.assert_array_equal(
                batch.reset(options={"reset_mask": np.arange(4) > 1})[0], expected
            )
            for _ in range(4):
                observ, reward, *_, truncated, infos = batch.step(kept)
                np.testing.assert_array_equal(observ, expected)
                np.testing.assert_array_equal(reward, np.where(truncated, 2.5, 5.0))
            assert infos["final_info"]["steps"].tolist() == [[3]] * 4
            assert infos["steps"].tolist() == [[0]] * 4
            np.testing.assert_array_equal(kept["force"], 0.5)
            with pytest.warns(UserWarning, match="restart"):
                np.testing.assert_array_equal(batch.step(actions(9, 4))[0], expected)
            np.testing.assert_array_equal(batch.step(kept)[0], expected)
    assert config_text(config) == before
    assert kwargs == {"config": {"gain": 5.0, "place": [1.0]}}
    assert options == {"world": {"level": 3, "path": [2]}}


def test_later_changes_of_what_was_handed_in_do_not_count():
    kwargs, options = {"config": {"gain": 5.0, "place": [1.0]}}, {"world": {"level": 3}}
    handed_in = {"env": functools.partial(Taking, **kwargs), "reset_options": options}
    restarts = {"limit": 100, "window": 1e6}
    config = load_config("default", **handed_in, env_backend="inline", env_restarts=restarts)
    with batch_of(config) as batch:
        kwargs["config"].clear(), options.clear(), config.reset_options["world"].clear()
        first, _ = batch.reset(seed=1)
        with pytest.warns(UserWarning, match="restart"):
            again, *_ = batch.step(actions(9, 4))
        np.testing.assert_array_equal(first, np.tile([5.0, 1.0, 3.0, -1.0], [4, 1]))
        np.testing.assert_array_equal(again, first)


@pytest.mark.parametrize("how", ["BatchEnv", "own and others"])
def test_options_arguments_and_attributes_of_a_batch(how):
    make = functools.partial(Taking, **KWARGS)
    batch = {
        "BatchEnv": lambda: BatchEnv([Taking(**{"config": dict(gain=5.0, place=[1.0])}) for _ in range(3)], True),
        "own and others": lambda: make_batch_env([make] * 3, processes=2, inline_share=True),
    }[how]()  # fmt: skip
    with contextlib.closing(batch):
        options = {"world": {"level": 3, "path": [2]}, "reset_mask": np.array([True, True, False])}
        batch.reset(seed=[1, 2, 3])
        for given in (options, {**options, "reset_mask": np.ones(3, bool)}):
            observ, _ = batch.reset(options=given)
            expected = np.where(given["reset_mask"][:, None], [5, 1, 3, 2], [5, 1, -1, -1])
            np.testing.assert_array_equal(observ, expected)
        assert options["world"] == {"level": 3, "path": [2]} and "reset_mask" in options
        assert batch.reset(indices=[2], options=options | {"reset_mask": None})[0].tolist() == [
            [5, 1, 3, 2]
        ]
        info = {"steps": [0]}
        batch.set_attr("info", info)
        for _ in range(2):
            batch.step(actions(0, 3))
        assert batch.get_attr("info") == ({"steps": [2]},) * 3 and info == {"steps": [0]}


def test_wrappers_hand_on_copies():
    class Keeping(gymnasium.Wrapper):
        def reset(self, *, seed=None, options=None):
            given.append(options["world"].pop("level"))
            return self.env.reset(seed=seed, options=options)

        def step(self, action):
            return *self.env.step(action)[:3], True, {}

    given = []
    options, action = {"world": {"level": 3, "path": [2]}}, actions(0.5, 1)
    action = {"force": action["force"][0], "pair": (action["pair"][0][0],)}
    env = ResetOptions(RandomStart(Keeping(Taking()), 4), options)
    for seed in range(4):
        env.reset(seed=seed)
    env.reset(options=options)
    assert set(given) == {3} and len(given) > 5
    assert options == {"world": {"level": 3, "path": [2]}}
    env = ActionRepeat(Taking(), 3)
    env.reset()
    assert env.step(action)[1] == 3 * 2.5
    assert action["force"] == 0.5 and action["pair"][0].tolist() == [1, 1]
    env = RebuildOnSeed(functools.partial(Taking, **KWARGS))
    for seed in range(3):
        assert env.reset(seed=seed)[0].tolist() == [5, 1, -1, -1]
    assert KWARGS == {"config": {"gain": 5.0, "place": [1.0]}}


def test_an_inspection_changes_no_arguments():
    config = load_config("default", env=Taking, env_kwargs=KWARGS, reset_options=OPTIONS)
    before = config_text(config)
    backend = make_backend(config)
    inspection = inspect(config, backend, backend.check(), 30)
    assert [scale.largest.tolist() for scale in inspection.steps.scales] == [[5, 1, 3, 2]]
    assert not any("same seed" in finding.problem for finding in inspection.findings)
    assert config_text(config) == before


def test_objects_that_are_no_data_are_the_callers():
    class Noting(Taking):
        def reset(self, *, seed=None, options=None):
            options["note"](options["names"].pop(), options["lock"])
            return super().reset(seed=seed)

    notes, lock = [], threading.Lock()
    with contextlib.closing(BatchEnv([Noting() for _ in range(3)], blocking=True)) as batch:
        batch.reset(
            options={"note": lambda *values: notes.append(values), "names": ["one"], "lock": lock}
        )
    assert notes == [("one", lock)] * 3


# One environment in several rows.


def test_a_process_has_one_place():
    with contextlib.closing(ExternalProcess([Taking, Taking])) as process:
        with pytest.raises(ValueError, match="Environments 0 and 2 of the batch are the same one"):
            BatchEnv([process, process])
        process.reset()  # It stays open.


def wrapped(env):
    return gymnasium.wrappers.TimeLimit(env, 9)


@pytest.mark.parametrize(
    ("make", "names"),
    [
        (lambda env: BatchEnv([env] * 2, blocking=True), "Environments 0 and 1 .* the same one"),
        (lambda env: BatchEnv([Taking(), wrapped(env), wrapped(env)], True), "Environments 1 and 2 .* the same"),
        (lambda env: BatchEnv([LocalHost(lambda: env), wrapped(env)], True), "Environments 0 and 1 .* the same"),
        (lambda env: BatchEnv([LocalHost([Taking, Taking])] * 2, True), "Environments 0 and 2 .* the same"),
        (lambda env: LocalHost([lambda: env, lambda: wrapped(env)]), r"environment 0 again.*\(environment 1\)"),
        (lambda env: make_batch_env([lambda: env] * 4, processes=1), r"environment 0 again.*\(environment 1"),
        (lambda env: make_batch_env([lambda: env] * 4, processes=2, inline_share=True), "environment 2 again"),
    ],
)  # fmt: skip
def test_an_environment_has_one_row(make, names):
    with pytest.raises((EnvironmentRaisedError, ValueError), match=f"{names}(?s:.*)make a new"):
        make(Taking())


def test_training_and_evaluations_do_not_share_an_environment():
    env = Taking()
    config = load_config("default", env=lambda: env, env_backend="inline")
    with batch_of(config, 1), pytest.raises(UsageError, match="make a new environment"):
        with batch_of(config, 1):
            pass


def test_a_function_that_returns_an_environment_again_is_refused():
    env = Taking()
    config = load_config("default", env=lambda: env, env_backend="process", num_processes=1)
    message = "the same environment twice\nmake a new environment in each call"
    with pytest.raises(UsageError, match=message), batch_of(config, 2):
        pass


def test_an_environment_that_fails_is_not_taken_again():
    def make():
        return env

    env = Taking()
    hosts = [LocalHost(make)]
    with contextlib.closing(BatchEnv(hosts, True, restart_limit=3)) as batch:
        batch.reset()
        with pytest.warns(UserWarning), pytest.raises(EnvironmentRaisedError) as caught:
            batch.step(actions(9, 1))
    assert "environment 0 again" in caught.value.others[0].summary
