"""Arguments of the checker's functions, and what these may report."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from leaveout.verifier.checker.arithmetic import FLOATS, Arithmetic
from leaveout.verifier.checker.errors import RejectedError
from leaveout.verifier.checker.expressions.ranges import Range

_Kind = TypeVar("_Kind")


@dataclass(frozen=True)
class HeldFile:
    """A file whose digest is the certificate's."""

    path: Path
    sha256: str


@dataclass(frozen=True)
class Text:
    """A quoted text that is not a path; never taken for a bare word."""

    value: str


class Compared:
    """A value that ``==`` can compare with another of its kind; numbers are separate."""


@dataclass(frozen=True, eq=False)
class Given:
    """The arguments of one call, and what the prover left for it."""

    values: Mapping[str, object]
    proof: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    confidence: Fraction | None = None
    tell: Callable[[str], None] = lambda line: None
    arithmetic: Arithmetic = FLOATS

    def number(self, name: str) -> Fraction:
        """Return a number that is known exactly."""
        value = self.values.get(name)
        if not isinstance(value, Range):
            raise RejectedError(f"{name!r} is no number")
        return value.exact_value

    def whole(self, name: str) -> int:
        """Return a whole number from 0; raises as `number` does."""
        value = self.number(name)
        if value.denominator != 1 or value < 0:
            raise RejectedError(f"{name!r} is {value}, no whole number from 0")
        return value.numerator

    def word(self, name: str, *words: str) -> str | None:
        """Return a bare word, one of those listed; None where it is not given."""
        value = self.values.get(name)
        if value is not None and value not in words:
            raise RejectedError(f"{name!r} is none of {', '.join(words)}")
        return None if value is None else str(value)

    def file(self, name: str = "path") -> HeldFile:
        """Return a file; raises RejectedError if it is none."""
        value = self.values.get(name)
        if not isinstance(value, HeldFile):
            raise RejectedError(f"{name!r} is no file")
        return value

    def value_of_kind(self, name: str, kind: type[_Kind], what: str) -> _Kind:
        """Return what another function gave; raise RejectedError for another kind."""
        value = self.values.get(name)
        if not isinstance(value, kind):
            raise RejectedError(f"{name!r} is no {what}")
        return value

    def array(self, name: str, dtype: type[np.generic], rank: int = 1) -> NDArray[Any]:
        """Return an array of the proof."""
        found = self.proof.get(name)
        if found is None:
            raise RejectedError(f"its proof has no {name!r}")
        if found.dtype != dtype or found.ndim != rank:
            raise RejectedError(
                f"{name!r} of its proof is {found.dtype} of rank {found.ndim}, expected "
                f"{np.dtype(dtype)} of rank {rank}"
            )
        if found.dtype.kind == "f" and not np.isfinite(found).all():
            raise RejectedError(f"{name!r} of its proof holds a number that is not finite")
        return found
