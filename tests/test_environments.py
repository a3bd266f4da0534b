import contextlib
import subprocess
import sys

import cloudpickle
import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from agents.config import load_config
from agents.families import check_environment
from agents.runs.environments import in_graph, make_environments
from agents.tools.errors import EnvironmentFailure, UnsupportedSpaceError, UsageError
from agents.tools.in_graph_batch_env import InGraphBatchEnv

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

BACKENDS = pytest.mark.parametrize("env_backend", ["inline", "process"])


class Ramp(gymnasium.Env):
    """Observes its steps; the reward is the slope; it never ends."""

    observation_space = spaces.Box(-np.inf, np.inf, (1,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, slope=1.0, action_space=None, observation_space=None, render_mode=None):
        self._slope = slope
        self.action_space = action_space or self.action_space
        self.observation_space = observation_space or self.observation_space
        self.render_mode = render_mode

    def reset(self, *, seed=None, options=None):
        self._steps = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self._steps += 1
        return np.full(1, self._steps, np.float32), self._slope, False, False, {}


class Buttons(Ramp):
    action_space = spaces.Box(0, 5, (2,), np.int32)


class Words(Ramp):
    observation_space = spaces.Text(5)


@pytest.fixture(scope="module", autouse=True)
def registered():
    for cls in (Ramp, Buttons, Words):
        gymnasium.register(f"{cls.__name__}-v0", cls, max_episode_steps=7)
    yield
    for cls in (Ramp, Buttons, Words):
        del gymnasium.registry[f"{cls.__name__}-v0"]


def make(number=2, wrap=None, env="Ramp-v0", training=False, **settings):
    config = load_config("default", env=env, **settings)
    return make_environments(config, check_environment(config), number, wrap, training=training)


def episode(envs):
    """Length and return of the first environment's episode, and its last observation."""
    envs.reset()
    total, length, truncated = 0.0, 0, [False]
    while not truncated[0]:
        _, reward, _, truncated, infos = envs.step(np.zeros(envs.num_envs, int))
        total, length = total + float(reward[0]), length + 1
    return length, total, float(infos["final_obs"][0, 0])


@BACKENDS
@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, (7, 7.0, 7.0)),
        ({"max_episode_steps": 4}, (4, 4.0, 4.0)),
        ({"env_kwargs": {"slope": 0.5}}, (7, 3.5, 7.0)),
        ({"action_repeat": 3, "max_episode_steps": 9}, (3, 9.0, 9.0)),
    ],
)
def test_environments_are_made_as_the_settings_say(env_backend, settings, expected):
    envs = make(env_backend=env_backend, **settings)
    try:
        assert envs.num_envs == 2
        assert episode(envs) == expected
    finally:
        envs.close()


@BACKENDS
def test_each_may_get_a_wrapper_that_knows_its_index(env_backend):
    def wrap(index, env):
        return gymnasium.wrappers.TransformReward(env, lambda reward: reward + 10 * index)

    envs = make(3, wrap, env_backend=env_backend, num_processes=2)
    try:
        envs.reset()
        np.testing.assert_array_equal(envs.step(np.zeros(3, int))[1], [1, 11, 21])
    finally:
        envs.close()


@pytest.fixture
def my_wrappers(tmp_path, monkeypatch):
    """A module on the path of this process and of its workers."""
    (tmp_path / "my_wrappers.py").write_text(MY_WRAPPERS)
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop("my_wrappers", None)


@BACKENDS
def test_wrappers_are_applied_in_order_and_some_for_training_only(my_wrappers, env_backend):
    names = {"env_wrappers": ["my_wrappers:plus_one", "my_wrappers:doubled"], "train_wrappers": ["my_wrappers:Negated"]}
    for training, expected in ((True, -4.0), (False, 4.0)):
        with contextlib.closing(make(env="CartPole-v1", env_backend=env_backend, training=training, **names)) as envs:
            envs.reset()
            np.testing.assert_array_equal(envs.step(np.zeros(2, int))[1], [expected] * 2)


