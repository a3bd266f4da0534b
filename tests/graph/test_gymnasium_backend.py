"""What holds for both backends of Gymnasium's environments."""

import contextlib
import sys

import cloudpickle
import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from agents.errors import EnvironmentFailure, UnsupportedSpaceError, UsageError
from agents.graph.backend import make_backend
from agents.settings.config_file import load_config
from tests.toys import CountingEnv

# Workers would import this module, and with it TensorFlow, which takes them seconds.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

MY_WRAPPERS = """
import gymnasium
from gymnasium.wrappers import TransformReward

def plus_one(env):
    return TransformReward(env, lambda reward: reward + 1)

def doubled(env):
    return TransformReward(env, lambda reward: reward * 2)

def nothing(env):
    pass

class Negated(gymnasium.Wrapper):
    def step(self, action):
        observ, reward, *rest = self.env.step(action)
        return observ, -reward, *rest

class Masked(gymnasium.Wrapper):
    def reset(self, **kwargs):
        return self.env.reset(**kwargs)[0], {"action_mask": [1, 0]}

    def step(self, action):
        return *self.env.step(action)[:4], {"action_mask": [0, 1]}
"""

pytestmark = pytest.mark.parametrize("env_backend", ["inline", "process"])


def count_steps(steps):
    return {"steps": steps}


@pytest.fixture(scope="module", autouse=True)
def registered():
    kwargs = {"observation_space": spaces.Box(0, 1e6, (1,)), "info": count_steps}
    gymnasium.register("Counting-v0", CountingEnv, max_episode_steps=7, kwargs=kwargs)
    yield
    del gymnasium.registry["Counting-v0"]


@pytest.fixture
def my_wrappers(tmp_path, monkeypatch):
    """A module on the path of this process and of its workers."""
    (tmp_path / "my_wrappers.py").write_text(MY_WRAPPERS)
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop("my_wrappers", None)


@contextlib.contextmanager
def make(num_envs=2, env="Counting-v0", make_kwargs=None, **settings):
    backend = make_backend(load_config("default", env=env, **settings))
    envs = backend.make(backend.check(), num_envs, **(make_kwargs or {}))
    with contextlib.closing(envs):
        yield envs


def run_episode(envs):
    """Length and return of the first environment's episode, and its last observation."""
    envs.reset()
    total, length, truncated = 0.0, 0, [False]
    while not truncated[0]:
        _, reward, _, truncated, infos = envs.step(np.zeros(envs.num_envs, int))
        total, length = total + float(reward[0]), length + 1
    return length, total, float(infos["final_obs"][0][0])


def test_unknown_environments_raise(env_backend):
    for env, message in (
        ("Pendulm-v1", "unknown environment 'Pendulm-v1'; did you mean 'Pendulum-v1'?"),
        ("no_module:MyEnv-v0", "needs the module 'no_module', which was not found"),
    ):
        with pytest.raises(UsageError) as raised:
            make_backend(load_config(env=env, env_backend=env_backend)).check()
        assert message in str(raised.value)
        assert len(str(raised.value).splitlines()) <= 3


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, (7, 7.0, 7.0)),
        ({"max_episode_steps": 4}, (4, 4.0, 4.0)),
        ({"env_kwargs": {"start": 5}}, (7, 7.0, 12.0)),
        ({"action_repeat": 3, "max_episode_steps": 9}, (3, 9.0, 9.0)),
    ],
)
def test_settings(env_backend, settings, expected):
    with make(env_backend=env_backend, **settings) as envs:
        assert envs.num_envs == 2
        assert run_episode(envs) == expected


def test_arguments_of_make_replace_those_of_the_settings(env_backend):
    settings = {"env_backend": env_backend, "env_kwargs": {"start": 5}}
    with make(make_kwargs={"env_kwargs": {"render_mode": "rgb_array"}}, **settings) as envs:
        assert run_episode(envs)[2] == 12 and envs.render_mode == "rgb_array"
    with make(make_kwargs={"env_kwargs": {"start": 2}}, **settings) as envs:
        assert run_episode(envs)[2] == 9


def test_a_last_wrapper_gets_the_index_of_its_environment(env_backend):
    def wrap(index, env):
        return gymnasium.wrappers.TransformReward(env, lambda reward: reward + 10 * index)

    with make(3, make_kwargs={"wrap": wrap}, env_backend=env_backend, num_processes=2) as envs:
        envs.reset()
        np.testing.assert_array_equal(envs.step(np.zeros(3, int))[1], [1, 11, 21])


def test_info_keys_are_returned_in_every_step(env_backend):
    with make(make_kwargs={"info_keys": ["steps"]}, env_backend=env_backend) as envs:
        envs.reset()
        for step in range(1, 4):
            infos = envs.step(np.zeros(2, int))[-1]
            np.testing.assert_array_equal(infos["steps"], [step] * 2)


def test_wrappers_are_applied_in_order_and_some_for_training_only(my_wrappers, env_backend):
    names = {
        "env_wrappers": ["my_wrappers:plus_one", "my_wrappers:doubled"],
        "train_wrappers": ["my_wrappers:Negated"],
    }
    settings = {"env": "CartPole-v1", "env_backend": env_backend, **names}
    for training, expected in ((True, -4.0), (False, 4.0)):
        with make(make_kwargs={"training": training}, **settings) as envs:
            envs.reset()
            np.testing.assert_array_equal(envs.step(np.zeros(2, int))[1], [expected] * 2)


def test_a_wrapper_that_returns_no_environment_raises(my_wrappers, env_backend):
    settings = {"env_backend": env_backend, "env_wrappers": ["my_wrappers:nothing"]}
    message = "'my_wrappers:nothing' must return an environment"
    with pytest.raises((UsageError, EnvironmentFailure), match=message):
        with make(env="CartPole-v1", **settings):
            pass


def test_action_masks_are_observed(my_wrappers, env_backend):
    settings = {
        "env": "CartPole-v1",
        "env_backend": env_backend,
        "action_mask": True,
        "max_episode_steps": 5,
    }
    with make(env_wrappers=["my_wrappers:Masked"], **settings) as envs:
        observ, _ = envs.reset()
        np.testing.assert_array_equal(observ["action_mask"], [[1, 0]] * 2)
        assert observ["observ"].shape == (2, 4)
        for _ in range(5):
            observ, _, _, truncated, infos = envs.step(np.zeros(2, int))
        assert truncated.all()
        np.testing.assert_array_equal(observ["action_mask"], [[1, 0]] * 2)
        for final_obs in infos["final_obs"]:
            np.testing.assert_array_equal(final_obs["action_mask"], [0, 1])
    with pytest.raises((ValueError, EnvironmentFailure), match="must hold 'action_mask'"):
        with make(**settings) as envs:
            envs.reset()


@pytest.mark.parametrize(
    ("env_kwargs", "name"),
    [
        ({"action_space": spaces.Box(0, 5, (2,), np.int32)}, "int32"),
        ({"observation_space": spaces.Text(5)}, "Text"),
    ],
)
def test_spaces_without_a_policy_or_network_raise(env_backend, env_kwargs, name):
    with pytest.raises(UnsupportedSpaceError, match=name):
        with make(make_kwargs={"env_kwargs": env_kwargs}, env_backend=env_backend):
            pass


def test_an_unknown_argument_of_the_environment_raises(env_backend):
    with pytest.raises(UsageError, match="env_kwargs: the constructor of .* argument 'incline'"):
        with make(env_backend=env_backend, env_kwargs={"incline": 2}):
            pass
