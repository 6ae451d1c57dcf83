"""What noised answers have cost, and when one more is too many."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from leaveout.errors import GuardError


class SpentError(GuardError):
    """The privacy budget covers no more noised answers."""


class FullError(GuardError):
    """The memory holds as many answers as it may."""


class UnusableError(GuardError):
    """The memory's file cannot be read or written."""


@dataclass(frozen=True)
class Account:
    """What noised answers have cost.

    Attributes
    ----------
    answers : int
        Distinct inputs with a noised answer.
    spent : tuple of (float, int)
        Epsilon of an answer, and how many cost that much; 0 for uniform ones.
    """

    answers: int
    spent: tuple[tuple[float, int], ...]

    @property
    def epsilon(self) -> float:
        """What all of them add up to: pure epsilons add, whoever asks for what."""
        return float(self.exact)

    @property
    def exact(self) -> Fraction:
        """The same, not rounded."""
        return sum((_written(each) * count for each, count in self.spent), Fraction(0))

    def afford(self, epsilon: float, cap: float | None, remember: int, path: Path) -> None:
        """Refuse where one more answer is too many.

        Raises
        ------
        FullError
            If no more answers may be kept.
        SpentError
            If it would cost more than the cap.
        """
        if self.answers >= remember:
            raise FullError(
                f"{path}: remembers {self.answers:,} answers, as many as it may; raise the limit"
            )
        if cap is not None and self.exact + _written(epsilon) > _written(cap):
            raise SpentError(
                f"{path}: noised answers cost epsilon = {self.epsilon:g}, one more would exceed "
                f"the cap of {cap:g}; raise it, or let further ones be uniform"
            )


def _written(number: float) -> Fraction:
    """Return a number as people write it: ten times 0.2 are 2."""
    return Fraction(repr(number))
