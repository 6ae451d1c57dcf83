"""Observations made while members were trained."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Findings:
    """Observations made in training."""

    sizes: tuple[int, ...]  # rows a member
    empty: int = 0  # members without rows
    single: tuple[tuple[int, int], ...] = ()
    failed: tuple[str, ...] = ()  # of each member that could not be trained, why
    warned: tuple[tuple[str, int], ...] = ()  # kinds of warnings, and how many members gave them
    exported: int = 0  # members written as ONNX
    reasons: tuple[tuple[str, int], ...] = ()  # why others were not, and how many
    differing: int = 0  # votes that replayed models cast otherwise, and of how many models
    differing_members: int = 0  # votes that replayed models cast otherwise, and of how many models
    undefended_right: int | None = None
