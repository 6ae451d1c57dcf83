"""How good a classifier's answers are, compared with one that ignores its input."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray


class Quality(msgspec.Struct, frozen=True, kw_only=True):
    """How accurate a classifier is on some rows, compared with one that ignores its input.

    Attributes
    ----------
    accuracy : float
        Share of the rows that are labelled correctly, in [0, 1].
    commonest : str
        The most frequent label.
    majority : float
        Its share: the accuracy of always answering it.
    balanced : float
        Mean, over the labels that rows have, of the share of its rows that are labelled correctly.
    answers : tuple of (str, int)
        How many rows are answered with each label, of those that are.
    """

    accuracy: float
    commonest: str
    majority: float
    balanced: float
    answers: tuple[tuple[str, int], ...]

    @staticmethod
    def of(answers: NDArray[np.int64], y: NDArray[np.int64], labels: Sequence[str]) -> Quality:
        """Measure answers to rows with true labels, shape (rows,)."""
        rows = np.bincount(y, minlength=len(labels))
        right = np.bincount(y[answers == y], minlength=len(labels))
        shares = right[rows > 0] / rows[rows > 0]
        counts = np.bincount(answers, minlength=len(labels)).tolist()
        return Quality(
            accuracy=float(np.mean(answers == y)),
            commonest=labels[int(rows.argmax())],
            majority=float(rows.max() / len(y)),
            balanced=float(shares.mean()),
            answers=tuple((name, n) for name, n in zip(labels, counts, strict=True) if n),
        )

    @property
    def lines(self) -> list[tuple[str, str]]:
        """What to compare an accuracy on the same rows with: names and values."""
        return [
            ("majority", f"{self.majority:.2%}, by always answering {self.commonest}"),
            ("balanced", f"{self.balanced:.2%}, averaged over the labels"),
            ("answers", ", ".join(f"{name} {n:,}" for name, n in self.answers)),
        ]

    @property
    def words(self) -> str:
        """The same in one line."""
        return (
            f"{self.accuracy:.2%} are answered correctly, {self.majority:.2%} by always answering "
            f"{self.commonest!r}; averaged over the labels, {self.balanced:.2%}"
        )

    @property
    def caution(self) -> tuple[str, ...]:
        """What to make of a classifier that gives all rows the same answer."""
        if len(self.answers) > 1:
            return ()
        ((label, _),) = self.answers
        return (
            f"every row is answered with {label!r}, as if the model ignored its input: what "
            "is proved of it says little; train it for longer, or weight its labels",
        )
