import contextlib
import os
import platform
import re
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces
from tensorflow.python.framework import op_callbacks

from agents.errors import UsageError
from agents.ppo.ppo import PPO
from agents.settings.config_file import load_config
from agents.tensor_envs import InGraphTensorEnv
from agents.training.learner import Learner
from tests.fingerprint import fingerprint
from tests.toys import TWO_CHOICES, RandomEnv
from tests.training.learners import (
    IMAGE,
    TINY,
    make_learner,
    make_random_env,
    make_tensor_env,
)


@pytest.fixture(scope="module", params=[make_random_env, make_tensor_env])
def learner(request):
    """A learner after two iterations; observations are a Dict with float64."""
    learner = make_learner(request.param)
    for _ in range(2):
        learner.iterate()
    return learner


def make_env_with_masks_in_infos():
    info = {"action_mask": np.array([1, 0], np.int8)}
    return RandomEnv(action_space=TWO_CHOICES, durations=(5, 5), info=lambda step: info)


def make_env_with_masks_in_observations():
    parts = {"action_mask": spaces.MultiBinary(2), "place": spaces.Box(-1, 1, (1,), np.float32)}
    return RandomEnv(spaces.Dict(parts), TWO_CHOICES, durations=(5, 5))


@pytest.mark.parametrize(
    ("make_env", "place"),
    [
        (make_env_with_masks_in_infos, "infos"),
        (make_env_with_masks_in_observations, "observations"),
    ],
)
def test_masks_that_training_ignores_are_named_once(make_env, place):
    with pytest.warns(UserWarning, match=f"the {place} hold an action_mask, .*=true") as caught:
        learner = make_learner(make_env)
    assert len(caught) == 1
    learner.iterate()
    learner.begin_episodes()  # No other warning.


def test_an_update_that_moves_the_policy_too_far_is_named_once():
    learner = make_learner(
        make_random_env, learning_rate=1, learning_rate_schedule="constant", epochs=20
    )
    with pytest.warns(UserWarning, match="lower learning_rate .1.") as caught:
        for _ in range(4):
            learner.iterate()
            learner.report()
    assert len(caught) == 1


@contextlib.contextmanager
def executed():
    """Names of everything TensorFlow executes eagerly: operations, and graphs as functions."""
    names = []

    def callback(op_type, inputs, attrs, outputs, op_name=None, graph=None):
        if graph is None:
            names.append(op_type.decode() if isinstance(op_type, bytes) else op_type)

    op_callbacks.add_op_callback(callback)
    try:
        yield names
    finally:
        op_callbacks.remove_op_callback(callback)


def test_an_iteration_is_one_graph_call_for_every_rollout_length(learner):
    executions = {}
    for length in (8, 32):
        one = learner if length == 8 else make_learner(learner.make_env, rollout_length=length)
        one.iterate()  # Traces and compiles.
        before, weights = one.step, fingerprint(one.variables())
        with executed() as names:
            one.iterate()
        assert one.step == before + 2 * length
        assert fingerprint(one.variables()) != weights
        graphs = [name for name in names if name.startswith("__inference")]
        assert len(graphs) == 1 and "collect_and_learn" in graphs[0]
        executions[length] = sorted(name for name in names if name not in graphs)
    assert executions[8] == executions[32]
    assert len(executions[8]) < 30  # The results are read.


def test_learning_begins_after_the_clock_is_read():
    # Executors with threads, as of all convolutions, would begin at once.
    learner, given = make_learner(make_random_env), []
    train = learner._algorithm.train
    learner._algorithm.train = lambda rollout: given.append(rollout) or train(rollout)
    learner._graph_call.get_concrete_function()
    for leaf in tf.nest.flatten(given[0]):
        assert [before.type for before in leaf.op.control_inputs] == ["Timestamp"]


def test_evaluation_changes_nothing_but_the_best_score(learner):
    everything = {
        **learner.variables(),
        "samples": learner._algorithm._samples,
        "observ": learner._envs.observ["speed"],
    }
    first, _ = learner.evaluations.run()
    before = fingerprint(everything)
    second, is_best = learner.evaluations.run()
    assert fingerprint(everything) == before
    assert first == second
    assert not is_best
    assert set(first) == {
        "eval/return_mean", "eval/return_std", "eval/length_mean", "eval/episodes"
    }  # fmt: skip
    assert first["eval/length_mean"] == 5


