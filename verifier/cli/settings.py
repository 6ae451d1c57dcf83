"""The values of ``--set``."""

from __future__ import annotations

from collections.abc import Sequence

from leaveout.errors import SpecError


def read_settings(texts: Sequence[str]) -> dict[str, str]:
    """Return values by name.

    Parameters
    ----------
    texts : sequence of str
        Each ``name=value``.

    Raises
    ------
    SpecError
        If one is not of that form, or a name is set twice.
    """
    values: dict[str, str] = {}
    for text in texts:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not (name and equals and value):
            raise SpecError(f"--set {text}: expected NAME=VALUE, e.g. --set eps=0.2")
        if name in values:
            raise SpecError(f"--set {text}: '{name}' is set twice")
        values[name] = value
    return values
