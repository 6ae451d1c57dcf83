"""Compilation of the passes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from numba import njit

Function = TypeVar("Function", bound=Callable[..., Any])

OPTIONS: dict[str, Any] = {
    # Sums may be reordered, which the rounding bound allows; NaN and infinities keep their meaning.
    "fastmath": {"reassoc", "contract", "nsz"},
    "error_model": "numpy",
}


def jit_function(function: Function) -> Function:
    """Compile a function called by other compiled functions."""
    return cast(Function, njit(**OPTIONS)(function))


def jit_inline(function: Function) -> Function:
    """Compile a function inlined into each caller."""
    return cast(Function, njit(inline="always", **OPTIONS)(function))
