"""Something to change in an environment."""

from __future__ import annotations

from typing import NamedTuple


class Finding(NamedTuple):
    """Something to change in an environment, or in the settings it is trained with.

    Attributes:
      is_error: Whether training would stop, or learn something wrong.
      problem: What was found.
      advice: What to do.
    """

    is_error: bool
    problem: str
    advice: str