@BACKENDS
def test_a_wrapper_that_returns_no_environment_is_told(my_wrappers, env_backend):
    with pytest.raises((UsageError, EnvironmentFailure), match="'my_wrappers:nothing' must return an environment"):
        make(env="CartPole-v1", env_backend=env_backend, env_wrappers=["my_wrappers:nothing"])


@BACKENDS
def test_masks_of_actions_are_observed(my_wrappers, env_backend):
    settings = {"env": "CartPole-v1", "env_backend": env_backend, "action_mask": True, "max_episode_steps": 5}
    with contextlib.closing(make(env_wrappers=["my_wrappers:Masked"], **settings)) as envs:
        observ, _ = envs.reset()
        np.testing.assert_array_equal(observ["action_mask"], [[1, 0]] * 2)
        assert observ["observ"].shape == (2, 4)
        for _ in range(5):
            observ, _, _, truncated, infos = envs.step(np.zeros(2, int))
        assert truncated.all()
        np.testing.assert_array_equal(observ["action_mask"], [[1, 0]] * 2)
        np.testing.assert_array_equal(infos["final_obs"]["action_mask"], [[0, 1]] * 2)
    with pytest.raises((ValueError, EnvironmentFailure), match="must hold 'action_mask'"):
        with contextlib.closing(make(**settings)) as envs:
            envs.reset()


def test_environments_of_tensors_that_observe_no_mask_are_refused():
    with pytest.raises(UnsupportedSpaceError, match="expected observations with 'action_mask'"):
        make(env="CartPole-v1", env_backend="tf", action_mask=True)


@BACKENDS
@pytest.mark.parametrize(("env", "named"), [("Buttons-v0", "int32"), ("Words-v0", "Text")])
def test_spaces_without_a_policy_or_network_are_named(env_backend, env, named):
    with pytest.raises(UnsupportedSpaceError, match=named):
        make(env=env, env_backend=env_backend)


@BACKENDS
def test_an_argument_that_the_environment_does_not_take_is_told(env_backend):
    with pytest.raises((TypeError, EnvironmentFailure), match="incline"):
        make(env_backend=env_backend, env_kwargs={"incline": 2})


@pytest.mark.parametrize(
    ("settings", "limit", "pull"),
    [({}, 200, 10.0), ({"max_episode_steps": 9, "action_repeat": 3}, 3, 10.0), ({"env_kwargs": {"g": 2.5}}, 200, 2.5)],
)
def test_environments_of_tensors_are_made_as_the_settings_say(settings, limit, pull):
    envs = make(env="Pendulum-v1", env_backend="tf", **settings)
    assert envs.num_envs == 2 and in_graph(envs) is envs
    cos, sin, speed = np.float64(envs.reset()[0])
    for step in range(1, limit + 1):
        outcome = envs.simulate(np.zeros((2, 1), np.float32))
        if step == 1 and "action_repeat" not in settings:
            np.testing.assert_allclose(outcome.final_observ[0, 2], speed + 0.05 * 1.5 * pull * sin, rtol=1e-5)
        assert outcome.truncated.numpy().tolist() == [step == limit] * 2


@pytest.mark.parametrize("env_backend", ["inline", "tf"])
def test_only_environments_in_the_graph_are_compiled(env_backend):
    with_graph = in_graph(make(env="Pendulum-v1", env_backend=env_backend))
    assert with_graph.compiles == (env_backend == "tf")
    assert isinstance(with_graph, InGraphBatchEnv) == (env_backend == "inline")


def test_what_does_not_fit_environments_of_tensors_is_told():
    with pytest.raises(UsageError, match="incline"):
        make(env="Pendulum-v1", env_backend="tf", env_kwargs={"incline": 2})
    with pytest.raises(ValueError, match="wrappers"):
        make(env="Pendulum-v1", env_backend="tf", wrap=lambda index, env: env)


def test_making_environments_does_not_import_tensorflow():
    code = "import sys, agents.runs.environments; sys.exit('tensorflow' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
