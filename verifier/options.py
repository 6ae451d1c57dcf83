"""What a user may set about a verification run."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from leaveout.errors import SolverError, SpecError

if TYPE_CHECKING:
    from leaveout.bab import LucidOptions

__all__ = ["ENGINES", "VerifyOptions"]

ENGINES = ("lucid",)
"""Engines by name; the first is the default."""

_LONGEST = 1e8


@dataclass(frozen=True)
class VerifyOptions:
    """How to verify.

    Attributes
    ----------
    solver : str
        ``name`` or ``name:option``, as listed by ``leaveout solvers``.
    engine : str
        One of `ENGINES`.
    time : float or None
        Seconds for the whole specification, None for no limit.
    workers : int or None
        Solver processes; None for one a core.
    variant : str
        Of the ``lucid`` engine: naive, H, HM, HMRiS, HMB or LUCID.
    seed : int
        Of the search for witnesses and the clustering.

    Raises
    ------
    SpecError, SolverError
        If a value is out of range or a name unknown.
    """

    solver: str = "highs"
    engine: str = ENGINES[0]
    time: float | None = None
    workers: int | None = None
    variant: str = "LUCID"
    seed: int = 0

    def __post_init__(self) -> None:
        if self.engine not in ENGINES:
            raise SpecError(f"unknown engine {self.engine!r}; known engines: {', '.join(ENGINES)}")
        if self.time is not None and not 0 < self.time <= _LONGEST:
            raise SpecError(
                f"the time must be a positive number of seconds, at most {_LONGEST:g}, got "
                f"{self.time:g}; leave it out for no limit"
            )
        if not 0 <= self.seed < 2**32:
            raise SpecError(f"a seed is a whole number from 0 to {2**32 - 1}, got {self.seed}")
        if self.workers is not None and self.workers < 1:
            raise SolverError(f"at least one worker is needed, got {self.workers}")

    def lucid(self, seconds: float | None) -> LucidOptions:
        """Return the options of one search of the ``lucid`` engine."""
        from leaveout.bab import LucidOptions, find_variant

        return LucidOptions(
            variant=find_variant(self.variant),
            solver=self.solver,
            workers=self.workers or os.cpu_count() or 1,
            seconds=seconds,
            seed=self.seed,
        )
