"""A user's arrays or data frame as training data with names and ranges."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leaveout.errors import TrainingError
from leaveout.models.reading import Reading
from leaveout.models.table import (
    Cells,
    Table,
    cell,
    header_of,
    is_frame,
    rows_and_labels,
    values_of,
)
from leaveout.models.train.data import (
    ReadColumns,
    TrainingData,
    labels_of,
    read_columns,
    table_data,
)
from leaveout.models.train.encoding import CategoryColumn, Encoding, NumberColumn, is_missing_value
from leaveout.names import hint

_WHOLE_UP_TO = 2**24  # larger whole numbers may not be representable in float32
_BETWEEN = "_=:. "  # separators between column and category in the feature names of encoders


def array_columns(
    names: Sequence[str],
    values: NDArray[Any],  # shape (rows, features)
    read: NDArray[np.float32],  # shape (rows, features)
    one_hot: Mapping[str, Sequence[str]],
    where: str,
) -> tuple[NumberColumn | CategoryColumn, ...]:
    """Return how an array's columns become features."""
    ends: dict[int, tuple[int, CategoryColumn]] = {}
    for column, features in one_hot.items():
        places = [_place(str(feature), column, names, where) for feature in features]
        if len(places) < 2 or places != list(range(places[0], places[0] + len(places))):
            raise TrainingError(
                f"{where}: one_hot {column!r} has features {', '.join(map(str, features))}; "
                "expected two or more adjacent ones, in the order of X; reorder the columns"
            )
        part = read[:, places]
        wrong = ((part != 0) & (part != 1)).any(axis=1) | (part.sum(axis=1) != 1)
        if wrong.any():
            raise TrainingError(
                f"{where}: row {int(np.argmax(wrong))} does not have exactly one 1 in the "
                f"features of one_hot {column!r}; fix the row, or remove the features from "
                "one_hot"
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
            f"{where}: one_hot {column!r} contains {feature!r}, which is not a "
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


_SOURCE = Path("leave_one_out")


def training_data(
    X: Any,
    y: Any,
    *,
    features: Sequence[str] | None = None,
    units: Mapping[str, str] | None = None,
    ids: Sequence[Any] | str | None = None,
    group: Sequence[Any] | str | None = None,
    missing: str | Sequence[str] = (),
    one_hot: Mapping[str, Sequence[str]] | None = None,
    raw: bool = False,
) -> TrainingData:
    """Read the data of `leave_one_out`: a frame is encoded like a table, an array unchanged."""
    if raw and not hasattr(X, "iloc"):
        raise TrainingError(
            f"{_SOURCE}: raw=True needs X as a pandas DataFrame, not a {type(X).__name__}"
        )
    if ids is not None and group is not None:
        raise TrainingError(
            f"{_SOURCE}: group names what leaves together, so rows need no ids; drop ids"
        )
    modes = (missing,) if isinstance(missing, str) else tuple(missing)
    if raw and any(mode.endswith("drop") for mode in modes):
        raise TrainingError(f"{_SOURCE}: missing='drop' with raw=True; pass X.dropna() instead")
    if is_frame(X):
        if features is not None:
            raise TrainingError(
                f"{_SOURCE}: the data frame's columns are the features: drop features, or rename "
                "the columns"
            )
        if one_hot:
            raise TrainingError(
                f"{_SOURCE}: one_hot applies only to arrays: keep the column of words in the "
                "data frame; it is encoded automatically"
            )
        header = header_of(X, _SOURCE)
        if not raw:
            return _frame_data(X, header, y, units, ids, group, Reading(missing=modes))
        reading = Reading(missing=modes or ("mark",), words=_word_columns(X, header))
        return _frame_data(X, header, y, units, ids, group, reading)
    if modes:
        raise TrainingError(
            f"{_SOURCE}: missing applies only to data frames; fill in the array, or pass a frame"
        )
    return _array_data(X, y, features, units, ids, group, one_hot)


def _frame_data(
    X: Any,
    header: list[str],
    y: Any,
    units: Mapping[str, str] | None,
    ids: Sequence[Any] | str | None,
    group: Sequence[Any] | str | None,
    reading: Reading,
) -> TrainingData:
    if not header:
        raise TrainingError(f"{_SOURCE}: X has no columns; expected one per feature")
    cells = _frame_cells(X, header, _SOURCE)
    name, given = ("ids", ids) if group is None else ("group", group)
    named: str | None = None
    if isinstance(given, str):
        named = given
        if named not in header:
            raise TrainingError(
                f"{_SOURCE}: {name}={given!r} is not a column of X{hint(named, header)}; name one, "
                "or pass a list of names"
            )
    elif given is not None:
        named = _other("id" if group is None else "group", header)
        header, cells = [*header, named], [*cells, _names(name, given, len(cells[0]))]
    label = _other(str(getattr(y, "name", None) or "label"), header)
    labels = _label_cells(y)
    if len(labels) != len(cells[0]):
        raise TrainingError(
            f"{_SOURCE}: X has {len(cells[0])} rows but y has {len(labels)}; expected the same "
            "number"
        )
    index: Any = getattr(X, "index", None)
    other: Any = getattr(y, "index", None)
    if index is not None and hasattr(other, "equals") and not other.equals(index):
        raise TrainingError(
            f"{_SOURCE}: X and y have different indexes, but rows are matched by position: pass "
            "y.loc[X.index], or y.to_numpy() if they are in the same order"
        )
    columns = tuple(map(Cells.of, [*cells, labels]))
    table = Table(_SOURCE, [*header, label], columns, range(len(labels)), "row")
    ids = named if group is None else None
    if group is not None:
        reading = replace(reading, group=named or "")
    try:
        data = table_data(table, label, ids, units, reading)
    except TrainingError as error:
        raise TrainingError(_python_words(str(error))) from None
    return replace(data, cautions=tuple(map(_python_words, data.cautions)))


def frame_columns(X: Any, label: str, source: str) -> ReadColumns:
    """Read a pandas DataFrame for a model with its own preprocessing.

    Gaps are marked, numbers are as they are, and nothing is read as ``label``.
    """
    header, place = header_of(X, source), Path(source)
    cells = map(Cells.of, [*_frame_cells(X, header, place), ["0"] * len(X)])
    name = _other(label, header)
    table = Table(place, [*header, name], tuple(cells), range(len(X)), "row")
    reading = Reading(missing=("mark",), words=_word_columns(X, header))
    try:
        return read_columns(table, name, reading=reading, scaled=False, measured=True)
    except TrainingError as error:
        message = _python_words(str(error))
        raise TrainingError(re.sub(r" or ids='.*?'", "", message)) from None


def _frame_cells(X: Any, header: Sequence[str], source: Path) -> list[list[str]]:
    return [
        [_cell(value, row, name, source) for row, value in enumerate(values_of(X[column]))]
        for name, column in zip(header, X.columns, strict=True)
    ]


_ARGUMENTS = {"drop": "X.drop(columns={!r})", "id": "ids={!r}"}


def _python_words(message: str) -> str:
    """Return a message with arguments in place of options."""

    def argument(option: re.Match[str]) -> str:
        """Return the argument that does what an option does."""
        name, value = option[1], option[2].strip("'")
        return _ARGUMENTS.get(name, f"{name}={{!r}}").format(value)

    plain = message.replace("--drop the", "drop the").replace("--drop such", "drop such")
    plain = plain.replace("add --", "pass --")
    return re.sub(r"--(drop|id|missing|group) ('[^']*'|[\w=]+)", argument, plain)


def _word_columns(frame: Any, header: Sequence[str]) -> tuple[str, ...]:
    """Return the columns that a pandas DataFrame declares as words or categories."""
    return tuple(
        name
        for name, column in zip(header, frame.columns, strict=True)
        if str(frame[column].dtype) == "category"
        or any(isinstance(value, str) for value in values_of(frame[column]))
    )


def _array_data(
    X: Any,
    y: Any,
    features: Sequence[str] | None,
    units: Mapping[str, str] | None,
    ids: Sequence[Any] | str | None,
    group: Sequence[Any] | str | None,
    one_hot: Mapping[str, Sequence[str]] | None,
) -> TrainingData:
    if hasattr(X, "toarray"):
        raise TrainingError(f"{_SOURCE}: 'X' is a sparse matrix: pass X.toarray()")
    values = np.asarray(X)
    if values.dtype.kind in "OUS":
        raise TrainingError(
            f"{_SOURCE}: 'X' is an array of {values.dtype}, expected numbers; pass words as "
            "columns of a pandas DataFrame, which are then encoded"
        )
    cells = _label_cells(y)
    table = Table(_SOURCE, ["y"], (Cells.of(cells),), range(len(cells)), "row")
    if len(values) < 2 or values.ndim != 2:
        raise TrainingError(
            f"{_SOURCE}: 'X' has shape {values.shape}; expected (rows, features) with at least 2 "
            "rows, so that one can be left out"
        )
    labels, codes = labels_of(table, "y")
    converted, codes = rows_and_labels(_SOURCE, ("X", "y"), values, codes, np.float32)
    names = _feature_names(features, values.shape[1])
    for name in units or {}:
        if name not in names:
            raise TrainingError(
                f"{_SOURCE}: a unit is set for {name!r}, which is not a feature{hint(name, names)}"
            )
    for name, given in (("ids", ids), ("group", group)):
        if isinstance(given, str):
            raise TrainingError(
                f"{_SOURCE}: {name}={given!r} names a column, but an array has none; pass a list "
                "of names"
            )
    named = () if ids is None else tuple(_names("ids", ids, len(values)))
    groups = None
    if group is not None:
        people = Cells.of(_names("group", group, len(values)))
        lacking = [is_missing_value(word, among_numbers=True) for word in people.words]
        if any(lacking):
            row = people.first(lacking.index(True))
            raise TrainingError(f"{_SOURCE}: group has no name for row {row}; drop the row")
        named, groups = tuple(people.words), people.codes.astype(np.int64)
    elif len(set(named)) < len(named):
        twice = next(name for name in named if named.count(name) > 1)
        raise TrainingError(
            f"{_SOURCE}: ids contains the name {twice!r} twice; row names must be unique"
        )
    columns = array_columns(names, values, converted, one_hot or {}, str(_SOURCE))
    return TrainingData(
        X=converted,
        y=codes,
        features=tuple(names),
        labels=labels,
        encoding=Encoding("label", columns),
        ids=named,
        units=units or {},
        group="" if groups is None else "group",
        groups=groups,
    )


def _feature_names(features: Sequence[str] | None, count: int) -> list[str]:
    if features is None:
        return [f"x{place}" for place in range(count)]
    names = [str(name).strip() for name in features]
    if len(names) != count:
        raise TrainingError(
            f"{_SOURCE}: features has {len(names)} names, but X has {count} columns; pass one "
            "name per column"
        )
    for place, name in enumerate(names):
        if not name or name in names[:place]:
            raise TrainingError(f"{_SOURCE}: features contains the name {name!r} twice; rename one")
    return names


def _other(name: str, header: Sequence[str]) -> str:
    while name in header:
        name += "_"
    return name


def _names(argument: str, given: Sequence[Any], rows: int) -> list[str]:
    names = [str(each).strip() for each in given]
    if len(names) != rows:
        raise TrainingError(f"{_SOURCE}: {argument} has {len(names)} names, but X has {rows} rows")
    return names


def _cell(value: Any, row: int, column: str, source: Path = _SOURCE) -> str:
    text = cell(value)
    if text is not None:
        return text
    raise TrainingError(
        f"{source}, row {row}, column {column!r}: contains a {type(value).__name__}, expected a "
        "number or a word; convert the column, or drop it"
    )


def _label_cells(y: Any) -> list[str]:
    """Return labels as text, whole floats as whole numbers."""
    values = np.asarray(values_of(y) if hasattr(y, "to_list") else y)
    if values.ndim != 1:
        raise TrainingError(
            f"{_SOURCE}: y has shape {values.shape}; expected (rows,), one label per row"
        )
    found = []
    for row, value in enumerate(values.tolist()):
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        cell = _cell(value, row, "y")
        if not cell:
            raise TrainingError(f"{_SOURCE}, row {row}, column 'y': missing label")
        found.append(cell)
    return found
