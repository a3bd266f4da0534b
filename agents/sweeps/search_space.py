"""Search spaces: the settings that a sweep varies, and the values that it tries."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TypeAlias

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from agents.errors import UsageError
from agents.settings.config import Config
from agents.settings.config_file import PRESETS, read_mapping
from agents.settings.peer_names import hint
from agents.settings.validation import abbreviate, usage_error
from agents.suggestion import did_you_mean
from agents.types import PlainData

SPACES = PRESETS / "search_spaces"

# Trials that differ in these have scores that can't be compared; seeds follow from their numbers.
# TensorFlow's threads are chosen once for a process.
SHARED = frozenset({"env", "steps", "eval_interval", "eval_episodes", "seed", "threads"})

_EXAMPLES = "{low: 1e-5, high: 1e-2, log: true} or {choices: [32, 64]}"


class Range(BaseModel):
    """Numbers of an interval.

    Attributes:
      low: The smallest one.
      high: The largest one.
      log: Whether each order of magnitude is as likely as any other; otherwise each number.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    low: float
    high: float
    log: bool = False

    @model_validator(mode="after")
    def _check_bounds(self) -> Range:
        if not self.low < self.high:
            raise PydanticCustomError("bounds", "expected a low end below the high end")
        if self.log and self.low <= 0:
            raise PydanticCustomError("log", "expected a low end above 0 with log: true")
        return self


class Choices(BaseModel):
    """Values of any type.

    Attributes:
      choices: The values.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    choices: tuple[JsonValue, ...] = Field(min_length=1, max_length=1000)


Dimension: TypeAlias = Range | Choices


class SearchSpace:
    """What a sweep varies.

    Attributes:
      dimensions: Ranges or choices by setting.
    """

    def __init__(self, dimensions: Mapping[str, Dimension]):
        """Stores the dimensions; `load_space` validates them."""
        self.dimensions = dict(dimensions)

    def without(self, settings: Collection[str]) -> SearchSpace:
        """Returns the space without settings that all trials share."""
        return SearchSpace(
            {name: item for name, item in self.dimensions.items() if name not in settings}
        )

    def is_integer(self, setting: str) -> bool:
        """Whether a setting takes integers only."""
        return Config.model_fields[setting].annotation is int

    def settings(self, parameters: Mapping[str, PlainData]) -> dict[str, PlainData]:
        """Returns settings by name for a sampler's parameters, in which choices are JSON texts."""
        return {
            name: json.loads(parameters[name]) if isinstance(item, Choices) else parameters[name]
            for name, item in self.dimensions.items()
        }

    def as_data(self) -> dict[str, PlainData]:
        """Returns plain data that a file of this space has."""
        return {name: item.model_dump(mode="json") for name, item in self.dimensions.items()}


def load_space(name: str | os.PathLike[str]) -> SearchSpace:
    """Loads a search space and validates it.

    Args:
      name: Name of one that comes with the library, such as `ppo`, or path of a YAML file,
        recognized by its suffix or a separator.

    Raises:
      UsageError: There is no such space, it can't be read, or a setting is unknown, or takes other
        values. The message has at most three lines.
    """
    path = _find_file(name)
    dimensions = {
        setting: _read_dimension(setting, value, path)
        for setting, value in read_mapping(path).items()
    }
    return SearchSpace(dimensions)


def _find_file(name: str | os.PathLike[str]) -> Path:
    """Returns the path of a search space of this library, or the path that was given."""
    text = os.fspath(name)
    if isinstance(name, os.PathLike) or text.endswith((".yaml", ".yml")) or os.sep in text:
        return Path(os.path.expanduser(text))
    names = sorted(path.stem for path in SPACES.glob("*.yaml"))
    if text not in names:
        raise UsageError(
            f"unknown search space '{text}'{did_you_mean(text, names)}\n"
            f"search spaces: {', '.join(names)}; or give the path of a .yaml file"
        )
    return SPACES / f"{text}.yaml"


def _read_dimension(setting: str, value: PlainData, path: Path) -> Dimension:
    """Validates a dimension, and that the setting takes its values."""
    place = f"{setting} in {path}"
    if setting not in Config.model_fields:
        raise UsageError(
            f"unknown setting '{setting}' in {path}{hint(str(setting), Config.model_fields, repr)}"
        )
    if setting in SHARED:
        raise UsageError(f"{place}: all trials of a sweep share it\nset it with --{setting}=VALUE")
    if not isinstance(value, dict):
        raise UsageError(f"{place}: expected {_EXAMPLES}, got {abbreviate(value)}")
    model = Choices if "choices" in value else Range
    try:
        dimension: Dimension = model.model_validate(value)
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        reason = problem["msg"] if not problem["loc"] else f"expected {_EXAMPLES}"
        raise UsageError(f"{place}: {reason}, got {abbreviate(value)}") from None
    if isinstance(dimension, Range) and Config.model_fields[setting].annotation not in (int, float):
        raise UsageError(f"{place}: it takes no numbers; expected {{choices: [...]}}")
    ends = dimension.choices if isinstance(dimension, Choices) else (dimension.low, dimension.high)
    for end in ends:
        _check_value(setting, end, path)
    return dimension


def _check_value(setting: str, value: JsonValue, path: Path) -> None:
    """Raises a UsageError for a value that a setting does not take."""
    try:
        Config.model_validate({setting: value})
    except ValidationError as error:
        # Others come from checks across settings, which depend on those of the experiment.
        if any(problem["loc"] for problem in error.errors(include_url=False)):
            origin = f" in {path}"
            raise usage_error(error, Config, {setting: value}, origin=lambda name: origin) from None
