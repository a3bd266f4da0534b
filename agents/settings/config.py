"""The settings of an experiment: their names, types, bounds and defaults.

Importing this module imports neither TensorFlow nor Gymnasium, so that mistakes are reported at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from pydantic import ConfigDict, ValidationInfo, field_validator, model_validator

from agents.settings import consistency
from agents.settings.schema import plain_data
from agents.settings.schema.algorithm import AlgorithmSettings
from agents.settings.schema.duration import DurationSettings
from agents.settings.schema.environment import EnvironmentSettings
from agents.settings.schema.network import NetworkSettings
from agents.settings.schema.normalization import NormalizationSettings
from agents.settings.schema.resources import ResourceSettings
from agents.types import PlainData


# Pydantic collects fields from the last base to the first.
class Config(
    ResourceSettings,
    DurationSettings,
    NormalizationSettings,
    NetworkSettings,
    AlgorithmSettings,
    EnvironmentSettings,
):
    """All settings of one experiment: immutable, each with a type, a bound and a unit.

    `load_config` makes one from a preset or a file and reports mistakes in at most three lines;
    calling the class directly raises pydantic's `ValidationError` instead. Steps are environment
    steps summed over all environments, one for each action, unless a setting says otherwise.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    # Titles for groups of settings, by the first setting of each; --help is arranged like this.
    sections: ClassVar[Mapping[str, str]] = {
        "env": "environment",
        "algorithm": "algorithm",
        "network": "network",
        "normalize_observ": "normalization",
        "steps": "duration, evaluation and logging",
        "seed": "reproducibility and resources",
    }

    @field_validator("*", mode="before")
    @classmethod
    def _read_numbers(cls, value: PlainData, info: ValidationInfo) -> PlainData:
        assert info.field_name
        return plain_data.read_number(value, cls.model_fields[info.field_name].annotation)

    @model_validator(mode="after")
    def _check_consistency(self) -> Config:
        """Refuses settings that contradict each other."""
        consistency.check(self)
        return self
