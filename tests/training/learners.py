"""Small learners in toy environments, whose episodes are truncated after five steps."""

import numpy as np
from gymnasium import spaces

from agents.ppo import PPO
from agents.runs.metrics_file import read_metrics
from agents.settings.config_file import load_config
from agents.tensor_envs import InGraphTensorEnv, TensorEnv
from agents.training.learner import Learner
from agents.vector.batch_env import BatchEnv
from tests.tensor_toys import RandomTensorEnv
from tests.toys import TWO_CHOICES, RandomEnv

TINY = {
    "num_envs": 2,
    "rollout_length": 8,
    "minibatch_size": 4,
    "epochs": 2,
    "layers": (4,),
    "eval_episodes": 3,
}
BIKE = spaces.Dict(gear=spaces.Discrete(3), speed=spaces.Box(-np.inf, np.inf, (2,), np.float64))
IMAGE = spaces.Box(0, 255, (36, 36, 1), np.uint8)


def make_random_env(observation_space=BIKE, action_space=TWO_CHOICES):
    """Observations of two types, and discrete actions."""
    return RandomEnv(observation_space, action_space, durations=(5, 5), ending="truncated")


def make_tensor_env(observation_space=BIKE, **kwargs):
    """The same in TensorFlow, where the learner's environments have a time limit."""
    return RandomTensorEnv(
        (9, 9), observation_space=observation_space, action_space=TWO_CHOICES, **kwargs
    )


def make_learner(make_env, **overrides):
    config = load_config("default", **{**TINY, **overrides})
    train_envs, eval_envs = (
        [make_env() for _ in range(count)] for count in (config.num_envs, config.eval_episodes)
    )

    def batch(envs):
        if isinstance(envs[0], TensorEnv):
            return InGraphTensorEnv(envs[0], len(envs), max_episode_steps=5)
        return BatchEnv(envs, blocking=True)

    learner = Learner(batch(train_envs), batch(eval_envs), PPO, config)
    learner.train_envs, learner.make_env = train_envs, make_env
    learner.begin_episodes()
    return learner


def logged(run):
    """Rows of metrics.jsonl without clocks."""
    clocks = ("wall_time", "perf/", "time/")
    return [
        {tag: value for tag, value in row.items() if not tag.startswith(clocks)}
        for row in read_metrics(run.metrics_file)
    ]
