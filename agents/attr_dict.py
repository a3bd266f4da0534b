"""A dictionary with attribute access."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from agents.suggestion import did_you_mean


class AttrDict(dict[str, Any]):
    """Dictionary with attribute access, for structures whose keys the user chooses.

    An unknown name raises, with the nearest known one in the message. Attributes can be assigned
    and deleted only inside of `with obj.unlocked:`; nested dictionaries have locks of their own.
    Items can always be assigned, because `tf.nest` and the loops of a `tf.function` rebuild
    structures item by item. Copies are locked.

    Names of dictionary methods, and names with a leading underscore, can be keys but not
    attributes: `obj.items` is the method even if there is an `obj["items"]`.

    Example:
        >>> transition = AttrDict(reward=1.0)
        >>> with transition.unlocked:
        ...     transition.terminated = False
        >>> transition.reward, transition["terminated"]
        (1.0, False)
    """

    # On the class: most dictionaries are never unlocked and need no entry of their own.
    _unlocks = 0

    @property
    @contextlib.contextmanager
    def unlocked(self) -> Iterator[AttrDict]:
        """Context in which attributes can be assigned and deleted; it can be nested."""
        object.__setattr__(self, "_unlocks", self._unlocks + 1)
        try:
            yield self
        finally:
            object.__setattr__(self, "_unlocks", self._unlocks - 1)

    def __getattr__(self, name: str) -> Any:
        """Returns the entry of that name; called only for names that the class lacks."""
        # First, because copy, pickle, TensorFlow and others probe objects for special names.
        if name.startswith("_"):
            raise AttributeError(f"'{type(self).__name__}' has no attribute '{name}'")
        try:
            return self[name]
        except KeyError:
            raise AttributeError(self._unknown(name)) from None

    def __setattr__(self, name: str, value: Any) -> None:
        """Assigns the entry; raises `AttributeError` if locked or if `name` can't be an attribute."""
        self._check_assignable(name)
        self[name] = value

    def __delattr__(self, name: str) -> None:
        """Deletes the entry; raises `AttributeError` if locked or if `name` is unknown."""
        self._check_assignable(name)
        if name not in self:
            raise AttributeError(self._unknown(name))
        del self[name]

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *(key for key in self if isinstance(key, str))]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({super().__repr__()})"

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies and pickles the items only, not the lock."""
        return type(self), (), None, None, iter(self.items())

    def copy(self) -> AttrDict:
        """Returns a shallow copy; `dict.copy` would return a plain dictionary."""
        return type(self)(self)

    def _check_assignable(self, name: str) -> None:
        if name.startswith("_") or hasattr(type(self), name):
            raise AttributeError(
                f"'{name}' can't be an attribute of '{type(self).__name__}'; use the item ['{name}']"
            )
        if not self._unlocks:
            raise AttributeError(
                f"Can't change '{name}': attributes are locked outside of 'with obj.unlocked:'"
            )

    def _unknown(self, name: str) -> str:
        names = [key for key in self if isinstance(key, str)]
        hint = did_you_mean(name, names) or f"; there are: {', '.join(names) or 'none'}"
        return f"'{type(self).__name__}' has no entry '{name}'{hint}"
