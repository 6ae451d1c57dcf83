"""Fitted preprocessing of scikit-learn as the design of a linear model.

Columns of numbers are followed symbolically: scales, bins and knots. Words, and gaps, are looked up
one column at a time, so what scikit-learn itself makes of each category tells all.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import msgspec
import numpy as np
from scipy import linalg

from leaveout.arrays import Floats, Integers
from leaveout.errors import LinearError, TrainingError, cause
from leaveout.kernel.design import Column, Design
from leaveout.kernel.numbers import Rejected
from leaveout.models.table import header_of, is_frame
from leaveout.models.train.data import ReadColumns
from leaveout.models.train.encoding import (
    OTHER,
    CategoryColumn,
    Encoding,
    NumberColumn,
    encode_columns,
    indicator_name,
    number_column,
)
from leaveout.models.train.own.inputs import frame_columns
from leaveout.models.train.own.preprocessing import dense, refuse_spellings

_STEPS = (
    "StandardScaler, MinMaxScaler, MaxAbsScaler, RobustScaler, SplineTransformer, "
    "KBinsDiscretizer, OneHotEncoder, OrdinalEncoder, SimpleImputer, MissingIndicator, PCA, "
    "VarianceThreshold, SelectKBest, ColumnTransformer, Pipeline"
)
_ANY_OTHER = f"{OTHER}\0"  # a word that no table has


def read_inputs(X: Any, steps: Sequence[Any], label: str) -> tuple[Floats, Stage, Encoding | None]:
    """Return rows, what fitted steps make of them, and the encoding of a data frame.

    Words, categories and truth values of a pandas DataFrame are one-hot, with one more category for
    all words that no row has where the steps take them; numbers are as they are, with a mark where
    they may be missing. ``label`` is the name of what is predicted.
    """
    if not (is_frame(X) and hasattr(X, "iloc")):
        rows = _numbers(X)
        return rows, _follow(Stage.of([*map(Column, range(rows.shape[1]))]), steps), None
    places, closed = _columns_used(steps, X.shape[1]), set[str]()
    try:
        read = frame_columns(X.iloc[:, places], label, "X")
        while True:
            try:
                return _read_frame(X, places, read, steps, closed)
            except _ClosedError as error:
                closed |= error.names
    except TrainingError as error:
        raise LinearError(str(error)) from None


class _ClosedError(Exception):
    """An encoder refuses words that are not among the rows, in these columns."""

    def __init__(self, names: set[str]) -> None:
        self.names = names


def _columns_used(steps: Sequence[Any], count: int) -> list[int]:
    """Return the columns of a data frame that fitted steps read."""
    first: Any = next((each for each in steps if each not in (None, "passthrough")), None)
    while type(first).__name__ == "Pipeline":
        first = first.steps[0][1]
    if type(first).__name__ != "ColumnTransformer" or not hasattr(first, "transformers_"):
        return [*range(count)]
    taken = (name for name, each, _ in first.transformers_ if each != "drop")
    return sorted({int(at) for name in taken for at in _places(first, name)})


def _places(step: Any, name: str) -> Integers:
    return np.asarray(step._transformer_to_input_indices[name], np.int64)


def _read_frame(
    frame: Any, places: list[int], read: ReadColumns, steps: Sequence[Any], closed: set[str]
) -> tuple[Floats, Stage, Encoding]:
    """Read a data frame whose columns of words that are not ``closed`` may have any other word."""
    given = dict(zip(header_of(frame.iloc[:, places], "X"), places, strict=True))
    columns: list[NumberColumn | CategoryColumn] = []
    cells: dict[str, list[Any]] = {}
    firsts, first = {}, 0
    for column in read.encoding.columns:
        if isinstance(column, CategoryColumn) and column.name in given:
            found, place = read.table.cells(column.name), given[column.name]
            refuse_spellings(column, frame.iloc[:, place].tolist(), "X")
            rows = [found.first(found.words.index(word)) for word in column.categories]
            cells[column.name] = frame.iloc[rows, place].tolist()
            words = all(isinstance(each, str) for each in cells[column.name] if not _lacks(each))
            if words and column.name not in closed and OTHER not in column.categories:
                column = CategoryColumn(column.name, (*column.categories, OTHER), others=True)
                cells[column.name].append(_ANY_OTHER)
        columns.append(column)
        firsts[column.name] = first
        first += len(column.features)
    encoding = msgspec.structs.replace(read.encoding, columns=tuple(columns))
    X = encode_columns(encoding, read.table.cells, len(frame), np.float64)
    fills: dict[str, float] = {}
    sources: list[Column | Word] = [Word("", -1, ())] * frame.shape[1]
    marks = {name: firsts[indicator_name(name)] + 1 for name in encoding.fills if name not in cells}
    for name, place in given.items():
        at = firsts[name]
        if name in cells:
            sources[place] = Word(name, at, tuple(cells[name]))
        elif name in marks:
            sources[place] = Gappy(at, name=name, mark=marks[name], fills=fills)
        else:
            sources[place] = Column(at)
    stage = _follow(Stage.of(sources), steps)
    for place, column in enumerate(columns):
        if column.name in fills:
            at = firsts[column.name]
            X[X[:, marks[column.name]] == 1, at] = fills[column.name]
            columns[place] = number_column(column.name, X[:, at], scaled=False)
    kept = {**encoding.fills, **fills}
    return X, stage, msgspec.structs.replace(encoding, columns=tuple(columns), fills=kept)


def _lacks(cell: Any) -> bool:
    return cell is None or str(cell) == "<NA>" or cell != cell


def _follow(stage: Stage, steps: Sequence[Any]) -> Stage:
    """Return what fitted steps make of values, all numbers."""
    for step in steps:
        stage = _apply(stage, step)
    stage = stage.numbers()
    for each in stage.columns:
        if isinstance(each, Gappy):
            raise LinearError(f"the steps leave gaps of column {each.name!r}: add SimpleImputer()")
    return stage


@dataclass(frozen=True, eq=False)
class Word:
    """A column of words, as what follows sees it."""

    name: str
    at: int  # its first feature
    cells: tuple[Any, ...]  # what its categories became
    width: ClassVar[int] = 1

    def numbers(self) -> Stage:
        """Return words that are numbers or truth values as numbers."""
        try:
            values = np.array(self.cells, np.float64)[:, None]
        except (TypeError, ValueError):
            values = np.array([[np.nan]])
        if not np.isfinite(values).all():
            raise LinearError(
                f"the steps leave words or gaps of column {self.name!r}: encode them, e.g. with "
                "OneHotEncoder(handle_unknown='ignore'), or name the columns to use in a "
                "ColumnTransformer"
            )
        return _looked_up(range(self.at, self.at + len(values)), values, np.zeros(1))


@dataclass(frozen=True, eq=False)
class Gappy(Column):
    """A column of numbers with gaps, until a step fills them."""

    name: str = ""
    mark: int = -1  # the feature that is 1 where there is a gap
    fills: dict[str, float] | None = None  # what gaps become, by columns


@dataclass(frozen=True, eq=False)
class Stage:
    """What some steps make of the inputs; see `Design`."""

    columns: tuple[Column | Word, ...]
    shift: Floats
    scale: Floats
    mix: Floats | None = None
    offset: Floats | None = None

    @staticmethod
    def of(columns: Sequence[Column | Word]) -> Stage:
        """Return columns as they are."""
        count = sum(each.width for each in columns)
        return Stage(tuple(columns), np.zeros(count), np.ones(count))

    def design(self, inputs: int, constant: float) -> Design:
        """Return the design whose last column is a constant."""
        columns = tuple(each for each in self.columns if isinstance(each, Column))
        return Design(inputs, columns, self.shift, self.scale, self.mix, self.offset, constant)

    @property
    def width(self) -> int:
        """The number of values."""
        return len(self.shift) if self.mix is None else self.mix.shape[1]

    def scale_by(self, shift: Any, scale: Any) -> Stage:
        """Return (values - shift) / scale; None leaves them."""
        shift = np.zeros(self.width) if shift is None else np.asarray(shift, np.float64)
        scale = np.ones(self.width) if scale is None else np.asarray(scale, np.float64)
        if self.mix is None or self.offset is None:
            moved = self.shift + self.scale * shift
            return Stage(self.columns, moved, self.scale * scale)
        offset = (self.offset - shift) / scale
        return Stage(self.columns, self.shift, self.scale, self.mix / scale, offset)

    def mix_by(self, mix: Floats, offset: Floats) -> Stage:
        """Return values @ mix + offset."""
        own = self.numbers()
        if own.mix is not None and own.offset is not None:
            mix, offset = own.mix @ mix, own.offset @ mix + offset
        return Stage(own.columns, own.shift, own.scale, mix, offset)

    def choose(self, places: Integers) -> Stage:
        """Return some of the values."""
        if self.mix is None and all(each.width == 1 for each in self.columns):
            columns = tuple(self.columns[at] for at in places.tolist())
            return Stage(columns, self.shift[places], self.scale[places])
        return self.mix_by(np.eye(self.width)[:, places], np.zeros(len(places)))

    def plain(self, step: Any) -> list[int]:
        """Return the inputs that the values are; raise if they are changed."""
        kind, found = type(step).__name__, []
        for each in self.columns:
            if isinstance(each, (Word, Gappy)):
                gaps = isinstance(each, Gappy)
                raise LinearError(
                    f"{kind} reads {'gaps' if gaps else 'words'} of column {each.name!r}"
                    f"{': put SimpleImputer() first, or' if gaps else ', and numbers:'} make the "
                    "numbers df[...].astype('category')"
                )
            found += [] if each.knots is not None else [each.at]
        changed = np.any(self.shift != 0) or np.any(self.scale != 1)
        if self.mix is not None or changed or len(found) < len(self.columns):
            raise LinearError(f"{kind} follows a step that changes its columns: put {kind} first")
        return found

    def numbers(self) -> Stage:
        """Return all values as numbers."""
        if not any(isinstance(each, Word) for each in self.columns):
            return self
        parts, first = [], 0
        for each in self.columns:
            own = slice(first, first := first + each.width)
            plain = Stage((each,), self.shift[own], self.scale[own])
            parts.append(each.numbers() if isinstance(each, Word) else plain)
        return Stage.join(parts)

    @staticmethod
    def join(parts: Sequence[Stage]) -> Stage:
        """Return the values of all parts."""
        mix = offset = None
        if any(each.mix is not None for each in parts):
            parts = [each.numbers() for each in parts]
            blocks = [np.eye(each.width) if each.mix is None else each.mix for each in parts]
            mix = linalg.block_diag(*blocks)
            offset = np.concatenate(
                [np.zeros(each.width) if each.offset is None else each.offset for each in parts]
            )
        return Stage(
            tuple(column for each in parts for column in each.columns),
            np.concatenate([each.shift for each in parts]),
            np.concatenate([each.scale for each in parts]),
            mix,
            offset,
        )


def _apply(stage: Stage, step: Any) -> Stage:
    if step is None or step == "passthrough":
        return stage
    kind = type(step).__name__
    if not type(step).__module__.startswith("sklearn.") or "transform" in vars(step):
        raise LinearError(f"the step {kind} is not scikit-learn's; apply it to X beforehand")
    read = _READERS.get(kind)
    if read is None:
        raise LinearError(
            f"the step {kind} is not supported; expected {_STEPS}; apply it to X beforehand"
        )
    try:
        return read(stage if kind in _OF_WORDS else stage.numbers(), step)
    except AttributeError as error:
        raise LinearError(f"the step {kind} is not fitted ({cause(error)}): fit it") from None
    except (Rejected, TypeError) as error:
        raise LinearError(f"the step {kind} cannot be read: {error}; change its settings") from None


def _pipeline(stage: Stage, step: Any) -> Stage:
    for _, each in step.steps:
        stage = _apply(stage, each)
    return stage


def _column_transformer(stage: Stage, step: Any) -> Stage:
    parts = []
    for name, each, _ in step.transformers_:
        places = _places(step, name)
        if isinstance(each, str) and each == "drop":
            continue
        if len(places):
            parts.append(_apply(stage.choose(places), each))
    if not parts:
        raise LinearError("ColumnTransformer leaves no column")
    return Stage.join(parts)


def _function(stage: Stage, step: Any) -> Stage:
    if step.func is not None:
        raise LinearError("FunctionTransformer: apply its function to X beforehand")
    return stage


def _min_max(stage: Stage, step: Any) -> Stage:
    if step.clip:
        raise LinearError("MinMaxScaler(clip=True) is not supported: use clip=False")
    return stage.scale_by(-step.min_ / step.scale_, 1.0 / step.scale_)


def _robust(stage: Stage, step: Any) -> Stage:
    return stage.scale_by(
        step.center_ if step.with_centering else None, step.scale_ if step.with_scaling else None
    )


def _pca(stage: Stage, step: Any) -> Stage:
    found = stage.mix_by(step.components_.T, -step.mean_ @ step.components_.T)
    return found.scale_by(None, np.sqrt(step.explained_variance_)) if step.whiten else found


def _splines(stage: Stage, step: Any) -> Stage:
    if step.extrapolation not in ("constant", "error") or not 1 <= step.degree <= 5:
        raise LinearError(
            "SplineTransformer: expected extrapolation='constant' and a degree of 1 to 5"
        )
    bases = zip(stage.plain(step), step.bsplines_, strict=True)
    return Stage.of(
        [Column(at, step.degree, np.asarray(each.t), step.include_bias) for at, each in bases]
    )


def _bins(stage: Stage, step: Any) -> Stage:
    if not step.encode.startswith("onehot"):
        raise LinearError(
            f"KBinsDiscretizer(encode={step.encode!r}) is not supported: use encode='onehot'"
        )
    columns = []
    for at, edges in zip(stage.plain(step), step.bin_edges_, strict=True):
        if len(edges) < 3:
            raise LinearError(f"KBinsDiscretizer makes one bin of column {at}: drop the column")
        columns.append(Column(at, 0, np.asarray(edges[1:-1], np.float64)))
    return Stage.of(columns)


def _looked_up(features: Sequence[int], table: Floats, offset: Floats) -> Stage:
    """Return one-hot features times a table, plus an offset."""
    single = (table == 1).sum(axis=0) == (table != 0).sum(axis=0)
    if single.all() and (table.sum(axis=0) == 1).all() and not offset.any():
        return Stage.of([Column(features[at]) for at in table.argmax(axis=0).tolist()])
    return Stage.of([*map(Column, features)]).mix_by(table, offset)


def _encode_words(stage: Stage, step: Any) -> Stage:
    """Return what an encoder makes of words, a column at a time."""
    kind, words = type(step).__name__, [each for each in stage.columns if isinstance(each, Word)]
    if len(words) < len(stage.columns):
        stage.plain(step)
        raise LinearError(f"{kind} reads numbers: make them df[...].astype('category')")
    closed = set()
    strict = step.handle_unknown == "error" or _lacks(getattr(step, "unknown_value", 0))
    for each, known in zip(words, step.categories_, strict=True):
        more = {*map(str, known)} - {*map(str, each.cells)}
        if str(each.cells[-1]) == _ANY_OTHER and (strict or more):
            closed.add(each.name)
    if closed:
        raise _ClosedError(closed)
    # A first row, and others that differ from it in one word.
    first = [each.cells[0] for each in words]
    rows, places = [first], []
    for at, each in enumerate(words):
        places.append([0, *range(len(rows), len(rows) + len(each.cells) - 1)])
        rows += [[*first[:at], cell, *first[at + 1 :]] for cell in each.cells[1:]]
    table: Any = np.empty((len(rows), len(words)), object)
    table[:] = rows
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # on words that it does not know
        try:
            found = np.asarray(dense(step.transform(table)), np.float64)
        except Exception as error:
            raise LinearError(f"{kind} fails on words of X ({cause(error)}): fit it on X") from None
    if not np.isfinite(found).all():
        raise LinearError(f"{kind} leaves gaps: put SimpleImputer() first")
    parts = [np.where((found[at] != found[0]).any(axis=0), found[at], 0.0) for at in places]
    whole = np.concatenate(parts)
    features = [each.at + k for each in words for k in range(len(each.cells))]
    return _looked_up(features, whole, np.where(whole.any(axis=0), 0.0, found[0]))


def _target(stage: Stage, step: Any) -> Stage:
    raise LinearError(
        "TargetEncoder makes each word a mean of the labels of its rows, which are not fixed where "
        "a row leaves: use OneHotEncoder"
    )


def _impute(stage: Stage, step: Any) -> Stage:
    columns, gap = list(stage.columns), step.missing_values
    numbers = [each for each in columns if not isinstance(each, Word)]
    if any(map(_lacks, step.statistics_)) or (numbers and not _lacks(gap)):
        raise LinearError(
            "SimpleImputer: write gaps as NaN, and drop columns that are empty, before fit"
        )
    waits = any(isinstance(each, (Word, Gappy)) for each in columns)
    if waits and (stage.mix is not None or len(columns) < stage.width):
        raise LinearError("SimpleImputer follows a step that combines columns: put it first")
    for at, each in enumerate(columns if waits else ()):
        value = step.statistics_[at]
        if isinstance(each, Word):
            cells = [
                value if (cell != cell if gap != gap else cell == gap) else cell
                for cell in each.cells
            ]
            columns[at] = replace(each, cells=tuple(cells))
        elif isinstance(each, Gappy) and each.fills is not None:
            fill = float(value * stage.scale[at] + stage.shift[at])
            if each.fills.setdefault(each.name, fill) != fill:
                raise LinearError(
                    f"two steps fill gaps of column {each.name!r} with different numbers: use one "
                    "SimpleImputer for both"
                )
            columns[at] = Column(each.at)
    found = replace(stage, columns=tuple(columns))
    return Stage.join([found, _mark(stage, step.indicator_)]) if step.add_indicator else found


def _mark(stage: Stage, step: Any) -> Stage:
    """Return whether some of the values are missing."""
    columns = []
    for at in step.features_.tolist():
        each = stage.columns[at] if stage.mix is None else None
        if isinstance(each, Gappy):
            columns.append(Column(each.mark))
        elif isinstance(each, Word) and sum(map(_lacks, each.cells)) == 1:
            columns.append(Column(each.at + [*map(_lacks, each.cells)].index(True)))
        else:
            raise LinearError(
                f"MissingIndicator: value {at} has no gaps in X: pass the X it was fitted to"
            )
    return Stage.of(columns)


def _one_hot(stage: Stage, step: Any) -> Stage:
    if any(isinstance(each, Word) for each in stage.columns):
        return _encode_words(stage, step)
    columns, kept, first = [], [], 0
    dropped = [None] * len(step.categories_) if step.drop_idx_ is None else step.drop_idx_
    for at, known, gone in zip(stage.plain(step), step.categories_, dropped, strict=True):
        infrequent = getattr(step, "_infrequent_enabled", False)
        if known.dtype.kind not in "fiub" or len(known) < 2 or infrequent:
            raise LinearError(
                f"OneHotEncoder, column {at}: expected at least 2 categories that are numbers, "
                "none of them infrequent; pass words, and numbers as df[...].astype('category')"
            )
        known = np.asarray(known, np.float64)
        columns.append(Column(at, 0, known[:-1] + np.diff(known) / 2))
        kept += [first + k for k in range(len(known)) if gone is None or k != int(gone)]
        first += len(known)
    found = Stage.of(columns)
    return found if len(kept) == first else found.choose(np.array(kept))


_OF_WORDS = {
    *("Pipeline", "ColumnTransformer", "FunctionTransformer", "OneHotEncoder", "OrdinalEncoder"),
    *("TargetEncoder", "SimpleImputer", "MissingIndicator"),
}

_Reader = Callable[[Stage, Any], Stage]

_READERS: dict[str, _Reader] = {
    "Pipeline": _pipeline,
    "ColumnTransformer": _column_transformer,
    "FunctionTransformer": _function,
    "StandardScaler": lambda stage, step: stage.scale_by(
        step.mean_ if step.with_mean else None, step.scale_
    ),
    "MinMaxScaler": _min_max,
    "MaxAbsScaler": lambda stage, step: stage.scale_by(None, step.scale_),
    "RobustScaler": _robust,
    "PCA": _pca,
    "SplineTransformer": _splines,
    "KBinsDiscretizer": _bins,
    "OneHotEncoder": _one_hot,
    "OrdinalEncoder": _encode_words,
    "TargetEncoder": _target,
    "SimpleImputer": _impute,
    "MissingIndicator": _mark,
    "VarianceThreshold": lambda stage, step: stage.choose(step.get_support(indices=True)),
    "SelectKBest": lambda stage, step: stage.choose(step.get_support(indices=True)),
}


def _numbers(X: Any) -> Floats:
    try:
        found = np.ascontiguousarray(X, np.float64)
    except (TypeError, ValueError) as error:
        raise LinearError(
            f"X is not an array of numbers ({cause(error)}): pass words in a pandas DataFrame"
        ) from None
    if found.ndim != 2 or not np.isfinite(found).all():
        raise LinearError(f"X has shape {found.shape}; expected finite numbers, (rows, features)")
    return found
