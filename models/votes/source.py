"""Reading the user's data file into samples."""

from __future__ import annotations

import contextlib
import csv
from collections import Counter
from collections.abc import Container, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from leaveout.errors import TrainingError
from leaveout.files import TABLE, open_file, refuse_unread
from leaveout.models.archive import expect_arrays, holds_archive, read_archive
from leaveout.models.ballots import AS_ONE_EDIT, MOST_LABELS, Assumption
from leaveout.models.reading import (
    PLAIN,
    Reading,
    Rows,
    drop_columns,
    is_blank,
    read_table,
    refuse_for_archive,
)
from leaveout.models.table import Table, check_header, rows_and_labels, same_features
from leaveout.models.votes.features import ArrayFeatures, TableFeatures, column_of
from leaveout.models.votes.samples import (
    BadRows,
    Samples,
    array_keys,
    bad_row_assumption,
    cell_keys,
    checked_names,
    checked_truth,
    file_name,
    held_out,
    number_labels,
    refuse_measurements,
    rows_with_known_labels,
)

_LARGEST = np.finfo(np.float32).max

_PLAIN = Assumption(
    text="any processing of the features before the file was written did not look at any of its "
    "training rows: values are used unchanged",
    checked=False,
)


def samples_from_arrays(
    X: NDArray[np.generic],
    y: NDArray[np.generic],
    X_test: NDArray[np.generic],
    y_test: NDArray[np.generic],
    *,
    labels: Sequence[str] | None = None,
    source: str = "arrays",
    bad_rows: BadRows = "refuse",
) -> Samples:
    """Return samples from rows of numbers, unchanged.

    Parameters
    ----------
    X, X_test : ndarray of numbers, shape (rows, features)
        A sample is its values as float64.
    y, y_test : ndarray of integers, shape (rows,)
    labels : sequence of str or None
        All labels, as numbers in text; None for 0 to the largest of ``y``.
    bad_rows : {"refuse", "skip"}
        Handling of training rows with values that are not finite float32 numbers, or with a label
        that is not a whole number.

    Raises
    ------
    TrainingError
        If a value is not a finite float32 number, shapes differ, or a test row's label is unknown.
    """
    train, words, places, left_aside = _training(source, ("X_train", "y_train"), X, y, bad_rows)
    test, answers = _rows(source, ("X_test", "y_test"), X_test, y_test)
    same_features(source, train, test)
    names, assumption = _names(source, "y_train", words, places, labels)
    truth = checked_truth(answers, names, lambda row: f"{source}: 'y_test' row {row}")
    assumptions = (_PLAIN, bad_row_assumption(bad_rows, "row"), assumption)
    return _array_samples(source, train, words, test, truth, names, assumptions, left_aside)


def _array_samples(
    source: str,
    train: NDArray[np.float64],
    words: tuple[str, ...],
    test: NDArray[np.float64],
    truth: NDArray[np.int32],
    names: tuple[str, ...],
    assumptions: tuple[Assumption, ...],
    left_aside: tuple[str, ...],
) -> Samples:
    return Samples(
        keys=array_keys(train),
        y=number_labels(words, names),
        words=words,
        truth=truth,
        labels=names,
        features=ArrayFeatures(np.vstack([train, test])),
        source=source,
        assumptions=assumptions,
        left_aside=left_aside,
    )


def _samples_from_share(
    source: str,
    names: tuple[str, str],
    X: NDArray[np.generic],
    y: NDArray[np.generic],
    share: float,
    labels: Sequence[str] | None,
    hash_key: str,
    bad_rows: BadRows,
) -> Samples:
    """Return samples from rows of numbers; test rows are held out by their hash."""
    values, words, places, left_aside = _training(source, names, X, y, bad_rows)
    keys = array_keys(values)
    out = held_out(keys, share, hash_key)
    kept = np.flatnonzero(~out).tolist()
    # Sorted, so that test rows do not depend on the order of the file, either.
    tests = sorted(np.flatnonzero(out).tolist(), key=lambda row: (keys[row], words[row], row))
    if not kept or not tests:
        raise TrainingError(f"{source}: no rows left for training or testing; add rows")
    given = tuple(words[row] for row in kept)
    known, assumption = _names(source, names[1], given, [places[row] for row in kept], labels)
    if bad_rows == "skip":
        right, lost = rows_with_known_labels([words[row] for row in tests], known)
        tests, left_aside = [tests[place] for place in right], (*left_aside, *lost)
        if not tests:
            raise TrainingError(f"{source}: no rows left for testing; add rows")
    truth = checked_truth(
        [words[row] for row in tests],
        known,
        lambda row: f"{source}: {names[1]!r} row {places[tests[row]]}, held out for testing",
    )
    assumptions = (_PLAIN, bad_row_assumption(bad_rows, "row"), assumption)
    return _array_samples(
        source, values[kept], given, values[tests], truth, known, assumptions, left_aside
    )


