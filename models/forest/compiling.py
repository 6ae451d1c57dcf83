"""How the kernels of forests are compiled, and how stale ones on disk are told apart."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from importlib.resources import files
from typing import Any, TypeVar

from numba.extending import register_jitable

from leaveout.compiling import kept

Function = TypeVar("Function", bound=Callable[..., Any])

# No fast mathematics: a score must be the same number wherever it is computed.
OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy"}


def subroutine(function: Function) -> Function:
    """Compile a function into each kernel that calls it; elsewhere it is plain Python.

    A call of its own would hand over each array as seven numbers, hundreds in all.
    """
    return register_jitable(forceinline=True, **OPTIONS)(function)


def scalar(function: Function) -> Function:
    """Compile a function of numbers, which kernels may call; elsewhere it is plain Python."""
    return register_jitable(**OPTIONS)(function)


def kernel(function: Function) -> Function:
    """Compile a function that is called from outside, and keep it on disk between runs."""
    return kept(**OPTIONS)(function)


def stamp() -> int:
    """Return a digest of this package's sources.

    A kernel that has it as a closure is compiled anew when any of them is edited.
    """
    sources = [each for each in files(__package__).iterdir() if each.name.endswith(".py")]
    every = b"".join(each.read_bytes() for each in sorted(sources, key=lambda each: each.name))
    return int.from_bytes(hashlib.sha256(every).digest()[:6], "big")
