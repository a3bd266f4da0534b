"""How long an experiment trains, and when it is evaluated, logged and saved."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from agents.settings.schema.field_types import (
    Interval,
    Steps,
)


class DurationSettings(BaseModel):
    """How long an experiment trains, and when it is evaluated, logged and saved."""

    model_config = ConfigDict(frozen=True)

    steps: Steps = Field(100_000, description="Training length in environment steps.")
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
        description="Environment steps between videos of an evaluation episode, in the run's folder "
        "videos; 0 to disable. TensorBoard's images show frames of it, always of the last.",
    )
    checkpoint_interval: Steps = Field(
        20_000,
        description="Environment steps between checkpoints. Episodes are truncated there, so that "
        "a resumed run equals one that never stopped.",
    )

    on_nonfinite: Literal["error", "skip"] = Field(
        "error",
        description="What follows from a NaN or an infinity in a rollout or an update: error stops "
        "the run; skip drops the update, and counts it as perf/skipped_updates.",
    )
