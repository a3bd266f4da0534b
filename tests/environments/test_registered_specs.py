import contextlib
import functools
import pickle
import sys

import cloudpickle
import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from agents import make_batch_env
from agents.environments.registered_specs import dump_registrations, load_registrations
from agents.errors import EnvironmentRaisedError
from tests.toys import CountingEnv

# Workers should not import this module.
cloudpickle.register_pickle_by_value(sys.modules[__name__])


class OnlyHere(CountingEnv):
    """An environment of this module, which workers do not import."""

    def __init__(self, value=0.0):
        super().__init__((), spaces.Box(-1, 1e6, (2,), np.float32), start=value)


@pytest.fixture
def register():
    """Registers environments for one test."""
    ids = []

    def register(id, entry_point, **kwargs):
        ids.append(id)
        gymnasium.register(id, entry_point, **kwargs)

    yield register
    for id in ids:
        del gymnasium.registry[id]


def dumped():
    return {pickle.loads(data).id: pickle.loads(data) for data in dump_registrations()}


def test_workers_make_what_was_registered_here_only(register):
    settings = {"kwargs": {"value": 0.5}, "max_episode_steps": 3}
    register("Class-v0", OnlyHere, **settings)
    register("Function-v0", lambda **kwargs: OnlyHere(**kwargs), **settings)
    make = [lambda name=name: gymnasium.make(name) for name in ("Class-v0", "Function-v0")]
    with contextlib.closing(make_batch_env(make, processes=1)) as envs:
        observ, _ = envs.reset(seed=0)
        np.testing.assert_array_equal(observ, np.full((2, 2), 0.5))
        for _ in range(3):
            *_, truncated, _ = envs.step(np.zeros(2, np.int64))
        assert truncated.all()


def test_restarted_workers_know_them(register):
    register("OnlyHere-v0", OnlyHere)

    def make():
        env = gymnasium.make("OnlyHere-v0")
        env.unwrapped.step = raise_error
        return env

    with contextlib.closing(make_batch_env([make], processes=1, restart_limit=1)) as envs:
        envs.reset(seed=0)
        with pytest.warns(match="restart number 1"):
            _, _, _, _, infos = envs.step(np.zeros(1, np.int64))
        assert infos["restarted"].all()


def raise_error(action):
    raise OSError("no luck")


def test_functions_of_modules_are_sent_by_name_and_gymnasiums_not_at_all(register):
    register("Counts-v0", CountingEnv)
    assert not {"Pendulum-v1", "CartPole-v1", "HalfCheetah-v2"} & set(dumped())
    assert dumped()["Counts-v0"].entry_point == "tests.toys:CountingEnv"
    assert gymnasium.spec("Counts-v0").entry_point is CountingEnv


class Large:
    """Has to be imported where it is unpickled, and counts that."""

    num_imports = 0

    def __reduce__(self):
        return import_large, ()


def import_large():
    Large.num_imports += 1
    return Large()


@pytest.mark.parametrize("wrap", [lambda make: make, functools.partial], ids=["closure", "partial"])
def test_what_a_function_needs_is_imported_when_it_is_called(register, monkeypatch, wrap):
    # By name, as those of a package are.
    monkeypatch.setattr(Large, "num_imports", 0)
    cloudpickle.unregister_pickle_by_value(sys.modules[__name__])
    try:
        large = Large()
        register("Large-v0", wrap(lambda **kwargs: large and OnlyHere(**kwargs)))
        registrations = dump_registrations()
        spec = gymnasium.registry.pop("Large-v0")
        load_registrations(registrations)
        assert Large.num_imports == 0
        env = gymnasium.make("Large-v0", value=0.5)
        assert Large.num_imports == 1
        np.testing.assert_array_equal(env.reset()[0], [0.5, 0.5])
        assert gymnasium.spec("Large-v0").entry_point is not spec.entry_point
    finally:
        cloudpickle.register_pickle_by_value(sys.modules[__name__])


def test_what_cannot_be_sent_is_left_out(register):
    class Unpicklable:
        def __reduce__(self):
            raise TypeError("stays here")

    register("Stays-v0", OnlyHere, kwargs={"value": Unpicklable()})
    register("OnlyHere-v0", OnlyHere)
    assert "Stays-v0" not in dumped() and "OnlyHere-v0" in dumped()
    with pytest.raises(EnvironmentRaisedError, match="Stays"):
        make_batch_env([lambda: gymnasium.make("Stays-v0")], processes=1)


def test_known_environments_are_kept(register):
    register("Twice-v0", "my_module:First")
    registrations = dump_registrations()
    gymnasium.registry["Twice-v0"].entry_point = "my_module:Second"
    load_registrations([*registrations, b"damaged"])
    assert gymnasium.spec("Twice-v0").entry_point == "my_module:Second"


def test_a_package_that_registers_them_again_is_not_warned_of(register):
    register("Twice-v0", "my_module:First")
    register("Clash-v0", "my_module:First")
    registrations = [data for data in dump_registrations() if pickle.loads(data).id == "Twice-v0"]
    del gymnasium.registry["Twice-v0"]
    load_registrations(registrations)
    gymnasium.register("Twice-v0", "my_module:First")  # Tests fail by any warning.
    with pytest.warns(UserWarning, match="Clash-v0 already in registry"):
        gymnasium.register("Clash-v0", "my_module:Second")
