"""How an experiment learns: rollouts, minibatches, optimizer, objective."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from agents.settings.schema.field_types import (
    Coefficient,
    Fraction,
    Name,
    PlainDict,
    PositiveCoefficient,
    PositiveFraction,
    ProperFraction,
    Weight,
)


class AlgorithmSettings(BaseModel):
    """How an experiment learns: rollouts, minibatches, optimizer, objective."""

    model_config = ConfigDict(frozen=True)

    algorithm: Name = Field(
        "ppo", description="ppo, or my_module:MyAlgorithm, a subclass of agents.Algorithm."
    )
    custom_settings: PlainDict = Field(
        {},
        description="Settings of an algorithm, network or policy of your own, which it reads here.",
    )
    rollout_length: int = Field(
        256,
        ge=1,
        le=1_000_000,
        description="Steps of each environment per iteration; longer rollouts estimate long-term "
        "returns better, shorter ones update more often.",
    )
    overlap: bool = Field(
        False,
        description="Collects a rollout while learning from the one before, with the policy from "
        "before that update: faster, at some cost in what is learned per step.",
    )
    epochs: int = Field(
        10, ge=1, le=10_000, description="Passes over each rollout; fewer if training is unstable."
    )
    minibatch_size: int = Field(
        64,
        ge=1,
        le=10**12,
        description="Environment steps per minibatch: more for less noisy gradients. Must divide "
        "num_envs x rollout_length.",
    )
    optimizer: Literal["adam", "torch_adam", "sgd"] = Field(
        "adam", description="Optimizer: Adam as in Keras or as in PyTorch, or SGD with momentum."
    )
    learning_rate: PositiveFraction = Field(
        3e-4, description="Initial learning rate; lower if training is unstable."
    )
    learning_rate_schedule: Literal["constant", "linear", "kl"] = Field(
        "linear",
        description="Schedule of learning_rate: constant, linear to 0 at the last step, or adapted "
        "to kl_target after every epoch.",
    )
    critic_learning_rate: Fraction = Field(
        0.0,
        description="Learning rate of a separate optimizer for the value function; 0 for one "
        "optimizer of both. Use it if the value function learns too slowly.",
    )
    adam_epsilon: PositiveFraction = Field(
        1e-5, description="Adam's epsilon; larger values shrink the steps of small gradients."
    )
    sgd_momentum: ProperFraction = Field(0.9, description="Momentum of the SGD optimizer.")
    discount: Fraction = Field(
        0.99, description="Discount factor (gamma); closer to 1 for long-term goals."
    )
    gae_lambda: Fraction = Field(
        0.95,
        description="Lambda of generalized advantage estimation: lower has less variance, higher "
        "less bias.",
    )
    objective: Literal["clip", "kl", "clip_kl"] = Field(
        "clip",
        description="What limits policy changes: clipping the probability ratio, an adaptive KL "
        "penalty, or both.",
    )
    clip_ratio: PositiveFraction = Field(
        0.2,
        description="Clipping range of the probability ratio around 1; lower for smaller policy "
        "changes.",
    )
    clip_ratio_schedule: Literal["constant", "linear"] = Field(
        "constant", description="Schedule of clip_ratio: constant, or linear to 0 at the last step."
    )
    kl_target: float = Field(
        0.01,
        gt=0,
        le=100,
        description="Target KL divergence per update in nats, of the KL penalty and of the learning "
        "rate schedule kl.",
    )
    multiply_kl_target: bool = Field(
        False,
        description="Multiplies kl_target by the square root of the number of action dimensions: "
        "changes of single dimensions add up.",
    )
    kl_init_penalty: PositiveCoefficient = Field(
        1.0, description="Initial coefficient of the adaptive KL penalty."
    )
    kl_cutoff_factor: float = Field(
        2.0,
        ge=0,
        le=1e6,
        description="Multiple of kl_target above which the squared excess is penalized too.",
    )
    kl_cutoff_coef: Coefficient = Field(
        1000.0, description="Coefficient of the squared excess over kl_cutoff_factor; 0 to disable."
    )
    kl_stop: float = Field(
        0.0,
        ge=0,
        le=100,
        description="KL divergence in nats, from the policy before the update on equal inputs, that "
        "stops an update early; 0 to disable. Use it where single updates ruin the policy.",
    )
    multiply_kl_stop: bool = Field(
        False,
        description="Multiplies kl_stop by the square root of the number of action dimensions: "
        "changes of single dimensions add up.",
    )
    kl_stop_after: Literal["minibatch", "epoch"] = Field(
        "minibatch",
        description="When kl_stop is checked: before each minibatch's step, or on the mean of each "
        "epoch.",
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
        description="Coefficient of the entropy bonus; raise it where exploration ends too early.",
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
        description="When several learners agree: on the gradients of every minibatch, or on weights "
        "averaged after every epoch, which takes less communication.",
    )
    normalize_advantages: bool = Field(
        True, description="Scales advantages to mean 0, standard deviation 1 in each minibatch."
    )
    min_advantage_std: Coefficient = Field(
        0.0,
        description="Least standard deviation that advantages are divided by, in units of the "
        "normalized reward; above 0 where noise ruins a task that is solved, 1 to never enlarge them.",
    )
    recompute_advantages: bool = Field(
        False,
        description="Estimates advantages and value targets again before every epoch, with the value "
        "function as trained so far.",
    )
    average_decay: ProperFraction = Field(
        0.0,
        description="Decay per iteration of a moving average of the policy's weights, which is "
        "evaluated, too, and is the checkpoint 'averaged'; 0 for none.",
    )
