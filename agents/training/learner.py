"""An algorithm with its training and evaluation environments: one graph call per iteration."""

from __future__ import annotations

import time
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from agents.errors import NonFiniteError
from agents.graph.algorithm import Report
from agents.graph.in_graph_batch_env import InGraphBatchEnv
from agents.graph.in_graph_env import InGraphEnv
from agents.graph.simulation import simulate
from agents.seeds import Seeds
from agents.settings.config import Config
from agents.tensorflow_setup import graph_executor
from agents.training.algorithms import AlgorithmFactory
from agents.training.episode_statistics import EpisodeStatistics
from agents.training.evaluation import Evaluation
from agents.types import VectorEnv

# Causes before consequences.
MONITORED = ("observ", "final_observ", "reward", "action", "loss")


class Iteration(NamedTuple):
    """What the graph call of an iteration returns.

    Attributes:
      done: bool [T, B], whether a step ended an episode.
      episode_return: float32 [T, B], valid where `done`.
      episode_length: int32 [T, B], valid where `done`.
      extras: float32 [T, B] by info key.
      report: The algorithm's report.
    """

    done: tf.Tensor
    episode_return: tf.Tensor
    episode_length: tf.Tensor
    extras: dict[str, tf.Tensor]
    report: Report


class Learner:
    """A training run, apart from its files.

    Attributes:
      rate: Environment steps per second since the last report.
    """

    def __init__(
        self,
        train_envs: VectorEnv | InGraphEnv,
        eval_envs: VectorEnv | InGraphEnv,
        make_algorithm: AlgorithmFactory,
        config: Config,
    ):
        """Creates the algorithm.

        Args:
          train_envs: Environments to learn from, B of them.
          eval_envs: Environments to evaluate in, one per episode of an evaluation.
          make_algorithm: Creates the algorithm.
          config: The experiment's settings.
        """
        self._config, self._seeds = config, Seeds(config.seed)
        self._envs = to_graph(train_envs, config.info_keys)
        self._algorithm = make_algorithm(self._envs, config)
        policy = self._algorithm.policy
        self._convolves = policy.network.convolves
        eval_seeds = self._seeds.many("evaluation", config.eval_episodes)
        self._evaluation = Evaluation(to_graph(eval_envs), policy, eval_seeds)
        # Below every score, and finite as all that checkpoints hold.
        self._best = tf.Variable(np.finfo(np.float64).min, dtype=tf.float64, trainable=False)
        self._best_before = float(self._best)
        self._graph_call = tf.function(
            self._collect_and_learn, autograph=False, jit_compile=self._envs.compiles
        )
        self._step_before = self.step
        self._episodes = EpisodeStatistics(list(self._envs.extras), self._envs.info_names)
        self._seconds, self._steps = 0.0, 0  # Since the last report.
        self.rate = 0.0

    @property
    def step(self) -> int:
        """Environment steps learned from so far."""
        return int(self._algorithm.steps)

    def variables(self) -> dict[str, tf.Variable]:
        """Everything that a checkpoint must hold, by name."""
        return {**self._algorithm.variables(), "run/best": self._best}

    def begin_episodes(self) -> None:
        """Resets all environments, with seeds that depend only on the run's seed and the step.

        A run that continues after a checkpoint and one that resumes from it do this alike, and are
        equal from there on. Running episodes are truncated: their values were bootstrapped at the
        end of the rollout.
        """
        seeds = self._seeds.many("episodes", self._config.num_envs, counter=self.step)
        with self._envs.raising():
            self._envs.reset(seed=tf.constant(seeds))
        self._algorithm.reset_episode_state()
        self._algorithm.begin_episode(tf.ones([self._config.num_envs], tf.bool))

    def iterate(self) -> None:
        """Collects a rollout and learns from it, in one graph call.

        Raises:
          EnvironmentFailure: An environment failed.
          NonFiniteError: An observation, action, reward or loss was NaN or infinite.
        """
        self._step_before = self.step
        start = time.perf_counter()
        with self._envs.raising(), graph_executor(self._convolves):
            self._results: Iteration = self._graph_call()
        self._check_finite()
        results = self._results
        self._episodes.add(
            results.done.numpy(),
            results.episode_return.numpy(),
            results.episode_length.numpy(),
            {key: numbers.numpy() for key, numbers in results.extras.items()},
        )
        self._seconds += time.perf_counter() - start
        self._steps += self._config.rollout_length * self._config.num_envs
        self.rate = self._steps / self._seconds

    def due(self, interval: int) -> bool:
        """Whether an event scheduled every `interval` environment steps is due.

        Always at the last step, never for interval 0.
        """
        if not interval:
            return False
        crossed = self.step // interval > self._step_before // interval
        return crossed or self.step >= self._config.steps

    def evaluate(self) -> tuple[dict[str, float], bool]:
        """Evaluates the policy: scalars by tag, and whether its mean return is the best so far."""
        scalars = self._evaluation.run().scalars()
        is_best = scalars["eval/return_mean"] > float(self._best)
        if is_best:
            self._best_before = float(self._best)
            self._best.assign(scalars["eval/return_mean"])
        return scalars, is_best

    def revoke_best(self) -> None:
        """Takes back the best score so far, whose checkpoint could not be saved."""
        self._best.assign(self._best_before)

    def report(self) -> dict[str, float]:
        """Scalars by tag: episodes since the last report, losses of the last iteration."""
        metrics = self._results.report.scalars
        scalars = {tag: float(value) for tag, value in metrics.items()}
        scalars.update(self._episodes.scalars())
        scalars["perf/steps_per_second"] = self.rate
        self._seconds, self._steps = 0.0, 0
        return scalars

    def arrays(self) -> dict[str, np.ndarray]:
        """Arrays of the last iteration for histograms, by tag."""
        arrays = self._results.report.arrays
        return {tag: array.numpy() for tag, array in arrays.items()}

    def _collect_and_learn(self) -> Iteration:
        rollout = simulate(self._envs, self._algorithm, self._config.rollout_length)
        return Iteration(
            done=rollout.done,
            episode_return=rollout.episode_return,
            episode_length=rollout.episode_length,
            extras=rollout.extras,
            report=self._algorithm.train(rollout),
        )

    def _check_finite(self) -> None:
        nonfinite = self._results.report.nonfinite
        for name in MONITORED:
            number, index = nonfinite.get(name, (0.0, -1))
            if int(index) < 0:
                continue
            if name == "loss":
                raise NonFiniteError(
                    f"The loss or its gradient is {number} in the update at step {self.step:,}."
                )
            step, env = divmod(int(index), self._config.num_envs)
            raise NonFiniteError(
                f"The {name} of environment {env} is {number} at step {step} of the rollout that "
                f"began at step {self._step_before:,}."
            )


def to_graph(envs: VectorEnv | InGraphEnv, info_keys: tuple[str, ...] = ()) -> InGraphEnv:
    """Environments in the graph; those that are there already are returned as they are."""
    return envs if isinstance(envs, InGraphEnv) else InGraphBatchEnv(envs, info_keys)
