import contextlib
import os
import platform
import re
import subprocess
import sys
import time
from pathlib import Path

import gymnasium
import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces
from tensorflow.python.framework import op_callbacks

from agents.config import load_config
from agents.envs import InGraphTensorEnv, TensorEnv
from agents.runs.checkpoint import fingerprint
from agents.runs.learner import Learner
from agents.tools.batch_env import BatchEnv
from agents.tools.errors import EnvironmentFailure, NonFiniteError

TINY = {"num_envs": 2, "rollout_length": 8, "minibatch_size": 4, "epochs": 2, "layers": (4,), "eval_episodes": 3}


class Bike(gymnasium.Env):
    """Observations of two types, a discrete action, and episodes of five steps that are cut."""

    observation_space = spaces.Dict(gear=spaces.Discrete(3), speed=spaces.Box(-np.inf, np.inf, (2,), np.float64))
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._steps = 0
        return self._observ(), {}

    def step(self, action):
        self._steps += 1
        return self._observ(), float(action), False, self._steps == 5, {}

    def _observ(self):
        return {"gear": self.np_random.integers(3), "speed": self.np_random.normal(size=2)}


class Camera(Bike):
    """The same, seen in a picture."""

    observation_space = spaces.Box(0, 255, (36, 36, 1), np.uint8)

    def _observ(self):
        return self.np_random.integers(256, size=(36, 36, 1), dtype=np.uint8)


class TensorBike(TensorEnv):
    """The same in TensorFlow."""

    observation_space, action_space = Bike.observation_space, Bike.action_space

    def initial_state(self, uniform):
        return {"gear": tf.cast(uniform(0, 3), tf.int64), "speed": uniform(-2, 2, (2,))}

    def step(self, state, action, uniform):
        return self.initial_state(uniform), action == 1, tf.zeros_like(action, tf.bool)

    def observe(self, state):
        return state


class Faulty(TensorBike):
    """Gives a bad number in the fifth step of the second environment.

    Attributes:
      number: That number, which can be changed without another compilation.
    """

    def __init__(self):
        self.number = tf.Variable(np.nan)

    def initial_state(self, uniform):
        return {**super().initial_state(uniform), "steps": uniform() * 0}

    def step(self, state, action, uniform):
        after, reward, terminated = super().step(state, action, uniform)
        after["steps"] = state["steps"] + 1
        bad = (after["steps"] == 5) & (tf.range(action.shape[0]) == 1)
        return after, tf.where(bad, self.number, tf.cast(reward, tf.float32)), terminated

    def observe(self, state):
        return {"gear": state["gear"], "speed": state["speed"]}


class Broken(gymnasium.Env):
    """Does something bad in a chosen step after it was told to; its episodes are cut after five steps.

    Attributes:
      fault: What is bad, in which step from now on, and the number to give there.
    """

    observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)

    def __init__(self, action_space):
        self.action_space = action_space
        self.fault = ("nothing", 0, 0.0)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._steps = 0
        return self.np_random.normal(size=2).astype(np.float32), {}

    def step(self, action):
        assert self.action_space.contains(action)
        what, when, number = self.fault
        self.fault = (what, when - 1, number)
        self._steps += 1
        observ, reward = self.np_random.normal(size=2).astype(np.float32), 1.0
        if when == 1 and what == "exception":
            raise OSError("the wheel came off")
        if when == 1 and what == "observ":
            observ[1] = number
        if when == 1 and what == "reward":
            reward = number
        return observ, reward, False, self._steps == 5, {}


def make_learner(make_env, **overrides):
    config = load_config("default", **{**TINY, **overrides})
    train_envs, eval_envs = ([make_env() for _ in range(number)] for number in (config.num_envs, config.eval_episodes))

    def batch(envs):
        if isinstance(envs[0], TensorEnv):
            return InGraphTensorEnv(envs[0], len(envs), max_episode_steps=5)
        return BatchEnv(envs, blocking=True)

    learner = Learner(batch(train_envs), batch(eval_envs), config)
    learner.train_envs, learner.make_env = train_envs, make_env
    learner.begin_episodes()
    return learner


@pytest.fixture(scope="module", params=[Bike, TensorBike])
def learner(request):
    """An agent that has learned a little, from a newcomer's environment: a Dict with float64 and a discrete action."""
    learner = make_learner(request.param)
    learner.seconds = []
    for _ in range(4):
        start = time.perf_counter()
        learner.iterate()
        learner.seconds.append(time.perf_counter() - start)
    return learner


