import importlib.util
import subprocess
import sys

import gymnasium
import pytest
from gymnasium.envs.registration import EnvSpec

from agents.environments.registration import find_spec
from agents.errors import UsageError
from agents.settings.installation import install_command


@pytest.fixture
def module(tmp_path, monkeypatch):
    """A function that writes a module which this process can import."""
    monkeypatch.syspath_prepend(tmp_path)

    def write(name, text):
        (tmp_path / f"{name}.py").write_text(text)
        return name

    yield write
    for path in tmp_path.glob("*.py"):
        sys.modules.pop(path.stem, None)


class TestFindSpec:
    @pytest.mark.parametrize("env", ["Pendulum-v1", "Pendulum", "CartPole-v0", "HalfCheetah-v4"])
    def test_environments_that_exist_or_are_outdated(self, env, monkeypatch):
        monkeypatch.setattr("importlib.util.find_spec", lambda name: object())
        assert find_spec(env).name == env.partition("-")[0]

    @pytest.mark.parametrize(
        "env, message",
        [
            ("Pendulm-v1", "unknown environment 'Pendulm-v1'; did you mean 'Pendulum-v1'?"),
            (
                "HalfCheetah-v9",
                "unknown environment 'HalfCheetah-v9'; did you mean 'HalfCheetah-v5'?",
            ),
            (
                "highway-v0",
                "unknown environment 'highway-v0'\n"
                "name an environment of another package with its module, as in my_module:highway-v0",
            ),
            ("Foo/Bar-v1", "unknown environment 'Foo/Bar-v1'\nname an environment of another"),
            ("json:Pendulm-v1", "unknown environment 'Pendulm-v1'\njson registers no environments"),
            ("!!", "unknown environment '!!'"),
            (
                "HalfCheetah-v3",
                "environment 'HalfCheetah-v3' is no longer part of Gymnasium; use 'HalfCheetah-v5'",
            ),
            (
                "no_module:MyEnv-v0",
                "env 'no_module:MyEnv-v0' needs the module 'no_module', which was not found\n"
                "install it, run the command in its folder, or set PYTHONPATH to it",
            ),
            (":MyEnv-v0", "env ':MyEnv-v0': importing '' failed"),
            ("a:b:MyEnv-v0", "env 'a:b:MyEnv-v0' needs the module 'a:b', which was not found"),
        ],
    )
    def test_environments_that_do_not_exist(self, env, message):
        with pytest.raises(UsageError) as caught:
            find_spec(env)
        assert str(caught.value).startswith(message)
        assert len(str(caught.value).splitlines()) <= 3

    @pytest.mark.parametrize(
        "env, package, extra",
        [
            ("HalfCheetah-v5", "mujoco", "mujoco"),
            ("HalfCheetah-v4", "mujoco", "mujoco"),
            ("LunarLander-v3", "Box2D", "box2d"),
            ("ALE/Pong-v5", "ale_py", "atari"),
            ("dm_control/cheetah/run", "dm_control", "dm-control"),
            ("HalfCheetahBulletEnv-v0", "pybullet", "bullet"),
            ("MiniGrid-Empty-5x5-v0", "minigrid", "minigrid"),
            ("BabyAI-GoToObj-v0", "minigrid", "minigrid"),
            ("PongNoFrameskip-v4", "ale_py", "atari"),
        ],
    )
    def test_missing_packages(self, env, package, extra, monkeypatch):
        monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
        with pytest.raises(UsageError) as caught:
            find_spec(env)
        first, second = str(caught.value).splitlines()
        assert first == f"environment '{env}' needs the package {package}, which is not installed"
        assert second == install_command(extra)

    def test_environments_of_a_module(self, module):
        text = "import gymnasium\ngymnasium.register('Mine-v0', 'registers_env.parts:Mine')"
        name = module("registers_env", text)
        spec = find_spec(f"{name}:Mine-v0")
        assert (spec.id, spec.entry_point) == ("Mine-v0", "registers_env.parts:Mine")
        for env, suggestion in (("Min-v0", "; did you mean 'Mine-v0'?"), ("Other-v0", "")):
            with pytest.raises(UsageError) as caught:
                find_spec(f"{name}:{env}")
            problem, known = str(caught.value).splitlines()
            assert problem == f"unknown environment '{env}'{suggestion}"
            assert known == "registers_env registers Mine-v0"
        gymnasium.registry.pop("Mine-v0")

    def test_namespaces_may_be_misspelled(self):
        pytest.importorskip("ale_py")
        with pytest.raises(UsageError, match=r"'ale/Pong-v5'; did you mean 'ALE/Pong-v5'\?"):
            find_spec("ale/Pong-v5")

    @pytest.mark.parametrize(
        "text, message",
        [
            ("import no_such_thing", "No module named 'no_such_thing'"),
            ("\nraise RuntimeError('first\\nsecond\\nthird')", "RuntimeError: first second third"),
        ],
    )
    def test_module_that_cannot_be_imported(self, module, text, message):
        name = module("broken_env", text)
        with pytest.raises(UsageError, match="importing 'broken_env' failed") as caught:
            find_spec(f"{name}:Mine-v0")
        assert message in str(caught.value)
        assert len(str(caught.value).splitlines()) <= 3

    def test_vector_environments_without_single_ones_raise(self, monkeypatch):
        spec = EnvSpec("OnlyVector-v0", vector_entry_point="module:Vector")
        monkeypatch.setitem(gymnasium.registry, spec.id, spec)
        with pytest.raises(UsageError, match="'OnlyVector-v0' exists as a vector environment only"):
            find_spec(spec.id)


def test_workers_import_neither_tensorflow_nor_pydantic():
    packages = (
        "shimmy.dm_control_compatibility",
        "ale_py",
        "minigrid.wrappers",
        "pybullet_envs_gymnasium",
    )
    installed = [name for name in packages if importlib.util.find_spec(name.partition(".")[0])]
    modules = ["agents.tools.wrappers", "agents.environments.mock_environment"]
    modules += [f"agents.environments.{name}" for name in ("atari", "registration", "video")]
    code = f"""
import sys, {", ".join(modules)}
print({{"tensorflow", "keras", "torch", "jax", "pydantic"}} & set(sys.modules))
import {", ".join(["sys", *installed])}
print("tensorflow" in sys.modules)
"""
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "set()\nFalse\n"
