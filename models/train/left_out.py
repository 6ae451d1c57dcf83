"""Which rows are left out, one a member: all, the first ones, or a sample."""

from __future__ import annotations

from numbers import Integral

import numpy as np
from numpy.typing import NDArray

from leaveout.errors import TrainingError
from leaveout.models.family import Sample
from leaveout.models.train.draws import drawn_rows

__all__ = ["left_out"]


def left_out(
    rows: int,
    seed: int,
    *,
    members: int | None = None,
    sample: int | None = None,
    said: str = "{}=",
) -> tuple[NDArray[np.int64], Sample | None]:
    """Return the row that each member lacks, and how they were drawn where they were.

    Parameters
    ----------
    rows : int
        How many there are.
    seed : int
        Of the training; the draw has a stream of its own.
    members : int or None
        The first so many.
    sample : int or None
        So many, drawn uniformly without replacement.
    said : str
        How messages write one of these two, its name in braces.

    Returns
    -------
    ndarray of int64, shape (members,)
        Ascending.
    Sample or None

    Raises
    ------
    TrainingError
        If both are given, or one is out of range.
    """
    for name, count in (("members", members), ("sample", sample)):
        whole = isinstance(count, Integral) and not isinstance(count, bool)
        if count is not None and not (whole and count >= 1):
            raise TrainingError(
                f"{said.format(name)}{count!r}: expected a whole number of at least 1"
            )
        if count is not None and count > rows:
            raise TrainingError(
                f"{said.format(name)}{count}: the data has {rows:,} rows; leave out at most all"
            )
    if sample is None:
        return np.arange(rows if members is None else int(members)), None
    if members is not None:
        raise TrainingError(
            "members and sample both say which rows are left out: the first ones, or ones drawn at "
            "random; drop one"
        )
    return drawn_rows(seed, rows, int(sample)), Sample(size=int(sample), rows=rows, seed=seed)
