"""Seed, time limits and hardware of an experiment."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from agents.settings.schema.field_types import (
    Seconds,
    Seed,
    Threads,
)


class ResourceSettings(BaseModel):
    """Seed, time limits and hardware of an experiment."""

    model_config = ConfigDict(frozen=True)

    seed: Seed = Field(0, description="Seed of all random numbers; equal seeds give equal runs.")
    step_timeout: Seconds = Field(
        60.0, description="Seconds that an environment may take for a step before the run fails."
    )
    start_timeout: Seconds = Field(
        120.0,
        description="Seconds that a worker process may take to start and to construct its "
        "environments before the run fails.",
    )
    threads: Threads = Field(
        1,
        description="Threads of TensorFlow; with 2, policy and value function learn at the same time; "
        "0 for one per core.",
    )
    device: Literal["auto", "cpu", "gpu"] = Field(
        "auto",
        description="Where the network computes: on a GPU, of several learners on one each; auto uses "
        "it for images, layers of 512 units or more, and env_backend tf.",
    )
