"""The known name that a misspelt name most likely means."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Iterable

_MEANT = 0.6
_SHORT = 0.5  # least similarity for names of columns and settings, which are short


def nearest_name(name: str, known: Iterable[str], least: float = _MEANT) -> str | None:
    """Return the known name most similar to a given one, ignoring case, or None."""
    by_folded = {other.casefold(): other for other in sorted(known, reverse=True)}
    close = difflib.get_close_matches(name.casefold(), by_folded, n=1, cutoff=least)
    return by_folded[close[0]] if close else None


def hint(name: str, known: Iterable[str]) -> str:
    """Return `` (did you mean 'this'?)`` to append to a name in a message, or nothing."""
    near = nearest_name(name, known, _SHORT)
    return f" (did you mean {near!r}?)" if near is not None else ""


def find_reference(reference: object) -> object:
    """Return the object named by a ``module:name`` text; other objects are returned unchanged."""
    if not isinstance(reference, str):
        return reference
    module, _, name = reference.partition(":")
    return getattr(importlib.import_module(module), name)