def test_the_best_score_is_kept(learner):
    best = learner.variables()["run/best"]
    best.assign(-np.inf)
    score, is_best = learner.evaluations.run()
    assert is_best and float(best) == score["eval/return_mean"]
    best.assign(100.0)
    assert not learner.evaluations.run()[1]
    assert float(best) == 100


def test_report_has_the_documented_scalars(learner):
    learner.report()
    histories = [getattr(env, "history", ()) for env in learner.train_envs]
    before = [len(history) for history in histories]
    for _ in range(2):
        learner.iterate()
    scalars = learner.report()
    parts = ("iteration",) if learner._envs.compiles else ("environments", "acting", "learning")
    times = {name: scalars.pop(f"time/{name}") for name in parts}
    assert 0.5 < sum(times.values()) <= 1 and all(share >= 0 for share in times.values())
    assert set(scalars) == {
        "episode/return", "episode/length", "perf/steps_per_second",
        "losses/policy", "losses/value", "losses/entropy", "losses/approx_kl", "losses/clip_fraction",
        "losses/explained_variance", "losses/gradient_norm", "losses/epochs", "schedule/learning_rate",
    }  # fmt: skip
    assert scalars["episode/length"] == 5
    if learner.make_env is make_random_env:
        returns = [
            sum(step.reward for step in history[end - 4 : end + 1])
            for history, start in zip(histories, before, strict=True)
            for end in range(start, len(history))
            if history[end].truncated
        ]
        assert scalars["episode/return"] == pytest.approx(np.mean(returns), rel=1e-5)
    else:
        assert -5 <= scalars["episode/return"] <= 10
    assert scalars["perf/steps_per_second"] == learner.rate > 0


def test_histograms_have_the_documented_arrays(learner):
    arrays = learner.arrays()
    rollout = {
        name.removeprefix("rollout/"): array
        for name, array in arrays.items()
        if name.startswith("rollout/")
    }
    assert set(rollout) == {
        "action", "log_prob", "mode", "probability", "observ", "normalized_observ", "reward", "value", "advantage",
        "return",
    }  # fmt: skip
    assert rollout["observ"].size == 16 * 5
    normalizers = {name: array for name, array in arrays.items() if name.startswith("statistics/")}
    assert set(normalizers) == {
        f"statistics/{name}" for name in ("observ_mean", "observ_std", "return_std")
    }
    np.testing.assert_allclose(
        normalizers["statistics/observ_mean"], learner.variables()["normalize_observ/mean"]
    )
    for kind in ("weights", "weight_gradients"):
        names = {name for name in arrays if name.startswith(f"{kind}/")}
        assert names == {
            f"{kind}/{net}/{layer}/{part}"
            for net in ("policy", "value")
            for layer in ("hidden_0", "output")
            for part in ("kernel", "bias")
        }
        assert any(np.any(arrays[name]) for name in names)


def test_seeds_of_episodes_depend_only_on_the_seed_and_the_step(learner):
    def first_observations():
        learner.begin_episodes()
        return learner._envs.observ["speed"].numpy()

    first = first_observations()
    np.testing.assert_array_equal(first_observations(), first)
    assert (first[0] != first[1]).any()
    np.testing.assert_array_equal(learner.variables()["normalize_reward/sums"], [0, 0])
    learner.iterate()
    assert (learner.variables()["normalize_reward/sums"].numpy() != 0).any()
    assert (first_observations() != first).all()
    np.testing.assert_array_equal(learner.variables()["normalize_reward/sums"], [0, 0])


@pytest.mark.parametrize("make_env", [make_random_env, make_tensor_env])
def test_the_seed_determines_weights_actions_and_episodes(make_env):
    learners = [make_learner(make_env, seed=seed) for seed in (1, 1, 2)]
    for name in (
        "network/policy/output/kernel",
        "network/value/output/kernel",
        "algorithm/generator",
    ):
        one, same, other = (learner.variables()[name].numpy() for learner in learners)
        np.testing.assert_array_equal(one, same)
        assert (one != other).any()
    one, same, other = (learner._envs.observ["speed"].numpy() for learner in learners)  # [B, 2]
    np.testing.assert_array_equal(one, same)
    assert (one != other).all()


