"""Compilation of forest kernels, and invalidation of stale ones on disk."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from importlib.resources import files
from typing import Any, TypeVar

from numba.extending import register_jitable

from leaveout.compiling import cached_njit

Function = TypeVar("Function", bound=Callable[..., Any])

# No fast mathematics: a score must be the same number wherever it is computed.
OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy"}


def subroutine(function: Function) -> Function:
    """Inline a function into the kernels that call it; plain Python elsewhere.

    A real call would pass each array as seven numbers, hundreds in all.
    """
    return register_jitable(forceinline=True, **OPTIONS)(function)


def scalar(function: Function) -> Function:
    """Compile a function of numbers for use in kernels; plain Python elsewhere."""
    return register_jitable(**OPTIONS)(function)


def kernel(function: Function) -> Function:
    """Compile a function called from Python and cache it on disk."""
    return cached_njit(**OPTIONS)(function)


def stamp() -> int:
    """Return a digest of this package's sources, which invalidates stale kernels."""
    sources = [each for each in files(__package__).iterdir() if each.name.endswith(".py")]
    every = b"".join(each.read_bytes() for each in sorted(sources, key=lambda each: each.name))
    return int.from_bytes(hashlib.sha256(every).digest()[:6], "big")
