"""Calls of the page hooks that function declarations provide, including plug-ins'."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TypeVar

from leaveout.errors import cause
from leaveout.specs import Function

T = TypeVar("T")


def call_hook(function: Function, what: str, make: Callable[[], T]) -> T | None:
    """Return what a declaration's hook makes; None, with a warning, if it fails."""
    try:
        return make()
    except (Exception, SystemExit) as error:  # a plug-in may raise anything
        why = cause(error)
        warnings.warn(f"'{what}' of function {function.name} failed: {why}", stacklevel=2)
        return None