def _training(
    source: str,
    names: tuple[str, str],
    X: NDArray[np.generic],
    y: NDArray[np.generic],
    bad_rows: BadRows,
) -> tuple[NDArray[np.float64], tuple[str, ...], Sequence[int], tuple[str, ...]]:
    """Return rows, labels (empty if invalid, so that none moves), places, and what is skipped."""
    numbers = X.ndim == 2 and X.dtype.kind in "fiub" and y.dtype.kind in "fiub"
    if bad_rows == "refuse" or not numbers or y.shape != X.shape[:1]:
        return *_rows(source, names, X, y), range(len(X)), ()
    with np.errstate(invalid="ignore"):
        fine = (np.abs(X.astype(np.float64)) <= _LARGEST).all(axis=1)
        labels = y.astype(np.float64)
        known = (labels >= 0) & (labels < 2**31) & (np.floor(labels) == labels)
    kept = np.flatnonzero(fine)
    values, words = _rows(source, names, X[kept], np.where(known, y, 0)[kept])
    words = tuple(word if known[row] else "" for word, row in zip(words, kept, strict=True))
    left_aside: tuple[str, ...] = ()
    if lost := int((~fine).sum()):
        left_aside = (
            (
                f"{lost} row{'s' * (lost != 1)} of {names[0]!r} skipped: not all values are finite "
                f"numbers in the range of float32 (the first is row {int(np.argmin(fine))})"
            ),
        )
    return values, words, kept.tolist(), left_aside


def _rows(
    source: str, names: tuple[str, str], X: NDArray[np.generic], y: NDArray[np.generic]
) -> tuple[NDArray[np.float64], tuple[str, ...]]:
    """Return numbers as float64 and labels as text, or refuse unusable ones."""
    if X.dtype.kind in "fiub" and X.dtype.itemsize > 8:
        raise TrainingError(
            f"{source}: {names[0]!r} is {X.dtype}; expected numbers that fit float64; save it as "
            f"{names[0]}.astype(float)"
        )
    values, labels = rows_and_labels(source, names, X, y, np.float64)
    if not len(values):
        raise TrainingError(f"{source}: {names[0]!r} has no rows; add some")
    # Adding 0 removes the sign of zeros, as in the keys.
    return values + 0.0, tuple(map(str, labels.tolist()))


def _names(
    source: str,
    name: str,
    words: Sequence[str],
    rows: Sequence[int],
    labels: Sequence[str] | None,
) -> tuple[tuple[str, ...], Assumption]:
    """Return the labels; ``rows`` locate ``words`` in the array for messages."""
    if labels is None:
        numbers = [int(word) if word else -1 for word in words]
        largest = max(numbers)
        # Checked before a name is made for each label up to the largest.
        if largest >= MOST_LABELS:
            raise TrainingError(
                f"{source}: {name!r} row {rows[numbers.index(largest)]} is {largest}; expected a "
                f"label 0 to {MOST_LABELS - 1}; number the labels from 0, or list them with "
                "--labels"
            )
        refuse_measurements(f"{source}: {name!r}", words, sorted(set(words) - {""}))
        names = tuple(map(str, range(largest + 1)))
    else:
        names = tuple(label.strip() for label in labels)
        for label in names:
            if not (label.isascii() and label.isdigit() and str(int(label)) == label):
                raise TrainingError(
                    f"--labels {','.join(names)}: {label!r} is not a label of {source}; expected "
                    "numbers, e.g. --labels 0,1,2"
                )
    return checked_names(source, names, given=labels is not None)


