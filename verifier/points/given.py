"""Points given by a reader to compare with the bounds: arrays or a table."""

from __future__ import annotations

import os
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from leaveout.bab import Instance
from leaveout.encoders import Box
from leaveout.errors import LeaveoutError
from leaveout.files import ARCHIVE, open_file
from leaveout.models import Manifest
from leaveout.models.archive import read_archive
from leaveout.models.quality import Quality
from leaveout.models.reading import FURTHER, Reading, read_table
from leaveout.models.table import Table, frame_table, is_frame, number
from leaveout.models.train.encoding import (
    CategoryColumn,
    Encoding,
    NumberColumn,
    cell_text,
    encode_rows,
    encoding_of,
    feature_text,
    nearest_record,
)
from leaveout.names import hint
from leaveout.verifier.points.answers import (
    Answers,
    Known,
    State,
    answers_of,
    as_box,
    head_words,
    label_words,
    states,
)
from leaveout.verifier.points.network_leaks import NetworkJob
from leaveout.verifier.points.sentences import DRAWN_ALONE, is_plain, label_name, unit_of
from leaveout.verifier.records import AnswersRecord, AnswerState, LabelAnswersRecord
from leaveout.verifier.report import Result

_ZIP = b"PK"
_PAIRS = (("X_test", "y_test"), ("X", "y"))
_KINDS = {".csv", ".npz", ".txt"}
_MEMORY = "data"  # what messages call points that come from no file


class DataError(LeaveoutError):
    """Points that cannot be read or do not fit a network."""


@dataclass(frozen=True, eq=False)
class _Arrays:
    x: NDArray[np.float32]
    y: NDArray[np.int64] | None = None


