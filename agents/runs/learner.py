"""An agent, the environments it learns from and those it is evaluated in; one graph call an iteration."""

from __future__ import annotations

import math
import time
import warnings

import numpy as np
import tensorflow as tf
from gymnasium.vector import VectorEnv

from agents.config import Config
from agents.ppo import PPO
from agents.runs.environments import in_graph
from agents.runs.evaluate import Evaluation
from agents.runs.seeds import Seeds
from agents.runs.tensorflow_setup import graph_executor
from agents.tools.attr_dict import AttrDict
from agents.tools.errors import NonFiniteError
from agents.tools.in_graph_env import InGraphEnv
from agents.tools.simulation import simulate


class Learner:
    """What a training run is made of, apart from its files.

    Attributes:
      rate: Environment steps a second, since the last report, or in the iterations before it.
    """

    def __init__(self, train_envs: VectorEnv | InGraphEnv, eval_envs: VectorEnv | InGraphEnv, config: Config):
        """Builds the agent.

        Args:
          train_envs: Environments to learn from, B of them.
          eval_envs: Environments to evaluate in, one for each episode of an evaluation.
          config: See `agents.config`.
        """
        self._config = config
        self._seeds = Seeds(config.seed)
        self._envs = in_graph(train_envs, config.info_keys)
        self._ppo = PPO(self._envs, config)
        eval_seeds = self._seeds.many("evaluation", config.eval_episodes)
        self._evaluation = Evaluation(in_graph(eval_envs), self._ppo.policy, eval_seeds)
        self._best = tf.Variable(-math.inf, dtype=tf.float64, trainable=False)
        self._iteration = tf.function(self._collect_and_learn, autograph=False, jit_compile=self._envs.compiles)
        self._step_before = self.step
        self._results = AttrDict()
        self._missing: set[str] = set()  # Names of infos that were warned about.
        self._begin_report()
        self.rate = 0.0

    @property
    def step(self) -> int:
        """Environment steps learned from so far."""
        return int(self._ppo.steps)

    def variables(self) -> dict[str, tf.Variable]:
        """Everything that a checkpoint must hold, by name."""
        return {**self._ppo.variables(), "run/best": self._best}

    def begin_episodes(self) -> None:
        """Resets all environments, with seeds that depend on the run's seed and the step and on nothing else.

        A run that goes on after a checkpoint and one that is resumed from it do this alike, and are equal from there
        on. Episodes under way are cut: their values were bootstrapped at the end of the rollout.
        """
        seeds = self._seeds.many("episodes", self._config.num_envs, counter=self.step)
        with self._envs.raising():
            self._envs.reset(seed=tf.constant(seeds))
        self._ppo.begin_anew()
        self._ppo.begin_episode(tf.ones([self._config.num_envs], tf.bool))

    def iterate(self) -> None:
        """Collects a rollout and learns from it, in one call of a graph.

        Raises:
          EnvironmentFailure: An environment failed.
          NonFiniteError: An observation, action, reward or loss was NaN or infinite.
        """
        self._step_before = self.step
        start = time.perf_counter()
        with self._envs.raising(), graph_executor(self._ppo.policy.network.convolves):
            self._results = self._iteration()
        self._check_finite()
        episodes = self._results.episodes
        ended = episodes.ended.numpy()
        self._returns.append(episodes.episode_return.numpy()[ended])
        self._lengths.append(episodes.episode_length.numpy()[ended])
        for key, numbers in episodes.get("extras", {}).items():
            present = numbers.numpy()[~np.isnan(numbers)]
            self._info_sums[key] += [present.sum(dtype=np.float64), present.size]
        self._seconds += time.perf_counter() - start
        self._steps += ended.size
        self.rate = self._steps / self._seconds

    def due(self, interval: int) -> bool:
        """Whether something done every `interval` steps is due; 0 is never. At the last step everything else is."""
        if not interval:
            return False
        return self.step // interval > self._step_before // interval or self.step >= self._config.steps

    def evaluate(self) -> tuple[dict[str, float], bool]:
        """Evaluates the agent: scalars by tag, and whether the mean return is the best so far."""
        scalars = self._evaluation().scalars()
        is_best = scalars["eval/return_mean"] > float(self._best)
        if is_best:
            self._best.assign(scalars["eval/return_mean"])
        return scalars, is_best

    def report(self) -> dict[str, float]:
        """Scalars by tag, about the iterations since the last report; losses are those of the last one."""
        scalars = {name: float(value) for name, value in self._results.learned.scalars.items()}
        returns, lengths = np.concatenate(self._returns), np.concatenate(self._lengths)
        if len(returns):
            scalars["episode/return"] = float(np.mean(returns, dtype=np.float64))
            scalars["episode/length"] = float(np.mean(lengths))
        scalars.update(self._info_means())
        scalars["perf/steps_per_second"] = self.rate
        self._begin_report()
        return scalars

    def arrays(self) -> dict[str, np.ndarray]:
        """Arrays worth a histogram, by tag, of the last iteration."""
        return {name: array.numpy() for name, array in self._results.learned.arrays.items()}

    def _collect_and_learn(self) -> AttrDict:
        rollout = simulate(self._envs, self._ppo, self._config.rollout_length)
        names = ("ended", "episode_return", "episode_length", "extras")
        episodes = AttrDict({name: rollout[name] for name in names if name in rollout})
        return AttrDict(episodes=episodes, learned=self._ppo.train(rollout))

    def _begin_report(self) -> None:
        self._returns: list[np.ndarray] = []
        self._lengths: list[np.ndarray] = []
        self._info_sums = {key: np.zeros(2) for key in self._envs.extras}  # Sum and count.
        self._seconds, self._steps = 0.0, 0

    def _info_means(self) -> dict[str, float]:
        """Means of the numbers in the infos, by tag, over the steps that had them."""
        means = {}
        for key, (total, count) in self._info_sums.items():
            if count:
                means[f"info/{key}"] = float(total / count)
            elif self._envs.info_names and key not in self._missing:
                self._missing.add(key)
                names = ", ".join(sorted(self._envs.info_names))
                warnings.warn(
                    f"info_keys: no info had a number '{key}' so far; names seen in infos: {names}", stacklevel=3
                )
        return means

    def _check_finite(self) -> None:
        for name in ("observ", "final_observ", "reward", "action", "loss"):  # Causes before what follows from them.
            number, index = self._results.learned.nonfinite.get(name, (0, -1))
            if int(index) < 0:
                continue
            if name == "loss":
                raise NonFiniteError(f"The loss or its gradient is {number} in the update at step {self.step:,}.")
            step, env = divmod(int(index), self._config.num_envs)
            raise NonFiniteError(
                f"The {name} of environment {env} is {number} at step {step} of the rollout that began at step "
                f"{self._step_before:,}."
            )
