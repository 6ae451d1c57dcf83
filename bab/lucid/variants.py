"""The variants of LUCID's ablation (section 7, Table 4)."""

from __future__ import annotations

from dataclasses import dataclass

from leaveout.encoders import Encoding
from leaveout.errors import SpecError


@dataclass(frozen=True)
class Variant:
    """Which of LUCID's techniques a run uses."""

    name: str
    hyper: bool  # start from one hyper-network of all members; otherwise from every member alone
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
