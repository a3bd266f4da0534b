"""Experiments as data: which settings there are, and how they are loaded, saved and checked.

Importing this module imports neither TensorFlow nor Gymnasium, so that mistakes are reported at once.
"""

from __future__ import annotations

import math
import operator
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError, field_validator, model_validator
from pydantic_core import PydanticCustomError
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from agents.tools.errors import UsageError
from agents.validation import did_you_mean, usage_error

PRESETS = Path(__file__).parent / "presets"

# Besides functions of the user's; `agents.networks.torsos` has these.
NETWORKS = ("feed_forward", "nature", "impala")

LayerSize = Annotated[int, Field(strict=True, ge=1, le=65_536)]


class Config(BaseModel):
    """All settings of one experiment: immutable, every one with a type, a bound and a unit.

    `load_config` makes one from a preset or a file and reports mistakes in words; calling the class directly raises
    pydantic's `ValidationError` instead. Steps are environment steps over all environments together, counting one for
    every action, unless a setting says otherwise.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    # Titles for groups of settings, by the first setting of each; --help is arranged like this.
    sections: ClassVar[Mapping[str, str]] = {
        "env": "environment",
        "steps": "duration",
        "epochs": "learning",
        "layers": "network",
        "normalize_observ": "normalisation",
        "seed": "running",
    }

    env: str = Field(
        "Pendulum-v1",
        min_length=1,
        max_length=500,
        description="Gymnasium id of the environment, or my_module:MyEnv-v0 to import a module that registers it.",
    )
    env_kwargs: dict[str, JsonValue] = Field(
        {}, max_length=1000, description="Arguments for the environment's constructor, by name, as plain data."
    )
    env_backend: Literal["process", "inline", "envpool", "tf"] = Field(
        "process",
        description="Where environments live: in worker processes, in the training process itself, in EnvPool's "
        "threads, or in TensorFlow's graph.",
    )
    num_envs: int = Field(8, ge=1, le=65_536, description="Environments stepped in parallel (count).")
    num_processes: int = Field(
        0,
        ge=0,
        le=65_536,
        description="Worker processes that host the environments, or EnvPool's threads (count; 0 = as many as cores).",
    )
    max_episode_steps: int = Field(
        0,
        ge=0,
        le=10**12,
        description="Steps after which an episode is cut (steps of one environment; 0 = the environment's own limit).",
    )
    action_repeat: int = Field(
        1, ge=1, le=1000, description="Times that the environment is given every action in a row (count)."
    )
    env_wrappers: tuple[str, ...] = Field(
        (),
        max_length=100,
        description="Functions that wrap each environment, the first one first, such as my_module:MyWrapper (names).",
    )
    train_wrappers: tuple[str, ...] = Field(
        (),
        max_length=100,
        description="Likewise, after those, but not for evaluation: what changes rewards or ends episodes (names).",
    )
    action_mask: bool = Field(
        False,
        description="Whether infos hold an action_mask, of the actions that are valid in this state (yes or no).",
    )
    info_keys: tuple[str, ...] = Field(
        (),
        max_length=100,
        description="Numbers in the environments' infos to log as info/<name>, means of the steps in between (names).",
    )

    steps: int = Field(100_000, ge=1, le=10**15, description="Length of the training (environment steps in all).")
    rollout_length: int = Field(
        256, ge=1, le=1_000_000, description="Length of the rollout of an iteration (steps of every environment)."
    )

    epochs: int = Field(10, ge=1, le=10_000, description="Passes over the rollout in every iteration (count).")
    minibatch_size: int = Field(
        64, ge=1, le=10**12, description="Size of a minibatch (steps); it divides num-envs x rollout-length."
    )
    optimizer: Literal["adam", "sgd"] = Field("adam", description="What makes steps of gradients (name).")
    learning_rate: float = Field(3e-4, gt=0, le=1, description="The optimizer's step size, at the start (no unit).")
    learning_rate_schedule: Literal["constant", "linear", "kl"] = Field(
        "linear",
        description="Whether the learning rate stays, falls linearly to 0 at the last step, or follows every "
        "epoch's KL divergence, towards the target below.",
    )
    critic_learning_rate: float = Field(
        0.0,
        ge=0,
        le=1,
        description="Step size of an optimizer for the value function alone (no unit; 0 = one for everything).",
    )
    adam_epsilon: float = Field(1e-5, gt=0, le=1, description="Adam's constant against division by zero (no unit).")
    sgd_momentum: float = Field(0.9, ge=0, lt=1, description="Momentum of SGD (factor per minibatch).")
    discount: float = Field(0.99, ge=0, le=1, description="Weight of the next step's return (factor per step).")
    gae_lambda: float = Field(
        0.95, ge=0, le=1, description="Decay of generalized advantage estimation (factor per step)."
    )
    objective: Literal["clip", "kl", "clip_kl"] = Field(
        "clip",
        description="What holds the policy near the one that acted: clipping the probability ratio, a penalty on the "
        "KL divergence, or both.",
    )
    clip_ratio: float = Field(
        0.2, gt=0, le=1, description="Distance from 1 at which the probability ratio is clipped (no unit)."
    )
    clip_ratio_schedule: Literal["constant", "linear"] = Field(
        "constant", description="Whether that stays or falls linearly, to 0 at the last step."
    )
    kl_target: float = Field(
        0.01, gt=0, le=100, description="KL divergence of an update that penalty and learning rate aim at (nats)."
    )
    kl_init_penalty: float = Field(
        1.0, gt=0, le=1e9, description="Weight of the KL penalty at the start; it adapts after every update (factor)."
    )
    kl_cutoff_factor: float = Field(
        2.0,
        ge=0,
        le=1e6,
        description="KL divergence from which on it is also punished by its square (times the target).",
    )
    kl_cutoff_coef: float = Field(1000.0, ge=0, le=1e9, description="Weight of that (factor; 0 = never).")
    kl_stop: float = Field(0.0, ge=0, le=100, description="KL divergence that ends an update early (nats; 0 = never).")
    kl_stop_after: Literal["minibatch", "epoch"] = Field(
        "minibatch", description="Whether that is looked at before each minibatch's step, or its mean after each epoch."
    )
    value_clip: float = Field(
        0.0,
        ge=0,
        le=1e9,
        description="Change at which value predictions are clipped (units of the normalised return; 0 = no clipping).",
    )
    value_coef: float = Field(0.5, ge=0, le=1e6, description="Weight of the value loss (factor).")
    entropy_coef: float = Field(0.0, ge=0, le=1e6, description="Weight of the entropy bonus (factor).")
    entropy_coef_schedule: Literal["constant", "linear"] = Field(
        "constant", description="Whether that stays or falls linearly, to 0 at the last step."
    )
    max_gradient_norm: float = Field(
        0.5, ge=0, le=1e9, description="Global norm at which gradients are clipped (no unit; 0 = no clipping)."
    )
    normalize_advantages: bool = Field(
        True, description="Whether advantages are scaled to mean 0 and standard deviation 1 (yes or no)."
    )

    network: str = Field(
        "feed_forward",
        min_length=1,
        max_length=500,
        description="feed_forward, nature or impala (the latter two for images), or my_module:my_function, which makes "
        "a Keras tensor of features from Keras inputs by name.",
    )
    layers: tuple[LayerSize, ...] = Field(
        (64, 64), max_length=100, description="Sizes of the hidden layers of policy and value network (units)."
    )
    value_layers: tuple[LayerSize, ...] = Field(
        (), max_length=100, description="Sizes of the value network's, where they differ (units)."
    )
    shared_torso: bool = Field(
        False, description="Whether policy and value function share everything but their last layers (yes or no)."
    )
    recurrent: Literal["none", "gru", "lstm"] = Field(
        "none", description="What remembers earlier observations of the episode, after the hidden layers (name)."
    )
    recurrent_units: int = Field(64, ge=1, le=65_536, description="Size of that (units).")
    sequence_length: int = Field(
        0,
        ge=0,
        le=1_000_000,
        description="Length of the sequences that it learns from (steps; 0 = the longest that divides rollouts and "
        "minibatches, as any other must).",
    )
    precision: Literal["float32", "bfloat16"] = Field(
        "float32", description="Type that hidden layers compute in; weights stay float32 (name)."
    )
    activation: Literal["tanh", "relu", "elu", "silu", "gelu"] = Field(
        "tanh", description="Activation function after every hidden layer (name)."
    )
    policy: Literal["gaussian", "squashed_gaussian", "beta"] = Field(
        "gaussian", description="Distribution of continuous actions; discrete ones have one of their own (name)."
    )
    state_dependent_std: bool = Field(
        False, description="Whether a Gaussian's deviation depends on the observation (yes or no)."
    )
    initial_log_std: float = Field(
        0.0,
        ge=-20,
        le=20,
        description="Initial standard deviation of the Gaussian policy (logarithm of units of the action).",
    )
    divide_initial_std: bool = Field(
        False,
        description="Whether that is divided by the square root of how many dimensions actions have (yes or no).",
    )
    noise_correlation: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="How alike a Gaussian's random deviations are from one step to the next (correlation).",
    )

    normalize_observ: bool = Field(
        True, description="Whether observations are scaled to mean 0 and standard deviation 1 (yes or no)."
    )
    observ_clip: float = Field(
        10.0, gt=0, le=1e9, description="Distance at which normalised observations are clipped (standard deviations)."
    )
    normalize_reward: bool = Field(
        True, description="Whether rewards are divided by the standard deviation of the return (yes or no)."
    )
    reward_clip: float = Field(
        10.0, gt=0, le=1e9, description="Size at which normalised rewards are clipped (standard deviations)."
    )
    normalize_value: bool = Field(
        False, description="Whether the value function learns returns of mean 0 and standard deviation 1 (yes or no)."
    )

    seed: int = Field(0, ge=0, le=2**31 - 1, description="Seed that every random number is derived from (number).")
    eval_interval: int = Field(10_000, ge=1, le=10**15, description="Time between evaluations (environment steps).")
    eval_episodes: int = Field(20, ge=1, le=1_000_000, description="Length of an evaluation (complete episodes).")
    log_interval: int = Field(5_000, ge=1, le=10**15, description="Time between log points (environment steps).")
    histogram_interval: int = Field(
        20_000, ge=0, le=10**15, description="Time between histograms (environment steps; 0 = never)."
    )
    checkpoint_interval: int = Field(
        20_000,
        ge=1,
        le=10**15,
        description="Time between checkpoints (environment steps); "
        "episodes are cut there, so that a resumed run equals one that never stopped.",
    )
    step_timeout: float = Field(
        60.0, gt=0, le=1e6, description="Time that an environment may take for one step (seconds)."
    )
    threads: int = Field(1, ge=0, le=1024, description="TensorFlow's threads (count; 0 = as many as cores).")

    @field_validator("*", mode="before")
    @classmethod
    def _read_numbers(cls, value: Any, info: Any) -> Any:
        """Refuses true and false as numbers, which pydantic takes for 1 and 0; allows '1e6' and NumPy's numbers."""
        kind = cls.model_fields[info.field_name].annotation
        if kind in (int, float) and isinstance(value, bool):
            raise PydanticCustomError("number", "a truth value is not a number")
        if kind is float and isinstance(value, float):
            return float(value)  # NumPy's float64 passes for a float, but could not be saved.
        if kind is int and hasattr(value, "__index__"):
            return operator.index(value)
        if kind is int and isinstance(value, str) and "e" in value.lower():
            try:
                return float(value)
            except ValueError:
                return value
        return value

    @field_validator("env_kwargs", mode="before")
    @classmethod
    def _as_plain_data(cls, value: Any) -> Any:
        """Makes a run that is resumed from its file give the environment what it was given at first."""
        return _as_saved(value)

    @model_validator(mode="after")
    def _check_minibatches(self) -> Config:
        """Refuses minibatches that leave a rest: the update is compiled for one static shape."""
        total = self.num_envs * self.rollout_length
        if total % self.minibatch_size:
            divisor = _nearest_divisor(total, self.minibatch_size)
            raise PydanticCustomError(
                "minibatch_size",
                "minibatch_size: {size} does not divide the {total} steps of a rollout "
                "({num_envs} num_envs x {rollout_length} rollout_length)\nthe nearest size that does is {divisor}",
                {
                    "size": self.minibatch_size,
                    "total": total,
                    "num_envs": self.num_envs,
                    "rollout_length": self.rollout_length,
                    "divisor": divisor,
                },
            )
        return self

    @model_validator(mode="after")
    def _check_network(self) -> Config:
        """Refuses names that are neither known nor those of a function."""
        if self.network not in NETWORKS and ":" not in self.network:
            raise PydanticCustomError(
                "network",
                "network: unknown network '{name}'{suggestion}\nexpected {names}, or my_module:my_function",
                {
                    "name": self.network,
                    "suggestion": did_you_mean(self.network, NETWORKS),
                    "names": ", ".join(NETWORKS),
                },
            )
        return self

    @model_validator(mode="after")
    def _check_sequences(self) -> Config:
        """Refuses sequences that rollouts or minibatches can't be made of, for policies with a memory."""
        length = self.sequence_length
        if self.recurrent != "none" and length and (self.rollout_length % length or self.minibatch_size % length):
            raise PydanticCustomError(
                "sequence_length",
                "sequence_length: sequences of {length} steps do not divide both rollouts and minibatches "
                "(rollout_length {rollout}, minibatch_size {minibatch})\n"
                "the longest that does is {longest}, which 0 stands for",
                {
                    "length": length,
                    "rollout": self.rollout_length,
                    "minibatch": self.minibatch_size,
                    "longest": math.gcd(self.rollout_length, self.minibatch_size),
                },
            )
        return self

    @model_validator(mode="after")
    def _check_critic(self) -> Config:
        """Refuses a learning rate for the critic alone where it has hardly anything of its own."""
        if self.critic_learning_rate and self.shared_torso:
            raise PydanticCustomError(
                "critic_learning_rate",
                "critic_learning_rate: policy and value function have no layers apart with shared_torso; expected 0 or "
                "separate torsos",
            )
        return self


