"""Where a label stands on a chart so that it covers nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

__all__ = ["Frame", "Labels"]

_CHARACTER = 7.4
_HEIGHT = 15.0
_AWAY = 5.0
_TRIED = 80
_OFF = 14.0


@dataclass(frozen=True)
class Frame:
    """The part of a picture that the axes take, in its own units, counted from below left."""

    left: float
    bottom: float
    right: float
    top: float


@dataclass
class Labels:
    """Places labels one after the other, away from lines and from each other.

    Parameters
    ----------
    frame : Frame
    lines : sequence of arrays
        Corners of the lines, points x 2, in the units of the frame.
    others : sequence of arrays
        Corners of lines that have no label.
    """

    frame: Frame
    lines: Sequence[npt.NDArray[np.float64]]
    others: Sequence[npt.NDArray[np.float64]] = ()
    _taken: list[npt.NDArray[np.float64]] = field(init=False)

    def __post_init__(self) -> None:
        self._taken = [
            np.column_stack(
                (np.minimum(line[:-1], line[1:]) - 1.5, np.maximum(line[:-1], line[1:]) + 1.5)
            )
            for line in (*self.lines, *self.others)
            if len(line) > 1
        ]

    def place(self, at: int, text: str) -> tuple[float, float] | None:
        """Return where a label of line ``at`` starts at its lower left; None if nothing is free."""
        line = self.lines[at]
        chosen = _along(line)
        middle = (self.frame.bottom + self.frame.top) / 2
        # Above to the right of a corner lies what a falling line leaves free; below is second.
        tried = [
            (abs(y - middle) + below, x + _AWAY, y + (_AWAY if not below else -_AWAY - _HEIGHT))
            for x, y in chosen.tolist()
            # Along the edges several lines may run together.
            if self.frame.bottom + _OFF < y < self.frame.top - _OFF
            for below in (0.0, 40.0)
        ]
        width = _CHARACTER * len(text)
        for _, x, y in sorted(tried):
            box = np.array([x, y, x + width, y + _HEIGHT])
            if self._free(box):
                self._taken.append(box[None])
                return x, y
        return None

    def _free(self, box: npt.NDArray[np.float64]) -> bool:
        frame = self.frame
        if box[0] < frame.left or box[1] < frame.bottom or box[2] > frame.right:
            return False
        if box[3] > frame.top:
            return False
        return not any(
            np.any(
                (taken[:, 0] < box[2])
                & (taken[:, 2] > box[0])
                & (taken[:, 1] < box[3])
                & (taken[:, 3] > box[1])
            )
            for taken in self._taken
        )


def _along(line: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return places along a line, as far from each other as the eye follows it."""
    lengths = np.linalg.norm(np.diff(line, axis=0), axis=1)
    gone = np.concatenate(([0.0], np.cumsum(lengths)))
    wanted = np.linspace(0.0, gone[-1], _TRIED)
    return np.column_stack([np.interp(wanted, gone, line[:, axis]) for axis in (0, 1)])
