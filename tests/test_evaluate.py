import gymnasium
import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces

from agents.config import load_config
from agents.envs import InGraphTensorEnv, TensorEnv
from agents.ppo.policy import Policy
from agents.runs import evaluate
from agents.runs.evaluate import Evaluation, Scores
from agents.tools.batch_env import BatchEnv
from agents.tools.in_graph_batch_env import InGraphBatchEnv


class Trial(gymnasium.Env):
    """Episodes of 1 to 120 steps; the seed decides on the length, the rewards depend on the actions."""

    observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)
    action_space = spaces.Box(-1, 1, (1,), np.float32)

    def __init__(self, longest=120):
        self._longest = longest

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._left = int(self.np_random.integers(1, self._longest + 1))
        return self._observ(), {}

    def step(self, action):
        self._left -= 1
        ending = self._left == 0
        return self._observ(), float(action[0]) + 1, ending and self._longest % 2 == 0, ending, {}

    def _observ(self):
        return self.np_random.normal(size=2).astype(np.float32)


class TensorTrial(TensorEnv):
    """Much the same in TensorFlow."""

    observation_space, action_space = Trial.observation_space, Trial.action_space

    def initial_state(self, uniform):
        return {"left": tf.round(uniform(0.5, 120.5)), "observ": tf.cast(uniform(-1, 1, (2,)), tf.float32)}

    def step(self, state, action, uniform):
        after = {"left": state["left"] - 1, "observ": tf.cast(uniform(-1, 1, (2,)), tf.float32)}
        return after, action[:, 0] + 1, after["left"] == 0

    def observe(self, state):
        return state["observ"]


class Endless(Trial):
    def step(self, action):
        return self._observ(), 2.0, False, False, {}


def make_policy():
    policy = Policy(Trial.observation_space, Trial.action_space, load_config("default", layers=(4,)))
    for variable in policy.network.variables().values():
        variable.assign(variable + 0.2)
    return policy


def test_every_environment_counts_for_one_episode_as_in_a_plain_loop():
    policy, seeds = make_policy(), np.arange(12)
    evaluation = Evaluation(InGraphBatchEnv(BatchEnv([Trial() for _ in seeds], blocking=True)), policy, seeds)
    returns, lengths = [], []
    for seed in seeds:
        env, total, length, ended = Trial(), 0.0, 0, False
        observ, _ = env.reset(seed=int(seed))
        while not ended:
            _, action, _ = policy.act(tf.constant(observ[None]), deterministic=True)
            observ, reward, terminated, truncated, _ = env.step(action[0].numpy())
            total, length, ended = total + reward, length + 1, terminated or truncated
        returns.append(total)
        lengths.append(length)
    assert min(lengths) < 50 < 100 < max(lengths)
    for _ in range(2):  # Every time the same.
        scores = evaluation()
        np.testing.assert_array_equal(scores.lengths, lengths)
        np.testing.assert_allclose(scores.returns, returns, rtol=1e-5)


def test_a_compiled_evaluation_equals_a_plain_loop():
    policy, seeds = make_policy(), np.arange(12)
    evaluation = Evaluation(InGraphTensorEnv(TensorTrial(), 12), policy, seeds)
    returns, lengths = np.zeros(12), np.zeros(12, int)
    envs, under_way = InGraphTensorEnv(TensorTrial(), 12), np.ones(12, bool)
    observ = envs.reset(seed=tf.constant(seeds))
    while under_way.any():
        _, action, _ = policy.act(observ, deterministic=True)
        outcome = envs.simulate(action)
        observ = tf.convert_to_tensor(envs.observ)
        returns += np.where(under_way, outcome.reward, 0)
        lengths += under_way
        under_way &= ~outcome.terminated.numpy()
    assert min(lengths) < 50 < 100 < max(lengths)
    for _ in range(2):
        scores = evaluation()
        np.testing.assert_array_equal(scores.lengths, lengths)
        np.testing.assert_allclose(scores.returns, returns, rtol=1e-5)


def test_episodes_that_do_not_end_are_told(monkeypatch):
    monkeypatch.setattr(evaluate, "LONGEST_EPISODE", 100)
    envs = [Endless(), Trial(30)]
    evaluation = Evaluation(InGraphBatchEnv(BatchEnv(envs, blocking=True)), make_policy(), np.arange(2))
    with pytest.warns(UserWarning, match="1 evaluation episodes .* --max-episode-steps"):
        scores = evaluation()
    assert (scores.returns[0], scores.lengths[0]) == (200, 100)
    assert scores.lengths[1] <= 30


def test_scores_in_figures():
    scores = Scores(np.array([1, 2, 6], np.float32), np.array([10, 20, 60], np.int32))
    assert scores.scalars() == {
        "eval/return_mean": 3.0,
        "eval/return_std": pytest.approx(np.sqrt(14 / 3)),
        "eval/length_mean": 30.0,
    }
