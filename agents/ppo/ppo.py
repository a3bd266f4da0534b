"""Proximal policy optimization: how it acts, and how it learns from that."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from agents.config import Config
from agents.networks.recurrent import reset_state
from agents.parts.correlated_noise import CorrelatedNoise
from agents.ppo import objectives
from agents.ppo.finite import first_nonfinite, watched
from agents.ppo.look_back import LookBack
from agents.ppo.loss import make_loss
from agents.ppo.optimizers import make_optimizers
from agents.ppo.policy import Policy
from agents.ppo.sequences import sequence_length
from agents.ppo.stops import make_stop
from agents.ppo.update import Update
from agents.runs.seeds import Seeds
from agents.tools.attr_dict import AttrDict
from agents.tools.in_graph_env import InGraphEnv


class PPO:
    """Proximal policy optimization (Schulman et al., 2017, arXiv 1707.06347), an algorithm for `agents.tools.simulate`.

    The loop only acts and remembers. Values, log-probabilities and statistics are computed in `train`, for the whole
    rollout at once.

    Attributes:
      policy: What acts; it can be used apart from what learns.
      train: Learns from a rollout, see `_train`: one XLA program, or a plain graph for networks that see images.
      steps: Variable [], int64: environment steps learned from so far.
    """

    def __init__(self, batch_env: InGraphEnv, config: Config):
        """Makes networks, normalisers, optimizers, and room for a rollout's noise and samples.

        Args:
          batch_env: The environments to learn from, B of them.
          config: See `agents.config`.

        Raises:
          UnsupportedSpaceError: A space that there is no network or policy for.
          UsageError: A network that is not there, or does not fit the observations.
        """
        self._batch_env, self._config = batch_env, config
        self._generator = tf.random.Generator.from_seed(Seeds(config.seed).one("algorithm"))
        self.policy = Policy(batch_env.observation_space, batch_env.action_space, config, self._generator)
        self._look_back = LookBack(self.policy, batch_env.num_envs, config)
        self._loss = make_loss(self.policy.network, config)
        trained = self.policy.network.variables()
        self._update = Update(
            trained,
            make_optimizers(trained, config),
            self._loss,
            self._generator,
            config.epochs,
            _elements(config),
            make_stop(config),
        )
        self.steps = tf.Variable(0, dtype=tf.int64, trainable=False)
        self.train = tf.function(self._train, jit_compile=not self.policy.network.convolves, autograph=False)
        # What `perform` needs in each step of a rollout, and leaves behind.
        self._step = tf.Variable(0, trainable=False)
        self._noise = _variables(self.policy.noise([config.rollout_length, batch_env.num_envs]))  # [T, B, K]
        self._correlate = CorrelatedNoise(config.noise_correlation, self._noise.shape[1:])
        self._samples = _variables(self._zero_samples())  # Structure of [T, B, ...]
        zero_states = self.policy.zero_states(batch_env.num_envs)
        self._states, self._states_before = _variables(zero_states), _variables(zero_states)  # [B, U] each

    # Acting: what `simulate` calls.

    def begin_rollout(self, steps: int) -> None:
        """Draws what is random about the actions of a rollout, at once.

        Raises:
          ValueError: The rollout is not as long as the configuration says.
        """
        if steps != self._config.rollout_length:
            raise ValueError(f"PPO was made for rollouts of {self._config.rollout_length} steps, got {steps}.")
        self._noise.assign(self._correlate(self.policy.noise(self._noise.shape[:2])))
        self._step.assign(0)
        _assign(self._states_before, self._states)

    def begin_episode(self, mask: tf.Tensor) -> None:
        """Lets the policy forget the episode before, where the mask [B] says so."""
        _assign(self._states, {name: reset_state(state, mask) for name, state in self._states.items()})

    def perform(self, observ: Any, deterministic: bool) -> Any:
        """Chooses actions, and remembers them as they were before they were clipped."""
        step = tf.convert_to_tensor(self._step)
        states = tf.nest.map_structure(tf.convert_to_tensor, self._states)
        sample, action, states = self.policy.act(observ, deterministic, tf.gather(self._noise, step), states)
        tf.nest.map_structure(
            lambda variable, value: variable.scatter_update(tf.IndexedSlices(value, step)), self._samples, sample
        )
        _assign(self._states, states)
        self._step.assign_add(1)
        return action

    def experience(self, step: tf.Tensor, transition: AttrDict) -> None:
        """Nothing to do: `simulate` returns the whole rollout."""

    def end_episode(self, mask: tf.Tensor) -> None:
        """Nothing to do: episodes are told apart in `train`."""

    # Learning: what happens after a rollout.

    def _train(self, rollout: AttrDict) -> AttrDict:
        """Learns from a rollout.

        Args:
          rollout: What `simulate` returned: `observ`, `reward`, `terminated`, `truncated`, `final_observ` [T, B, ...].

        Returns:
          `scalars` by tag; `arrays` for histograms by tag, any shape; and `nonfinite`: for each of `observ`,
          `final_observ`, `reward`, `action` and `loss` the first number that is NaN or infinite, and its flat index in
          [T, B], or -1 if there is none.
        """
        progress = tf.minimum(tf.cast(self.steps, tf.float32) / float(self._config.steps), 1.0)
        sample, states, last_observ = tf.nest.map_structure(
            tf.convert_to_tensor, (self._samples, self._states_before, self._batch_env.observ)
        )
        rollout = AttrDict(rollout, sample=sample, states=states, last_observ=last_observ)
        batch, arrays = self._look_back(rollout)
        scalars, gradients = self._update(batch, progress)
        self.steps.assign_add(self._config.rollout_length * self._batch_env.num_envs)
        scalars["losses/explained_variance"] = objectives.explained_variance(batch.value, batch.target)
        names = self.policy.network.variables()
        arrays.update({f"weights/{name}": tf.convert_to_tensor(variable) for name, variable in names.items()})
        arrays.update({f"gradients/{name}": value for name, value in gradients.items()})
        loss = scalars["losses/policy"] + scalars["losses/value"] + scalars["losses/gradient_norm"]
        nonfinite = {**watched(self.policy, rollout), "loss": loss[None, None]}
        nonfinite = {name: first_nonfinite(values) for name, values in nonfinite.items()}
        return AttrDict(scalars=scalars, arrays=arrays, nonfinite=nonfinite)

    def begin_anew(self) -> None:
        """Forgets what belongs to episodes under way, when all environments are reset."""
        self._look_back.begin_anew()

    def variables(self) -> dict[str, tf.Variable]:
        """Everything that a checkpoint must hold, by name."""
        states = {str(index): variable for index, variable in enumerate(tf.nest.flatten(self._states))}
        groups = {
            "optimizer": self._update.variables(),
            "loss": self._loss.variables(),
            "noise": self._correlate.variables(),
            "policy_states": states,
            "algorithm": {"steps": self.steps, "generator": self._generator.state},
        }
        others = {f"{group}/{name}": variable for group, named in groups.items() for name, variable in named.items()}
        return {**self.policy.variables(), **self._look_back.variables(), **others}

    def _zero_samples(self) -> Any:
        observ = tf.nest.map_structure(tf.zeros_like, self._batch_env.observ)
        example, _, _ = self.policy.act(observ, deterministic=True)
        length = self._config.rollout_length
        return tf.nest.map_structure(lambda leaf: tf.zeros([length, *leaf.shape], leaf.dtype), example)


def _elements(config: Config) -> int:
    """How many elements a minibatch has: steps, or sequences of them."""
    return config.minibatch_size // (1 if config.recurrent == "none" else sequence_length(config))


def _variables(structure: Any) -> Any:
    return tf.nest.map_structure(lambda value: tf.Variable(value, trainable=False), structure)


def _assign(variables: Any, values: Any) -> None:
    tf.nest.map_structure(lambda variable, value: variable.assign(value), variables, values)
