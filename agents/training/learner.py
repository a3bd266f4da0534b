"""An algorithm with its training and evaluation environments: one graph call per iteration."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable

import numpy as np
import tensorflow as tf

from agents.errors import NonFiniteError
from agents.graph.algorithm import Report
from agents.graph.in_graph_batch_env import InGraphBatchEnv
from agents.graph.in_graph_env import InGraphEnv
from agents.graph.simulation import complete_episodes, simulate
from agents.graph.step import Rollout
from agents.learning.nonfinite import describe, nonfinite_of_all
from agents.learning.reduction import SINGLE_LEARNER, Reducer
from agents.policies.policy import Policy
from agents.runtime.graph_calls import GraphCalls
from agents.seeds import Seeds
from agents.settings.config import Config
from agents.tracking.episode_statistics import EpisodeStatistics
from agents.tracking.time_shares import TimeShares
from agents.training.algorithms import AlgorithmFactory
from agents.training.evaluation import Evaluation, Progress, ignore_progress
from agents.training.iteration import Iteration
from agents.types import Space, VectorEnv
from agents.vector.restarts import Restart

# Causes before consequences.
MONITORED = ("observ", "final_observ", "reward", "action", "loss", "gradient")


class Learner:
    """A training run, apart from its files.

    Attributes:
      rate: Environment steps per second since the last report.
      time_shares: What the time since the last report went to.
    """

    def __init__(
        self,
        train_envs: VectorEnv | InGraphEnv,
        eval_envs: VectorEnv | InGraphEnv | None,
        make_algorithm: AlgorithmFactory,
        config: Config,
        reducer: Reducer = SINGLE_LEARNER,
    ):
        """Creates the algorithm.

        Args:
          train_envs: Environments to learn from, B of them; of several learners, its part.
          eval_envs: Environments to evaluate in, one per episode of an evaluation; None for a
            learner that does not evaluate.
          make_algorithm: Creates the algorithm.
          config: The experiment's settings, of all learners together.
          reducer: Combines several learners.
        """
        self._config, self._seeds, self._reducer = config, Seeds(config.seed), reducer
        self._envs = to_graph(train_envs, config.info_keys)
        several = [reducer] if reducer.num_learners > 1 else []
        self._algorithm = make_algorithm(self._envs, config, *several)
        policy = self._algorithm.policy
        self._graph_calls = GraphCalls(policy.network.convolves)
        self._evaluations = self._make_evaluations(to_graph(eval_envs)) if eval_envs else {}
        self._skips_nonfinite = config.on_nonfinite == "skip"
        # Since this process started: updates that were dropped, and restarts that were taken.
        self._skipped = self._num_restarts = 0
        # Below every score, and finite as all that checkpoints hold.
        self._best = tf.Variable(np.finfo(np.float64).min, dtype=tf.float64, trainable=False)
        self._best_before = float(self._best)
        # One program, in which nothing is told apart, unless learners communicate in it.
        self._is_one_program = self._envs.compiles and reducer.compiles
        self._graph_call = tf.function(
            self._collect_and_learn, autograph=False, jit_compile=self._is_one_program
        )
        self._collect = tf.function(
            lambda: simulate(self._envs, self._algorithm, config.rollout_length),
            autograph=False,
            jit_compile=self._envs.compiles,
        )
        self._step_before = self.step
        self._acting_state: dict[str, np.ndarray] = {}  # Before the iteration.
        self._episodes = EpisodeStatistics(list(self._envs.extras), self._envs.info_names)
        self._steps_per_iteration = config.rollout_length * config.num_envs
        self._seconds, self._steps = 0.0, 0  # Since the last report.
        self.rate = 0.0
        self.time_shares = TimeShares()

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
        own = np.split(seeds, self._reducer.num_learners)[self._reducer.rank]
        with self._envs.raising(), self.time_shares.measuring("environments"):
            self._envs.reset(seed=tf.constant(own))
        self._algorithm.reset_episode_state()
        self._algorithm.begin_episode(tf.ones([self._envs.num_envs], tf.bool))

    def iterate(self) -> None:
        """Collects a rollout and learns from it, in one graph call.

        Raises:
          EnvironmentFailure: An environment failed.
          LearnerLostError: Another learner has failed or does not answer.
          NonFiniteError: An observation, action, reward, loss or gradient was NaN or infinite, and
            the configuration does not say to skip such updates.
        """
        self._step_before = self.step
        acting = self._algorithm.acting_variables()
        self._acting_state = {name: variable.numpy() for name, variable in acting.items()}
        start, now, in_environments = time.perf_counter(), time.time(), self._envs.seconds
        with (
            self._envs.raising(),
            self._reducer.raising(),
            self._graph_calls,
        ):
            self._results: Iteration = self._graph_call()
        seconds = time.perf_counter() - start
        self._share_out(seconds, now, self._envs.seconds - in_environments)
        self._check_finite()
        results = self._results
        self._episodes.add(
            results.done.numpy(),
            results.episode_return.numpy(),
            results.episode_length.numpy(),
            {key: numbers.numpy() for key, numbers in results.extras.items()},
        )
        self._seconds += seconds
        self._steps += self._steps_per_iteration
        self.rate = self._steps / self._seconds

    def undo_rollout(self) -> None:
        """Restores what the rollout of an interrupted iteration changed; no effect otherwise."""
        if self.step == self._step_before:
            variables = self._algorithm.acting_variables()
            for name, value in self._acting_state.items():
                variables[name].assign(value)

    @property
    def policy(self) -> Policy:
        """The policy that is trained."""
        return self._algorithm.policy

    @property
    def spaces(self) -> tuple[Space, Space]:
        """Observation space and action space of one environment."""
        return self._envs.observation_space, self._envs.action_space

    def due(self, interval: int) -> bool:
        """Whether an event scheduled every `interval` environment steps is due.

        Always at the last step, never for interval 0 and before the first iteration.
        """
        step = self.step  # Reading it takes as long as all else.
        if not interval or not step:
            return False
        crossed = step // interval > (step - self._steps_per_iteration) // interval
        return crossed or step >= self._config.steps

    def evaluate(self, progress: Progress = ignore_progress) -> tuple[dict[str, float], bool]:
        """Evaluates the policy: scalars by tag, and whether its mean return is the best so far."""
        scalars: dict[str, float] = {}
        for prefix, evaluation in self._evaluations.items():
            scalars |= evaluation.run(progress).scalars(prefix)
        scalars["eval/episodes"] = float(self._config.eval_episodes)
        is_best = scalars["eval/return_mean"] > float(self._best)
        if is_best:
            self._best_before = float(self._best)
            self._best.assign(scalars["eval/return_mean"])
        return scalars, is_best

    def take_restarts(self) -> list[Restart]:
        """Returns the restarts of training and evaluation environments since the last call."""
        restarts = self._envs.take_restarts()
        for evaluation in self._evaluations.values():
            restarts += evaluation.envs.take_restarts()
        self._num_restarts += len(restarts)
        return restarts

    @property
    def has_best(self) -> bool:
        """Whether an evaluation was the best so far."""
        return bool(float(self._best) > np.finfo(np.float64).min)

    def forget_best(self) -> None:
        """Starts over with best scores, as those so far are of other episodes."""
        self._best.assign(np.finfo(np.float64).min)

    def revoke_best(self) -> None:
        """Takes back the best score so far, whose checkpoint could not be saved."""
        self._best.assign(self._best_before)

    def report(self) -> dict[str, float]:
        """Scalars by tag: episodes since the last report, losses of the last iteration."""
        metrics = self._results.report.scalars
        scalars = {tag: float(value) for tag, value in metrics.items()}
        scalars.update(self._episodes.scalars())
        scalars["perf/steps_per_second"] = self.rate
        if self._skips_nonfinite:
            scalars["perf/skipped_updates"] = float(self._skipped)
        if self._config.env_restarts.limit:
            scalars["perf/env_restarts"] = float(self._num_restarts)
        self._seconds, self._steps = 0.0, 0
        return scalars | self.time_shares.report()

    def arrays(self) -> dict[str, np.ndarray]:
        """Arrays of the last iteration for histograms, by tag."""
        arrays = self._results.report.arrays
        return {tag: array.numpy() for tag, array in arrays.items()}

    def _collect_and_learn(self) -> Iteration:
        rollout = self._collect()
        collected = tf.zeros([], tf.float64)
        if not self._is_one_program:
            with tf.control_dependencies(tf.nest.flatten(rollout)):
                collected = tf.timestamp()
            with tf.control_dependencies([collected]):  # An executor with threads learns after it.
                rollout = tf.nest.map_structure(tf.identity, rollout)
        return self._learn(rollout)._replace(collected=collected)

    def _make_evaluations(self, envs: InGraphEnv) -> dict[str, Evaluation]:
        """By the prefix of their tags: of the policy, and of the averaged one where there is one."""
        seeds = self._seeds.many("evaluation", self._config.eval_episodes)
        policies = {"eval/": self.policy, "eval/averaged_": self._algorithm.averaged_policy}
        return {
            prefix: Evaluation(envs, policy, seeds) for prefix, policy in policies.items() if policy
        }

    def _learn(self, rollout: Rollout) -> Iteration:
        before = self._values() if self._skips_nonfinite else {}
        report = self._algorithm.train(rollout)
        report = report._replace(
            scalars=self._reducer.mean(report.scalars),
            nonfinite=nonfinite_of_all(report.nonfinite, self._reducer, self._envs.num_envs),
        )
        is_finite = tf.reduce_all([index < 0 for _, index in report.nonfinite.values()])  # []
        if self._skips_nonfinite:
            is_finite = self._undo_nonfinite(before, is_finite)
        return self._results_of(rollout, report, is_finite)

    def _results_of(self, rollout: Rollout, report: Report, is_finite: tf.Tensor) -> Iteration:
        done, episode_return, episode_length, extras = self._reducer.gather(
            (
                complete_episodes(rollout),
                rollout.episode_return,
                rollout.episode_length,
                rollout.extras,
            ),
            axis=1,
        )  # [T, B] of all learners
        return Iteration(
            done=done,
            episode_return=episode_return,
            episode_length=episode_length,
            extras=extras,
            report=report,
            is_finite=is_finite,
            collected=tf.zeros([], tf.float64),
        )

    def _share_out(self, seconds: float, start: float, in_environments: float) -> None:
        """Adds the seconds of a graph call, begun at the time `start`, to what they went to."""
        if self._is_one_program:
            self.time_shares.add("iteration", seconds)
            return
        collecting = min(max(float(self._results.collected) - start, in_environments), seconds)
        self.time_shares.add("environments", in_environments)
        self.time_shares.add("acting", collecting - in_environments)
        self.time_shares.add("learning", seconds - collecting)

    def _values(self) -> dict[str, tf.Tensor]:
        """Copies of the variables that learning changes by name, without the count of steps."""
        variables = self._algorithm.variables()
        return {
            name: tf.identity(variable)
            for name, variable in variables.items()
            if variable is not self._algorithm.steps
        }

    def _undo_nonfinite(self, before: dict[str, tf.Tensor], is_finite: tf.Tensor) -> tf.Tensor:
        """Assigns variables their values before an update, unless all is finite; returns whether it is.

        Args:
          before: Values by name.
          is_finite: bool [], whether everything that the algorithm monitors is finite.
        """
        variables = self._algorithm.variables()
        # The last minibatch may ruin weights without a loss that shows it.
        is_finite &= _are_finite(variables.values())
        for name, value in before.items():
            variables[name].assign(tf.where(is_finite, variables[name], value))
        return is_finite

    def _check_finite(self) -> None:
        if bool(self._results.is_finite):
            return
        message = self._describe_nonfinite()
        if not self._skips_nonfinite:
            raise NonFiniteError(message)
        self._skipped += 1
        if self._skipped & (self._skipped - 1) == 0:  # The first, second, fourth, eighth, ...
            warnings.warn(
                f"{message} The update was skipped, number {self._skipped} so far.", stacklevel=2
            )

    def _describe_nonfinite(self) -> str:
        """Returns which number is not finite and where: the first one that caused the others."""
        nonfinite = self._results.report.nonfinite
        for name in MONITORED:
            number, index = nonfinite.get(name, (0.0, -1))
            if int(index) < 0:
                continue
            if name in ("loss", "gradient"):
                what = "loss" if name == "loss" else "gradient of the loss"
                return f"The {what} is {float(number)} in the update at step {self.step:,}."
            step, env = divmod(int(index), self._config.num_envs)
            return (
                f"The {name} of environment {env} is {describe(float(number))} at step {step} of the rollout that "
                f"began at step {self._step_before:,}."
            )
        return f"A weight is NaN or infinite after the update at step {self.step:,}."


def to_graph(envs: VectorEnv | InGraphEnv, info_keys: tuple[str, ...] = ()) -> InGraphEnv:
    """Environments in the graph; those that are there already are returned as they are."""
    return envs if isinstance(envs, InGraphEnv) else InGraphBatchEnv(envs, info_keys)


def _are_finite(variables: Iterable[tf.Variable]) -> tf.Tensor:
    """Whether all numbers of floating point variables are finite, bool []."""
    floats = [variable for variable in variables if variable.dtype.is_floating]
    return tf.reduce_all([tf.reduce_all(tf.math.is_finite(variable)) for variable in floats])