@contextlib.contextmanager
def executed():
    """Collects the names of everything that TensorFlow executes eagerly: operations, and whole graphs as functions."""
    names = []

    def callback(op_type, inputs, attrs, outputs, op_name=None, graph=None):
        if graph is None:
            names.append(op_type.decode() if isinstance(op_type, bytes) else op_type)

    op_callbacks.add_op_callback(callback)
    try:
        yield names
    finally:
        op_callbacks.remove_op_callback(callback)


def test_an_iteration_is_one_graph_call_whatever_the_rollout_length(learner):
    executions = {}
    for length in (8, 32):
        one = learner if length == 8 else make_learner(learner.make_env, rollout_length=length)
        one.iterate()  # Traces and compiles.
        with executed() as names:
            one.iterate()
        graphs = [name for name in names if name.startswith("__inference")]
        assert len(graphs) == 1 and "collect_and_learn" in graphs[0]
        executions[length] = sorted(name for name in names if name not in graphs)
    assert executions[8] == executions[32]
    assert len(executions[8]) < 30  # The results are read.


def test_only_the_first_iteration_compiles(learner):
    first, *later = learner.seconds
    assert sum(later) < first / 2


def test_learns_from_steps_of_all_environments(learner):
    before, weights = learner.step, fingerprint(learner.variables())
    learner.iterate()
    assert learner.step == before + 16
    assert fingerprint(learner.variables()) != weights


def test_evaluation_changes_nothing_but_the_best_score(learner):
    everything = {**learner.variables(), "samples": learner._ppo._samples, "observ": learner._envs.observ["speed"]}
    first, _ = learner.evaluate()
    before = fingerprint(everything)
    again, is_best = learner.evaluate()
    assert fingerprint(everything) == before
    assert first == again
    assert not is_best
    assert set(first) == {"eval/return_mean", "eval/return_std", "eval/length_mean"}
    assert first["eval/length_mean"] == 5


def test_the_best_score_is_remembered(learner):
    best = learner.variables()["run/best"]
    best.assign(-np.inf)
    score, is_best = learner.evaluate()
    assert is_best and float(best) == score["eval/return_mean"]
    best.assign(100.0)
    assert not learner.evaluate()[1]
    assert float(best) == 100


def test_report_has_the_documented_scalars(learner):
    learner.report()
    for _ in range(2):
        learner.iterate()
    scalars = learner.report()
    assert set(scalars) == {
        "episode/return", "episode/length", "perf/steps_per_second",
        "losses/policy", "losses/value", "losses/entropy", "losses/approx_kl", "losses/clip_fraction",
        "losses/explained_variance", "losses/gradient_norm", "losses/epochs", "schedule/learning_rate",
    }  # fmt: skip
    assert scalars["episode/length"] == 5
    assert 0 <= scalars["episode/return"] <= 5
    assert scalars["perf/steps_per_second"] == learner.rate > 0


def test_histograms_have_the_documented_arrays(learner):
    arrays = learner.arrays()
    rollout = {name.removeprefix("rollout/"): array for name, array in arrays.items() if name.startswith("rollout/")}
    assert set(rollout) == {
        "action", "log_prob", "mode", "probability", "observ", "normalized_observ", "reward", "value", "advantage",
        "return",
    }  # fmt: skip
    assert rollout["observ"].size == 16 * 5
    normalizers = {name: array for name, array in arrays.items() if name.startswith("normalizers/")}
    assert set(normalizers) == {f"normalizers/{name}" for name in ("observ_mean", "observ_std", "return_std")}
    np.testing.assert_allclose(normalizers["normalizers/observ_mean"], learner.variables()["normalize_observ/mean"])
    for kind in ("weights", "gradients"):
        names = {name for name in arrays if name.startswith(f"{kind}/")}
        assert names == {
            f"{kind}/{net}/{layer}/{part}"
            for net in ("policy", "value")
            for layer in ("hidden_0", "output")
            for part in ("kernel", "bias")
        }
        assert any(np.any(arrays[name]) for name in names)


def test_episodes_begin_with_seeds_that_depend_on_seed_and_step_alone(learner):
    def begun():
        learner.begin_episodes()
        return learner._envs.observ["speed"].numpy()

    first = begun()
    np.testing.assert_array_equal(begun(), first)
    assert (first[0] != first[1]).any()
    np.testing.assert_array_equal(learner.variables()["normalize_reward/sums"], [0, 0])
    learner.iterate()
    assert (learner.variables()["normalize_reward/sums"].numpy() != 0).any()
    assert (begun() != first).all()
    np.testing.assert_array_equal(learner.variables()["normalize_reward/sums"], [0, 0])


