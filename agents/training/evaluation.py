"""Evaluation: whole episodes, deterministic actions, frozen normalizers."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import tensorflow as tf

from agents import stop_signals
from agents.errors import EnvironmentFailure, NonFiniteError
from agents.graph.algorithm import Actor, Algorithm
from agents.graph.graph_calls import GraphCalls
from agents.graph.in_graph_env import InGraphEnv
from agents.graph.simulation import complete_episodes, simulate
from agents.graph.step import Turn
from agents.learning.nonfinite import describe, first_nonfinite
from agents.policies.actor_critic import States
from agents.policies.policy import Policy
from agents.policies.recurrent_cells import reset_state
from agents.training.episode_cuts import LONGEST_EPISODE
from agents.types import NestedTensor
from agents.vector.restarts import Restart

if TYPE_CHECKING:
    from agents.deployment.trained_policy import TrainedPolicy

STEPS_PER_CALL = 50

# Receives the steps of each environment so far, and the number of finished episodes.
Progress = Callable[[int, int], None]


def ignore_progress(steps: int, num_done: int) -> None:
    """Shows nothing."""


@dataclasses.dataclass(frozen=True)
class Scores:
    """Results of N episodes.

    Attributes:
      returns: float32 [N].
      lengths: int32 [N], in steps.
      infos: float32 [N] by info key, numbers in the infos of last steps, NaN where there is none.
    """

    returns: np.ndarray
    lengths: np.ndarray
    infos: Mapping[str, np.ndarray]

    def scalars(self, prefix: str = "eval/") -> dict[str, float]:
        """Scalars to log, by tag; the tags start with a prefix."""
        scalars = {
            f"{prefix}return_mean": float(np.mean(self.returns, dtype=np.float64)),
            f"{prefix}return_std": float(np.std(self.returns, dtype=np.float64)),
            f"{prefix}length_mean": float(np.mean(self.lengths)),
        }
        for key, numbers in self.infos.items():
            present = numbers[~np.isnan(numbers)]
            if present.size:
                scalars[f"{prefix}info/{key}"] = float(np.mean(present, dtype=np.float64))
        return scalars


class Episodes(NamedTuple):
    """Episodes in the steps of a graph call, T of N environments; see `Rollout`.

    Attributes:
      done: bool [T, N], the ends of complete episodes.
      nonfinite: By the name of the monitored tensor, the first number that is not finite and its
        index; see `Report`.
    """

    done: tf.Tensor
    episode_return: tf.Tensor
    episode_length: tf.Tensor
    extras: dict[str, tf.Tensor]
    nonfinite: dict[str, tuple[tf.Tensor, tf.Tensor]]


class Evaluation:
    """Runs one complete episode in each environment of a batch.

    Each environment counts for exactly one episode: taking the first episodes to finish would
    favor short ones. An episode that a restart of its environment cut is run again.

    Attributes:
      envs: The environments, N of them.
    """

    def __init__(self, envs: InGraphEnv, policy: Policy, seeds: np.ndarray):
        """Evaluates a policy.

        Args:
          envs: N environments.
          policy: Chooses the actions.
          seeds: Seeds of the episodes, int64 [N], the same in every evaluation.
        """
        self.envs, self._seeds, self._policy = envs, tf.constant(seeds, tf.int64), policy
        self._actor = PolicyActor(policy, envs.num_envs)
        self._graph_calls = GraphCalls(policy.network.convolves)
        self._simulate = tf.function(
            self._simulate_steps,
            autograph=False,
            jit_compile=envs.compiles and not policy.network.convolves,
        )

    def run(self, progress: Progress = ignore_progress) -> Scores:
        """Resets all environments and runs an episode in each.

        Args:
          progress: Called regularly.

        Raises:
          EnvironmentFailure: An environment failed.
          InvalidActionError: An action is not in the action space.
          NonFiniteError: A weight of the policy, an observation or a reward is NaN or infinite.
          StopRequested: A signal asked this process to stop.
        """
        self._check_policy()
        returns = np.zeros(self.envs.num_envs, np.float32)  # [N]
        lengths = np.zeros(self.envs.num_envs, np.int32)  # [N]
        infos = {key: np.full(self.envs.num_envs, np.nan, np.float32) for key in self.envs.extras}
        scores = Scores(returns, lengths, infos)
        running = np.ones(self.envs.num_envs, bool)  # [N]
        with self.envs.raising(), self._graph_calls:
            self.envs.reset(seed=self._seeds)
            self._actor.begin_episode(tf.ones([self.envs.num_envs], tf.bool))
            for steps in range(STEPS_PER_CALL, LONGEST_EPISODE + 1, STEPS_PER_CALL):
                episodes: Episodes = self._simulate()
                self._check_numbers(episodes, steps - STEPS_PER_CALL)
                done = episodes.done.numpy()  # [T, N]
                for env in np.flatnonzero(running & done.any(axis=0)):
                    first = int(np.argmax(done[:, env]))
                    returns[env] = episodes.episode_return[first, env]
                    lengths[env] = episodes.episode_length[first, env]
                    for key, numbers in episodes.extras.items():
                        infos[key][env] = numbers[first, env]
                running &= ~done.any(axis=0)
                progress(steps, int(np.sum(~running)))
                stop_signals.check()
                if not running.any():
                    return scores
        self._score_unfinished(scores, running)
        return scores

    def _simulate_steps(self) -> Episodes:
        # Not the whole rollout, which a compiled program would have to write to memory.
        rollout = simulate(self.envs, self._actor, STEPS_PER_CALL, deterministic=True)
        monitored = {"reward": first_nonfinite(rollout.reward)}
        inputs = self._policy.inputs.convert(rollout.observ)  # [T, N, ...]
        if "vector" in inputs:
            monitored["observ"] = first_nonfinite(inputs["vector"])
        return Episodes(
            done=complete_episodes(rollout),
            episode_return=rollout.episode_return,
            episode_length=rollout.episode_length,
            extras=rollout.extras,
            nonfinite=monitored,
        )

    def _check_policy(self) -> None:
        """Raises NonFiniteError for weights, from which even NaN gives plausible scores."""
        for name, variable in self._policy.variables().items():
            if variable.dtype.is_floating and not np.isfinite(variable.numpy()).all():
                raise NonFiniteError(f"The policy's {name} is NaN or infinite at an evaluation.")

    def _check_numbers(self, episodes: Episodes, steps: int) -> None:
        """Raises NonFiniteError for a graph call that started after `steps` steps."""
        for name, (number, index) in episodes.nonfinite.items():
            if int(index) >= 0:
                step, env = divmod(int(index), self.envs.num_envs)
                raise NonFiniteError(
                    f"The {name} of evaluation environment {env} is {describe(float(number))} in "
                    f"step {steps + step}."
                )

    def _score_unfinished(self, scores: Scores, running: np.ndarray) -> None:
        """Scores episodes [N] that are still running on the steps so far, and warns."""
        scores.returns[running] = self.envs.episode_return.numpy()[running]
        scores.lengths[running] = self.envs.episode_length.numpy()[running]
        warnings.warn(
            f"{running.sum()} evaluation episodes had not ended after {LONGEST_EPISODE:,} steps "
            "and are scored on the steps so far; set --max-episode-steps.",
            stacklevel=3,
        )


class Evaluations:
    """Evaluations of an algorithm's policies, and the best score so far.

    There are two policies where the algorithm has one with averaged weights.
    """

    def __init__(self, envs: InGraphEnv | None, algorithm: Algorithm, seeds: np.ndarray):
        """Starts without a score.

        Args:
          envs: Environments, one per episode; None for a learner that does not evaluate.
          algorithm: Has the policies.
          seeds: Seeds of the episodes, int64 [N], the same in every evaluation.
        """
        self._num_episodes = len(seeds)
        policies = {"eval/": algorithm.policy, "eval/averaged_": algorithm.averaged_policy}
        # By the prefix of their tags.
        self._evaluations = {
            prefix: Evaluation(envs, policy, seeds)
            for prefix, policy in policies.items()
            if policy and envs
        }
        # Below every score, and finite as all that checkpoints hold.
        self._best = tf.Variable(np.finfo(np.float64).min, dtype=tf.float64, trainable=False)
        self._best_before = float(self._best)

    def run(self, progress: Progress = ignore_progress) -> tuple[dict[str, float], bool]:
        """Evaluates: scalars by tag, and whether the policy's mean return is the best so far."""
        scalars: dict[str, float] = {}
        for prefix, evaluation in self._evaluations.items():
            try:
                scalars |= evaluation.run(progress).scalars(prefix)
            except EnvironmentFailure as error:
                error.note = f"It failed in an evaluation. {error.note}".strip()
                raise
        scalars["eval/episodes"] = float(self._num_episodes)
        is_best = scalars["eval/return_mean"] > float(self._best)
        if is_best:
            self._best_before = float(self._best)
            self._best.assign(scalars["eval/return_mean"])
        return scalars, is_best

    @property
    def has_best(self) -> bool:
        """Whether an evaluation was the best so far."""
        return bool(float(self._best) > np.finfo(np.float64).min)

    def forget_best(self) -> None:
        """Resets the best score: earlier scores are of other episodes."""
        self._best.assign(np.finfo(np.float64).min)

    def revoke_best(self) -> None:
        """Takes back the best score so far, whose checkpoint could not be saved."""
        self._best.assign(self._best_before)

    def take_restarts(self) -> list[Restart]:
        """Returns the restarts of the environments since the last call."""
        taken = (evaluation.envs.take_restarts() for evaluation in self._evaluations.values())
        return [restart for restarts in taken for restart in restarts]

    def variables(self) -> dict[str, tf.Variable]:
        """The best score, by its name in checkpoints."""
        return {"run/best": self._best}