_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def read_lines(path: Path, reading: Reading = PLAIN) -> tuple[Table, tuple[str, ...]]:
    """Read a table line by line: an open quote swallows none. Skip lines that are no rows."""
    every: list[str] | None = None
    kept: list[int] = []
    rows: list[list[str]] = []
    lines: list[int] = []
    reasons: Counter[str] = Counter()
    first: dict[str, int] = {}
    with refuse_unread(TrainingError, path):
        for number, content in enumerate(_contents(path), start=1):
            if every is None:
                every, reading = _header(path, content, reading)
                header, kept = drop_columns(path, every, reading.drop)
            else:
                found = _cells(content, len(every), kept, reading)
                if isinstance(found, str):
                    reasons[found] += 1
                    first.setdefault(found, number)
                elif found:
                    rows.append(found)
                    lines.append(number)
    if every is None:
        header = _header(path, b"", reading)[0]
    return Table.of_rows(path, header, rows, lines), tuple(
        f"{count} line{'s' * (count != 1)} skipped: {why} (the first is line {first[why]})"
        for why, count in sorted(reasons.items())
    )


def _contents(path: Path) -> Iterator[bytes]:
    """Yield lines without their line ends, of any kind."""
    with open_file(path, TABLE) as stream:
        for place, chunk in enumerate(stream):
            content = chunk.removeprefix(_BYTE_ORDER_MARK) if not place else chunk
            yield from content.splitlines()


def _header(path: Path, content: bytes, reading: Reading) -> tuple[list[str], Reading]:
    """Return the header, and how the lines below it are read."""
    text = content.decode(reading.charset or "utf-8", errors="replace")
    reading = replace(reading, separator=reading.separator_of(text))
    if text.startswith("\ufeff") or "\0" in text:
        raise TrainingError(
            f"{path}: looks like UTF-16, whose lines cannot be skipped one by one; convert it to "
            "UTF-8"
        )
    found = _parse_line(content, reading)
    if isinstance(found, str):
        raise TrainingError(f"{path}, line 1: cannot read the header: {found}")
    header = [name.strip() for name in found]
    check_header(path, header)
    return header, reading


def _cells(content: bytes, columns: int, kept: list[int], reading: Reading) -> list[str] | str:
    """Return a line's cells, empty for a blank line, or why it is not a row."""
    found = _parse_line(content, reading)
    if isinstance(found, str):
        return found
    if not found or (is_blank(found) and columns > 1):
        return []
    if len(found) != columns:
        return f"not {columns} cells as in the header"
    try:
        return [reading.number_text(found[at].strip()) for at in kept]
    except ValueError:
        return "a number with a decimal point"


def _parse_line(content: bytes, reading: Reading) -> list[str] | str:
    """Return the cells of a line, or why it cannot be read."""
    try:
        text = content.decode(reading.charset or "utf-8")
    except UnicodeDecodeError:
        return f"not {reading.charset or 'UTF-8'} text"
    try:
        return next(iter(Rows(iter([text]), reading.separator or ",")), [])
    except csv.Error as error:
        return f"not CSV: {error}"


