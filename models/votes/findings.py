"""What came to light while members were trained."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Findings"]


@dataclass(frozen=True)
class Findings:
    """What came to light in training.

    Attributes
    ----------
    sizes : tuple of int
        Rows a member.
    empty : int
        Members without rows.
    single : tuple of (int, int)
        Labels, and how many members have rows of this one only.
    failed : tuple of str
        Of each member that could not be trained, why.
    warned : tuple of (str, int)
        Kinds of warnings, and how many members gave them.
    exported : int
        Members written as ONNX.
    reasons : tuple of (str, int)
        Why others were not, and how many.
    differing, differing_members : int
        Votes that replayed models cast otherwise, and of how many models.
    undefended_right : int or None
        Test points that the model trained on all rows answers right.
    """

    sizes: tuple[int, ...]
    empty: int = 0
    single: tuple[tuple[int, int], ...] = ()
    failed: tuple[str, ...] = ()
    warned: tuple[tuple[str, int], ...] = ()
    exported: int = 0
    reasons: tuple[tuple[str, int], ...] = ()
    differing: int = 0
    differing_members: int = 0
    undefended_right: int | None = None