@dataclass(frozen=True, eq=False)
class GivenPoints:
    """Given points, read once; each network may encode the table differently."""

    name: str  # of the file, or what it is called if there is none
    place: str  # what messages begin with
    arrays: _Arrays | None = None
    table: Table | None = None  # which a family's encoding turns into points
    file: Path | None = None  # the CSV
    flaw: DataError | None = None  # why the CSV is not a plain table

    @staticmethod
    def of(given: Any) -> GivenPoints:
        """Read points from a file path, a data frame or numbers."""
        if isinstance(given, str | os.PathLike):
            return GivenPoints.open(os.fspath(given))
        if not is_frame(given):
            x = _features(_MEMORY, "X", _numbers_of(given))
            return GivenPoints(_MEMORY, _MEMORY, arrays=_Arrays(x))
        try:
            table = frame_table(given, _MEMORY)
        except LeaveoutError as error:
            raise DataError(str(error)) from None
        if not len(table):
            raise DataError(f"{_MEMORY}: the data frame has no rows")
        return GivenPoints(_MEMORY, _MEMORY, table=table)

    @staticmethod
    def open(text: str, option: str = "--data ") -> GivenPoints:
        """Read a file: an NPZ, or a CSV with a header."""
        path, place = Path(text), f"{option}{text}"
        try:
            with open_file(path, ARCHIVE) as stream:
                start = stream.read(len(_ZIP))
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise DataError(f"{place}: cannot read: {reason}") from None
        if start == _ZIP:
            try:
                arrays = read_archive(path, DataError)
            except DataError as error:
                raise DataError(f"{option}{error}{_expected_kinds(path)}") from None
            return GivenPoints(path.name, place, arrays=_arrays(place, arrays))
        if path.suffix.lower() == ".npz":
            raise DataError(f"{place}: not an NPZ file; write it with numpy.savez")
        try:
            return GivenPoints(path.name, place, table=_read(path, FURTHER, option), file=path)
        except DataError as error:
            return GivenPoints(path.name, place, file=path, flaw=error)

    def table_like(self, encoding: Encoding | None) -> Table | None:
        """Return the table, read as the training table was; None if there are only arrays."""
        reading = FURTHER if encoding is None else encoding.to_reading
        if self.file is not None and reading != FURTHER:
            assert encoding is not None
            option = self.place.removesuffix(str(self.file))
            return _read(self.file, reading, option, encoding.columns_read)
        if self.flaw is not None:
            raise self.flaw
        return self.table

    def points(self, manifest: Manifest, inputs: int, source: str) -> NDArray[np.float32]:
        """Return the points encoded for a network, shape (points, features)."""
        encoding = encoding_of(manifest)
        table = self.table_like(encoding)
        if table is not None:
            x = self._encode_table(table, encoding, manifest, source)
        else:
            assert self.arrays is not None
            x = self.arrays.x
        if x.shape[1] != inputs:
            raise DataError(
                f"{self.place}: a point has {x.shape[1]} features, {source} reads {inputs}"
            )
        return x

    def labels(self, manifest: Manifest) -> NDArray[np.int64] | None:
        """Return the true labels of the points, shape (points,), or None."""
        encoding = encoding_of(manifest)
        table = self.table_like(encoding)
        if table is None:
            return None if self.arrays is None else self.arrays.y
        if encoding is None or encoding.label not in table.header:
            return None
        found = _label_places(table, encoding, manifest)
        if len(wrong := np.flatnonzero(found < 0)):
            known = manifest.data.labels if manifest.data is not None else ()
            shown = ", ".join(map(repr, known[:8])) or "none is known"
            cell = table.column(encoding.label)[wrong[0]]
            raise DataError(
                f"{self.at(int(wrong[0]))}, column {encoding.label!r}: {cell!r} is not a label of "
                f"the training data ({shown})"
            )
        return found

    def quality(self, manifest: Manifest, answers: NDArray[np.int64]) -> Quality | None:
        """Return how accurate answers to the points are, where training had their labels."""
        encoding, facts = encoding_of(manifest), manifest.data
        table = self.table_like(encoding)
        known = () if facts is None else facts.labels
        if table is not None and encoding is not None and encoding.label in table.header:
            y = _label_places(table, encoding, manifest)
        elif self.arrays is not None and self.arrays.y is not None:
            y = self.arrays.y
        else:
            return None
        right = (y >= 0) & (y < len(known))
        return Quality.of(answers[right], y[right], known) if right.any() else None

    def at(self, row: int) -> str:
        """Return the position of a point for messages."""
        return f"{self.place}, {self.row_name(row)}"

    def row_name(self, row: int) -> str:
        """Return a point's name in the file: its line, or its number from 0."""
        if self.table is None or row >= len(self.table.lines):
            return f"row {row}"
        return f"{self.table.unit} {self.table.lines[row]}"

    def _encode_table(
        self, table: Table, encoding: Encoding | None, manifest: Manifest, source: str
    ) -> NDArray[np.float32]:
        rows = list(table.records())
        places = [self.row_name(row) for row in range(len(rows))]
        if encoding is not None:
            self._refuse_missing(table, encoding)
            try:
                return encode_rows(encoding, rows, places)
            except LeaveoutError as error:
                raise DataError(f"{self.place}, {error}") from None
        features = manifest.data.features if manifest.data is not None else ()
        if not features or not set(features) <= set(table.header):
            instead = "an array" if self.place == _MEMORY else "an NPZ with X_test (or X)"
            raise DataError(
                f"{self.place}: is a table, but the family of {source} has no table encoding; "
                f"pass {instead} as the network reads them"
            )
        return self._plain(rows, features)

    def _refuse_missing(self, table: Table, encoding: Encoding) -> None:
        """Raise if the table lacks a column, or a value of one that lacked none in training."""
        for name in encoding.needed_columns:
            if name not in table.header:
                raise DataError(
                    f"{self.place}: column {name!r} is missing{hint(name, table.header)}"
                )
            cells = table.column(name)
            if "" in cells and name not in {*encoding.fills, *encoding.gaps}:
                raise DataError(
                    f"{self.at(cells.index(''))}, column {name!r}: the value is missing; "
                    "fill it in, or drop the row"
                )

    def _plain(
        self, rows: Sequence[dict[str, str]], features: Sequence[str]
    ) -> NDArray[np.float32]:
        """Read features by name, in the network's order."""
        values = np.empty((len(rows), len(features)))
        for at, row in enumerate(rows):
            for column, name in enumerate(features):
                value = number(row[name])
                if value is None:
                    raise DataError(
                        f"{self.at(at)}, column {name!r}: {row[name]!r} is not a finite number"
                    )
                values[at, column] = value
        return _features(self.place, "the table", values)