def _table_samples(
    path: Path,
    label: str | None,
    test: Path | None,
    test_share: float | None,
    labels: Sequence[str] | None,
    hash_key: str,
    bad_rows: BadRows,
    encoding: Path | None,
    reading: Reading,
) -> Samples:
    """Return a table's samples: the text of a row's cells but the label's, without blanks."""
    skip = bad_rows == "skip"
    table, left_aside = read_lines(path, reading) if skip else (_whole(path, reading), ())
    if not len(table):
        raise TrainingError("; ".join([f"{path}: no rows below the header", *left_aside]))
    if reading.group:
        table.require(reading.group, "--group names one of its columns")
    label, features = table.label_and_features(label, reading.group or None)
    keys = cell_keys(zip(*(table.column(name) for name in features), strict=True))
    names, assumption = _label_names(table, label, labels, skip)
    train, tests = table, None
    if test is not None:
        tests = _read(test, replace(reading, drop=()), {label, *features})
        for name in [label, *features]:
            tests.require(name, "the test table needs every column of the training table")
    elif test_share is not None:
        out = held_out(_homes(table, reading) or keys, test_share, hash_key)
        # Sorted, so that test rows do not depend on the order of the file, either.
        cells = table.column(label)
        held = sorted((keys[row], cells[row], int(row)) for row in np.flatnonzero(out))
        if skip:
            kept, lost = rows_with_known_labels([word for _, word, _ in held], names)
            held, left_aside = [held[place] for place in kept], (*left_aside, *lost)
        tests = table.take_rows([row for _, _, row in held])
        train = table.take_rows([row for row in range(len(keys)) if not out[row]])
        keys = [key for key, kept in zip(keys, ~out, strict=True) if kept]
    else:
        raise TrainingError(
            f"{path}: no test rows: pass --test FILE, or --test-share 0.2 to hold out a share of "
            "the rows"
        )
    for each in (train, tests):
        if not len(each):
            raise TrainingError(f"{each.path}: no rows left for training or testing; add rows")
    basis = None if encoding is None else _basis(encoding, features, reading)
    words, answers = train.column(label), tests.column(label)
    header = Assumption(
        text=f"a change of the training set adds or removes rows of {file_name(path)}, but does "
        "not change its header",
        checked=False,
    )
    further = []
    if basis is not None:
        text = (
            f"ranges and categories of columns come from {file_name(basis.path)}, which a change "
            "of the training set does not affect"
        )
        further.append(Assumption(text=text, checked=False))
    if reading.group:
        text = f"rows with the same {reading.group!r} are in the same part, so that {AS_ONE_EDIT}"
        further.append(Assumption(text=text, checked=True))
    return Samples(
        keys=keys,
        y=number_labels(words, names),
        words=tuple(words),
        truth=checked_truth(answers, names, lambda row: tests.at(row, label)),
        labels=names,
        features=_features(features, [train, tests], basis),
        source=str(path),
        assumptions=(
            header,
            bad_row_assumption(bad_rows, "line"),
            assumption,
            *further,
        ),
        left_aside=left_aside,
        group=reading.group,
        homes=_homes(train, reading),
    )


def _homes(table: Table, reading: Reading) -> list[bytes]:
    """Return the group of each row; nothing if rows have none."""
    return cell_keys((cell,) for cell in table.column(reading.group)) if reading.group else []


def _whole(path: Path, reading: Reading) -> Table:
    """Read a table; if it is refused, mention that bad lines can be skipped."""
    try:
        return read_table(path, reading=reading)
    except TrainingError as error:
        refused = error
    with contextlib.suppress(TrainingError):
        found, left_aside = read_lines(path, reading)
        if len(found) and left_aside:
            refused = TrainingError(f"{refused}, or skip such lines with --bad-rows skip")
    raise refused


def _basis(path: Path, features: Sequence[str], reading: Reading) -> Table:
    table = _read(path, replace(reading, drop=()), set(features))
    for name in features:
        table.require(name, "the --encoding table needs every column but the label")
    return table


def _features(names: Sequence[str], tables: Sequence[Table], basis: Table | None) -> TableFeatures:
    """Return the rows of several tables, followed by those of the basis."""
    every = [*tables, *([] if basis is None else [basis])]
    columns = tuple(
        column_of(name, [cell for table in every for cell in table.column(name)]) for name in names
    )
    if basis is None:
        return TableFeatures(columns)
    count = sum(len(table) for table in tables)
    return TableFeatures(columns, np.arange(count, count + len(basis)))


def _read(path: Path, reading: Reading, only: Container[str]) -> Table:
    """Read a table that the attacker cannot change; every line must be readable."""
    table = read_table(path, reading=reading, only=only)
    if not len(table):
        raise TrainingError(f"{path}: no rows below the header")
    return table


def _label_names(
    table: Table, label: str, given: Sequence[str] | None, skip: bool
) -> tuple[tuple[str, ...], Assumption]:
    if given is not None:
        return checked_names(str(table.path), [name.strip() for name in given], given=True)
    cells = table.column(label)
    if "" in cells and not skip:
        raise TrainingError(
            f"{table.at(cells.index(''), label)}: missing label; drop the row, or skip such rows "
            "with --bad-rows skip"
        )
    named = table.take_rows([row for row, cell in enumerate(cells) if cell])
    checked = checked_names(str(table.path), named.labels(label), given=False)
    refuse_measurements(f"{table.path}, column {label!r}", named.column(label), checked[0])
    return checked


