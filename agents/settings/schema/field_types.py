"""Types of settings, with their bounds."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, JsonValue

from agents.settings.schema.plain_data import as_saved

Name = Annotated[str, Field(min_length=1, max_length=500)]
Names = Annotated[tuple[str, ...], Field(max_length=100)]
Layers = Annotated[
    tuple[Annotated[int, Field(strict=True, ge=1, le=65_536)], ...], Field(max_length=100)
]
# As saved, so that a resumed run gives the same values as at first.
PlainDict = Annotated[dict[str, JsonValue], Field(max_length=1000), BeforeValidator(as_saved)]
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
    """How many environments may be restarted; `BatchEnv` takes the same two numbers.

    Attributes:
      limit: Number of restarts within the window; 0 for none.
      window: In seconds.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    limit: int = Field(default=0, ge=0, le=10**9)
    window: float = Field(default=600.0, gt=0, le=1e9)