def load_config(name: str | os.PathLike[str] = "pendulum", **overrides: Any) -> Config:
    """Loads an experiment and validates it.

    Args:
      name: Name of a preset (see `preset_names`), or the path of a YAML file, recognised by its suffix or a separator.
      **overrides: Settings that take the place of those in the file; strings are read as on the command line. A
        dictionary replaces the one in the file as a whole.

    Returns:
      The experiment; settings that are neither in the file nor overridden have their defaults.

    Raises:
      UsageError: There is no such preset or file, it can't be read, or a setting is unknown, of a wrong type or out of
        range. The message has at most three lines.
    """
    path = _find_file(name)
    values = _read_file(path)
    given = {**values, **overrides}

    def origin(setting: str) -> str:
        return "" if setting in overrides else f" in {path}"

    try:
        return Config.model_validate(given)
    except ValidationError as error:
        raise usage_error(error, Config, given, origin=origin) from None
    except RecursionError:
        raise UsageError(f"env_kwargs{origin('env_kwargs')}: nested too deeply, or contained in itself") from None


def save_config(config: Config, path: str | os.PathLike[str]) -> None:
    """Writes all settings to a YAML file, in their order; `load_config` of that file gives an equal configuration.

    Args:
      config: The experiment.
      path: File to write; one that is there already is replaced in one go, so that it's never seen half written.

    Raises:
      OSError: The file can't be written.
    """
    yaml = YAML(typ="safe", pure=True)
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    yaml.default_flow_style = False  # Inside of braces ruamel.yaml writes {?x: 1}, which it does not read.
    yaml.allow_unicode = False  # Some line separators are not read back unless escaped.
    unfinished = Path(f"{os.fspath(path)}.unfinished")
    with unfinished.open("w", encoding="utf-8") as file:
        yaml.dump(config.model_dump(mode="json"), file)
    unfinished.replace(path)