_EXPECTED = "X_train, y_train, X_test and y_test, or X and y with --test-share"


def read_samples(
    path: Path | str,
    *,
    label: str | None = None,
    test: Path | str | None = None,
    test_share: float | None = None,
    labels: Sequence[str] | None = None,
    hash_key: str = "",
    encoding: Path | str | None = None,
    bad_rows: BadRows = "refuse",
    reading: Reading = PLAIN,
) -> Samples:
    """Read a CSV or an NPZ file, distinguished by content.

    Parameters
    ----------
    path : Path or str
        A CSV with a header, or an NPZ with ``X_train, y_train, X_test, y_test``, or ``X, y`` with a
        ``test_share``.
    label : str or None
        The CSV's column to predict.
    test : Path or str or None
        A CSV of test rows, with the same columns.
    test_share : float or None
        Alternatively, the share of test rows, selected by the hash of a row's values.
    labels : sequence of str or None
        All labels; None for those in the file.
    hash_key : str
        Key of the hash that selects test rows.
    encoding : Path or str or None
        A CSV whose rows determine the features of all parts; None if each part's rows determine its
        features.
    bad_rows : {"refuse", "skip"}
        Handling of unreadable rows that may be the attacker's: too few or too many cells, an open
        quote, bytes that are not text; in arrays a number that is not finite, or a label that is
        not a whole number. ``"skip"`` skips only these, so that inserting one reaches no member;
        each line of a CSV is then one row.

    reading : Reading
        How a CSV is read; nothing of it is guessed from rows, which may be the attacker's.

    Raises
    ------
    TrainingError
        If it cannot be read or used; the message states the place and the remedy.
    """
    source = Path(path)
    if test is not None and test_share is not None:
        raise TrainingError("--test and --test-share both choose the test rows; drop one")
    if test_share is not None and not 0 < test_share < 1:
        raise TrainingError(f"--test-share {test_share}: expected a share in (0, 1), e.g. 0.2")
    if bad_rows not in get_args(BadRows):
        raise TrainingError(f"--bad-rows {bad_rows}: expected refuse or skip")
    if holds_archive(source, TrainingError):
        if test is not None:
            raise TrainingError(
                f"{source}: an NPZ keeps its test rows in X_test and y_test; drop --test"
            )
        if encoding is not None:
            raise TrainingError(f"{source}: an NPZ is used unchanged; drop --encoding")
        refuse_for_archive(source, reading.set_options)
        if label is not None:
            raise TrainingError(f"{source}: an NPZ keeps its labels in y_train; drop --label")
        try:
            return _read_npz(source, test_share, labels, hash_key, bad_rows)
        except MemoryError:
            raise TrainingError(f"{source}: the samples do not fit in memory") from None
    tests = None if test is None else Path(test)
    basis = None if encoding is None else Path(encoding)
    return _table_samples(
        source, label, tests, test_share, labels, hash_key, bad_rows, basis, reading
    )


def _read_npz(
    source: Path,
    share: float | None,
    labels: Sequence[str] | None,
    hash_key: str,
    bad_rows: BadRows,
) -> Samples:
    arrays = read_archive(source, TrainingError)
    if share is None:
        names = ["X_train", "y_train", "X_test", "y_test"]
        expect_arrays(source, arrays, TrainingError, names, expected=_EXPECTED)
        X, y, X_test, y_test = (arrays[name] for name in names)
        return samples_from_arrays(
            X, y, X_test, y_test, labels=labels, source=str(source), bad_rows=bad_rows
        )
    names = ["X_train", "y_train"] if "X_train" in arrays else ["X", "y"]
    expect_arrays(source, arrays, TrainingError, names, expected=_EXPECTED)
    if "X_test" in arrays:
        raise TrainingError(f"{source}: already has test rows in X_test; drop --test-share")
    X, y = (arrays[name] for name in names)
    return _samples_from_share(
        str(source), (names[0], names[1]), X, y, share, labels, hash_key, bad_rows
    )
