"""Suggestions for misspelled names."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable


def did_you_mean(word: str, known: Iterable[str], spelling: Callable[[str], str] = repr) -> str:
    """Returns the end of an error message that suggests the known word nearest to `word`.

    Args:
      word: The misspelled word. Upper and lower case are the same.
      known: The words to choose from. From three letters on, those that start with `word` come
        first.
      spelling: Formats the suggested word.

    Returns:
      `"; did you mean ...?"`, or an empty string if no word is near.
    """
    lowered = {name.lower(): name for name in known}
    nearest = [name for name in lowered if name.startswith(word.lower())] if len(word) > 2 else []
    nearest = nearest or difflib.get_close_matches(word.lower(), lowered, n=1)
    return f"; did you mean {spelling(lowered[nearest[0]])}?" if nearest else ""
