"""Proximal policy optimization: acting, and learning from rollouts."""

from __future__ import annotations

from typing import ClassVar

import tensorflow as tf

from agents.errors import UsageError
from agents.graph.algorithm import Algorithm, Report, check_arguments, check_rollout_length
from agents.graph.in_graph_env import InGraphEnv
from agents.graph.step import Rollout, Turn
from agents.learning.grouped_variables import grouped
from agents.learning.nonfinite import find_nonfinite
from agents.learning.reduction import SINGLE_LEARNER, Reducer
from agents.learning.returns import explained_variance
from agents.policies.averaged_policy import AveragedPolicy
from agents.policies.policy import Policy
from agents.policies.recurrent_cells import reset_state
from agents.ppo.batch import RolloutProcessor
from agents.ppo.correlated_noise import CorrelatedNoise
from agents.ppo.kl_limits import multiply_kl_limits
from agents.ppo.loss import Loss
from agents.ppo.update import Update
from agents.seeds import Seeds
from agents.settings.config import Config, ppo_problem
from agents.spaces import num_dimensions
from agents.types import NestedTensor, NestedVariable, Space


class PPO(Algorithm):
    """Proximal policy optimization (Schulman et al., 2017, arXiv 1707.06347).

    Acting only stores samples. `train` computes log-probabilities, values and statistics for the whole
    rollout at once.

    Attributes:
      loss_class: The loss that updates minimize; a subclass may name another `Loss`.
      policy: The policy that is trained.
      steps: Variable [], int64, the environment steps learned from so far.
    """

    acts_in_turns = True
    loss_class: ClassVar[type[Loss]] = Loss

    def __init__(
        self,
        batch_env: InGraphEnv,
        config: Config,
        reducer: Reducer = SINGLE_LEARNER,
        **unknown: object,
    ):
        """Creates networks, normalizers, optimizers, and variables for a rollout's samples.

        Args:
          batch_env: The environments of this learner, B of them.
          config: The experiment's settings, for the environments and minibatches of all learners.
          reducer: Combines several learners.
          **unknown: Settings do not belong here; the error says where.

        Raises:
          TypeError: An argument is something else, or unknown.
          UnsupportedSpaceError: There is no network or action distribution for a space.
          UsageError: The network does not exist, or does not fit the observations; or a setting of a
            subclass, which `Config` does not check.
        """
        check_arguments("PPO", batch_env, config, unknown)
        if problem := ppo_problem(config):
            raise UsageError(problem)
        config = multiply_kl_limits(config, num_dimensions(batch_env.action_space))
        self._batch_env, self._config, self._reducer = batch_env, config, reducer
        self._generator = tf.random.Generator.from_seed(Seeds(config.seed).one("algorithm"))
        spaces = batch_env.observation_space, batch_env.action_space
        self.policy = Policy(*spaces, config, self._generator)
        self._average: AveragedPolicy | None = None
        if config.average_decay:
            average = Policy(*spaces, config, self._generator)
            self._average = AveragedPolicy(average, config.average_decay)
        network = self.policy.network
        self._processor = RolloutProcessor(self.policy, batch_env.num_envs, config, reducer)
        self._loss = self.loss_class(network, config, reducer)
        self._update = Update(
            network.trainable_variables(),
            self._loss,
            config,
            self._generator,
            reducer,
            compiles=not network.convolves,
        )
        self.steps = tf.Variable(0, dtype=tf.int64, trainable=False)
        # Networks that see images learn in a plain graph, where TensorFlow has oneDNN.
        compiles = reducer.compiles and not network.convolves
        self._train_graph = tf.function(self._train, jit_compile=compiles, autograph=False)
        # Of the current rollout: the next step, noise [T, B, K] and samples [T, B, ...].
        self._step = tf.Variable(0, trainable=False)
        self._turn: Turn | None = None  # Where environments are at steps of their own.
        self._num_envs = batch_env.num_envs * reducer.num_learners  # Of all learners.
        noise = self.policy.noise([config.rollout_length, self._num_envs])
        self._noise = tf.Variable(reducer.own(noise, axis=1), trainable=False)
        self._correlated_noise = CorrelatedNoise(config.noise_correlation, noise[0])
        observ = tf.nest.map_structure(tf.zeros_like, batch_env.observ)
        sample, _, _ = self.policy.act(observ, deterministic=True)
        self._samples = _variables(
            tf.nest.map_structure(
                lambda leaf: tf.zeros([config.rollout_length, *leaf.shape], leaf.dtype), sample
            )
        )
        # The policy's recurrent state [B, U], now and before the rollout; and that of all learners.
        zero_states = self.policy.zero_states(batch_env.num_envs)
        self._states, self._start_states = _variables(zero_states), _variables(zero_states)
        self._all_states = self._states
        if reducer.num_learners > 1:
            self._all_states = _variables(self.policy.zero_states(self._num_envs))

    @classmethod
    def describe(cls, config: Config, observation_space: Space, action_space: Space) -> list[str]:
        """Lines on the update, see `Algorithm`."""
        if problem := ppo_problem(config):
            raise UsageError(problem)
        minibatches = config.num_envs * config.rollout_length // config.minibatch_size
        return [
            f"update: {config.epochs} epochs of {minibatches} minibatches of "
            f"{config.minibatch_size} steps"
        ]

    @property
    def averaged_policy(self) -> Policy | None:
        """The policy with averaged weights, see `Algorithm`."""
        return self._average.policy if self._average else None

    # Acting.

    def begin_rollout(self, steps: int) -> None:
        """Draws the noise of a whole rollout, for the environments of all learners.

        Raises:
          ValueError: The rollout does not have `rollout_length` steps.
        """
        check_rollout_length("PPO", self._config.rollout_length, steps)
        noise = self.policy.noise([steps, self._num_envs])
        correlated = self._correlated_noise.correlate(noise)
        self._noise.assign(self._reducer.own(correlated, axis=1))  # [T, B, K]
        self._step.assign(0)
        self._turn = None
        _assign(self._start_states, self._states)

    def begin_turn(self, turn: Turn) -> None:
        """Lets `perform` act in environments that are at different steps of the rollout."""
        self._turn = turn

    def begin_episode(self, mask: tf.Tensor) -> None:
        """Resets the policy's recurrent state where `mask`, bool [B], is set."""
        states = {name: reset_state(state, mask) for name, state in self._states.items()}
        _assign(self._states, states)

    def perform(self, observ: NestedTensor, deterministic: bool) -> NestedTensor:
        """Chooses actions [B, ...] and stores the policy's samples, which are not clipped."""
        turn, step = self._turn, tf.convert_to_tensor(self._step)  # []
        states = _tensors(self._states)
        noise = turn.read(self._noise) if turn else tf.gather(self._noise, step)  # [B, K]
        sample, action, next_states = self.policy.act(observ, deterministic, noise, states)
        if turn:
            tf.nest.map_structure(turn.write, self._samples, sample)
            next_states = turn.select(next_states, states)
        else:
            tf.nest.map_structure(
                lambda stored, leaf: stored.scatter_update(tf.IndexedSlices(leaf, step)),
                self._samples,
                sample,
            )
            self._step.assign_add(1)
        _assign(self._states, next_states)
        return action

    # Learning.

    def train(self, rollout: Rollout) -> Report:
        """Learns from a rollout [T, B, ...]: one XLA program, or a plain graph for images."""
        report: Report = self._train_graph(rollout)
        return report

    def _train(self, rollout: Rollout) -> Report:
        progress = tf.cast(self.steps, tf.float32) / float(self._config.steps)
        progress = tf.minimum(progress, 1.0)
        sample, states, last_observ = _tensors(
            (self._samples, self._start_states, self._batch_env.observ)
        )
        batch, arrays, estimate = self._processor.process(rollout, last_observ, sample, states)
        recompute = estimate if self._config.recompute_advantages else None
        metrics, gradients = self._update.run(batch, progress, recompute)
        if self._average:
            self._average.update(self.policy)
        self.steps.assign_add(self._config.rollout_length * self._num_envs)
        metrics["losses/explained_variance"] = explained_variance(
            batch.value, batch.target, self._reducer, batch.valid
        )
        weights = _tensors(self.policy.network.trainable_variables())
        arrays |= {f"weights/{name}": weights[name] for name in weights}
        arrays |= {f"weight_gradients/{name}": gradients[name] for name in gradients}
        if self._all_states is not self._states:
            _assign(self._all_states, self._reducer.gather(_tensors(self._states)))
        numbers, final_numbers, last_numbers = (
            self.policy.inputs.numbers(observ)
            for observ in (rollout.observ, rollout.final_observ, last_observ)
        )
        nonfinite = find_nonfinite(
            reward=rollout.reward,
            done=rollout.done,
            sample=sample,
            loss=metrics["losses/policy"] + metrics["losses/value"],
            observ=numbers,
            final_observ=final_numbers,
            last_observ=last_numbers,
            gradient=metrics["losses/gradient_norm"],
        )
        return Report(metrics, arrays, nonfinite)

    def reset_episode_state(self) -> None:
        """Clears per-episode state after all environments were reset."""
        self._processor.reset_episode_state()

    def variables(self) -> dict[str, tf.Variable]:
        """Everything that a checkpoint must hold, by name."""
        learning = grouped(
            optimizer=self._update.variables(),
            loss=self._loss.variables(),
            algorithm={"steps": self.steps},
        )
        average = self._average.variables() if self._average else {}
        processor = self._processor.variables()
        policy = self.policy.variables()
        return {**policy, **average, **processor, **learning, **self.acting_variables()}

    def learned_variables(self) -> dict[str, tf.Variable]:
        """The policy, and statistics of rewards and returns, see `Algorithm`."""
        of_episodes = "normalize_reward/sums", "value_states/"
        statistics = {
            name: variable
            for name, variable in self._processor.variables().items()
            if not name.startswith(of_episodes)
        }
        return {**self.policy.variables(), **statistics}

    def acting_variables(self) -> dict[str, tf.Variable]:
        """The generator, correlated noise and recurrent state, see `Algorithm`."""
        states = tf.nest.flatten(self._all_states)
        return grouped(
            noise=self._correlated_noise.variables(),
            policy_states={str(index): state for index, state in enumerate(states)},
            algorithm={"generator": self._generator.state},
        )


def _variables(structure: NestedTensor) -> NestedVariable:
    return tf.nest.map_structure(lambda value: tf.Variable(value, trainable=False), structure)


def _tensors(variables: NestedVariable) -> NestedTensor:
    return tf.nest.map_structure(tf.convert_to_tensor, variables)


def _assign(variables: NestedVariable, values: NestedTensor) -> None:
    tf.nest.map_structure(lambda variable, value: variable.assign(value), variables, values)
