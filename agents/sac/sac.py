"""Soft actor-critic: acting, and learning from a replay of steps."""

from __future__ import annotations

import math

import numpy as np
import tensorflow as tf

from agents.distributions.distribution import Distribution
from agents.environments.action_bounds import center_and_scale
from agents.errors import UsageError
from agents.graph.algorithm import Algorithm, Report, check_arguments, check_rollout_length
from agents.graph.in_graph_env import InGraphEnv
from agents.graph.step import Rollout, Turn, select_rows
from agents.learning.grouped_variables import grouped
from agents.learning.nonfinite import find_nonfinite
from agents.learning.optimizers import Optimizer, make_keras_optimizer
from agents.learning.replay import Replay, Rows, Transitions, check_memory
from agents.learning.schedules import Schedule
from agents.policies.averaged_policy import AveragedPolicy
from agents.policies.inputs import NetworkInputs
from agents.policies.policy import Policy
from agents.policies.sequences import flatten_time
from agents.sac import losses
from agents.sac.critics import Critics
from agents.seeds import Seeds
from agents.settings.config import Config, num_updates, sac_problem
from agents.spaces import check_bounded, leaf_spaces
from agents.types import NestedTensor, Space

# Actions of [-1, 1] in the replay are that far from the bounds, where tanh has an inverse.
_MARGIN = 1e-6

Tensors = dict[str, tf.Tensor]


