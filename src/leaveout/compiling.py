"""Compiled functions cached between runs, and the cost of compiling them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from numba import njit
from numba.core import event
from numba.extending import register_jitable

from leaveout.kept_code import KeptCode, text_of

Function = TypeVar("Function", bound=Callable[..., Any])

_COMPILING = "numba:compile"
"""Numba's event for compiling a function; loading one from disk does not trigger it."""


def cached_njit(**options: Any) -> Callable[[Function], Function]:
    """Compile a function on its first call; its code is kept between runs if it can be."""

    def decorate(function: Function) -> Function:
        wanted: dict[str, Any] = {"no_cfunc_wrapper": True, **options}
        dispatcher: Any = njit(**wanted)(function)
        dispatcher._cache = KeptCode(dispatcher)
        return cast(Function, dispatcher)

    return decorate


# No fast mathematics: a score must be the same number wherever it is computed.
_EXACT: dict[str, Any] = {"nogil": True, "error_model": "numpy"}


def subroutine(function: Function, options: Mapping[str, Any] = _EXACT) -> Function:
    """Compile a function for use in kernels; plain Python elsewhere."""
    # Without the code by which Python would call it, which takes as long to compile as the rest.
    bare = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, **options}
    made: Any = register_jitable(**bare)(function)
    made.compiled_with = text_of(bare)
    return cast(Function, made)


def kernel(function: Function) -> Function:
    """Compile an exact function that is called from Python and cache it on disk."""
    return cached_njit(**_EXACT)(function)


@dataclass(eq=False)
class Compiled:
    """What was compiled during a watch."""

    functions: int = 0  # 0 if all were loaded from disk
    seconds: float = 0.0  # from the start of the first compilation to the end of the watch


class _Listener(event.Listener):
    def __init__(self, found: Compiled, first: Callable[[], None]) -> None:
        self.found, self.first = found, first
        self.begun = 0.0

    def on_start(self, event: object) -> None:
        if not self.found.functions:
            self.begun = time.perf_counter()
            self.first()
        self.found.functions += 1

    def on_end(self, event: object) -> None:
        pass


@contextmanager
def watch_compiling(first: Callable[[], None] = lambda: None) -> Iterator[Compiled]:
    """Watch compilation; ``first`` is called before the first function is compiled."""
    found = Compiled()
    listener = _Listener(found, first)
    with event.install_listener(_COMPILING, listener):
        yield found
    if found.functions:
        found.seconds = time.perf_counter() - listener.begun
