"""Options of a search over sets of members."""

from __future__ import annotations

from dataclasses import dataclass, field

from leaveout.encoders import Encoding
from leaveout.errors import SpecError
from leaveout.solvers import Feature, find_solver


@dataclass(frozen=True)
class Variant:
    """The LUCID techniques that a run uses."""

    name: str
    hyper: bool  # start from one hyper-network of all members, or else from each member separately
    branch: bool  # branch and bound over sets of members
    encoding: Encoding


VARIANTS: dict[str, Variant] = {
    variant.name: variant
    for variant in (
        Variant("naive", False, False, Encoding(False, None)),
        Variant("H", True, False, Encoding(False, None)),
        Variant("HM", True, False, Encoding(True, None)),
        Variant("HMRiS", True, False, Encoding(True)),
        Variant("HMB", True, True, Encoding(True, None)),
        Variant("LUCID", True, True, Encoding(True)),
    )
}
"""The six rows of the paper's ablation, by name."""


def find_variant(name: str) -> Variant:
    """Return a variant by case-insensitive name."""
    for known, variant in VARIANTS.items():
        if known.lower() == name.lower():
            return variant
    raise SpecError(f"unknown variant {name!r}; known variants: {', '.join(VARIANTS)}")


TIGHT = 1e-9  # tolerance requested from solvers

LOOSE = 1e-6
"""Tolerance assumed for solvers without the option."""

_PAPER_LIMIT = 2400.0
_SHARE = 12


@dataclass(frozen=True)
class LucidOptions:
    """Options of the search."""

    variant: Variant = field(default_factory=lambda: VARIANTS["LUCID"])
    solver: str = "highs"  # ``name`` or ``name:option``
    workers: int = 1  # solver processes
    seconds: float | None = None  # time limit per label; None for none
    set_seconds: float | None = None
    gap: float = 1e-3  # relative gap at which the bounds count as closed
    witnesses: bool = True
    tighten: bool = True
    seed: int = 0

    @property
    def tolerance(self) -> float:
        """The tolerance requested from the solver, or assumed if it has no such option."""
        return TIGHT if Feature.TOLERANCES in find_solver(self.solver).features else LOOSE

    @property
    def limit(self) -> float:
        """Time limit per MILP, in seconds."""
        if self.set_seconds is not None:
            return self.set_seconds
        return _PAPER_LIMIT if self.seconds is None else self.seconds / _SHARE
