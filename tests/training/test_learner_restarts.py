"""Training and evaluation in environments that are restarted."""

import functools
import json

import numpy as np
import pytest
from gymnasium import spaces

from agents.errors import EnvironmentRaisedError
from agents.ppo import PPO
from agents.runs.metrics_file import read_metrics
from agents.scripts.train import train
from agents.settings.config_file import load_config
from agents.training.learner import Learner
from agents.vector.batch_env import BatchEnv
from agents.workers.host import LocalHost
from tests.faulty_toys import FaultyEnv
from tests.toys import TWO_CHOICES, UNBOUNDED, CountingEnv, RandomEnv
from tests.training.learners import TINY

COUNTS = spaces.Box(-np.inf, np.inf, (1,), np.float32)


def one(steps, action):
    return 1.0


def make_counting(countdowns):
    """Episodes of five steps that pay one each; fails in the step that the list's end says."""
    countdown = countdowns.pop() if countdowns else 0
    env = CountingEnv([(5, "truncated")], COUNTS, TWO_CHOICES, one)
    return FaultyEnv(env, OSError("no luck"), countdown)


def make_learner(make_env, eval_env=None, **overrides):
    restarts = {"limit": 100, "window": 60.0}
    config = load_config("default", **{**TINY, "env_restarts": restarts, **overrides})

    def batch(make, num_envs):
        hosts = [LocalHost(functools.partial(make), index) for index in range(num_envs)]
        limit = config.env_restarts.limit
        return BatchEnv(hosts, blocking=True, restart_limit=limit)

    train, evaluation = batch(make_env, 2), batch(eval_env or make_env, config.eval_episodes)
    learner = Learner(train, evaluation, PPO, config)
    learner.begin_episodes()
    return learner


def test_cut_episodes_are_in_no_statistic_and_restarts_are_counted():
    countdowns = [0, 0, 0, 3, 8, 9, 4]  # Of the evaluation's and the training's environments.
    learner = make_learner(lambda: make_counting(countdowns))
    with pytest.warns(UserWarning, match="restart number"):
        for _ in range(4):
            learner.iterate()
    restarts = learner.take_restarts()
    scalars = learner.report()
    assert len(restarts) >= 2
    assert scalars["perf/env_restarts"] == len(restarts)
    assert scalars["episode/length"] == scalars["episode/return"] == 5
    assert {type(restart.cause) for restart in restarts} == {EnvironmentRaisedError}
    assert all("no luck" in str(restart.cause) for restart in restarts)
    assert learner.take_restarts() == []


def test_an_evaluation_scores_the_same_episodes_after_restarts():
    """The first step of an evaluation environment fails, and another one later."""
    scores = []
    for countdowns in ([0, 0, 0], [4, 0, 1]):
        left = list(countdowns)
        learner = make_learner(
            lambda: make_random([]),
            lambda left=left: make_random(left),
            recurrent="gru",
            recurrent_units=3,
        )
        if any(countdowns):
            with pytest.warns(UserWarning, match="restart number"):
                scores.append(learner.evaluations.run()[0])
            assert len(learner.evaluations.take_restarts()) == 2
            assert learner.take_restarts() == []
        else:
            scores.append(learner.evaluations.run()[0])
    assert scores[0] == scores[1]


def make_random(countdowns):
    env = RandomEnv(UNBOUNDED, TWO_CHOICES, durations=(6, 9), ending="terminated")
    return FaultyEnv(env, OSError("no luck"), countdowns.pop() if countdowns else 0)


def test_over_the_limit_training_stops_with_the_first_cause():
    countdowns = [0, 0, 0, 2, 2] + [1] * 20
    learner = make_learner(lambda: make_counting(countdowns), env_restarts={"limit": 3})
    with pytest.warns(UserWarning, match="restart number"):
        with pytest.raises(EnvironmentRaisedError, match="The first of 4 failures within 600 s"):
            for _ in range(10):
                learner.iterate()


class FailsInEvaluations(CountingEnv):
    """Fails in the third step of every other episode, except in training."""

    fails = True

    def __init__(self):
        super().__init__([(5, "truncated")], COUNTS, TWO_CHOICES, one)
        self.episodes = self.steps_of_episode = 0

    def reset(self, **kwargs):
        self.episodes, self.steps_of_episode = self.episodes + 1, 0
        return super().reset(**kwargs)

    def step(self, action):
        self.steps_of_episode += 1
        if self.fails and self.steps_of_episode == 3 and self.episodes % 2 == 0:
            raise OSError("no luck")
        return super().step(action)


def spare(env):
    env.unwrapped.fails = False
    return env


@pytest.mark.parametrize("limit", [0, 100])
def test_failures_of_evaluations_are_told_from_those_of_training(tmp_path, limit):
    run = tmp_path / "run"
    config = load_config(
        "default",
        **{**TINY, "env": FailsInEvaluations, "env_restarts": {"limit": limit}, "steps": 64},
        env_backend="inline",
        train_wrappers=["tests.training.test_learner_restarts:spare"],
        eval_interval=16,
        log_interval=16,
    )
    if not limit:
        with pytest.raises(
            EnvironmentRaisedError, match=r"no luck(?s:.*)failed in an evaluation\."
        ):
            list(train(config, run=run))
        return
    with pytest.warns(UserWarning, match=r"Evaluation environments? .*: restart number"):
        steps = [score.step for score in train(config, run=run)]
    assert [row.get("perf/env_restarts", 0) for row in read_metrics(run / "metrics.jsonl")] == [
        0
    ] * 8
    restarts = [json.loads(line) for line in (run / "restarts.jsonl").read_text().splitlines()]
    assert {restart["phase"] for restart in restarts} == {"evaluation"}
    assert {restart["step"] for restart in restarts} <= set(steps)
