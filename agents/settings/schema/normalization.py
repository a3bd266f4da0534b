"""How observations, rewards and values are scaled."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from agents.settings.schema.field_types import (
    PositiveCoefficient,
)


class NormalizationSettings(BaseModel):
    """How observations, rewards and values are scaled."""

    model_config = ConfigDict(frozen=True)

    normalize_observ: bool = Field(
        True,
        description="Scales observations by their running mean and standard deviation; false where "
        "they are scaled already.",
    )
    observ_clip: PositiveCoefficient = Field(
        10.0, description="Clipping range of normalized observations, in standard deviations."
    )
    normalize_reward: bool = Field(
        True,
        description="Divides rewards by the running standard deviation of the discounted return; "
        "false where returns are scaled already.",
    )
    reward_clip: PositiveCoefficient = Field(
        10.0, description="Clipping range of normalized rewards, in standard deviations."
    )
    normalize_value: bool = Field(
        False,
        description="Trains the value function on returns of mean 0 and standard deviation 1; "
        "true where returns are large.",
    )
