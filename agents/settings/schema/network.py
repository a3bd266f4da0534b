"""Networks and action distributions of an experiment."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from agents.settings.schema.field_types import (
    Layers,
    Name,
    Names,
    ProperFraction,
    Size,
)


class NetworkSettings(BaseModel):
    """Networks and action distributions of an experiment."""

    model_config = ConfigDict(frozen=True)

    network: Name = Field(
        "feed_forward",
        description="Torso of the network: feed_forward for vectors; nature or impala, with "
        "convolutions, for images; or my_module:my_function, which maps Keras inputs by name to a "
        "Keras tensor of features.",
    )
    layers: Layers = Field(
        (64, 64), description="Units of the hidden layers; more for complex environments."
    )
    value_layers: Layers = Field(
        (), description="Units of the value function's hidden layers; empty for those of layers."
    )
    shared_torso: bool = Field(
        False,
        description="Shares all layers but the last between policy and value function; saves time "
        "with images.",
    )
    critic_keys: Names = Field(
        (),
        description="Keys of Dict observations that only the value function gets, such as the state of "
        "a simulator; the trained policy acts without them.",
    )
    recurrent: Literal["none", "gru", "lstm"] = Field(
        "none", description="Recurrent cell after the hidden layers, for partial observability."
    )
    recurrent_units: Size = Field(64, description="Units of the recurrent cell.")
    sequence_length: int = Field(
        0,
        ge=0,
        le=1_000_000,
        description="Steps of backpropagation through time; must divide rollout_length and "
        "minibatch_size. 0 for their greatest common divisor.",
    )
    precision: Literal["float32", "bfloat16"] = Field(
        "float32",
        description="Type that hidden layers compute in, bfloat16 where the hardware is faster with "
        "it; weights stay float32.",
    )
    activation: Literal["tanh", "relu", "elu", "silu", "gelu"] = Field(
        "tanh", description="Activation function of hidden layers."
    )
    policy: Name = Field(
        "gaussian",
        description="Distribution of continuous actions: gaussian; squashed_gaussian or beta, which "
        "respect bounds without clipping; or my_module:my_function, see agents.distributions.",
    )
    scale_actions: Literal["auto", "always", "never"] = Field(
        "auto",
        description="Maps [-1, 1] to the bounds of a Gaussian's actions; auto, where bounds are finite "
        "and far from that: wider or narrower by a factor of 10, or without 0 between them.",
    )
    state_dependent_std: bool = Field(
        False,
        description="Predicts a Gaussian's standard deviation; otherwise it is a trained vector.",
    )
    initial_log_std: float = Field(
        0.0,
        ge=-20,
        le=20,
        description="Logarithm of a Gaussian's initial standard deviation, in units of the action "
        "(squashed_gaussian: before the tanh); lower for less exploration.",
    )
    divide_initial_std: bool = Field(
        False,
        description="Divides the initial standard deviation by the square root of the number of "
        "action dimensions: the size of the noise does not grow with it.",
    )
    noise_correlation: ProperFraction = Field(
        0.0,
        description="Lag-1 autocorrelation of the Gaussian exploration noise; above 0 where single "
        "random steps cancel out.",
    )
