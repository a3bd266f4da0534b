import ctypes.util
import importlib.util
import os
import subprocess
import sys

import pytest

from agents.errors import UsageError
from agents.graph.backend import (
    make_backend,
)
from agents.settings.config_file import load_config

BACKENDS = ["process", "hybrid", "inline", "envpool", "tf"]

WITHOUT_TENSORFLOW = """
import sys
from agents.graph.backend import make_backend
from agents.settings.config_file import load_config
for env_backend in {backends}:
    print(make_backend(load_config(env="CartPole-v1", env_backend=env_backend)).check().id)
from agents.tensor_envs import make, register
register("Mine-v0", "my_module:Mine")
spec = make_backend(load_config(env="Mine-v0", env_backend="tf")).check()
assert spec.entry_point == "my_module:Mine"
sys.exit(bool({{"tensorflow", "keras"}} & set(sys.modules)))
"""


@pytest.mark.parametrize("setting", ["env_wrappers", "train_wrappers"])
def test_wrappers_are_looked_up(setting):
    def check(name, env_backend="process"):
        make_backend(load_config(env_backend=env_backend, **{setting: [name]})).check()

    check("gymnasium.wrappers:ClipAction")
    for name in ("no_module:f", "gymnasium.wrappers:ClipActoin", "gymnasium:__version__"):
        with pytest.raises(UsageError, match=f"{setting} '{name}'"):
            check(name)
    for env_backend in ("envpool", "tf"):
        message = f"{setting}: environments with env_backend '{env_backend}' take no"
        with pytest.raises(UsageError, match=message) as raised:
            check("gymnasium.wrappers:ClipAction", env_backend)
        assert len(str(raised.value).splitlines()) <= 3


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


@pytest.mark.skipif(
    ctypes.util.find_library("OSMesa") is None or importlib.util.find_spec("mujoco") is None,
    reason="needs libosmesa6 and MuJoCo, as a machine without a display",
)
@pytest.mark.parametrize(
    ("env", "env_backend", "is_refused"),
    [
        ("Reacher-v5", "inline", True),
        ("Reacher-v5", "hybrid", True),
        ("Reacher-v5", "process", False),
        ("imports_mujoco:Reacher-v5", "process", True),
    ],
)
def test_software_rendering_beside_tensorflow_is_refused(tmp_path, env, env_backend, is_refused):
    # Otherwise a segmentation fault ends the process, without a message.
    (tmp_path / "imports_mujoco.py").write_text("import mujoco\n")
    words = ["--env", env, "--env-backend", env_backend, "--num-envs=2", "--num-processes=2"]
    sizes = ["--rollout-length=8", "--minibatch-size=8", "--steps=16", "--epochs=1"]
    process = subprocess.run(
        [
            sys.executable,
            "-m",
            "agents.scripts.train",
            f"--logdir={tmp_path}/logdir",
            *words,
            *sizes,
        ],
        capture_output=True,
        text=True,
        env={**os.environ, "MUJOCO_GL": "osmesa", "PYTHONPATH": str(tmp_path)},
    )
    assert process.returncode == (2 if is_refused else 0), process.stderr
    assert ("leave MUJOCO_GL out" in process.stderr) == is_refused
