"""Placement of chart labels so that they cover nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

CornerArray = npt.NDArray[np.float64]
Box = tuple[float, float, float, float]

_CHARACTER = 7.4
_HEIGHT = 15.0
_DESCENT = 3.0
_AWAY = 5.0
_TRIED = 80
_OFF = 14.0
_BELOW = 40.0
"""How much nearer to the middle a place below a line must be to be taken before one above."""


def places(
    area: Box, texts: Sequence[str], lines: Sequence[CornerArray], others: Sequence[CornerArray] = ()
) -> list[Box | None]:
    """Place labels one by one, away from lines and from each other."""
    taken = np.concatenate([_boxes(line) for line in (*lines, *others)])
    found: list[Box | None] = []
    for text, line in zip(texts, lines, strict=True):
        box = next(
            (each for each in _candidate_boxes(area, text, line) if _free(each, area, taken)), None
        )
        found.append(box)
        if box is not None:
            taken = np.concatenate((taken, [box]))
    return found


def baseline(box: Box) -> tuple[float, float]:
    """Return the point where a label's text starts."""
    return box[0], box[3] - _DESCENT


def _boxes(line: CornerArray) -> CornerArray:
    return np.column_stack(
        (np.minimum(line[:-1], line[1:]) - 1.5, np.maximum(line[:-1], line[1:]) + 1.5)
    )


def _candidate_boxes(area: Box, text: str, line: CornerArray) -> Iterator[Box]:
    """Yield places along a line, best first: above to the right, then below."""
    _, top, _, bottom = area
    lengths = np.linalg.norm(np.diff(line, axis=0), axis=1)
    gone = np.concatenate(([0.0], np.cumsum(lengths)))
    # As far from each other as the eye follows the line.
    wanted = np.linspace(0.0, gone[-1], _TRIED)
    along = zip(*(np.interp(wanted, gone, line[:, axis]).tolist() for axis in (0, 1)), strict=True)
    tried = [
        (abs(y - (top + bottom) / 2) + (_BELOW if below else 0.0), x + _AWAY, low)
        for x, y in along
        # Along the edges several lines may run together.
        if top + _OFF < y < bottom - _OFF
        for below, low in ((False, y - _AWAY), (True, y + _AWAY + _HEIGHT))
    ]
    for _, x, low in sorted(tried):
        yield x, low - _HEIGHT, x + _CHARACTER * len(text), low


def _free(box: Box, area: Box, taken: CornerArray) -> bool:
    if box[0] < area[0] or box[1] < area[1] or box[2] > area[2] or box[3] > area[3]:
        return False
    across = (taken[:, 0] < box[2]) & (taken[:, 2] > box[0])
    return not np.any(across & (taken[:, 1] < box[3]) & (taken[:, 3] > box[1]))
