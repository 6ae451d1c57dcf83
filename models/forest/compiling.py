"""How the kernels of forests are compiled, and how stale ones on disk are told apart."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable
from types import ModuleType
from typing import Any, TypeVar

from numba.extending import register_jitable

from leaveout.compiling import kept

__all__ = ["kernel", "scalar", "stamp_of", "subroutine"]

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


def stamp_of(*modules: ModuleType) -> int:
    """Return a digest of the modules' sources.

    A kernel that has it as a closure is compiled anew when any of them is edited.
    """
    sources = "".join(inspect.getsource(module) for module in modules)
    return int.from_bytes(hashlib.sha256(sources.encode()).digest()[:6], "big")
