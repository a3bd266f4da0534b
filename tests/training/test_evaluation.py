import contextlib
import functools

import gymnasium
import numpy as np
import pytest
import tensorflow as tf

from agents.errors import NonFiniteError
from agents.graph.in_graph_batch_env import InGraphBatchEnv
from agents.policies.policy import Policy
from agents.settings.config_file import load_config
from agents.tensor_envs import InGraphTensorEnv
from agents.training.evaluation import Evaluation, Scores
from agents.vector.batch_env import BatchEnv
from agents.vector.process_batch import make_batch_env
from tests.tensor_toys import RandomTensorEnv
from tests.toys import FORCE, UNBOUNDED, CountingEnv, RandomEnv


def half_steps(steps):
    return {"half": steps / 2} if steps > 30 else {}


def make_env(longest=120):
    """Seeds determine the lengths of episodes; rewards depend on the actions."""
    return RandomEnv(durations=(1, longest), ending="both", info=half_steps)


def make_policy():
    policy = Policy(UNBOUNDED, FORCE, load_config("default", layers=(4,)))
    for variable in policy.network.variables().values():
        variable.assign(variable + 0.2)
    return policy


def test_each_environment_counts_for_one_episode_as_in_a_plain_loop():
    policy, seeds = make_policy(), np.arange(12)
    batch = BatchEnv([make_env() for _ in seeds], blocking=True, info_keys=["half"])
    evaluation = Evaluation(InGraphBatchEnv(batch), policy, seeds)
    returns, lengths, halves = [], [], []
    for seed in seeds:
        env, total, length, done = make_env(), 0.0, 0, False
        observ, _ = env.reset(seed=int(seed))
        while not done:
            _, action, _ = policy.act(tf.constant(observ[None]), deterministic=True)
            observ, reward, terminated, truncated, info = env.step(action[0].numpy())
            total, length, done = total + reward, length + 1, terminated or truncated
        returns.append(total)
        lengths.append(length)
        halves.append(info.get("half", np.nan))
    assert min(lengths) < 30 < 50 < 100 < max(lengths)
    for _ in range(2):  # Evaluations are equal.
        scores = evaluation.run()
        np.testing.assert_array_equal(scores.lengths, lengths)
        np.testing.assert_allclose(scores.returns, returns, rtol=1e-5, atol=1e-4)
        np.testing.assert_array_equal(scores.infos["half"], halves)
        assert scores.scalars()["eval/info/half"] == pytest.approx(np.nanmean(halves))


@pytest.mark.parametrize("recurrent", ["none", "gru"])
def test_an_evaluation_in_turns_scores_the_same_episodes(recurrent):
    config = load_config("default", layers=(4,), recurrent=recurrent)
    policy, seeds = Policy(UNBOUNDED, FORCE, config), np.arange(4)
    scores = []
    make = functools.partial(RandomEnv, durations=(1, 120), ending="both")
    for wait_for in (1.0, 0.25):
        with contextlib.closing(make_batch_env([make] * 4, 4, wait_for=wait_for)) as batch:
            scores.append(Evaluation(InGraphBatchEnv(batch), policy, seeds).run())
    np.testing.assert_array_equal(scores[0].returns, scores[1].returns)
    np.testing.assert_array_equal(scores[0].lengths, scores[1].lengths)


def test_a_compiled_evaluation_equals_a_plain_loop():
    policy, seeds = make_policy(), np.arange(12)
    evaluation = Evaluation(InGraphTensorEnv(RandomTensorEnv((1, 120)), 12), policy, seeds)
    returns, lengths = np.zeros(12), np.zeros(12, int)
    envs, running = InGraphTensorEnv(RandomTensorEnv((1, 120)), 12), np.ones(12, bool)
    observ = envs.reset(seed=tf.constant(seeds))
    while running.any():
        _, action, _ = policy.act(observ, deterministic=True)
        result = envs.simulate(action)
        observ = tf.convert_to_tensor(envs.observ)
        returns += np.where(running, result.reward, 0)
        lengths += running
        running &= ~result.terminated.numpy()
    assert min(lengths) < 50 < 100 < max(lengths)
    for _ in range(2):
        scores = evaluation.run()
        np.testing.assert_array_equal(scores.lengths, lengths)
        np.testing.assert_allclose(scores.returns, returns, rtol=1e-5, atol=1e-4)