def test_events_are_due_when_their_interval_has_passed():
    class LearnerAt:
        due = Learner.due

        def __init__(self, before, step, steps):
            self.step = step
            self._steps_per_iteration = step - before
            self._config = load_config("default", steps=steps)

    assert not LearnerAt(0, 90, 1000).due(100)
    assert LearnerAt(90, 100, 1000).due(100)
    assert LearnerAt(90, 180, 1000).due(100)
    assert LearnerAt(90, 350, 1000).due(100)
    assert not LearnerAt(100, 190, 1000).due(100)
    assert LearnerAt(990, 1010, 1000).due(10**9)  # All events are due at the end,
    assert not LearnerAt(990, 1010, 1000).due(0)  # except for those switched off.


@pytest.mark.skipif(
    platform.machine() not in ("x86_64", "AMD64"), reason="TensorFlow has oneDNN only there"
)
def test_convolutions_run_in_onednn():
    code = """
from tests.training.learners import IMAGE, make_learner, make_random_env
learner = make_learner(lambda: make_random_env(IMAGE), network="nature")
print("learning", flush=True)
learner.iterate()
print("evaluating", flush=True)
learner.evaluations.run()
"""
    environment = {**os.environ, "ONEDNN_VERBOSE": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    del environment["TF_ENABLE_ONEDNN_OPTS"]  # Set by this process at its import of agents.
    output = subprocess.check_output([sys.executable, "-c", code], env=environment, text=True)
    _, learning, evaluating = re.split("learning|evaluating", output)
    assert len(re.findall("convolution.*backward_weights", learning)) == 8 * 3 * 2, (
        "minibatches, layers, torsos"
    )
    assert len(re.findall("convolution.*forward", evaluating)) >= 5 * 3, "steps, layers"


def test_new_episodes_start_without_a_recurrent_state():
    learner = make_learner(
        lambda: RandomEnv(durations=(1000, 1000)), recurrent="gru", recurrent_units=3
    )
    learner.iterate()
    states = [
        variable
        for name, variable in learner.variables().items()
        if name.startswith(("policy_states/", "value_states/"))
    ]
    assert len(states) == 2 and all(state.numpy().any() for state in states)
    learner.begin_episodes()
    assert not any(state.numpy().any() for state in states)


def test_an_algorithm_must_count_its_steps():
    class Uncounted(PPO):
        def train(self, rollout):
            report = super().train(rollout)
            self.steps.assign(0)
            return report

    config = load_config("default", **TINY)
    learner = Learner(InGraphTensorEnv(make_tensor_env(), 2), None, Uncounted, config)
    learner.begin_episodes()
    with pytest.raises(UsageError, match="Uncounted.train added 0 .* expected the 16 steps"):
        learner.iterate()


def test_an_algorithm_must_return_a_report():
    class Scalars(PPO):
        def train(self, rollout):
            return super().train(rollout).scalars

    config = load_config("default", **TINY)
    learner = Learner(InGraphTensorEnv(make_tensor_env(), 2), None, Scalars, config)
    learner.begin_episodes()
    with pytest.raises(UsageError, match="Scalars.train returned dict, expected a Report"):
        learner.iterate()


def test_averaged_weights_are_evaluated_too():
    learner = make_learner(make_random_env, average_decay=0.5)
    for _ in range(3):
        learner.iterate()
    scalars, _ = learner.evaluations.run()
    assert scalars["eval/episodes"] == 3
    assert np.isfinite(scalars["eval/averaged_return_mean"])
    weights = {name: variable.numpy() for name, variable in learner.variables().items()}
    kernel = "network/policy/output/kernel"
    assert np.abs(weights[kernel] - weights[f"averaged/{kernel}"]).max() > 0
    assert int(weights["averaged/count"]) == 3


def test_images_of_environments_in_tensorflow_are_not_compiled():
    """XLA's convolutions in a loop take many times as long as TensorFlow's."""
    learner = make_learner(lambda: make_tensor_env(observation_space=IMAGE), network="nature")
    learner.iterate()
    assert {"time/acting", "time/learning"} <= learner.report().keys()  # A program has no parts.
