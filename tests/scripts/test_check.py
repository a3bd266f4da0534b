import os
import sys
import textwrap

import gymnasium
import pytest

from agents.scripts import check
from agents.scripts.check import main
from agents.settings.reports import run

MODULE = """
import os
import time

import gymnasium
import numpy as np
from gymnasium import spaces

class Far(gymnasium.Env):
    observation_space = spaces.Box(-1, 1, (1,), np.float32)
    action_space = spaces.Box(-1000, 1000, (1,), np.float32)

    def __init__(self, length=5):
        self._length = length

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._steps = 0
        return self._observe(), {}

    def step(self, action):
        self._steps += 1
        return self._observe(), float(action[0]), self._steps == self._length, False, {}

    def _observe(self):
        return self.np_random.uniform(-1, 1, 1).astype(np.float32)

class Wrong(Far):
    def _observe(self):
        return np.full(1, np.nan, np.float32)

class OneSided(Far):
    action_space = spaces.Box(3, np.inf, (1,), np.float32)

class Raises(Far):
    def step(self, action):
        raise OSError("no such device")

class SlightlyOut(Far):
    def _observe(self):
        return super()._observe() * np.float32(1.01)

class NeedsOptions(Far):
    def reset(self, *, seed=None, options=None):
        self._level = options["world"]["level"]
        return super().reset(seed=seed)

class NoOptions(Far):
    def reset(self, *, seed=None):
        return super().reset(seed=seed)

class Masked(Far):
    action_space = spaces.Discrete(3)
    masks = [np.array([1, 0, 0], np.int8), np.array([0, 1, 0], np.int8)]

    def reset(self, *, seed=None, options=None):
        return super().reset(seed=seed)[0], {"action_mask": self.masks[0]}

    def step(self, action):
        assert action == self._steps % 2, "an invalid action"
        observ, _, *rest, info = super().step([self.np_random.normal()])
        return observ, self.np_random.normal(), *rest, {"action_mask": self.masks[self._steps % 2]}

class NoMaskInSteps(Masked):
    def step(self, action):
        return *super().step(0 * action + self._steps % 2)[:4], {}

class Slow(Far):
    def step(self, action):
        time.sleep(0.5)
        return super().step(action)

def not_in_workers():
    if os.getpid() != int(os.environ["CHECKING_PID"]):
        raise OSError("not in a worker")
    return Far()

gymnasium.register("Far-v0", Far, max_episode_steps=3)
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    """The name of a module with environments."""
    (tmp_path / "my_checked_envs.py").write_text(textwrap.dedent(MODULE))
    monkeypatch.setenv("CHECKING_PID", str(os.getpid()))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    yield "my_checked_envs"
    sys.modules.pop("my_checked_envs", None)
    gymnasium.registry.pop("Far-v0", None)


def test_an_environment_of_gymnasium(capsys):
    main(["Pendulum-v1", "--random-steps=500"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "Pendulum-v1" and lines[-1] == "Nothing to change."
    assert "  time limit    200 steps" in lines
    assert any(line.startswith("  episodes      2 ended, after 200 to 200 steps") for line in lines)
    assert any("steps/s" in line for line in lines)


NEEDS = ["NeedsOptions", "--reset-options={world: {level: 3}}"]
MASKED = "error: a random action raised AssertionError: an invalid action; training ignores the action_mask"


@pytest.mark.parametrize(
    ("arguments", "code", "problem"),
    [
        (["Far"], 0, "Nothing to change."),
        (NEEDS, 0, "Nothing to change."),
        (["SlightlyOut"], 0, "warning: the environment returned "),
        (["Masked"], 1, MASKED),
        (["Masked", "--action-mask=true"], 0, "Nothing to change."),
        (["Wrong"], 1, "error: the environment returned nan"),
        (["NeedsOptions"], 2, "TypeError: 'NoneType' object is not subscriptable"),
        (["NoOptions"], 2, "TypeError: "),
        (["NoMaskInSteps", "--action-mask=true"], 2, "must hold 'action_mask'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_only_what_training_does_not_bear_is_an_error(arguments, code, problem, module, capsys):
    try:
        run(main, [f"{module}:{arguments[0]}", "--random-steps=100", *arguments[1:]])
        assert code == 0
    except SystemExit as end:
        assert end.code == code
    printed = capsys.readouterr()
    assert problem in printed.out + printed.err and "in a worker process" not in printed.out
    assert ("error: " in printed.out) == (code == 1)
    assert ("error: " in printed.err) == (code == 2)


def test_warnings_end_with_success(module, capsys):
    main([f"{module}:OneSided", "--random-steps=100", "--max-episode-steps=3"])
    out = capsys.readouterr().out
    assert "time limit    3 steps" in out
    warning, advice = out.splitlines()[-2:]
    assert warning.startswith("warning: actions: ") and "[3, inf]" in warning
    assert advice == "  give the action space two finite bounds"


def test_wrappers_and_settings_count(module, capsys):
    wrapper = "agents.tools.wrappers:RangeNormalize"
    arguments = ["--random-steps=100", '--env-kwargs={"length": 2}', f"--env-wrappers={wrapper}"]
    main([f"{module}:Far-v0", *arguments])
    out = capsys.readouterr().out
    assert "actions       Box(-1.0, 1.0, (1,), float32)" in out and "time limit    3 steps" in out
    assert "after 2 to 2 steps" in out and out.endswith("Nothing to change.\n")


def test_environments_that_workers_cannot_make(module, capsys):
    with pytest.raises(SystemExit) as caught:
        main([f"{module}:not_in_workers", "--random-steps=10"])
    assert caught.value.code == 1
    out = capsys.readouterr().out
    assert "error: in a worker process: " in out and "not in a worker" in out


def test_a_long_check_tells_where_it_is(module, capsys, monkeypatch):
    monkeypatch.setattr(check, "REPORT_SECONDS", 0.1)
    main([f"{module}:Slow", "--random-steps=1", "--max-episode-steps=1"])
    report = next(line for line in capsys.readouterr().err.splitlines() if "now in step" in line)
    assert f"{module}.py, line " in report


TENSOR_MODULE = """
import numpy as np
import tensorflow as tf
from gymnasium import spaces

