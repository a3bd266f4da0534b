"""An algorithm with its training and evaluation environments: one graph call per iteration."""

from __future__ import annotations

import math
import time
import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np
import tensorflow as tf
from gymnasium import spaces

from agents.environments.wrappers.action_mask import KEY
from agents.errors import UsageError
from agents.graph.algorithm import Report
from agents.graph.graph_calls import GraphCalls
from agents.graph.in_graph_batch_env import InGraphBatchEnv
from agents.graph.in_graph_env import InGraphEnv
from agents.graph.simulation import complete_episodes, simulate
from agents.graph.step import Rollout
from agents.learning.nonfinite import nonfinite_of_all
from agents.learning.reduction import SINGLE_LEARNER, Reducer
from agents.learning.replay import Replay
from agents.policies.policy import Policy
from agents.runs.checkpoint import restore
from agents.runs.training_statistics import EpisodeStatistics, TimeShares
from agents.seeds import Seeds
from agents.settings.config import Config
from agents.training.evaluation import Evaluations
from agents.training.find_algorithm import AlgorithmFactory
from agents.training.finite_updates import FiniteUpdates
from agents.types import Space, VectorEnv
from agents.vector.restarts import Restart

# Updates of runs that learn are below 0.2 nats.
_RUNAWAY_KL = 0.5


class Iteration(NamedTuple):
    """Results of an iteration, of the environments of all learners.

    Attributes:
      done: bool [T, B], whether a step ended an episode; not where the environment was restarted.
      episode_return: float32 [T, B], valid where `done`.
      episode_length: int32 [T, B], valid where `done`.
      extras: float32 [T, B] by info key.
      report: The algorithm's report.
      is_finite: bool [], whether everything that the algorithm monitors is finite.
      collected: float64 [], when the last rollout was complete, in seconds since 1970; 0 in compiled
        programs, which have no clock.
    """

    done: tf.Tensor
    episode_return: tf.Tensor
    episode_length: tf.Tensor
    extras: dict[str, tf.Tensor]
    report: Report
    is_finite: tf.Tensor
    collected: tf.Tensor