class SAC(Algorithm):
    """Soft actor-critic (Haarnoja et al., 2018, arXiv 1801.01290 and 1812.05905).

    With more than one quantile it is TQC (Kuznetsov et al., 2020, arXiv 2005.04269). Replay,
    critics and densities have actions in [-1, 1].

    Attributes:
      policy: The policy that is trained.
      steps: Variable [], int64, the environment steps learned from so far.
    """

    acts_in_turns = True

    def __init__(self, batch_env: InGraphEnv, config: Config, **unknown: object):
        """Creates networks, optimizers and the replay.

        Args:
          batch_env: The environments, B of them.
          config: The experiment's settings.
          **unknown: Settings do not belong here; the error says where.

        Raises:
          TypeError: An argument is something else, or unknown.
          UnsupportedSpaceError: There is no network for a space, or actions are not bounded Boxes.
          UsageError: The network does not exist, or does not fit the observations; or a setting of a
            subclass, which `Config` does not check.
        """
        check_arguments("SAC", batch_env, config, unknown)
        if problem := sac_problem(config):
            raise UsageError(problem)
        observation_space, action_space = batch_env.observation_space, batch_env.action_space
        check_bounded(action_space, "sac")
        check_memory(config.replay_capacity, observation_space, action_space)
        self._config, self._batch_env = config, batch_env
        seeds = Seeds(config.seed)
        self._generator = tf.random.Generator.from_seed(seeds.one("algorithm"))
        self.policy = Policy(observation_space, action_space, config, self._generator)
        self._average: AveragedPolicy | None = None
        if config.average_decay:
            average = Policy(observation_space, action_space, config)
            self._average = AveragedPolicy(average, config.average_decay)
        distribution = self.policy.action_distribution
        self._action_size = distribution.noise_size
        inputs = self.policy.inputs
        self._critics, self._targets = (
            Critics(inputs, self._action_size, config, seeds.one("critics")) for _ in range(2)
        )
        self._log_entropy_coef = tf.Variable(math.log(config.initial_entropy_coef))
        self._target_entropy = config.target_entropy * self._action_size
        self._log_scale = log_scale(action_space)
        self._optimizers = self._make_optimizers()
        observ = tf.nest.map_structure(tf.convert_to_tensor, batch_env.observ)
        self._replay = Replay(config.replay_capacity, observ, self._action_size)
        self.steps = tf.Variable(0, dtype=tf.int64, trainable=False)
        compiles = not self.policy.network.convolves
        self._train_graph = tf.function(self._train, jit_compile=compiles, autograph=False)
        # Of the current rollout: the next step, noise and actions.
        self._step = tf.Variable(0, trainable=False)
        self._turn: Turn | None = None
        shape = [config.rollout_length, batch_env.num_envs, self._action_size]
        self._noise, self._uniform, self._actions = (
            tf.Variable(tf.zeros(shape), trainable=False) for _ in range(3)
        )

    def _make_optimizers(self) -> dict[str, Optimizer]:
        config = self._config
        trained = {
            "actor": self._actor_variables(),
            "critic": self._critics.trainable_variables(),
            "entropy": {"log_entropy_coef": self._log_entropy_coef},
        }
        rates = {"critic": config.critic_learning_rate or config.learning_rate}
        # An optimizer of the user is for weights: decay would move the coefficient towards 1.
        adam = config.model_copy(update={"optimizer": "torch_adam"})
        own = {"entropy": adam} if ":" in config.optimizer else {}
        return {
            name: Optimizer(
                variables,
                make_keras_optimizer(own.get(name, config), f"{name}_"),
                Schedule(rates.get(name, config.learning_rate)),
                rate_name=f"{name}_learning_rate",
            )
            for name, variables in trained.items()
        }

    @classmethod
    def describe(cls, config: Config, observation_space: Space, action_space: Space) -> list[str]:
        """Lines on replay and update, see `Algorithm`."""
        if problem := sac_problem(config):
            raise UsageError(problem)
        check_bounded(action_space, "sac")
        size = check_memory(config.replay_capacity, observation_space, action_space)
        steps = config.num_envs * config.rollout_length
        layers = ", ".join(map(str, config.value_layers or config.layers))
        return [
            f"critics: {config.num_critics} with layers {layers}, and a target network for each",
            f"replay: {config.replay_capacity:,} steps, {size / 1e6:,.1f} MB",
            f"update: {num_updates(config)} gradient steps of critics and policy, with "
            f"{config.batch_size} steps of the replay each, every {steps} steps",
        ]

    @property
    def averaged_policy(self) -> Policy | None:
        """The policy with averaged weights, see `Algorithm`."""
        return self._average.policy if self._average else None

    @property
    def replay(self) -> Replay | None:
        """The replay, if checkpoints hold it, see `Algorithm`."""
        return self._replay if self._config.replay_checkpoints else None

    # Acting.

    def begin_rollout(self, steps: int) -> None:
        """Draws the noise of a whole rollout.

        Raises:
          ValueError: The rollout does not have `rollout_length` steps.
        """
        check_rollout_length("SAC", self._config.rollout_length, steps)
        self._noise.assign(self._generator.normal(self._noise.shape))
        self._uniform.assign(self._generator.uniform(self._noise.shape, -1.0, 1.0))
        self._step.assign(0)
        self._turn = None

    def begin_turn(self, turn: Turn) -> None:
        """Lets `perform` act in environments that are at different steps of the rollout."""
        self._turn = turn

    def perform(self, observ: NestedTensor, deterministic: bool) -> NestedTensor:
        """Chooses actions [B, ...] and stores them.

        They are uniformly random before `learning_starts`, unless the policy has another run's weights.
        """
        turn, step = self._turn, tf.convert_to_tensor(self._step)

        def read(variable: tf.Variable) -> tf.Tensor:
            return turn.read(variable) if turn else tf.gather(variable, step)  # [B, A]

        sample, _, _ = self.policy.act(observ, deterministic, read(self._noise))
        parts = tf.nest.flatten(sample)
        action = tf.tanh(tf.concat(parts, axis=-1))  # [B, A]
        if not deterministic and not self._config.initial_weights:
            is_random = self.steps < self._config.learning_starts
            action = tf.where(is_random, read(self._uniform), action)
        action = tf.clip_by_value(action, -1 + _MARGIN, 1 - _MARGIN)
        if turn:
            turn.write(self._actions, action)
        else:
            self._actions.scatter_update(tf.IndexedSlices(action, step))
            self._step.assign_add(1)
        sizes = [part.shape[-1] for part in parts]
        samples = tf.split(tf.atanh(action), sizes, axis=-1)
        sample = tf.nest.pack_sequence_as(sample, samples)
        return self.policy.action_distribution.to_environment(sample)

    # Learning.

    def train(self, rollout: Rollout) -> Report:
        """Adds a rollout [T, B, ...] to the replay and learns: one XLA program, or a plain graph."""
        report: Report = self._train_graph(rollout)
        return report

    def _train(self, rollout: Rollout) -> Report:
        config = self._config
        self._remember(rollout)
        num_steps = math.prod(rollout.reward.shape)
        self.steps.assign_add(num_steps)
        updates = num_updates(config)
        rows, valid = self._replay.draw(self._generator, [updates, config.batch_size])
        noise = self._generator.normal([updates, 2, config.batch_size, self._action_size])

        def update(
            index: tf.Tensor, totals: Tensors, _: Tensors
        ) -> tuple[tf.Tensor, Tensors, Tensors]:
            transitions = self._replay.transitions(
                Rows(*(tf.gather(part, index) for part in rows)),
                tf.gather(valid, index),
                config.discount,
                config.n_step,
            )
            scalars, arrays = self.update(transitions, tf.gather(noise, index))
            return index + 1, {name: totals[name] + scalars[name] for name in totals}, arrays

        # A run that was resumed without its replay fills it again before it goes on.
        learns = tf.minimum(self.steps, self._replay.num_written()) > config.learning_starts
        count, totals, arrays = tf.while_loop(
            lambda index, *_: index < tf.where(learns, updates, 0),
            update,
            (tf.constant(0), *self._zero_results()),
        )
        # NaN without a gradient step, which is not logged.
        metrics = {name: totals[name] / tf.cast(count, tf.float32) for name in totals}
        metrics["schedule/entropy_coef"] = tf.exp(self._log_entropy_coef)
        if self._average:
            self._average.update(self.policy, learns)
        variables = {**self.policy.network.trainable_variables()}
        variables |= self._critics.trainable_variables()
        arrays |= {f"weights/{name}": tf.convert_to_tensor(variables[name]) for name in variables}
        arrays["rollout/action"] = tf.convert_to_tensor(self._actions)
        return Report(metrics, arrays, self._nonfinite(rollout, totals))

    def update(self, transitions: Transitions, noise: tf.Tensor) -> tuple[Tensors, Tensors]:
        """Makes a gradient step for critics, policy and entropy coefficient, in this order.

        Args:
          transitions: M of them.
          noise: Random numbers of the policy's actions, float32 [2, M, A]: for the observations and
            for the next ones.

        Returns:
          Metrics by tag, float32 [] each, and arrays [C, M, K] or [M] by tag.
        """
        observ, action, reward, next_observ, discount, weight = transitions
        inputs, next_inputs = self._inputs(observ), self._inputs(next_observ)
        entropy_coef = tf.exp(self._log_entropy_coef)  # []

        next_action, next_log_prob = self._act(next_inputs, noise[1])  # [M, A], [M]
        targets = losses.value_targets(
            reward,
            discount,
            self._targets.values(next_inputs, next_action),
            next_log_prob,
            entropy_coef,
            self._config.dropped_quantiles,
        )  # [M, N]
        with tf.GradientTape() as tape:
            values = self._critics.values(inputs, action)  # [C, M, K]
            critic_loss = losses.critic_loss(values, targets, weight)
        critic_norm = self._apply("critic", tape, critic_loss, self._critics.trainable_variables())

        with tf.GradientTape() as tape:
            new_action, log_prob = self._act(inputs, noise[0])  # [M, A], [M]
            new_values = self._critics.values(inputs, new_action)  # [C, M, K]
            policy_loss = losses.policy_loss(new_values, log_prob, entropy_coef, weight)
        weights = self._actor_variables()
        actor_norm = self._apply("actor", tape, policy_loss, weights)

        if self._config.learn_entropy_coef:
            with tf.GradientTape() as tape:
                entropy_loss = losses.entropy_loss(
                    self._log_entropy_coef, log_prob, self._target_entropy, weight
                )
            variables = {"log_entropy_coef": self._log_entropy_coef}
            self._apply("entropy", tape, entropy_loss, variables)
        self._targets.follow(self._critics, self._config.target_rate)

        scalars = {
            "losses/critic": critic_loss,
            "losses/policy": policy_loss,
            "losses/entropy": -losses.weighted_mean(log_prob, weight),
            "losses/critic_gradient_norm": critic_norm,
            "losses/gradient_norm": actor_norm,
        }
        mean_values = tf.reduce_mean(values, axis=(0, 2))  # [M]
        arrays = {
            "replay/value": mean_values,
            "replay/td_error": tf.reduce_mean(targets, axis=-1) - mean_values,
            "replay/log_prob": log_prob,
        }
        return scalars, arrays

    def _remember(self, rollout: Rollout) -> None:
        """Adds a rollout [T, B, ...] to the replay, and its observations to the normalizers."""
        last_observ = tf.nest.map_structure(tf.convert_to_tensor, self._batch_env.observ)
        next_observ = tf.nest.map_structure(
            lambda observ, last: tf.concat([observ[1:], last[None]], axis=0),
            rollout.observ,
            last_observ,
        )
        next_observ = select_rows(rollout.done, rollout.final_observ, next_observ)  # [T, B, ...]
        valid = tf.math.is_finite(rollout.reward)  # [T, B]
        for observ in (rollout.observ, next_observ):
            numbers = self.policy.inputs.numbers(observ)
            if numbers is not None:
                numbers = tf.cast(numbers, tf.float32)  # As networks take them.
                valid &= tf.reduce_all(tf.math.is_finite(numbers), axis=-1)
        if not isinstance(rollout.restarted, tuple):
            valid &= ~rollout.restarted
        self._replay.add(
            rollout.observ,
            tf.convert_to_tensor(self._actions),
            rollout.reward,
            rollout.terminated,
            rollout.done,
            next_observ,
            valid,
            last_observ,
        )
        if self._config.normalize_observ:
            inputs = self.policy.inputs.convert(rollout.observ, critic=True)
            self.policy.update_normalizers(flatten_time(inputs))

    def _inputs(self, observ: NestedTensor) -> NetworkInputs:
        """Normalized inputs [M, ...] of policy and critics for observations [M, ...]."""
        return self.policy.normalize(self.policy.inputs.convert(observ, critic=True))

    def _act(self, inputs: NetworkInputs, noise: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Actions in [-1, 1], float32 [M, A], and their log-densities [M], for noise [M, A]."""
        distribution: Distribution
        distribution, _ = self.policy.network.policy(inputs, {})
        sample = distribution.sample(noise)
        action = tf.tanh(tf.concat(tf.nest.flatten(sample), axis=-1))  # [M, A]
        return action, distribution.log_prob(sample) + self._log_scale

    def _actor_variables(self) -> dict[str, tf.Variable]:
        """Weights of the policy, without the value function that networks of subclasses have."""
        variables = self.policy.network.trainable_variables()
        return {name: variables[name] for name in variables if not name.startswith("value/")}

    def _apply(
        self, name: str, tape: tf.GradientTape, loss: tf.Tensor, variables: dict[str, tf.Variable]
    ) -> tf.Tensor:
        """Applies the gradients of a loss; returns their norm, float32 []."""
        gradients = tape.gradient(loss, variables)
        return self._optimizers[name].apply(gradients, tf.constant(0.0))

    def _zero_results(self) -> tuple[Tensors, Tensors]:
        """Results of `update` for an iteration without one: arrays of NaN."""
        names = ("critic", "policy", "entropy", "critic_gradient_norm", "gradient_norm")
        arrays = ("replay/value", "replay/td_error", "replay/log_prob")
        missing = tf.fill([self._config.batch_size], math.nan)
        return {f"losses/{name}": tf.zeros([]) for name in names}, dict.fromkeys(arrays, missing)

    def _nonfinite(
        self, rollout: Rollout, totals: Tensors
    ) -> dict[str, tuple[tf.Tensor, tf.Tensor]]:
        last_observ = tf.nest.map_structure(tf.convert_to_tensor, self._batch_env.observ)
        numbers, final_numbers, last_numbers = (
            self.policy.inputs.numbers(observ)
            for observ in (rollout.observ, rollout.final_observ, last_observ)
        )
        return find_nonfinite(
            reward=rollout.reward,
            done=rollout.done,
            sample=tf.convert_to_tensor(self._actions),
            loss=totals["losses/policy"] + totals["losses/critic"],
            observ=numbers,
            final_observ=final_numbers,
            last_observ=last_numbers,
            gradient=totals["losses/gradient_norm"] + totals["losses/critic_gradient_norm"],
        )

    def reset_episode_state(self) -> None:
        """Ends running episodes in the replay after all environments were reset."""
        self._replay.cut()

    def variables(self) -> dict[str, tf.Variable]:
        """Everything that a checkpoint must hold, by name, but for the replay."""
        average = self._average.variables() if self._average else {}
        optimizers = {
            f"optimizer/{name}": self._optimizers[name].variables() for name in self._optimizers
        }
        own = grouped(
            critics=self._critics.variables(),
            targets=self._targets.variables(),
            entropy={"log_entropy_coef": self._log_entropy_coef},
            algorithm={"steps": self.steps},
            **optimizers,
        )
        return {**self.policy.variables(), **average, **own, **self.acting_variables()}

    def learned_variables(self) -> dict[str, tf.Variable]:
        """Policy, critics and a learned entropy coefficient, see `Algorithm`."""
        is_learned = self._config.learn_entropy_coef
        own = grouped(
            critics=self._critics.variables(),
            targets=self._targets.variables(),
            entropy={"log_entropy_coef": self._log_entropy_coef} if is_learned else {},
        )
        return {**self.policy.variables(), **own}

    def acting_variables(self) -> dict[str, tf.Variable]:
        """The generator, see `Algorithm`."""
        return {"algorithm/generator": self._generator.state}


def log_scale(space: Space) -> float:
    """Logarithm of the volume of bounded actions, in units of that of [-1, 1]."""
    scales = np.concatenate([center_and_scale(leaf)[1].ravel() for leaf in leaf_spaces(space)])
    return float(np.sum(np.log(scales[scales > 0])))
