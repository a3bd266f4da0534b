"""The settings of an experiment: their names, types, bounds and defaults.

Importing this module imports neither TensorFlow nor Gymnasium, so that mistakes are reported at once.
"""

from __future__ import annotations

import contextlib
import math
import operator
import os
from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal, NoReturn

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from agents.paths import absolute_path
from agents.suggestion import did_you_mean
from agents.types import PlainData

# Entry points by the names of the setting `algorithm`, which also takes users' entry points.
ALGORITHMS = {"ppo": "agents.ppo:PPO", "sac": "agents.sac:SAC"}

# Settings of another algorithm that are meant by a setting, by the algorithm.
_COUNTERPARTS = {
    ("ppo", "batch_size"): "minibatch_size",
    ("sac", "minibatch_size"): "batch_size",
    ("sac", "entropy_coef"): "initial_entropy_coef",
}

# Algorithms whose policies have no value function beside them.
WITHOUT_VALUES = frozenset({"sac"})

# Algorithms that train with one learner only.
ONE_LEARNER = frozenset({"sac"})

# Algorithms whose actions are Boxes with finite bounds.
BOUNDED_ACTIONS = frozenset({"sac"})

# Settings that some of them do not read, by the algorithms that do; algorithms of users read any.
ALGORITHM_SETTINGS = {
    "ppo": frozenset(
        {
            "epochs",
            "minibatch_size",
            "learning_rate_schedule",
            "gae_lambda",
            "objective",
            "clip_ratio",
            "clip_ratio_schedule",
            "kl_target",
            "multiply_kl_target",
            "kl_init_penalty",
            "kl_cutoff_factor",
            "kl_cutoff_coef",
            "kl_stop",
            "multiply_kl_stop",
            "kl_stop_after",
            "value_clip",
            "value_coef",
            "entropy_coef",
            "entropy_coef_schedule",
            "max_gradient_norm",
            "reduce_every",
            "normalize_advantages",
            "min_advantage_std",
            "recompute_advantages",
            "shared_torso",
            "recurrent",
            "recurrent_units",
            "sequence_length",
            "noise_correlation",
            "normalize_reward",
            "reward_clip",
            "normalize_value",
        }
    ),
    "sac": frozenset(
        {
            "replay_capacity",
            "batch_size",
            "gradient_steps",
            "learning_starts",
            "n_step",
            "target_rate",
            "num_critics",
            "num_quantiles",
            "dropped_quantiles",
            "learn_entropy_coef",
            "initial_entropy_coef",
            "target_entropy",
            "replay_checkpoints",
        }
    ),
}

# Values of `env_backend` that run Gymnasium's environments, with equal episodes.
PYTHON_BACKENDS = frozenset({"process", "hybrid", "inline"})

# Names of the setting `network`; the functions are in `agents.policies.torsos`.
NETWORKS = ("feed_forward", "nature", "impala")

# Names of the setting `policy`; the classes are in `agents.distributions`.
POLICIES = ("gaussian", "squashed_gaussian", "beta")
# Those that read `scale_actions`; the others have bounds of their own.
SCALED_POLICIES = frozenset({"gaussian"})

# Names of the setting `optimizer`.
OPTIMIZERS = ("adam", "torch_adam", "sgd")

# Settings that take a known name, or an entry point of the user such as the example.
ENTRY_POINTS = {
    "algorithm": (tuple(ALGORITHMS), "my_module:MyAlgorithm"),
    "network": (NETWORKS, "my_module:my_function"),
    "policy": (POLICIES, "my_module:my_function"),
    "optimizer": (OPTIMIZERS, "my_module:my_function"),
}

# Layers of so many units take long enough for `device: auto` to use a GPU.
_UNITS_FOR_GPU = 512


# Files of settings are read to this depth: the setting itself is the first level.
MAX_DEPTH = 100