class Learner:
    """Trains one algorithm: collects rollouts, learns from them, evaluates; writes no files.

    Attributes:
      evaluations: Evaluations of its policy.
      rate: Environment steps per second since the last report.
      time_shares: Wall-clock breakdown since the last report.
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
        self.evaluations = Evaluations(
            to_graph(eval_envs, config.info_keys) if eval_envs else None,
            self._algorithm,
            self._seeds.many("evaluation", config.eval_episodes),
        )
        self._updates = FiniteUpdates(
            self._algorithm, config.num_envs, skips=config.on_nonfinite == "skip"
        )
        self._num_restarts = 0  # Since this process started.
        # Collecting and learning are one XLA program where all of it compiles. Convolutions do not: XLA's
        # take 40 times as long in a loop.
        collects_compiled = self._envs.compiles and not policy.network.convolves
        self._is_one_program = collects_compiled and reducer.compiles
        self._graph_call = tf.function(
            self._collect_and_learn, autograph=False, jit_compile=self._is_one_program
        )
        self._collect = tf.function(
            lambda: simulate(self._envs, self._algorithm, config.rollout_length),
            autograph=False,
            jit_compile=collects_compiled,
        )
        self._step_before = self.step
        self._acting_state: dict[str, np.ndarray] = {}  # Before the iteration.
        self._episodes = EpisodeStatistics(list(self._envs.extras), self._envs.info_names)
        self._steps_per_iteration = config.rollout_length * config.num_envs
        self._seconds, self._steps = 0.0, 0  # Since the last report.
        self._ignores_masks = self._has_large_updates = False
        self.rate = 0.0
        self.time_shares = TimeShares()

    @property
    def step(self) -> int:
        """Environment steps learned from so far."""
        return int(self._algorithm.steps)

    def variables(self) -> dict[str, tf.Variable]:
        """Everything that a checkpoint must hold, by name."""
        algorithm = self._algorithm
        acting = algorithm.acting_variables()
        return {**algorithm.variables(), **acting, **self.evaluations.variables()}

    def start_from(self, checkpoint: Path) -> None:
        """Loads the weights and statistics of another run's checkpoint, a file.

        Raises:
          UsageError: It is missing or damaged, or does not fit the configuration.
        """
        try:
            restore(checkpoint, self._algorithm.learned_variables())
        except UsageError as error:
            raise UsageError(f"initial_weights: {error}") from None

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
        self._warn_of_ignored_masks()  # Before an invalid action may raise.
        self._algorithm.reset_episode_state()
        self._algorithm.begin_episode(tf.ones([self._envs.num_envs], tf.bool))

    def iterate(self) -> None:
        """Collects a rollout and learns from it, in one graph call.

        Raises:
          EnvironmentFailure: An environment failed.
          InvalidActionError: An action is not in the action space.
          LearnerLostError: Another learner has failed or does not answer.
          NonFiniteError: An observation, action, reward, loss or gradient was NaN or infinite, and
            the configuration does not say to skip such updates.
          UsageError: The algorithm did not count its steps, or does not return what it should.
        """
        self._step_before = self.step
        acting = self._algorithm.acting_variables()
        self._acting_state = {name: variable.numpy() for name, variable in acting.items()}
        start, now, in_environments = time.perf_counter(), time.time(), self._envs.seconds
        with self._envs.raising(), self._reducer.raising(), self._graph_calls:
            self._results: Iteration = self._graph_call()
        seconds = time.perf_counter() - start
        results = self._results
        self._share_out(seconds, now, self._envs.seconds - in_environments)
        self._updates.check(results.report, results.is_finite, self._step_before)
        if not self._steps:  # Not in each iteration: reading a variable takes time.
            self._check_count()
        self._episodes.add(
            results.done.numpy(),
            results.episode_return.numpy(),
            results.episode_length.numpy(),
            {key: numbers.numpy() for key, numbers in results.extras.items()},
        )
        self._seconds += seconds
        self._steps += self._steps_per_iteration
        self.rate = self._steps / self._seconds

    def _check_count(self) -> None:
        """Raises a UsageError if the last iteration's steps were not counted: training would not end."""
        if (counted := self.step - self._step_before) != self._steps_per_iteration:
            raise UsageError(
                f"{type(self._algorithm).__name__}.train added {counted:,} to `steps`; expected the "
                f"{self._steps_per_iteration:,} steps of a rollout"
            )

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
    def replay(self) -> Replay | None:
        """The algorithm's replay, if checkpoints hold it."""
        return self._algorithm.replay

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

    def take_restarts(self) -> list[Restart]:
        """Returns the restarts of training environments since the last call."""
        restarts = self._envs.take_restarts()
        self._num_restarts += len(restarts)
        return restarts

    def report(self) -> dict[str, float]:
        """Scalars by tag: episodes since the last report, losses of the last iteration."""
        values = {tag: float(value) for tag, value in self._results.report.scalars.items()}
        # NaN in a finite update is no number, as losses before the first gradient step.
        is_finite = bool(self._results.is_finite)
        scalars = {tag: x for tag, x in values.items() if not (is_finite and math.isnan(x))}
        scalars.update(self._episodes.scalars())
        scalars["perf/steps_per_second"] = self.rate
        if self._updates.skips:
            scalars["perf/skipped_updates"] = float(self._updates.num_skipped)
        if self._config.env_restarts.limit:
            scalars["perf/env_restarts"] = float(self._num_restarts)
        self._seconds, self._steps = 0.0, 0
        self._warn_of_large_updates(scalars.get("losses/approx_kl", 0.0))
        return scalars | self.time_shares.report()

    def _warn_of_large_updates(self, kl: float) -> None:
        """Warns once if an update moved the policy further than any that learns."""
        if kl > _RUNAWAY_KL and not self._has_large_updates:
            self._has_large_updates = True
            warnings.warn(
                f"losses/approx_kl is {kl:.3g} at step {self.step:,}: the update moved the policy too "
                f"far; lower learning_rate ({self._config.learning_rate:g}), see docs/guides/tuning.md",
                stacklevel=2,
            )

    def _warn_of_ignored_masks(self) -> None:
        """Warns once if environments return action masks that the policy does not take."""
        if self._config.action_mask or self._ignores_masks:
            return
        observations, actions = self.spaces
        in_observations = isinstance(observations, spaces.Dict) and KEY in observations.spaces
        if not in_observations and KEY not in self._envs.info_names:
            return
        if isinstance(actions, spaces.Discrete | spaces.MultiDiscrete):
            self._ignores_masks = True
            warnings.warn(
                f"the {'observations' if in_observations else 'infos'} hold an {KEY}, which training "
                "ignores: --action-mask=true lets the policy take valid actions only",
                stacklevel=2,
            )

    def arrays(self) -> dict[str, np.ndarray]:
        """Arrays of the last iteration for histograms, by tag, without those that hold no number."""
        arrays = {tag: array.numpy() for tag, array in self._results.report.arrays.items()}
        return {tag: array for tag, array in arrays.items() if not np.isnan(array).all()}

    def _collect_and_learn(self) -> Iteration:
        rollout: Rollout = self._collect()
        collected = tf.zeros([], tf.float64)
        if not self._is_one_program:
            with tf.control_dependencies(tf.nest.flatten(rollout)):
                collected = tf.timestamp()
            with tf.control_dependencies([collected]):  # An executor with threads learns after it.
                rollout = tf.nest.map_structure(tf.identity, rollout)
        before = self._updates.copies()
        report = self._algorithm.train(rollout)
        if not isinstance(report, Report):
            name = f"{type(self._algorithm).__name__}.train"
            raise UsageError(f"{name} returned {type(report).__name__}, expected a Report")
        report = report._replace(
            scalars=self._reducer.mean(report.scalars),
            nonfinite=nonfinite_of_all(report.nonfinite, self._reducer, self._envs.num_envs),
        )
        is_finite = self._updates.undo_nonfinite(before, report)
        done, returns = complete_episodes(rollout), rollout.episode_return
        own = done, returns, rollout.episode_length, rollout.extras
        episodes = self._reducer.gather(own, axis=1)  # [T, B] of all learners
        return Iteration(*episodes, report, is_finite, collected)

    def _share_out(self, seconds: float, start: float, in_environments: float) -> None:
        """Adds the seconds of a graph call, begun at the time `start`, to their shares."""
        if self._is_one_program:
            self.time_shares.add("iteration", seconds)
            return
        collecting = min(max(float(self._results.collected) - start, in_environments), seconds)
        self.time_shares.add("environments", in_environments)
        self.time_shares.add("acting", collecting - in_environments)
        self.time_shares.add("learning", seconds - collecting)


def to_graph(envs: VectorEnv | InGraphEnv, info_keys: tuple[str, ...]) -> InGraphEnv:
    """Environments in the graph; an `InGraphEnv` is returned as it is."""
    return envs if isinstance(envs, InGraphEnv) else InGraphBatchEnv(envs, info_keys)
