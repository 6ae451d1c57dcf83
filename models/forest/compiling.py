"""How the kernels of forests are compiled, and how stale ones on disk are told apart."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable
from types import ModuleType
from typing import Any, TypeVar, cast

from numba import njit

from leaveout.compiling import kept as keep

__all__ = ["compiled", "kept", "stamp_of"]

Function = TypeVar("Function", bound=Callable[..., Any])

# Without reference counts ("_nrt"): counting the arrays of each call up and down, atomically, took
# two thirds of the time. Kernels therefore allocate nothing.
OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "_nrt": False}

# What is only called by kernels needs no doors for Python and C; they take as long to compile.
_INNER: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}


def compiled(function: Function) -> Function:
    """Compile a function into the compiled functions that call it.

    A call of its own would hand over each array as seven numbers, hundreds in all. No fast
    mathematics: a score must be the same number wherever it is computed.
    """
    return cast(Function, njit(forceinline=True, **OPTIONS, **_INNER)(function))


def kept(function: Function) -> Function:
    """Compile a function that is called from outside, and keep it on disk between runs."""
    return keep(**OPTIONS)(function)


def stamp_of(*modules: ModuleType) -> int:
    """Return a digest of the modules' sources.

    A kept function that has it as a closure is compiled anew when any of them is edited.
    """
    sources = "".join(inspect.getsource(module) for module in modules)
    return int.from_bytes(hashlib.sha256(sources.encode()).digest()[:6], "big")
