"""Suggestions for misspelled names."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable

_SHORTEST = 3
# Least similarity of a suggestion: two letters in three of a short word, four in five of others.
_SHORT, _SIMILAR_SHORT, _SIMILAR = 4, 0.66, 0.8


def did_you_mean(word: str, known: Iterable[str], spelling: Callable[[str], str] = repr) -> str:
    """Returns the end of an error message that suggests the known word nearest to `word`.

    A known word is near if it starts with `word`, or if most of its letters are those of `word`.
    Nothing is near to a word of less than three letters.

    Args:
      word: The misspelled word. Upper and lower case are the same.
      known: The words to choose from. Of equally near ones, the last in the alphabet is taken: the
        newest version of an environment.
      spelling: Formats the suggested word.

    Returns:
      `"; did you mean ...?"`, or an empty string if no word is near.
    """
    word = word.lower()
    if len(word) < _SHORTEST:
        return ""
    names = {name.lower(): name for name in sorted(known, reverse=True)}
    near = sorted((name for name in names if name.startswith(word)), key=len)
    cutoff = _SIMILAR_SHORT if len(word) <= _SHORT else _SIMILAR
    near = near or difflib.get_close_matches(word, names, 1, cutoff)
    return f"; did you mean {spelling(names[near[0]])}?" if near else ""
