import importlib.util
import subprocess
import sys

import pytest

from agents.config import load_config, preset_names
from agents.families import check_environment, warn_of_cut_episodes
from agents.tools.errors import UsageError


@pytest.mark.parametrize("env", ["Pendulum-v1", "Pendulum", "CartPole-v0", "HalfCheetah-v4"])
def test_environments_that_exist_or_are_outdated(env, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())
    assert check_environment(load_config(env=env)).name == env.partition("-")[0]


@pytest.mark.parametrize(
    "env, message",
    [
        ("Pendulm-v1", "unknown environment 'Pendulm-v1'; did you mean 'Pendulum-v1'?"),
        ("HalfCheetah-v9", "unknown environment 'HalfCheetah-v9'; did you mean 'HalfCheetah-v5'?"),
        ("!!", "unknown environment '!!'"),
        ("HalfCheetah-v3", "environment 'HalfCheetah-v3' is no longer part of Gymnasium; use 'HalfCheetah-v5'"),
        (
            "no_module:MyEnv-v0",
            "env 'no_module:MyEnv-v0' needs the module 'no_module', which was not found\n"
            "install it, or start in the directory that it is in",
        ),
        (":MyEnv-v0", "env ':MyEnv-v0': importing '' failed"),
        ("a:b:MyEnv-v0", "env 'a:b:MyEnv-v0' needs the module 'a:b', which was not found"),
    ],
)
def test_environments_that_do_not_exist(env, message):
    with pytest.raises(UsageError) as caught:
        check_environment(load_config(env=env))
    assert str(caught.value).startswith(message)
    assert len(str(caught.value).splitlines()) <= 3


@pytest.mark.parametrize(
    "env, package, command",
    [
        ("HalfCheetah-v5", "mujoco", "pip install 'agents[mujoco]'"),
        ("HalfCheetah-v4", "mujoco", "pip install 'agents[mujoco]'"),
        ("LunarLander-v3", "Box2D", "pip install 'agents[box2d]'"),
        ("ALE/Pong-v5", "ale_py", "pip install 'agents[atari]'"),
        ("dm_control/cheetah/run", "dm_control", "pip install 'agents[dm-control]'"),
        ("HalfCheetahBulletEnv-v0", "pybullet", "pip install 'agents[bullet]'"),
        ("MiniGrid-Empty-5x5-v0", "minigrid", "pip install 'agents[minigrid]'"),
    ],
)
def test_missing_packages(env, package, command, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UsageError) as caught:
        check_environment(load_config(env=env))
    first, second = str(caught.value).splitlines()
    assert first == f"environment '{env}' needs the package {package}, which is not installed"
    assert second == command


@pytest.fixture
def module(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)

    def write(name, text):
        (tmp_path / f"{name}.py").write_text(text)
        return name

    yield write
    for path in tmp_path.glob("*.py"):
        sys.modules.pop(path.stem, None)


def test_environment_of_a_module(module):
    name = module("registers_env", "import gymnasium\ngymnasium.register('Mine-v0', entry_point='registers_env:Mine')")
    spec = check_environment(load_config(env=f"{name}:Mine-v0"))
    assert (spec.id, spec.entry_point) == ("Mine-v0", "registers_env:Mine")


@pytest.mark.parametrize(
    "text, words",
    [
        ("import no_such_thing", "No module named 'no_such_thing'"),
        ("\nraise RuntimeError('first\\nsecond\\nthird')", "RuntimeError: first second third"),
        ("def", "SyntaxError"),
    ],
)
def test_module_that_cannot_be_imported(module, text, words):
    name = module("broken_env", text)
    with pytest.raises(UsageError, match="importing 'broken_env' failed") as caught:
        check_environment(load_config(env=f"{name}:Mine-v0"))
    assert words in str(caught.value)
    assert len(str(caught.value).splitlines()) <= 3


