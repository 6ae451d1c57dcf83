"""Libraries that come with extras: what to install where one is missing."""

from __future__ import annotations

from leaveout.errors import ExtraError

_EXTRAS = {"sklearn": ("scikit-learn", "forests"), "networkx": ("networkx", "graphs")}
"""By module: the library, and the extra that brings it."""


def name_extra(error: ModuleNotFoundError) -> ModuleNotFoundError:
    """Return an error that says which extra brings a missing module, or the same error."""
    library, extra = _EXTRAS.get((error.name or "").partition(".")[0], ("", ""))
    if not extra:
        return error
    return ExtraError(
        f"{library} is not installed, which this needs: pip install 'leaveout[{extra}]'",
        name=error.name,
    )
