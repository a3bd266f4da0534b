import re
import sys
import textwrap
from pathlib import Path

import gymnasium
import numpy as np
import pytest
import tensorflow as tf

from agents import tensor_envs
from agents.errors import UsageError
from agents.graph.backend import make_backend
from agents.graph.in_graph_env import InGraphEnv
from agents.scripts.train import train
from agents.settings.config_file import load_config

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "environments.md"

MY_MODULE = """
    import gymnasium
    import tensorflow as tf
    from agents import tensor_envs

    class Rest(tensor_envs.TensorEnv):
        observation_space = gymnasium.spaces.Box(-1, 1, (1,))
        action_space = gymnasium.spaces.Discrete(2)

        def __init__(self, reward=1.0):
            self._reward = reward

        def initial_state(self, uniform):
            return tf.cast(uniform(-1, 1, (1,)), tf.float32)

        def step(self, state, action, uniform):
            return state, tf.fill(action.shape, self._reward), tf.zeros_like(action, tf.bool)

        def observe(self, state):
            return state

    tensor_envs.register("Rest-v0", Rest, max_episode_steps=4)
    tensor_envs.register("Named-v0", "{name}:Rest")
    """


@pytest.fixture
def module(tmp_path, monkeypatch, tensor_registry):
    """Name of a module that registers environments."""
    (tmp_path / "resting.py").write_text(textwrap.dedent(MY_MODULE.format(name="resting")))
    monkeypatch.syspath_prepend(tmp_path)
    yield "resting"
    sys.modules.pop("resting", None)


def time_limit(batch):
    batch.reset()
    for step in range(1, 11):
        result = batch.simulate(tf.zeros([batch.num_envs], tf.int64))
        if result.truncated[0]:
            return step
    return None


def test_makes_registered_environments(module):
    spec = make_backend(load_config(env=f"{module}:Rest-v0", env_backend="tf")).check()
    assert (spec.id, spec.max_episode_steps) == ("Rest-v0", 4)
    assert time_limit(tensor_envs.make("Rest-v0", 2)) == 4
    assert time_limit(tensor_envs.make("Rest-v0", 2, max_episode_steps=6)) == 6
    assert time_limit(tensor_envs.make("Rest-v0", 2, max_episode_steps=6, action_repeat=2)) == 3
    assert time_limit(tensor_envs.make("Named-v0", 2)) is None
    batch = tensor_envs.make("Named-v0", 3, reward=2.5)
    assert batch.simulate(tf.zeros([3], tf.int64)).reward.numpy().tolist() == [2.5] * 3


def test_other_backends_say_which_backend_an_environment_needs(module):
    with pytest.raises(UsageError, match="'Rest-v0' is .* in TensorFlow: .* --env-backend=tf\n"):
        make_backend(load_config(env=f"{module}:Rest-v0")).check()


def make(env="Pendulum-v1", **settings):
    backend = make_backend(load_config("default", env=env, env_backend="tf", **settings))
    return backend.make(backend.check(), 2)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"env": "Pendulun-v1"},
            "unknown environment 'Pendulun-v1' for env_backend tf; did you mean 'Pendulum-v1'",
        ),
        (
            {"env": "HalfCheetah-v5"},
            "'HalfCheetah-v5'.*\nregistered are Acrobot-v1, CartPole-v1, MountainCarContinuous-v0, Pend",
        ),
        ({"env": "no_module:MyEnv-v0"}, "needs the module 'no_module', which was not found"),
        ({"info_keys": ["speed"]}, "info_keys: .* 'tf' have no infos"),
        ({"env_kwargs": {"incline": 2}}, "env_kwargs of 'Pendulum-v1' .*'incline'"),
        (
            {"env": "CartPole-v1", "action_mask": True},
            "expected observations with 'action_mask'",
        ),
    ],
)
def test_mistakes_are_named(settings, message):
    with pytest.raises(UsageError, match=message) as caught:
        make(**settings)
    assert len(str(caught.value).splitlines()) <= 3


@pytest.mark.parametrize(
    ("settings", "limit", "gravity"),
    [
        ({}, 200, 10.0),
        ({"max_episode_steps": 9, "action_repeat": 3}, 3, 10.0),
        ({"env_kwargs": {"g": 2.5}}, 200, 2.5),
    ],
)
def test_settings(settings, limit, gravity):
    envs = make(**settings)
    assert isinstance(envs, InGraphEnv) and envs.num_envs == 2 and envs.compiles
    _, sin, speed = np.float64(envs.reset()[0])
    simulate = tf.function(envs.simulate)
    for step in range(1, limit + 1):
        result = simulate(tf.zeros([2, 1]))
        if step == 1 and "action_repeat" not in settings:
            np.testing.assert_allclose(
                result.final_observ[0, 2], speed + 0.05 * 1.5 * gravity * sin, rtol=1e-5
            )
        assert result.truncated.numpy().tolist() == [step == limit] * 2


def test_malformed_ids_are_rejected():
    with pytest.raises(gymnasium.error.Error):
        tensor_envs.register("No spaces, please", "module:Class")


def test_the_example_of_the_guide_learns(tmp_path, monkeypatch, tensor_registry):
    example = re.search(
        r'```python title="my_tensor_envs.py"\n(.*?)```', GUIDE.read_text(), re.DOTALL
    )[1]
    (tmp_path / "my_tensor_envs.py").write_text(example)
    monkeypatch.syspath_prepend(tmp_path)
    config = load_config(
        "default",
        env="my_tensor_envs:Target-v0",
        env_backend="tf",
        steps=2400,
        eval_interval=400,
        rollout_length=50,
        minibatch_size=50,
        layers=(16,),
        learning_rate=0.003,
    )
    try:
        first, *_, last = train(config)
    finally:
        sys.modules.pop("my_tensor_envs", None)
    assert first < -20
    assert last > -15