def _label_places(table: Table, encoding: Encoding, manifest: Manifest) -> NDArray[np.int64]:
    """Return the place of each row's label; -1 where training had no such label."""
    known = () if manifest.data is None else manifest.data.labels
    place = {label: at for at, label in enumerate(known)}
    return np.array([place.get(cell, -1) for cell in table.column(encoding.label)], np.int64)


def _read(path: Path, reading: Reading, option: str, only: Container[str] | None = None) -> Table:
    try:
        table = read_table(path, reading=reading, only=only)
    except LeaveoutError as error:
        raise DataError(f"{option}{error}{_expected_kinds(path)}") from None
    if not len(table):
        raise DataError(f"{option}{path}: no rows below the header{_expected_kinds(path)}")
    return table


def _expected_kinds(path: Path) -> str:
    """Return the end of a message about a file of an unknown kind."""
    return "" if path.suffix.lower() in _KINDS else "; expected a CSV or an NPZ"


def _numbers_of(given: Any) -> NDArray[Any]:
    if np.ma.isMaskedArray(given):
        raise DataError(f"{_MEMORY}: is a masked array; fill it first")
    try:
        return np.asarray(given)
    except (TypeError, ValueError):
        raise DataError(
            f"{_MEMORY}: rows must be numbers, with the same number of features in each"
        ) from None


def _arrays(place: str, arrays: dict[str, NDArray[Any]]) -> _Arrays:
    for name, label in _PAIRS:
        if name in arrays:
            x = _features(place, name, arrays[name])
            return _Arrays(x, _labels(place, label, arrays[label], x) if label in arrays else None)
    held = ", ".join(sorted(arrays)) or "nothing"
    raise DataError(
        f"{place}: has neither an array 'X_test' nor 'X' (it has {held}); y_test or y next to it "
        "holds the true labels"
    )


def _features(place: str, name: str, raw: NDArray[Any]) -> NDArray[np.float32]:
    if raw.ndim < 2 or not raw.size or raw.dtype.kind not in "fiub":
        raise DataError(
            f"{place}: {name!r} is {raw.dtype} of shape {raw.shape}; expected numbers, one row "
            "per point"
        )
    with np.errstate(over="ignore"):
        values = np.ascontiguousarray(raw.reshape(len(raw), -1), dtype=np.float32)
    if not np.isfinite(values).all():
        row = int(np.argmin(np.isfinite(values).all(axis=1)))
        raise DataError(
            f"{place}: {name!r} row {row} contains a value that is not a finite float32"
        )
    return values


def _labels(place: str, name: str, raw: NDArray[Any], x: NDArray[np.float32]) -> NDArray[np.int64]:
    whole = raw.ndim == 1 and raw.dtype.kind in "fiub" and bool((np.floor(raw) == raw).all())
    if not whole or len(raw) != len(x):
        raise DataError(
            f"{place}: {name!r} is {raw.dtype} of shape {raw.shape}; expected {len(x)} whole "
            "numbers, one label per point"
        )
    return raw.astype(np.int64)


_ROWS = 3  # that are told


def why_outside(
    x: NDArray[np.float32],  # shape (rows, features)
    found: NDArray[np.int64],  # shape (rows,)
    known: Sequence[Known],
    manifest: Manifest,
    row_name: Callable[[int], str],
) -> tuple[str, ...]:
    """Return how the first outside rows leave the first input set."""
    if not known:
        return ()
    box = known[0].box
    said: list[str] = []
    for row in np.flatnonzero(found == State.OUTSIDE).tolist():
        why = leaves_box(x[row], box, manifest)
        if why and len(said) < _ROWS:
            said.append(f"{row_name(row)}: {why}")
    return tuple(said)


