"""Environments as users have them: far bounds of actions, large numbers, and states that are hidden."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from agents.ppo import PPO
from agents.settings.config_file import load_config
from agents.training.learner import Learner
from agents.vector.batch_env import BatchEnv

SETTINGS = {
    "num_envs": 8,
    "rollout_length": 32,
    "minibatch_size": 64,
    "learning_rate": 3e-3,
    "learning_rate_schedule": "constant",
    "layers": (16,),
    "eval_episodes": 50,
}
NUMBER = spaces.Box(-np.inf, np.inf, (1,), np.float64)


class OneStep(gymnasium.Env):
    """Episodes of one step, in which x from [-1, 1] is drawn; functions of x make them."""

    def __init__(self, observation_space, action_space, observe, reward):
        self.observation_space, self.action_space = observation_space, action_space
        self._observe, self._reward = observe, reward

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._x = self.np_random.uniform(-1, 1)
        return self._observe(self._x), {}

    def step(self, action):
        return self._observe(self._x), self._reward(self._x, action.item()), True, False, {}


def train(make_env, iterations=40, **settings):
    """The learner after its training."""
    config = load_config("default", **{**SETTINGS, **settings})
    train_envs, eval_envs = (
        BatchEnv([make_env() for _ in range(count)], blocking=True)
        for count in (config.num_envs, config.eval_episodes)
    )
    learner = Learner(train_envs, eval_envs, PPO, config)
    learner.begin_episodes()
    for _ in range(iterations):
        learner.iterate()
    return learner


def score(learner):
    return learner.evaluations.run()[0]["eval/return_mean"]


@pytest.mark.parametrize(("low", "high"), [(-1000, 1000), (3, 3.02)])
def test_actions_far_from_one_are_learned(low, high):
    center, width = (low + high) / 2, (high - low) / 2
    space = spaces.Box(low, high, (1,), np.float64)

    def make_env():
        def reward(x, action):
            return -(((action - center) / width - x) ** 2)

        return OneStep(NUMBER, space, lambda x: np.array([x]), reward)

    # Actions in the middle have -1/3, the variance of x.
    assert score(train(make_env)) > -0.05
    assert score(train(make_env, scale_actions="never")) < -0.2


def test_time_stamps_are_learned_from():
    def make_env():
        space = spaces.Box(-1, 1, (1,), np.float32)
        return OneStep(NUMBER, space, lambda x: np.array([1.7e9 + x]), lambda x, a: -((a - x) ** 2))

    assert score(train(make_env)) > -0.05


@pytest.mark.parametrize("is_seen", [False, True])
def test_the_value_function_alone_sees_the_hidden_state(is_seen):
    keys = ("hidden",) if is_seen else ()
    space = spaces.Dict({key: NUMBER for key in ("place", *keys)})

    def make_env():
        def observe(x):
            return {"place": np.zeros(1), **{key: np.array([x]) for key in keys}}

        # The policy can't know x, whose reward is a hundred times that of the best action.
        return OneStep(
            space, spaces.Box(-1, 1, (1,)), observe, lambda x, a: 10 * x - 0.1 * (a - 0.5) ** 2
        )

    learner = train(make_env, critic_keys=keys)
    variance = learner.report()["losses/explained_variance"]
    assert (variance > 0.9) if is_seen else (variance < 0.5)
    if is_seen:  # With that much noise taken away, the best action is found.
        _, action, _ = learner.policy.act({"place": np.zeros([1, 1])}, deterministic=True)
        assert abs(float(action[0, 0]) - 0.5) < 0.3
