"""Columns of an array, and which of them form one column of words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leaveout.errors import TrainingError
from leaveout.models.train.encoding import CategoryColumn, NumberColumn
from leaveout.names import hint

_WHOLE_UP_TO = 2**24
"""Whole numbers beyond are no float32."""
_BETWEEN = "_=:. "
"""Between a column and its category, as encoders name features."""


def array_columns(
    names: Sequence[str],
    values: NDArray[Any],  # shape (rows, features)
    read: NDArray[np.float32],  # shape (rows, features)
    one_hot: Mapping[str, Sequence[str]],
    where: str,
) -> tuple[NumberColumn | CategoryColumn, ...]:
    """Return how the columns of an array become features."""
    ends: dict[int, tuple[int, CategoryColumn]] = {}
    for column, features in one_hot.items():
        places = [_place(str(feature), column, names, where) for feature in features]
        if len(places) < 2 or places != list(range(places[0], places[0] + len(places))):
            raise TrainingError(
                f"{where}: one_hot {column!r} has features {', '.join(map(str, features))}, "
                "expected two or more beside each other, in the order of X; reorder the columns"
            )
        part = read[:, places]
        wrong = ((part != 0) & (part != 1)).any(axis=1) | (part.sum(axis=1) != 1)
        if wrong.any():
            raise TrainingError(
                f"{where}: row {int(np.argmax(wrong))} has not a single 1 in the features of "
                f"one_hot {column!r}; mend the row, or take the features out of one_hot"
            )
        words = tuple(_category(names[place], column) for place in places)
        for place in places:
            if any(first <= place < stop for first, (stop, _) in ends.items()):
                raise TrainingError(f"{where}: one_hot has feature {names[place]!r} twice")
        ends[places[0]] = (places[-1] + 1, CategoryColumn(column, words))
    columns: list[NumberColumn | CategoryColumn] = []
    place = 0
    while place < len(names):
        if place in ends:
            place, category = ends[place]
            columns.append(category)
        else:
            columns.append(_number(names[place], values[:, place], read[:, place]))
            place += 1
    return tuple(columns)


def _place(feature: str, column: str, names: Sequence[str], where: str) -> int:
    if feature not in names:
        raise TrainingError(
            f"{where}: one_hot {column!r} has {feature!r}, which is no "
            f"feature{hint(feature, names)}"
        )
    return list(names).index(feature)


def _category(feature: str, column: str) -> str:
    rest = feature.removeprefix(column)
    return rest.lstrip(_BETWEEN) or feature if rest != feature else feature


def _number(name: str, values: NDArray[Any], read: NDArray[np.float32]) -> NumberColumn:
    low, high = float(values.min()), float(values.max())
    whole = max(-low, high) <= _WHOLE_UP_TO and bool((read == np.floor(read)).all())
    return NumberColumn(name, low, high, whole, scaled=False)
