import importlib.util
import subprocess
import sys

import gymnasium
import pytest

from agents.errors import UsageError
from agents.graph.backend import (
    EnvPoolBackend,
    GymnasiumBackend,
    TensorFlowBackend,
    make_backend,
)
from agents.settings.config import Config
from agents.settings.config_file import load_config

BACKENDS = ["process", "hybrid", "inline", "envpool", "tf"]

WITHOUT_TENSORFLOW = """
import sys
from agents.graph.backend import make_backend
from agents.settings.config_file import load_config
for env_backend in {backends}:
    print(make_backend(load_config(env="CartPole-v1", env_backend=env_backend)).check().id)
sys.exit("tensorflow" in sys.modules)
"""


@pytest.mark.parametrize("env_backend", BACKENDS)
def test_the_setting_selects_the_backend(env_backend):
    kinds = {"tf": TensorFlowBackend, "envpool": EnvPoolBackend}
    backend = make_backend(load_config(env_backend=env_backend))
    assert type(backend) is kinds.get(env_backend, GymnasiumBackend)


def test_the_setting_takes_these_backends():
    assert list(Config.model_fields["env_backend"].annotation.__args__) == BACKENDS


def test_what_backends_support():
    backends = {name: make_backend(load_config(env_backend=name)) for name in BACKENDS}
    for flag in ("takes_wrappers", "same_episodes"):
        assert {name: getattr(backend, flag) for name, backend in backends.items()} == {
            "process": True,
            "hybrid": True,
            "inline": True,
            "envpool": False,
            "tf": False,
        }


@pytest.mark.parametrize("setting", ["env_wrappers", "train_wrappers"])
@pytest.mark.parametrize("env_backend", ["process", "inline"])
def test_wrappers_are_looked_up(env_backend, setting):
    def check(name):
        make_backend(load_config(env_backend=env_backend, **{setting: [name]})).check()

    check("gymnasium.wrappers:ClipAction")
    for name in ("no_module:f", "gymnasium.wrappers:ClipActoin", "gymnasium:__version__"):
        with pytest.raises(UsageError, match=f"{setting} '{name}'"):
            check(name)


@pytest.mark.parametrize("setting", ["env_wrappers", "train_wrappers"])
@pytest.mark.parametrize("env_backend", ["envpool", "tf"])
def test_backends_that_take_no_wrappers_raise(env_backend, setting):
    config = load_config(env_backend=env_backend, **{setting: ["gymnasium.wrappers:ClipAction"]})
    with pytest.raises(
        UsageError, match=f"{setting}: environments with env_backend '{env_backend}' take no"
    ) as raised:
        make_backend(config).check()
    assert len(str(raised.value).splitlines()) <= 3


@pytest.mark.parametrize("env_backend", ["envpool", "tf"])
def test_a_last_wrapper_for_backends_that_take_none_raises(env_backend):
    backend = make_backend(load_config(env_backend=env_backend))
    with pytest.raises(ValueError, match=f"env_backend '{env_backend}' take no wrappers"):
        backend.make(gymnasium.spec("Pendulum-v1"), 2, wrap=lambda index, env: env)


def test_a_missing_wrapper_ends_the_command_before_tensorflow_is_imported(tmp_path):
    code = (
        "import sys; from agents.settings import reports; import atexit;"
        "from agents.scripts import train;"
        "atexit.register(lambda: print('tensorflow' in sys.modules)); reports.run(train.main)"
    )
    options = [f"--logdir={tmp_path}", "--train-wrappers=no_module:f"]
    process = subprocess.run(
        [sys.executable, "-c", code, *options], capture_output=True, text=True, check=False
    )
    assert (process.returncode, process.stdout) == (2, "False\n")
    assert "train_wrappers 'no_module:f' needs the module 'no_module'" in process.stderr
    assert len(process.stderr.splitlines()) <= 3


def test_no_check_imports_tensorflow():
    has_envpool = importlib.util.find_spec("envpool")
    backends = [name for name in BACKENDS if name != "envpool" or has_envpool]
    code = WITHOUT_TENSORFLOW.format(backends=backends)
    output = subprocess.check_output([sys.executable, "-c", code], text=True)
    assert output.split() == ["CartPole-v1"] * len(backends)
