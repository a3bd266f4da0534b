"""Suggestions for misspelled names."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

_SHORTEST = 3
_LETTERS_PER_SLIP = 4


def did_you_mean(word: str, known: Iterable[str], spelling: Callable[[str], str] = repr) -> str:
    """Returns the end of an error message that suggests the known word nearest to `word`.

    A known word is near if it starts with `word`, or if at most one letter in four, but at least
    one, is missing, added, changed, or swapped with the next one. Nothing is near to a word of less
    than three letters.

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
    nearest, least = "", (math.inf, math.inf)
    for name in sorted(known):
        starts = name.lower().startswith(word)
        difference = abs(len(name) - len(word))
        bound = max(1, max(len(name), len(word)) // _LETTERS_PER_SLIP)
        if not starts and difference > bound:
            continue  # There are as many slips at least.
        slips = 0 if starts else _slips(word, name.lower())
        if slips <= bound and (slips, difference) <= least:
            nearest, least = name, (slips, difference)
    return f"; did you mean {spelling(nearest)}?" if nearest else ""


def _slips(one: str, other: str) -> int:
    """Returns how many letters are missing, added, changed, or swapped with the next one.

    That is the optimal string alignment distance.
    """
    before: list[int] = []
    row = list(range(len(other) + 1))  # Distances of the beginnings of `other` from "".
    for i, letter in enumerate(one):
        earlier, before, row = before, row, [i + 1]
        for j, its_letter in enumerate(other):
            slips = min(row[j] + 1, before[j + 1] + 1, before[j] + (letter != its_letter))
            if i and j and (letter, one[i - 1]) == (other[j - 1], its_letter):
                slips = min(slips, earlier[j - 1] + 1)
            row.append(slips)
    return row[-1]