def _as_saved(value: PlainData) -> PlainData:
    """Returns plain data as a file gives it back: lists for tuples, floats for NumPy's float64.

    Raises:
      RecursionError: It is nested more deeply than files are read, or contained in itself.
    """

    def convert(value: PlainData, level: int) -> PlainData:
        if isinstance(value, dict | list | tuple) and level > MAX_DEPTH:
            raise RecursionError
        if isinstance(value, dict):
            return {key: convert(item, level + 1) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [convert(item, level + 1) for item in value]
        return float(value) if isinstance(value, float) else value

    return convert(value, 2)


def _absolute(path: object) -> object:
    """Returns a path as text that stays right when the working directory changes; empty stays empty."""
    return str(absolute_path(path)) if isinstance(path, str | os.PathLike) and path else path


Name = Annotated[str, Field(min_length=1, max_length=500)]
Names = Annotated[tuple[str, ...], Field(max_length=100)]
Layers = Annotated[
    tuple[Annotated[int, Field(strict=True, ge=1, le=65_536)], ...], Field(max_length=100)
]
# As saved, so that a resumed run gives the same values as at first.
PlainDict = Annotated[dict[str, JsonValue], Field(max_length=1000), BeforeValidator(_as_saved)]
Count = Annotated[int, Field(ge=0, le=65_536)]
Size = Annotated[int, Field(ge=1, le=65_536)]
Steps = Annotated[int, Field(ge=1, le=10**15)]
Interval = Annotated[int, Field(ge=0, le=10**15)]  # 0 is never.
Seed = Annotated[int, Field(ge=0, le=2**31 - 1)]
Threads = Annotated[int, Field(ge=0, le=1024)]
Seconds = Annotated[float, Field(gt=0, le=1e6)]
Fraction = Annotated[float, Field(ge=0, le=1)]
PositiveFraction = Annotated[float, Field(gt=0, le=1)]
ProperFraction = Annotated[float, Field(ge=0, lt=1)]
Coefficient = Annotated[float, Field(ge=0, le=1e9)]
Weight = Annotated[float, Field(ge=0, le=1e6)]
PositiveCoefficient = Annotated[float, Field(gt=0, le=1e9)]


class Restarts(BaseModel):
    """Limit of environment restarts; `BatchEnv` takes the same two numbers.

    Attributes:
      limit: Number of restarts within the window; 0 for none.
      window: In seconds.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    limit: int = Field(default=0, ge=0, le=10**9)
    window: float = Field(default=600.0, gt=0, le=1e9)


class Config(BaseModel):
    """All settings of one experiment: immutable, each with a type, a bound and a unit.

    `load_config` makes one from a preset or a file and reports mistakes in at most three lines;
    calling the class directly raises pydantic's `ValidationError` instead. Steps are environment
    steps summed over all environments, one for each action, unless a setting says otherwise.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    # Titles for groups of settings in --help=all and in the reference, by the first of each.
    sections: ClassVar[Mapping[str, str]] = {
        "env": "environment",
        "algorithm": "algorithm",
        "replay_capacity": "soft actor-critic",
        "network": "network",
        "normalize_observ": "normalization",
        "steps": "duration, evaluation and logging",
        "initial_weights": "reproducibility and resources",
    }

    # Settings that --help shows; --help=all shows all of them.
    essentials: ClassVar[frozenset[str]] = frozenset(
        {
            "env",
            "env_kwargs",
            "env_backend",
            "num_envs",
            "algorithm",
            "rollout_length",
            "minibatch_size",
            "batch_size",
            "gradient_steps",
            "learning_starts",
            "learning_rate",
            "discount",
            "entropy_coef",
            "network",
            "layers",
            "steps",
            "eval_interval",
            "seed",
            "threads",
        }
    )

    # Environment.
    env: Name = Field(
        "Pendulum-v1",
        description="Gymnasium id, my_module:MyEnv-v0, or my_module:make_env. The module is "
        "imported first.",
    )
    env_kwargs: PlainDict = Field(
        {},
        description="Keyword arguments of the environment's constructor. They replace all of those "
        "in a preset or file.",
    )
    reset_options: PlainDict = Field({}, description="Options of every reset of the environment.")
    env_backend: Literal["process", "hybrid", "inline", "envpool", "tf"] = Field(
        "process",
        description="Where environments run: process, hybrid, inline, envpool or tf. process uses "
        "worker processes. hybrid also steps a share of them in the training process. "
        "inline steps all of them there, to debug or for very light environments. "
        "envpool uses EnvPool's threads. tf uses the TensorFlow graph.",
    )
    num_envs: Size = Field(
        8,
        description="Environments stepped in parallel. More environments use more cores and "
        "enlarge each rollout.",
    )
    num_processes: Count = Field(
        0,
        description="Worker processes, or EnvPool's threads; 0 for one per core.",
    )
    wait_for: PositiveFraction = Field(
        1.0,
        description="Fraction of the busy worker processes to wait for, at least one. Below 1, "
        "slow environments do not hold up the others. The results stay the same.",
    )
    env_restarts: Restarts = Field(
        Restarts(),
        description="Restarts environments that raise, die, hang or return invalid data. Training "
        "may have limit restarts within window seconds, and evaluations as many; one more failure "
        "ends the run. The episodes that restarts cut are left out of all returns.",
    )
    max_episode_steps: int = Field(
        0,
        ge=0,
        le=10**12,
        description="Steps, with action repeats, after which an episode is truncated; 0 for the "
        "environment's own. A shorter limit within the environment stays.",
    )
    action_repeat: int = Field(
        1,
        ge=1,
        le=1000,
        description="Number of environment steps to repeat each action for. Use more than 1 if "
        "single steps change little. Wrappers and all other settings but max_episode_steps then "
        "count actions as steps.",
    )
    env_wrappers: Names = Field(
        (),
        description="Wrappers of every environment, innermost first, such as my_module:MyWrapper.",
    )
    train_wrappers: Names = Field(
        (),
        description="Additional wrappers of the training environments. Use them for shaped rewards "
        "or shorter episodes that evaluations should not have.",
    )
    action_mask: bool = Field(
        False,
        description="Masks invalid actions with the action_mask in the environment's infos.",
    )
    info_keys: Names = Field(
        (),
        description="Numeric info entries to log: info/<key> averages training steps between log "
        "points, eval/info/<key> the last steps of evaluation episodes.",
    )

    # Algorithm.
    algorithm: Name = Field(
        "ppo",
        description="ppo, sac (start from --config=sac), or my_module:MyAlgorithm. MyAlgorithm is a "
        "subclass of agents.Algorithm. The help shows the settings of the algorithm of --config.",
    )
    custom_settings: PlainDict = Field(
        {},
        description="Settings of your own algorithm, network or policy. Your code reads them as "
        "config.custom_settings.",
    )
    rollout_length: int = Field(
        256,
        ge=1,
        le=1_000_000,
        description="Steps of each environment per iteration. Longer rollouts estimate long-term "
        "returns better. Shorter rollouts update more often.",
    )
    epochs: int = Field(
        10,
        ge=1,
        le=10_000,
        description="Passes over each rollout. Use fewer if training is unstable.",
    )
    minibatch_size: int = Field(
        64,
        ge=1,
        le=10**12,
        description="Environment steps per minibatch. Larger minibatches have less noisy "
        "gradients. The size must divide num_envs x rollout_length.",
    )
    optimizer: Name = Field(
        "adam",
        description="adam as in Keras, torch_adam as in PyTorch, sgd with momentum, or "
        "my_module:my_function. Your own function gets the Config and returns a new Keras optimizer. "
        "Its learning rate follows the settings, unless it is a Keras schedule of gradient steps.",
    )
    learning_rate: PositiveFraction = Field(
        3e-4,
        description="Initial learning rate. SAC's is constant. Lower it if training is unstable.",
    )
    learning_rate_schedule: Literal["constant", "linear", "kl"] = Field(
        "linear",
        description="Schedule of learning_rate: constant, linear to 0 at the last step, or adapted "
        "to kl_target after every epoch.",
    )
    critic_learning_rate: Fraction = Field(
        0.0,
        description="Learning rate of the value function's own optimizer; 0 for one optimizer of "
        "policy and value function. SAC: of the critics' optimizer; 0 for learning_rate.",
    )
    adam_epsilon: PositiveFraction = Field(
        1e-5, description="Adam's epsilon. Larger values shrink the steps of small gradients."
    )
    sgd_momentum: ProperFraction = Field(0.9, description="Momentum of the SGD optimizer.")
    discount: Fraction = Field(
        0.99, description="Discount factor (gamma). Use values closer to 1 for long-term goals."
    )
    gae_lambda: Fraction = Field(
        0.95,
        description="Lambda of generalized advantage estimation. Lower values have less variance. "
        "Higher values have less bias.",
    )
    objective: Literal["clip", "kl", "clip_kl"] = Field(
        "clip",
        description="Limit of policy changes: clipping of the probability ratio, an adaptive KL "
        "penalty, or both.",
    )
    clip_ratio: PositiveFraction = Field(
        0.2,
        description="Clipping range of the probability ratio around 1. Lower it for smaller policy "
        "changes.",
    )
    clip_ratio_schedule: Literal["constant", "linear"] = Field(
        "constant", description="Schedule of clip_ratio: constant, or linear to 0 at the last step."
    )
    kl_target: float = Field(
        0.01,
        gt=0,
        le=100,
        description="Target KL divergence per update in nats. The KL penalty and the learning rate "
        "schedule kl adapt to it.",
    )
    multiply_kl_target: bool = Field(
        False,
        description="Multiplies kl_target by the square root of the number of action dimensions. "
        "The divergences of single dimensions add up.",
    )
    kl_init_penalty: PositiveCoefficient = Field(
        1.0, description="Initial coefficient of the adaptive KL penalty."
    )
    kl_cutoff_factor: float = Field(
        2.0,
        ge=0,
        le=1e6,
        description="Multiple of kl_target above which the squared excess is also penalized.",
    )
    kl_cutoff_coef: Coefficient = Field(
        1000.0, description="Coefficient of the squared excess, see kl_cutoff_factor; 0 to disable."
    )
    kl_stop: float = Field(
        0.0,
        ge=0,
        le=100,
        description="KL divergence in nats that stops an update early; 0 to disable. It is "
        "measured from the policy before the update on equal inputs. Use it if single "
        "updates ruin the policy.",
    )
    multiply_kl_stop: bool = Field(
        False,
        description="Multiplies kl_stop by the square root of the number of action dimensions. The "
        "divergences of single dimensions add up.",
    )
    kl_stop_after: Literal["minibatch", "epoch"] = Field(
        "minibatch",
        description="Frequency of the kl_stop check: before each minibatch's step, or on the mean "
        "of each epoch.",
    )
    value_clip: Coefficient = Field(
        0.0,
        description="Clipping range of value changes per update, in units of the normalized return; "
        "0 to disable.",
    )
    value_coef: Weight = Field(
        0.5, description="Coefficient of the value loss, relative to the policy loss."
    )
    entropy_coef: Weight = Field(
        0.0,
        description="Coefficient of the entropy bonus. Raise it if exploration ends too early.",
    )
    entropy_coef_schedule: Literal["constant", "linear"] = Field(
        "constant",
        description="Schedule of entropy_coef: constant, or linear to 0 at the last step.",
    )
    max_gradient_norm: Coefficient = Field(
        0.5, description="Global norm to clip gradients to; 0 to disable."
    )
    reduce_every: Literal["minibatch", "epoch"] = Field(
        "minibatch",
        description="Average over several learners: gradients per minibatch, or weights per epoch "
        "(local SGD). Averages per epoch take less communication.",
    )
    normalize_advantages: bool = Field(
        True, description="Scales advantages to mean 0 and standard deviation 1 in each minibatch."
    )
    min_advantage_std: Coefficient = Field(
        0.0,
        description="Smallest standard deviation that advantages are divided by, in units of the "
        "normalized reward. Raise it if noise ruins a task that is solved. With 1, "
        "advantages are never enlarged.",
    )
    recompute_advantages: bool = Field(
        False,
        description="Estimates advantages and value targets again before every epoch. The "
        "estimates use the value function as trained so far.",
    )
    average_decay: ProperFraction = Field(
        0.0,
        description="Decay per iteration of a moving average of the policy's weights; 0 for none. "
        "The average is also evaluated, and is the checkpoint 'averaged'.",
    )
    replay_capacity: int = Field(
        1_000_000,
        ge=2,
        le=10**10,
        description="Environment steps in the replay. New steps replace the oldest ones. The "
        "memory limits it.",
    )
    batch_size: int = Field(
        256, ge=1, le=10**9, description="Environment steps of the replay per gradient step."
    )
    gradient_steps: float = Field(
        1.0,
        gt=0,
        le=1000,
        description="Gradient steps per environment step. More gradient steps learn from fewer "
        "environment steps, and take longer. The number in each rollout is "
        "rounded to a whole one.",
    )
    learning_starts: Interval = Field(
        10_000,
        description="Environment steps with random actions before the first gradient step. With "
        "initial_weights, the policy chooses them.",
    )
    n_step: int = Field(
        1,
        ge=1,
        le=100,
        description="Number of rewards in a critic's target, before the value of the next "
        "observation. Use more if rewards are late.",
    )
    target_rate: PositiveFraction = Field(
        0.005,
        description="Rate per gradient step at which target critics follow the critics (tau).",
    )
    num_critics: int = Field(
        2, ge=1, le=100, description="Number of critics. Their minimum counts, except in TQC."
    )
    num_quantiles: int = Field(
        1,
        ge=1,
        le=1000,
        description="Quantiles of the return that each critic estimates; 1 for its mean. Above 1, "
        "values are the mean over quantiles and critics (TQC).",
    )
    dropped_quantiles: Count = Field(
        0,
        description="Largest quantiles per critic that targets leave out, against overestimation.",
    )
    learn_entropy_coef: bool = Field(
        True, description="Adapts the coefficient of the entropy to target_entropy."
    )
    initial_entropy_coef: PositiveCoefficient = Field(
        1.0,
        description="Initial coefficient of the entropy. It stays constant if learn_entropy_coef "
        "is false.",
    )
    target_entropy: float = Field(
        -1.0,
        ge=-100,
        le=100,
        description="Target entropy in nats per action dimension, for actions in [-1, 1].",
    )

    replay_checkpoints: bool = Field(
        True,
        description="Saves the replay with checkpoints. Otherwise a resumed run differs from one "
        "that never stopped.",
    )

    # Network.
    network: Name = Field(
        "feed_forward",
        description="feed_forward, nature, impala, or my_module:my_function. feed_forward is for "
        "vectors. nature and impala have convolutions for images. Your own function "
        "maps Keras inputs by name to a Keras tensor of features. SAC's critics add layers to "
        "the features and the action.",
    )
    layers: Layers = Field(
        (64, 64), description="Units of the hidden layers. Use more for complex environments."
    )
    value_layers: Layers = Field(
        (),
        description="Units of the hidden layers of the value function, or of SAC's critics. By "
        "default they are equal to layers.",
    )
    shared_torso: bool = Field(
        False,
        description="Shares all layers but the last between policy and value function. It saves "
        "time with images.",
    )
    critic_keys: Names = Field(
        (),
        description="Keys of Dict observations that only the value function gets, such as the "
        "state of a simulator. The trained policy acts without them.",
    )
    recurrent: Literal["none", "gru", "lstm"] = Field(
        "none", description="Recurrent cell after the hidden layers, for partial observability."
    )
    recurrent_units: Size = Field(64, description="Units of the recurrent cell.")
    sequence_length: int = Field(
        0,
        ge=0,
        le=1_000_000,
        description="Steps of backpropagation through time. They must divide rollout_length and "
        "minibatch_size. 0 is the greatest common divisor of both.",
    )
    precision: Literal["float32", "bfloat16"] = Field(
        "float32",
        description="Data type of the computations in hidden layers. Use bfloat16 if the hardware "
        "is faster with it. Weights stay float32.",
    )
    activation: Literal["tanh", "relu", "elu", "silu", "gelu"] = Field(
        "tanh", description="Activation function of hidden layers."
    )
    layer_norm: Literal["none", "critic", "all"] = Field(
        "none",
        description="Layer normalization of hidden layers: none, of the value function or critics, "
        "or of all.",
    )
    policy: Name = Field(
        "gaussian",
        description="Distribution of continuous actions: gaussian, squashed_gaussian, beta, or "
        "my_module:my_function. squashed_gaussian and beta respect bounds without "
        "clipping. Your own function returns a ParametricDistribution, see "
        "agents.distributions.parametric_distribution.",
    )
    scale_actions: Literal["auto", "always", "never"] = Field(
        "auto",
        description="Maps [-1, 1] to the bounds of a Gaussian's actions. auto does so for "
        "finite bounds if one is beyond 10 or -10, both are within 0.1 of 0, or 0 is not "
        "between them.",
    )
    state_dependent_std: bool = Field(
        False,
        description="Predicts a Gaussian's standard deviation. Otherwise it is a trained vector.",
    )
    initial_log_std: float = Field(
        0.0,
        ge=-20,
        le=20,
        description="Logarithm of a Gaussian's initial standard deviation, in units of the action "
        "before scaling and tanh. Lower it for less exploration.",
    )
    divide_initial_std: bool = Field(
        False,
        description="Divides the initial standard deviation by the square root of the number of "
        "action dimensions. Then the size of the noise does not grow with that number.",
    )
    noise_correlation: ProperFraction = Field(
        0.0,
        description="Lag-1 autocorrelation of the Gaussian exploration noise. Raise it if single "
        "random steps cancel out.",
    )

    # Normalization.
    normalize_observ: bool = Field(
        True,
        description="Scales observations by their running mean and standard deviation. Use false "
        "if they are scaled already.",
    )
    observ_clip: PositiveCoefficient = Field(
        10.0, description="Clipping range of normalized observations, in standard deviations."
    )
    normalize_reward: bool = Field(
        True,
        description="Divides rewards by the running standard deviation of the discounted return. "
        "Use false if returns are scaled already.",
    )
    reward_clip: PositiveCoefficient = Field(
        10.0, description="Clipping range of normalized rewards, in standard deviations."
    )
    normalize_value: bool = Field(
        False,
        description="Trains the value function on returns of mean 0 and standard deviation 1. Use "
        "true if returns are large.",
    )

    # Duration, evaluation and logging.
    steps: Steps = Field(
        100_000,
        description="Length of the training in environment steps. It is rounded up to whole iterations. "
        "Linear schedules end with it, so a shorter training is not the start of a longer one.",
    )
    eval_interval: Steps = Field(10_000, description="Environment steps between evaluations.")
    eval_episodes: int = Field(
        20, ge=1, le=1_000_000, description="Complete episodes per evaluation."
    )
    log_interval: Steps = Field(5_000, description="Environment steps between log points.")
    histogram_interval: Interval = Field(
        20_000, description="Environment steps between TensorBoard histograms; 0 to disable."
    )
    video_interval: Interval = Field(
        0,
        description="Environment steps between videos of an evaluation episode; 0 to disable. "
        "Videos are in the run's folder videos. TensorBoard's images show frames of "
        "them, and always frames of the last policy.",
    )
    checkpoint_interval: Steps = Field(
        20_000,
        description="Environment steps between checkpoints. A checkpoint truncates all episodes, "
        "so that a resumed run equals one that never stopped; episode/return leaves these out. "
        "Choose ten episodes of every environment or more.",
    )

    on_nonfinite: Literal["error", "skip"] = Field(
        "error",
        description="Reaction to a NaN or an infinity in a loss, a gradient, or an environment in "
        "TensorFlow. error stops the run. skip drops the update, and counts it as "
        "perf/skipped_updates. Other environments fail if they return one, see "
        "env_restarts.",
    )

    # Reproducibility and resources.
    initial_weights: Annotated[str, BeforeValidator(_absolute)] = Field(
        "",
        max_length=4096,
        description="Run, its folder checkpoints/best, or file of a checkpoint, whose weights and statistics "
        "of normalization a new run starts from. Optimizers, schedules and SAC's replay start anew.",
    )
    seed: Seed = Field(0, description="Seed of all random numbers. Equal seeds give equal runs.")
    step_timeout: Seconds = Field(
        60.0,
        description="Time limit in seconds for a step or a reset of one environment in a worker process. "
        "After it, all environments of the process have failed.",
    )
    start_timeout: Seconds = Field(
        120.0,
        description="Time limit in seconds for the start of a worker process, and for each constructor "
        "of an environment in it. After it, all environments of the process have failed.",
    )
    threads: Threads = Field(
        1,
        description="Threads of TensorFlow; 0 for one per core. With 2, policy and value function "
        "learn at the same time.",
    )
    device: Literal["auto", "cpu", "gpu"] = Field(
        "auto",
        description="Device of the network: auto, cpu or gpu. auto uses a GPU for images, layers "
        "of 512 units or more, and env_backend tf. Several learners use one GPU each.",
    )

    @field_validator("*", mode="before")
    @classmethod
    def _read_number(cls, value: PlainData, info: ValidationInfo) -> PlainData:
        """Refuses booleans as numbers, which pydantic takes for 1 and 0; reads integers as '1e6'."""
        assert info.field_name
        kind = cls.model_fields[info.field_name].annotation
        if kind in (int, float) and isinstance(value, bool):
            raise PydanticCustomError("number", "a boolean is not a number")
        if kind is float and isinstance(value, float):
            return float(value)  # NumPy's float64 passes for a float, but could not be saved.
        if kind is int and hasattr(value, "__index__"):
            with contextlib.suppress(TypeError):  # An array of several numbers is refused below.
                return operator.index(value)
        if kind is int and isinstance(value, str) and "e" in value.lower():
            with contextlib.suppress(ValueError):
                return float(value)
        return value

    @model_validator(mode="after")
    def _check_consistency(self) -> Config:
        """Refuses settings that contradict each other."""
        _check_environments(self)
        _check_learning(self)
        problems = {"ppo": ppo_problem, "sac": sac_problem}
        if self.algorithm in problems and (problem := problems[self.algorithm](self)):
            _refuse(problem)
        return self

    def foreign_settings(self) -> frozenset[str]:
        """The settings that only other algorithms read."""
        if self.algorithm not in ALGORITHM_SETTINGS:
            return frozenset()
        return frozenset().union(*ALGORITHM_SETTINGS.values()) - ALGORITHM_SETTINGS[self.algorithm]

    def settings(self, mode: Literal["json", "python"] = "json") -> dict[str, PlainData]:
        """The settings by name, without settings that only other algorithms read."""
        return self.model_dump(mode=mode, exclude=set(self.foreign_settings()))


def ppo_problem(config: Config) -> str | None:
    """Returns the message for settings with which PPO, or a subclass of it, can't train."""
    total = config.num_envs * config.rollout_length
    if total % config.minibatch_size:  # The update has static shapes.
        return (
            f"minibatch_size: {config.minibatch_size} does not divide the {total} steps of a rollout "
            f"({config.num_envs} num_envs x {config.rollout_length} rollout_length)\n"
            f"the nearest size that divides them is {nearest_divisor(total, config.minibatch_size)}"
        )
    longest = math.gcd(config.rollout_length, config.minibatch_size)
    if config.recurrent != "none" and config.sequence_length and longest % config.sequence_length:
        return (
            f"sequence_length: sequences of {config.sequence_length} steps do not divide both "
            f"rollouts and minibatches (rollout_length {config.rollout_length}, "
            f"minibatch_size {config.minibatch_size})\n"
            f"the longest possible sequence has {longest} steps; 0 selects it"
        )
    return None


def sac_problem(config: Config) -> str | None:
    """Returns the message for settings with which SAC, or a subclass of it, can't train."""
    if config.policy != "squashed_gaussian":
        return (
            f"policy: sac needs squashed_gaussian, got {config.policy}; leave it out, or start from "
            "--config=sac"
        )
    if config.dropped_quantiles >= config.num_quantiles:
        return (
            f"dropped_quantiles: expected fewer than num_quantiles {config.num_quantiles}, got "
            f"{config.dropped_quantiles}"
        )
    rollout = config.num_envs * config.rollout_length
    if config.replay_capacity < 2 * rollout:
        return (
            f"replay_capacity: expected at least two rollouts of {rollout} steps "
            f"({config.num_envs} num_envs x {config.rollout_length} rollout_length), got "
            f"{config.replay_capacity}"
        )
    if num_updates(config) < 1:
        return (
            f"gradient_steps: expected at least one gradient step per rollout of {rollout} steps "
            f"({config.num_envs} num_envs x {config.rollout_length} rollout_length), got "
            f"{config.gradient_steps}; raise rollout_length"
        )
    if config.learning_starts >= config.replay_capacity // config.num_envs * config.num_envs:
        return (
            f"learning_starts: expected fewer steps than replay_capacity {config.replay_capacity}, "
            f"got {config.learning_starts}"
        )
    if config.learning_starts >= config.steps:
        return (
            f"learning_starts: expected fewer than the {config.steps:,} steps of the training, got "
            f"{config.learning_starts:,}: no step would learn; a tenth is {config.steps // 10}"
        )
    return None


def _check_environments(config: Config) -> None:
    if config.wait_for < 1 and config.env_backend != "process":
        _refuse(
            f"wait_for: environments with env_backend '{config.env_backend}' step together, "
            f"got {config.wait_for}\n"
            "expected env_backend process, or wait_for 1"
        )
    if config.env_restarts.limit and config.env_backend not in PYTHON_BACKENDS:
        _refuse(
            f"env_restarts: environments with env_backend '{config.env_backend}' can't be restarted\n"
            "expected env_backend process, hybrid or inline, or a limit of 0"
        )
    if config.max_episode_steps and "max_episode_steps" in config.env_kwargs:
        _refuse("env_kwargs: max_episode_steps is also a setting; expected it in one place")
    if len(set(config.info_keys)) < len(config.info_keys):
        _refuse(f"info_keys: expected each key once, got {', '.join(config.info_keys)}")
    if config.reset_options and config.env_backend not in PYTHON_BACKENDS:
        _refuse(
            f"reset_options: environments with env_backend '{config.env_backend}' take none\n"
            "expected env_backend process, hybrid or inline, or no reset_options"
        )


def _check_learning(config: Config) -> None:
    for setting, (known, example) in ENTRY_POINTS.items():
        name = getattr(config, setting)
        if name not in known and ":" not in name:
            _refuse(
                f"{setting}: unknown {setting} '{name}'{did_you_mean(name, known)}\n"
                f"expected {', '.join(known)}, or {example}"
            )
    for setting in sorted(config.model_fields_set & config.foreign_settings()):
        owner = next(name for name, names in ALGORITHM_SETTINGS.items() if setting in names)
        counterpart = _COUNTERPARTS.get((config.algorithm, setting))
        _refuse(
            f"{setting} is a setting of {owner}, got algorithm {config.algorithm}"
            f"{f'; did you mean {counterpart}?' if counterpart else ''}\n"
            f"leave it out; where the preset has it, take a preset of {config.algorithm}"
        )
    if config.critic_learning_rate and config.shared_torso:
        _refuse(
            "critic_learning_rate: a shared_torso has no separate layers of the value function; "
            "expected 0, or shared_torso false"
        )
    if config.critic_keys and config.shared_torso:
        _refuse(
            "critic_keys: with a shared_torso, policy and value function have the same inputs\n"
            "expected shared_torso false, or no critic_keys"
        )
    if config.reduce_every == "epoch" and limits_kl(
        config
    ):  # Each learner would decide for itself.
        _refuse(
            "reduce_every: with epoch, learners can't agree on kl_stop or the schedule kl of the "
            "learning rate\nexpected reduce_every minibatch, or kl_stop 0 and another "
            "learning_rate_schedule"
        )


def _refuse(message: str) -> NoReturn:
    raise PydanticCustomError("inconsistent", "{message}", {"message": message})


def nearest_divisor(total: int, wanted: int) -> int:
    """Returns the divisor of `total` that is nearest to `wanted`; the smaller one of two."""
    small = [number for number in range(1, int(total**0.5) + 1) if total % number == 0]
    divisors = {*small, *(total // number for number in small)}
    return min(divisors, key=lambda number: (abs(number - wanted), number))


def device_of(config: Config) -> Literal["cpu", "gpu", "any"]:
    """Returns the device of an experiment; "any" is a GPU if there is one."""
    if config.device != "auto":
        return config.device
    is_large = max((*config.layers, *config.value_layers), default=0) >= _UNITS_FOR_GPU
    uses_gpu = config.env_backend == "tf" or config.network != "feed_forward" or is_large
    return "any" if uses_gpu else "cpu"


def sequence_length(config: Config) -> int:
    """Returns the length L of the sequences for a recurrent network, in steps.

    It divides rollouts and minibatches; the default is the greatest common divisor of their lengths.
    """
    return config.sequence_length or math.gcd(config.rollout_length, config.minibatch_size)


def num_updates(config: Config) -> int:
    """Returns the gradient steps of SAC after each rollout, a whole number."""
    return round(config.gradient_steps * config.num_envs * config.rollout_length)


def elements_per_minibatch(config: Config) -> int:
    """Returns the number of elements in a minibatch: steps, or sequences of L steps."""
    return config.minibatch_size // (1 if config.recurrent == "none" else sequence_length(config))


def limits_kl(config: Config) -> bool:
    """Returns whether the KL divergence of an update ends it, or adapts the learning rate."""
    return config.kl_stop > 0 or config.learning_rate_schedule == "kl"