def preset_names() -> list[str]:
    """Names of the experiments that come with the library, sorted."""
    return sorted(path.stem for path in PRESETS.glob("*.yaml"))


def _find_file(name: str | os.PathLike[str]) -> Path:
    """Path of the file that a preset's name or a path stands for."""
    text = os.fspath(name)
    if isinstance(name, os.PathLike) or text.endswith((".yaml", ".yml")) or os.sep in text:
        return Path(text)
    names = preset_names()
    if text not in names:
        raise UsageError(
            f"unknown preset '{text}'{did_you_mean(text, names)}\n"
            f"presets: {', '.join(names)}\nor give the path of a .yaml file"
        )
    return PRESETS / f"{text}.yaml"


def _read_file(path: Path) -> dict[Any, Any]:
    """Settings in a YAML file, as they stand there."""
    try:
        values = YAML(typ="safe", pure=True).load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"can't read {path}: {error.strerror or error}") from None
    except MarkedYAMLError as error:
        line = f" line {error.problem_mark.line + 1}" if error.problem_mark else ""
        problem = " ".join((error.problem or error.context or "not valid YAML").split())
        raise UsageError(f"can't read {path}{line}: {problem}") from None
    except (YAMLError, ValueError) as error:
        raise UsageError(f"can't read {path}: {' '.join(str(error).split())}") from None
    except RecursionError:
        raise UsageError(f"can't read {path}: nested too deeply") from None
    if not isinstance(values, dict):
        found = "nothing" if values is None else type(values).__name__
        raise UsageError(f"can't read {path}: expected lines such as 'steps: 100000', got {found}")
    return values


def _as_saved(value: Any) -> Any:
    """Plain data as it is once saved and loaded again: lists for tuples, Python's numbers for NumPy's float64."""
    if isinstance(value, dict):
        return {key: _as_saved(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_as_saved(item) for item in value]
    return float(value) if isinstance(value, float) else value


def _nearest_divisor(total: int, wanted: int) -> int:
    """The divisor of `total` that is nearest to `wanted`; the smaller one of two."""
    small = [number for number in range(1, int(total**0.5) + 1) if total % number == 0]
    return min({*small, *(total // number for number in small)}, key=lambda number: (abs(number - wanted), number))
