"""The left-out rows, one per member: all, the first ones or a sample."""

from __future__ import annotations

from numbers import Integral
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from leaveout.errors import TrainingError
from leaveout.models.family import Sample
from leaveout.models.train.draws import draw_rows

if TYPE_CHECKING:
    from leaveout.models.train.earlier_sample import EarlierSample


def left_out(
    rows: int,
    seed: int,
    *,
    members: int | None = None,
    sample: int | None = None,
    draws: int | None = None,
    earlier: EarlierSample | None = None,
    said: str = "{}=",
) -> tuple[NDArray[np.int64], Sample | None]:
    """Return the row each member lacks, and the sample if they were drawn."""
    for name, count in (("members", members), ("sample", sample), ("draws", draws)):
        whole = isinstance(count, Integral) and not isinstance(count, bool)
        if count is not None and not (whole and count >= 1):
            raise TrainingError(
                f"{said.format(name)}{count!r}: expected a whole number of at least 1"
            )
        if count is not None and count > rows and name != "draws":
            raise TrainingError(
                f"{said.format(name)}{count}: the data has {rows:,} rows; leave out at most all"
            )
    if sample is None:
        for name, given in (("draws", draws), ("fresh", earlier)):
            if given is not None:
                raise TrainingError(
                    f"{said.format(name).rstrip(' =')}: is of samples of the rows; say how many to "
                    f"draw with {said.format('sample').rstrip(' =')}"
                )
        return np.arange(rows if members is None else int(members)), None
    if members is not None:
        raise TrainingError(
            "members and sample both say which rows are left out: the first ones, or ones drawn at "
            "random; drop one"
        )
    draw = 1
    if earlier is not None:
        if draws is not None:
            raise TrainingError(
                f"{said.format('draws')}{draws}: how many there are was planned with the first "
                f"sample, {earlier.sample.draws}; drop it"
            )
        draw, draws = earlier.next_draw, earlier.sample.draws
    drawn = Sample(
        size=int(sample), rows=rows, seed=seed, draw=draw, draws=1 if draws is None else int(draws)
    )
    return draw_rows(seed, rows, drawn.size, draw), drawn