@pytest.mark.parametrize("make_env", [Bike, TensorBike])
def test_the_seed_decides_on_weights_actions_and_episodes(make_env):
    learners = [make_learner(make_env, seed=seed) for seed in (1, 1, 2)]
    for name in ("network/policy/output/kernel", "network/value/output/kernel", "algorithm/generator"):
        one, same, other = (learner.variables()[name].numpy() for learner in learners)
        np.testing.assert_array_equal(one, same)
        assert (one != other).any()
    one, same, other = (learner._envs.observ["speed"].numpy() for learner in learners)
    np.testing.assert_array_equal(one, same)
    assert (one != other).all()


def test_intervals_are_due_when_they_were_passed(learner):
    class At:
        due = Learner.due

        def __init__(self, before, step, steps):
            self._step_before, self.step = before, step
            self._config = load_config("default", steps=steps)

    assert not At(0, 90, 1000).due(100)
    assert At(90, 100, 1000).due(100)
    assert At(90, 180, 1000).due(100)
    assert At(90, 350, 1000).due(100)
    assert not At(100, 190, 1000).due(100)
    assert At(990, 1010, 1000).due(10**9)  # Everything is due at the end,
    assert not At(990, 1010, 1000).due(0)  # but for what is switched off.


@pytest.fixture(
    scope="module", params=[spaces.Box(-1, 1, (1,), np.float32), spaces.Discrete(2)], ids=["box", "discrete"]
)
def broken(request):
    """An agent whose second environment can be told to give something bad; and what makes it forget that again."""
    learner = make_learner(lambda: Broken(request.param))
    weights = {name: variable.numpy() for name, variable in learner.variables().items()}

    def restored(*fault):
        for name, variable in learner.variables().items():
            variable.assign(weights[name])
        learner.begin_episodes()
        learner.train_envs[1].fault = fault
        return learner

    return restored


@pytest.mark.parametrize(
    ("what", "when", "number", "named", "step"),
    [
        # What is bad, in which step after the reset; and the step of the rollout in which it is seen.
        ("observ", 3, np.nan, "observ", 3),
        ("observ", 3, np.inf, "observ", 3),
        ("observ", 5, np.nan, "final_observ", 4),  # The last one of an episode,
        ("observ", 8, np.nan, "observ", 8),  # and of the rollout.
        ("reward", 1, np.nan, "reward", 0),
        ("reward", 8, -np.inf, "reward", 7),
    ],
)
def test_a_number_that_is_not_finite_is_told_with_its_place(broken, what, when, number, named, step):
    with pytest.raises(NonFiniteError) as caught:
        broken(what, when, number).iterate()
    message = str(caught.value)
    assert f"The {named} of environment 1 is {number} at step {step} of the rollout that began at step 0." in message


def test_a_number_that_is_not_finite_is_told_by_a_compiled_iteration():
    learner = make_learner(Faulty)
    weights = {name: variable.numpy() for name, variable in learner.variables().items()}
    for number in (np.nan, np.inf):
        learner.train_envs[0].number.assign(number)
        with pytest.raises(NonFiniteError, match=f"The reward of environment 1 is {number} at step 4 of the rollout"):
            learner.iterate()
        for name, variable in learner.variables().items():
            variable.assign(weights[name])
        learner.begin_episodes()


def test_a_loss_that_is_not_finite_is_told(broken):
    learner = broken("nothing", 0, 0.0)
    learner.variables()["network/value/output/bias"].assign([np.nan])
    with pytest.raises(NonFiniteError, match="loss"):
        learner.iterate()


def test_an_environments_exception_appears_with_its_place(broken):
    with pytest.raises(EnvironmentFailure, match="the wheel came off") as caught:
        broken("exception", 3, 0.0).iterate()
    assert caught.value.env_index == 1
    broken("nothing", 0, 0.0).iterate()  # Once reset, all is well again.


def test_a_reward_of_any_finite_size_is_no_error(broken):
    broken("reward", 3, -1e30).iterate()


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="TensorFlow has oneDNN only there")
def test_convolutions_are_done_by_onednn():
    code = """
import test_learner
learner = test_learner.make_learner(test_learner.Camera, network="nature")
print("learning", flush=True)
learner.iterate()
print("evaluating", flush=True)
learner.evaluate()
"""
    environment = {**os.environ, "ONEDNN_VERBOSE": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    here = Path(__file__).parent
    output = subprocess.check_output([sys.executable, "-c", code], cwd=here, env=environment, text=True)
    _, learning, evaluating = re.split("learning|evaluating", output)
    assert len(re.findall("convolution.*backward_weights", learning)) == 8 * 3 * 2, "minibatches, layers, torsos"
    assert len(re.findall("convolution.*forward", evaluating)) >= 5 * 3, "steps, layers"