def leaves_box(point: NDArray[np.float32], box: Box, manifest: Manifest) -> str:
    """Return how a point leaves a box, in table units if possible; empty if it does not."""
    x = point.astype(np.float64)
    # Not <=: what is no number lies nowhere.
    wrong = np.flatnonzero(~((box.lower <= x) & (x <= box.upper)))
    if wrong.size:
        return _beyond(int(wrong[0]), point, box, manifest)
    for each in box.choices:
        values = x[each.columns]
        if not (each.values == values).all(axis=1).any():
            return _unlisted_reason(each.columns, point, manifest)
    return ""


def _beyond(at: int, point: NDArray[np.float32], box: Box, manifest: Manifest) -> str:
    low, high = float(box.lower[at]), float(box.upper[at])
    below = float(point[at]) < low
    side, end = ("below", low) if below else ("above", high)
    column = _column(at, manifest)
    if isinstance(column, NumberColumn):
        value, end = (_in_units(column, each) for each in (float(point[at]), end))
        unit = unit_of(manifest.data, column.name)
        unit = f" {unit}" if unit else ""
        return f"{column.name} = {value:.6g}{unit} is {side} {end:.6g}{unit}"
    if isinstance(column, CategoryColumn):
        return _word(column, point, manifest)
    return f"{_feature(at, manifest)} = {feature_text(point[at])} is {side} {end:.6g}"


def _unlisted_reason(
    columns: NDArray[np.int64], point: NDArray[np.float32], manifest: Manifest
) -> str:
    """Return how a point leaves the listed values of some columns."""
    at = int(columns[0])
    column = _column(at, manifest)
    if isinstance(column, CategoryColumn):
        return _word(column, point, manifest)
    if isinstance(column, NumberColumn):
        value = _in_units(column, float(point[at]))
        unit = unit_of(manifest.data, column.name)
        return (
            f"{column.name} = {value:.6g}{f' {unit}' if unit else ''} is not one of the listed "
            "values"
        )
    named = ", ".join(_feature(each, manifest) for each in columns.tolist()[:3])
    return f"{named} {'takes' if len(columns) == 1 else 'take'} no listed value"


def _word(column: CategoryColumn, point: NDArray[np.float32], manifest: Manifest) -> str:
    encoding = encoding_of(manifest)
    assert encoding is not None
    values, wrong = nearest_record(encoding, point)
    if column.name in wrong:
        return f"{column.name} is {wrong[column.name]}"
    return f"{column.name} = {cell_text(values[column.name])} is not in the set of inputs"


def _in_units(column: NumberColumn, feature: float) -> float:
    if not column.scaled:
        return feature
    return column.minimum + feature * (column.maximum - column.minimum)


def _column(at: int, manifest: Manifest) -> NumberColumn | CategoryColumn | None:
    encoding = encoding_of(manifest)
    placed = () if encoding is None else encoding.layout
    return next((column for column, places in placed if at < places.stop), None)


def _feature(at: int, manifest: Manifest) -> str:
    facts = manifest.data
    known = facts is not None and at < len(facts.features)
    return (
        f"feature {at} ({facts.features[at]})" if facts is not None and known else f"feature {at}"
    )


_NAMES: dict[int, AnswerState] = {
    State.OWES_NOTHING: "owes nothing",
    State.NOT_ABOVE: "not above",
    State.UNKNOWN: "unknown",
    State.OUTSIDE: "outside",
}


@dataclass(frozen=True, eq=False)
class _Asked:
    """A network and family with bounded leaks, and the encoded rows."""

    instance: Instance
    jobs: tuple[NetworkJob, ...]
    x: NDArray[np.float32]
    answers: Answers


