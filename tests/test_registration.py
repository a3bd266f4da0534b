import subprocess
import sys
import textwrap

import gymnasium
import pytest
import tensorflow as tf

from agents import envs
from agents.config import load_config
from agents.envs import registration
from agents.families import check_environment
from agents.tools.errors import UsageError

MY_MODULE = """
    import gymnasium
    import tensorflow as tf
    from agents import envs

    class Rest(envs.TensorEnv):
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

    envs.register("Rest-v0", Rest, max_episode_steps=4)
    envs.register("Named-v0", "{name}:Rest")
    """


@pytest.fixture
def module(tmp_path, monkeypatch):
    """The name of a module that registers environments."""
    (tmp_path / "resting.py").write_text(textwrap.dedent(MY_MODULE.format(name="resting")))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(registration, "_specs", dict(registration._specs))
    yield "resting"
    sys.modules.pop("resting", None)


def length(batch):
    batch.reset()
    for step in range(1, 11):
        outcome = batch.simulate(tf.zeros([batch.num_envs], tf.int64))
        if outcome.truncated[0]:
            return step
    return None


def test_makes_what_was_registered(module):
    spec = check_environment(load_config(env=f"{module}:Rest-v0", env_backend="tf"))
    assert (spec.id, spec.max_episode_steps) == ("Rest-v0", 4)
    assert length(envs.make("Rest-v0", 2)) == 4
    assert length(envs.make("Rest-v0", 2, max_episode_steps=6)) == 6
    assert length(envs.make("Rest-v0", 2, max_episode_steps=6, action_repeat=2)) == 3
    assert length(envs.make("Named-v0", 2)) is None
    batch = envs.make("Named-v0", 3, reward=2.5)
    assert batch.simulate(tf.zeros([3], tf.int64)).reward.numpy().tolist() == [2.5] * 3


def test_arguments_that_the_environment_does_not_take_are_told():
    with pytest.raises(UsageError, match="env_kwargs of 'Pendulum-v1' .*'incline'"):
        envs.make("Pendulum-v1", 2, incline=2)


@pytest.mark.parametrize(
    ("env", "words"),
    [
        ("Pendulun-v1", ["unknown environment 'Pendulun-v1' for env_backend tf; did you mean 'Pendulum-v1'?"]),
        ("HalfCheetah-v5", ["'HalfCheetah-v5'", "Acrobot-v1, CartPole-v1, MountainCarContinuous-v0, Pendulum-v1"]),
    ],
)
def test_unknown_environments(env, words):
    with pytest.raises(UsageError) as caught:
        check_environment(load_config(env=env, env_backend="tf"))
    for word in words:
        assert word in str(caught.value)
    assert len(str(caught.value).splitlines()) == 3


def test_an_id_that_is_not_well_formed_is_refused():
    with pytest.raises(gymnasium.error.Error):
        envs.register("No spaces, please", "module:Class")


def test_looking_up_environments_does_not_import_tensorflow():
    code = """
        import sys
        from agents.config import load_config
        from agents.families import check_environment
        from agents.envs import make, register

        register("Mine-v0", "my_module:Mine")
        assert check_environment(load_config(env="Mine-v0", env_backend="tf")).entry_point == "my_module:Mine"
        assert "tensorflow" not in sys.modules and "keras" not in sys.modules
        """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True)
