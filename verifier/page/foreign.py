"""Calls of what a function's declaration brings for the page, a plug-in's too."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TypeVar

from leaveout.errors import cause
from leaveout.specs import Function

T = TypeVar("T")


def brought(function: Function, what: str, make: Callable[[], T]) -> T | None:
    """Return what a part of a declaration makes, None and a warning where that fails."""
    try:
        return make()
    except (Exception, SystemExit) as error:  # a plug-in may raise anything
        why = cause(error)
        warnings.warn(f"'{what}' of function {function.name} failed: {why}", stacklevel=2)
        return None