class GivenAnswers:
    """The given rows, evaluated by each network whose leaks a run bounds."""

    def __init__(self, jobs: Sequence[NetworkJob], given: GivenPoints, sampled: bool) -> None:
        self._given = given
        # Of another network leaks say nothing of any record.
        gathered: dict[tuple[int, int], list[NetworkJob]] = {}
        for job in jobs:
            if not job.compared.pair:
                instance = job.compared.instance
                key = id(instance.network), id(instance.family)
                gathered.setdefault(key, []).append(job)
        if not gathered and sampled:
            raise DataError(f"{given.place}: {DRAWN_ALONE}")
        if not gathered:
            raise DataError(
                f"{given.place}: no statement bounds the confidence of leaks of a family, so "
                "there is nothing to compare rows with; add 'find bound: least b per label such "
                "that forall x in X, M in F: confidence(N, x) > b => label(M, x) == label(N, "
                "x)', or drop the rows"
            )
        self._asked = [_ask(own, given) for own in gathered.values()]

    def records(self, results: Sequence[Result]) -> tuple[AnswersRecord, ...]:
        """Return what the bounds say of the rows, per network and family."""
        return tuple(self._record(asked, results) for asked in self._asked)

    def _in_other_units(self, found: NDArray[np.int64], manifest: Manifest) -> tuple[str, ...]:
        """Return a hint on units where all rows lie outside."""
        encoding = encoding_of(manifest)
        other = encoding is not None and not is_plain(encoding)
        if self._given.table is not None or not other or (found != State.OUTSIDE).any():
            return ()
        return (
            (
                "arrays are used as the network reads them, scaled and one-hot encoded; for "
                "rows in the units of the table, pass a CSV or a data frame"
            ),
        )

    def _record(self, asked: _Asked, results: Sequence[Result]) -> AnswersRecord:
        statements = tuple(dict.fromkeys(job.name for job in asked.jobs))
        own = [each for each in results if each.name in statements]
        # One object a set of inputs.
        boxes = {each.box: as_box(each.box) for each in own}
        # What rests on samples is no proof.
        known = [
            Known(each.label, each.upper if each.confidence is None else None, boxes[each.box])
            for each in own
        ]
        found = states(asked.answers, asked.x, known)
        network, family = asked.instance.network, asked.instance.family
        facts = family.manifest.data
        left_out = len(np.unique(family.removed))
        rows = None if facts is None else max(facts.rows, left_out)
        several = f"{Path(network.source).name}: " if len(self._asked) > 1 else ""
        return AnswersRecord(
            data=self._given.name,
            network=network.source,
            family=family.source,
            statements=statements,
            members=left_out,
            rows=rows,
            words=several
            + head_words(
                int((found == State.OWES_NOTHING).sum()),
                len(found),
                data=self._given.name,
                members=left_out,
                rows=rows,
            ),
            outside=(
                *why_outside(asked.x, found, known, family.manifest, self._given.row_name),
                *self._in_other_units(found, family.manifest),
            ),
            labels=tuple(
                _of_label(label, asked, found, known) for label in range(asked.instance.labels)
            ),
            answers=tuple(asked.answers.labels.tolist()),
            confidences=tuple(
                float(each) if np.isfinite(each) else None for each in asked.answers.confidences
            ),
            states=tuple(_NAMES[each] for each in found.tolist()),
            quality=self._given.quality(family.manifest, asked.answers.labels),
        )


def _ask(jobs: list[NetworkJob], given: GivenPoints) -> _Asked:
    instance = jobs[0].compared.instance
    network = instance.network
    x = given.points(instance.family.manifest, network.inputs, network.source)
    return _Asked(instance, tuple(jobs), x, answers_of(network, x))


def _of_label(
    label: int, asked: _Asked, found: NDArray[np.int64], known: Sequence[Known]
) -> LabelAnswersRecord:
    own = found[asked.answers.labels == label]
    about = [each for each in known if each.label in (None, label)]
    uppers = [each.upper for each in about if each.upper is not None]
    record = LabelAnswersRecord(
        label=label,
        name=label_name(asked.instance.family.manifest.data, label),
        answers=len(own),
        owe_nothing=int((own == State.OWES_NOTHING).sum()),
        not_above=int((own == State.NOT_ABOVE).sum()),
        unknown=int((own == State.UNKNOWN).sum()),
        outside=int((own == State.OUTSIDE).sum()),
        upper=min(uppers, default=None),
        words="",
    )
    words = label_words(record, boxes=len({each.box for each in about}))
    return structs.replace(record, words=words)
