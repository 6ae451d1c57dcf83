"""What the paper's Tables 1 to 3 report of private access, for the dense networks.

Accuracy is in per cent, at epsilon 0, 0.2 and 1 (DP-SGD: 0.02 in place of 0); access in
milliseconds, with seconds of training instead for DP-SGD. Another training run, and all members.
"""

from __future__ import annotations

from dataclasses import dataclass

from paper import Row

__all__ = ["EPSILONS", "METHODS", "Published", "published"]

EPSILONS = (0.0, 0.2, 1.0)

METHODS = ("none", "noise", "idp", "threshold", "dpsgd")
"""No protection, naive noise, naive iDP, the paper's own guard, DP-SGD."""


@dataclass(frozen=True)
class Published:
    """One method on one network.

    Attributes
    ----------
    accuracies : tuple of float
        In per cent, at each of `EPSILONS`.
    milliseconds : float or None
        Of access.
    """

    accuracies: tuple[float, float, float]
    milliseconds: float | None


# none | noise, access | iDP, access | LUCID, access | DP-SGD
_TABLES = """
crypto/2x50   99.7 | 49.9 52.3 62.1  .1 | 99.4 99.4 99.5  3000 | 97.3 97.3 98.0 .1 | 49.8 96.6 96.6
crypto/2x100  99.7 | 50.1 52.7 62.1  .2 | 99.3 99.2 99.3  4000 | 97.1 97.5 97.8 .2 | 49.3 96.5 96.6
crypto/4x30   99.8 | 50.0 52.4 62.0  .2 | 99.7 99.7 99.7  4000 | 94.7 95.0 95.5 .2 | 34.5 49.3 49.3
twitter/2x50  89.7 | 49.9 51.9 59.6  .2 | 89.5 89.5 89.6 43000 | 89.3 89.3 89.4 .1 | 51.9 51.4 51.5
twitter/2x100 89.6 | 50.1 52.2 59.9  .3 | 89.3 89.4 89.4 52000 | 88.1 88.2 88.5 .2 | 47.5 53.2 52.4
adult/2x50    83.1 | 49.9 51.7 58.2  .1 | 83.1 82.9 83.1 32000 | 82.4 82.4 82.5 .1 | 23.6 76.3 76.3
adult/2x100   83.3 | 49.9 51.7 58.9  .2 | 83.2 83.1 83.3 34000 | 80.7 80.8 81.0 .1 | 76.3 76.4 76.4
credit/2x50   81.9 | 50.1 51.6 57.7  .1 | 81.8 81.9 81.9 19000 | 81.7 81.8 81.8 .1 | 26.2 78.4 78.5
credit/2x100  81.8 | 50.1 51.6 57.9  .2 | 81.7 81.7 81.8 21000 | 81.4 81.4 81.5 .2 | 71.8 78.5 78.5
"""


def published(row: Row) -> dict[str, Published]:
    """Return what the paper has of a network, by method; nothing where it has nothing."""
    for line in _TABLES.strip().splitlines():
        name, _, rest = line.partition(" ")
        if name == row.name:
            cells = [[float(word) for word in cell.split()] for cell in rest.split("|")]
            return dict(zip(METHODS, map(_published, cells), strict=True))
    return {}


def _published(cell: list[float]) -> Published:
    if len(cell) == 1:
        return Published((cell[0], cell[0], cell[0]), None)
    return Published((cell[0], cell[1], cell[2]), cell[3] if len(cell) > 3 else None)
