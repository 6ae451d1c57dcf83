"""The privacy cost of noised answers and the limits on further ones."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from leaveout.errors import GuardError


class SpentError(GuardError):
    """The privacy budget covers no further noised answer."""


class FullError(GuardError):
    """The memory has reached its limit of answers."""


class UnusableError(GuardError):
    """The file of the memory cannot be read or written."""


@dataclass(frozen=True)
class Account:
    """The privacy cost of all noised answers.

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
        """The total epsilon: pure epsilons add up, whoever asks for what."""
        return float(self.exact)

    @property
    def exact(self) -> Fraction:
        """The same total, unrounded."""
        return sum((_decimal_fraction(each) * count for each, count in self.spent), Fraction(0))

    def afford(self, epsilon: float, cap: float | None, remember: int, path: Path) -> None:
        """Raise if one more answer exceeds a limit.

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
        if cap is not None and self.exact + _decimal_fraction(epsilon) > _decimal_fraction(cap):
            raise SpentError(
                f"{path}: noised answers cost epsilon = {self.epsilon:g}, one more would exceed "
                f"the cap of {cap:g}; raise it, or let further ones be uniform"
            )


def _decimal_fraction(number: float) -> Fraction:
    """Return a float as the decimal it prints as, so ten times 0.2 is 2."""
    return Fraction(repr(number))
