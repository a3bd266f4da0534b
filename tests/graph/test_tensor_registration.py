import re
import subprocess
import sys
import textwrap
from pathlib import Path

import gymnasium
import pytest
import tensorflow as tf

from agents import tensor_envs
from agents.errors import UsageError
from agents.graph import tensor_registration as registration
from agents.graph.backend import make_backend
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
def registry(monkeypatch):
    """Removes environments that a test registers."""
    monkeypatch.setattr(registration, "_specs", dict(registration._specs))


@pytest.fixture
def module(tmp_path, monkeypatch, registry):
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


def test_errors_name_unknown_arguments_of_the_constructor():
    with pytest.raises(UsageError, match="env_kwargs of 'Pendulum-v1' .*'incline'"):
        tensor_envs.make("Pendulum-v1", 2, incline=2)


@pytest.mark.parametrize(
    ("env", "words"),
    [
        (
            "Pendulun-v1",
            ["unknown environment 'Pendulun-v1' for env_backend tf; did you mean 'Pendulum-v1'?"],
        ),
        (
            "HalfCheetah-v5",
            ["'HalfCheetah-v5'", "Acrobot-v1, CartPole-v1, MountainCarContinuous-v0, Pendulum-v1"],
        ),
    ],
)
def test_errors_of_unknown_environments_suggest_registered_ones(env, words):
    with pytest.raises(UsageError) as caught:
        make_backend(load_config(env=env, env_backend="tf")).check()
    for word in words:
        assert word in str(caught.value)
    assert len(str(caught.value).splitlines()) == 3


def test_malformed_ids_are_rejected():
    with pytest.raises(gymnasium.error.Error):
        tensor_envs.register("No spaces, please", "module:Class")


def test_finding_specifications_does_not_import_tensorflow():
    code = """
        import sys
        from agents.settings.config_file import load_config
        from agents.graph.backend import make_backend
        from agents.tensor_envs import make, register

        register("Mine-v0", "my_module:Mine")
        spec = make_backend(load_config(env="Mine-v0", env_backend="tf")).check()
        assert spec.entry_point == "my_module:Mine"
        assert "tensorflow" not in sys.modules and "keras" not in sys.modules
        """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True)


def test_the_example_of_the_guide_learns(tmp_path, monkeypatch, registry):
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
