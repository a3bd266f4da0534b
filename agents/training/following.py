"""The training loop of a learner that is not the chief: it iterates, and writes nothing."""

from __future__ import annotations

import warnings

from agents.errors import first_line
from agents.graph.in_graph_env import InGraphEnv
from agents.learning.reduction import Reducer
from agents.settings.config import Config
from agents.training.algorithms import find_algorithm
from agents.training.learner import Learner
from agents.types import VectorEnv


def follow(config: Config, train_envs: VectorEnv | InGraphEnv, reducer: Reducer) -> None:
    """Trains along with the chief, from where the chief begins to the last step.

    Args:
      config: The experiment.
      train_envs: This learner's part of the environments.
      reducer: Combines the learners.

    Raises:
      EnvironmentFailure: An environment, or the process that hosts it, failed.
      LearnerLostError: Another learner has failed or does not answer.
      NonFiniteError: An observation, action, reward or loss was NaN or infinite.
      StopRequested: The chief was asked to stop.
    """
    learner = Learner(train_envs, None, find_algorithm(config.algorithm), config, reducer)
    reducer.copy_from_chief(learner.variables())
    learner.begin_episodes()
    while learner.step < config.steps:
        learner.iterate()
        for restart in learner.take_restarts():
            rows = ", ".join(str(row) for row in restart.rows)
            warnings.warn(
                f"environments {rows} of it were restarted: {first_line(restart.cause)}",
                stacklevel=1,
            )
        if learner.due(config.checkpoint_interval):
            learner.begin_episodes()