def test_unfinished_episodes_issue_a_warning(monkeypatch):
    monkeypatch.setattr("agents.training.evaluation.LONGEST_EPISODE", 100)
    endless = CountingEnv((), UNBOUNDED, FORCE, reward=lambda steps, action: 2.0)
    envs = [endless, make_env(30)]
    evaluation = Evaluation(
        InGraphBatchEnv(BatchEnv(envs, blocking=True)), make_policy(), np.arange(2)
    )
    with pytest.warns(UserWarning, match="1 evaluation episodes .* --max-episode-steps"):
        scores = evaluation.run()
    assert (scores.returns[0], scores.lengths[0]) == (200, 100)
    assert scores.lengths[1] <= 30


@pytest.mark.parametrize(("fault_at", "env"), [(1, 0), (71, 1)])
def test_a_reward_that_is_not_finite_is_reported_with_its_environment_and_step(fault_at, env):
    envs = InGraphTensorEnv(RandomTensorEnv((120, 120), fault_at, fault_row=env), 3)
    message = f"reward of evaluation environment {env} is nan in step {fault_at - 1}"
    with pytest.raises(NonFiniteError, match=message):
        Evaluation(envs, make_policy(), np.arange(3)).run()


class BlindEnv(RandomTensorEnv):
    """Observations are infinite after three steps."""

    def observe(self, state):
        return tf.where(state["steps"][:, None] == 3, np.inf, state["observ"])


def test_an_observation_that_is_not_finite_is_reported():
    envs = InGraphTensorEnv(BlindEnv((120, 120)), 2)
    with pytest.raises(NonFiniteError, match="observ of evaluation environment 0 is inf in step 3"):
        Evaluation(envs, make_policy(), np.arange(2)).run()


def test_a_weight_that_is_not_finite_is_named():
    policy = make_policy()
    evaluation = Evaluation(
        InGraphBatchEnv(BatchEnv([make_env()], blocking=True)), policy, np.arange(1)
    )
    bias = policy.network.variables()["policy/output/bias"]
    bias.assign(np.full(bias.shape, np.inf))
    with pytest.raises(NonFiniteError, match="policy/output/bias is NaN or infinite"):
        evaluation.run()


def test_scalars_of_scores():
    infos = {"success": np.array([1, np.nan, 0]), "laps": np.full(3, np.nan)}
    scores = Scores(np.array([1, 2, 6], np.float32), np.array([10, 20, 60], np.int32), infos)
    assert scores.scalars() == {
        "eval/return_mean": 3.0,
        "eval/return_std": pytest.approx(np.sqrt(14 / 3)),
        "eval/length_mean": 30.0,
        "eval/info/success": 0.5,
    }


def test_progress_is_reported_after_every_graph_call():
    envs = InGraphTensorEnv(RandomTensorEnv((1, 120)), 12)
    reports = []
    lengths = (
        Evaluation(envs, make_policy(), np.arange(12))
        .run(lambda *report: reports.append(report))
        .lengths
    )
    assert reports == [
        (steps, int(np.sum(lengths <= steps))) for steps in range(50, max(lengths) + 50, 50)
    ]


class EchoEnv(gymnasium.Env):
    """Rewards the action; three steps with equal observations."""

    observation_space, action_space = UNBOUNDED, FORCE

    def reset(self, *, seed=None, options=None):
        self._step = 0
        return np.ones(2, np.float32), {}

    def step(self, action):
        self._step += 1
        return np.ones(2, np.float32), float(action[0]), self._step == 3, False, {}


def test_no_evaluation_starts_with_the_recurrent_state_of_another():
    policy = Policy(UNBOUNDED, FORCE, load_config("default", layers=(4,), recurrent="gru"))
    policy.network.variables()["policy/output/kernel"].assign(tf.ones([64, 1]))
    # Not reset at the end of an episode, so that it is left over.
    evaluation = Evaluation(
        InGraphBatchEnv(BatchEnv([EchoEnv() for _ in range(2)], blocking=True)),
        policy,
        np.arange(2),
    )
    one, other = evaluation.run(), evaluation.run()
    assert np.abs(one.returns).min() > 1e-3
    np.testing.assert_array_equal(one.returns, other.returns)