from agents import tensor_envs

class Count(tensor_envs.TensorEnv):
    observation_space = spaces.Dict(b=spaces.Discrete(4), a=spaces.Box(0, 4, (1,), np.float32))
    action_space = spaces.Dict(right=spaces.Box(-1, 1, (2,), np.float32), left=spaces.Discrete(2))

    def __init__(self, scale=1.0):
        self._scale = scale

    def initial_state(self, uniform):
        return tf.zeros_like(uniform()), uniform()

    def step(self, state, action, uniform):
        steps, place = state
        reward = action["right"][:, 1] - tf.cast(action["left"], tf.float32)
        return (steps + 1, uniform()), reward, steps == 2

    def observe(self, state):
        steps, place = state
        return {"a": self._scale * tf.cast(place[:, None], tf.float32), "b": tf.cast(steps, tf.int64)}

class NotANumber(Count):
    def observe(self, state):
        return {**super().observe(state), "a": tf.math.log(tf.zeros_like(state[1], tf.float32)[:, None] - 1)}

class WrongShape(Count):
    def observe(self, state):
        return {**super().observe(state), "a": tf.cast(state[1], tf.float32)}

class NotCompiled(Count):
    def step(self, state, action, uniform):
        after, reward, terminated = super().step(state, action, uniform)
        return after, tf.ensure_shape(tf.py_function(lambda x: x, [reward], tf.float32), [1]), terminated

for kind in (Count, NotANumber, WrongShape, NotCompiled):
    tensor_envs.register(f"{kind.__name__}-v0", kind, max_episode_steps=20)
"""


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["Count-v0"], 0, "Nothing to change."),
        (["Count-v0"], 0, "20 ended, after 3 to 3 steps"),
        (["Count-v0", "--max-episode-steps=2"], 0, "30 ended, after 2 to 2 steps"),
        (["Count-v0", "--env-kwargs={scale: 8}"], 0, "['a'][0] in an observation of Box(0.0, 4.0"),
        (["NotANumber-v0"], 1, "error: the environment returned nan"),
        (["WrongShape-v0"], 2, "WrongShape.observe returned the observation"),
        (["NotCompiled-v0"], 2, "unsupported operations"),
        (["Count-v0", "--env-wrappers=agents.tools.wrappers:RangeNormalize"], 2, "no wrappers"),
        (["Count-v0", "--env-backend=process"], 2, "it needs --env-backend=tf"),
        (["Count-v0", "--env-backend=envpool"], 2, "expected one of process, hybrid, inline, tf"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_environments_in_tensorflow(
    arguments, code, message, tmp_path, monkeypatch, tensor_registry, capsys
):
    (tmp_path / "my_tensor_envs.py").write_text(TENSOR_MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    env, *settings = arguments
    try:
        run(main, [f"my_tensor_envs:{env}", "--env-backend=tf", "--random-steps=60", *settings])
        assert code == 0
    except SystemExit as end:
        assert end.code == code
    finally:
        sys.modules.pop("my_tensor_envs", None)
    printed = capsys.readouterr()
    assert message in printed.out + printed.err


@pytest.mark.parametrize("backend", ["inline", "tf"])
def test_a_backend_without_workers_starts_none(backend, module, capsys):
    env = "Pendulum-v1" if backend == "tf" else f"{module}:not_in_workers"
    main([env, f"--env-backend={backend}", "--random-steps=40", "--max-episode-steps=20"])
    out = capsys.readouterr().out
    assert "2 ended, after 20 to 20 steps" in out or "after 5 to 5 steps" in out
    assert ("steps/s" in out) == (backend == "inline")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{module}:Raises"], "OSError: no such device"),
        (["{module}:Nothing-v0"], "unknown environment"),
        (["Pendulum-v1", "--learning-rate=1"], "learning-rate"),
        (["Pendulum-v1", "CartPole-v1"], "ENV"),
    ],
)
def test_mistakes_are_answered_in_three_lines(arguments, message, module, capsys):
    with pytest.raises(SystemExit) as caught:
        run(main, [argument.format(module=module) for argument in arguments])
    assert caught.value.code == 2
    error = capsys.readouterr().err
    lines = [line for line in error.splitlines() if not line.startswith("Checking ")]
    assert message in error and len(lines) <= 3