def test_without_envpool_its_backend_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "envpool", None)  # As if it were not there.
    with pytest.raises(UsageError) as raised:
        check_environment(load_config(env_backend="envpool"))
    assert "needs the package envpool" in str(raised.value)
    assert "pip install 'agents[envpool]'" in str(raised.value)
    assert len(str(raised.value).splitlines()) == 2


@pytest.mark.parametrize("setting", ["env_wrappers", "train_wrappers"])
def test_wrappers_that_are_missing_or_do_not_fit(setting):
    for name in ("no_module:f", "gymnasium.wrappers:ClipActoin", "gymnasium:__version__"):
        with pytest.raises(UsageError, match=f"{setting} '{name}'"):
            check_environment(load_config(**{setting: [name]}))
    for backend in ("tf", "envpool"):
        with pytest.raises(UsageError, match=f"{setting}: environments with env_backend '{backend}' take no wrappers"):
            check_environment(load_config(env_backend=backend, **{setting: ["gymnasium.wrappers:ClipAction"]}))
    check_environment(load_config(**{setting: ["gymnasium.wrappers:ClipAction"]}))


def test_a_wrapper_that_is_missing_ends_the_command_before_tensorflow_is_imported(tmp_path):
    code = (
        "import sys; from agents import command_line; from agents.scripts import train; import atexit;"
        "atexit.register(lambda: print('tensorflow' in sys.modules)); command_line.run(train.main)"
    )
    options = [f"--logdir={tmp_path}", "--train-wrappers=no_module:f"]
    done = subprocess.run([sys.executable, "-c", code, *options], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "False\n")
    assert "train_wrappers 'no_module:f' needs the module 'no_module'" in done.stderr
    assert len(done.stderr.splitlines()) <= 3


@pytest.mark.skipif(not importlib.util.find_spec("dm_control"), reason="needs the extra dm-control")
@pytest.mark.parametrize(
    ("env", "message"),
    [
        (
            "dm_control/cheetah/rum",
            "unknown environment 'dm_control/cheetah/rum'; did you mean 'dm_control/cheetah/run'?",
        ),
        ("dm_control/base/run", "unknown environment 'dm_control/base/run'"),
        ("dm_control/cheetah", "unknown environment 'dm_control/cheetah'; did you mean 'dm_control/cheetah/run'?"),
    ],
)
def test_tasks_that_dm_control_does_not_have(env, message):
    with pytest.raises(UsageError) as raised:
        check_environment(load_config(env=env))
    assert str(raised.value).startswith(message)


@pytest.mark.parametrize(
    "settings, limit",
    [
        ({"num_envs": 100, "checkpoint_interval": 19_999}, 200),
        ({"num_envs": 100, "checkpoint_interval": 20_000}, None),
        ({"num_envs": 100, "checkpoint_interval": 10_000, "action_repeat": 2}, None),
        ({"num_envs": 100, "checkpoint_interval": 10_000, "max_episode_steps": 101}, 101),
        ({"num_envs": 100, "checkpoint_interval": 10_000, "max_episode_steps": 100}, None),
        ({"num_envs": 100, "checkpoint_interval": 1_000, "steps": 1_000}, None),
        ({"env": "Blackjack-v1", "num_envs": 100, "checkpoint_interval": 1_000}, None),  # Without a limit.
    ],
)
def test_checkpoints_that_cut_all_episodes(settings, limit, recwarn):
    config = load_config(rollout_length=64, **settings)
    warn_of_cut_episodes(config, check_environment(config))
    assert [f"may last {limit}:" in str(warning.message) for warning in recwarn] == [True] * (limit is not None)


@pytest.mark.parametrize("name", preset_names())
def test_presets_leave_time_for_whole_episodes(name, recwarn):
    config = load_config(name)
    try:
        spec = check_environment(config)
    except UsageError as error:
        pytest.skip(str(error))  # Its package is not installed.
    warn_of_cut_episodes(config, spec)
    assert not recwarn.list