class PolicyActor(Actor):
    """Acts with a policy in N environments; keeps nothing beyond an episode."""

    acts_in_turns = True

    def __init__(self, policy: Policy, num_envs: int):
        """Creates variables for the recurrent state."""
        self._policy = policy
        zero_states = policy.zero_states(num_envs)
        self._states = tf.nest.map_structure(
            lambda zeros: tf.Variable(zeros, trainable=False), zero_states
        )  # [N, U]
        self._turn: Turn | None = None

    def begin_turn(self, turn: Turn) -> None:
        """Lets `perform` keep the recurrent state where environments are not ready."""
        self._turn = turn

    def begin_episode(self, mask: tf.Tensor) -> None:
        """Resets the recurrent state where `mask`, bool [N], is set."""
        self._assign({name: reset_state(state, mask) for name, state in self._states.items()})

    def perform(self, observ: NestedTensor, deterministic: bool) -> NestedTensor:
        """Returns the policy's actions [N, ...]."""
        states = tf.nest.map_structure(tf.convert_to_tensor, self._states)
        _, action, next_states = self._policy.act(observ, deterministic, states=states)
        self._assign(self._turn.select(next_states, states) if self._turn else next_states)
        return action

    def _assign(self, states: States) -> None:
        tf.nest.map_structure(lambda variable, state: variable.assign(state), self._states, states)


class EvaluationScore(float):
    """The mean return of an evaluation: a float with metadata.

    Attributes:
      step: Environment steps learned from so far.
      is_best: Whether the mean return exceeds those of all earlier evaluations of the run.
      scalars: All scalars of the evaluation, by tag, such as "eval/return_std".
      run: The run's folder; a temporary one if the run is not kept.
    """

    step: int
    is_best: bool
    scalars: Mapping[str, float]
    run: Path
    _make_policy: Callable[[], TrainedPolicy]

    def __new__(
        cls,
        scalars: Mapping[str, float],
        step: int,
        is_best: bool,
        run: Path,
        make_policy: Callable[[], TrainedPolicy],
    ) -> EvaluationScore:
        """Creates a score.

        Args:
          scalars: With "eval/return_mean", the number's value.
          step: See the class.
          is_best: See the class.
          run: See the class.
          make_policy: Returns the policy; called on first use.
        """
        self = super().__new__(cls, scalars["eval/return_mean"])
        self.scalars, self.step, self.is_best, self.run = dict(scalars), step, is_best, run
        self._make_policy = make_policy
        return self

    @property
    def policy(self) -> TrainedPolicy:
        """The policy that is trained; it changes while training continues, checkpoints do not."""
        return self._make_policy()
