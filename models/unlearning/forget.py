"""The rows to forget, and the test rows used as third-party data."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from leaveout.errors import TrainingError
from leaveout.files import TABLE, open_text_file
from leaveout.models.train.data import TrainingData
from leaveout.models.unlearning.classifier import Purpose, generator
from leaveout.written import first_few

_SHOWN = 12


def read_forget(text: str, rows: int, seed: int) -> NDArray[np.int64]:
    """Read the value of ``--forget``."""
    path = Path(text)
    if path.is_file():
        return _check_rows(_numbers_of(path), rows, str(path))
    share = _share(text)
    if share is not None:
        return draw_rows(rows, max(1, round(share * rows)), seed)
    words = [word.strip() for word in text.split(",")]
    if not all(word.isascii() and word.isdigit() for word in words):
        raise TrainingError(
            f"--forget {text}: expected an existing file of row numbers, row numbers such as "
            "3,17 counted from 0, or a share such as 0.05"
        )
    return _check_rows([(int(word), "") for word in words], rows, "--forget")


def draw_rows(rows: int, count: int, seed: int) -> NDArray[np.int64]:
    """Draw the rows to forget, uniformly."""
    if not 0 < count < rows:
        raise TrainingError(
            f"cannot forget {count:,} of {rows:,} rows; expected at least one to "
            "forget and at least one to keep"
        )
    return np.sort(generator(seed, Purpose.FORGET).permutation(rows)[:count]).astype(np.int64)


def rows_of_label(data: TrainingData, name: str) -> NDArray[np.int64]:
    """Return all rows of a label, for ``--forget-class``."""
    if name not in data.labels:
        raise TrainingError(
            f"--forget-class {name}: no such label; the labels are {first_few(data.labels, _SHOWN)}"
        )
    rows = np.flatnonzero(data.y == data.labels.index(name)).astype(np.int64)
    if not len(rows):
        raise TrainingError(f"--forget-class {name}: no training row has this label")
    if len(rows) == len(data.y):
        raise TrainingError(
            f"--forget-class {name}: all {len(rows)} rows have this label, so none would be left "
            "to train on; choose another label"
        )
    return rows


def labels_lost(data: TrainingData, forgotten: NDArray[np.int64]) -> tuple[str, ...]:
    """Return the names of labels without retained rows."""
    left = np.delete(data.y, forgotten)
    gone = np.setdiff1d(data.y, left)
    return tuple(data.labels[label] for label in gone)


def third_party(rows: int, share: float, seed: int) -> NDArray[np.bool_]:
    """Choose the test rows that the unlearner may use."""
    if not 0 < share < 1:
        raise TrainingError(f"--third {share}: expected a number in (0, 1), e.g. 0.5")
    count = round(share * rows)
    if not 0 < count < rows:
        raise TrainingError(
            f"--third {share}: of {rows} test rows, at least one must go to the unlearner and at "
            "least one must be left to evaluate it; add test rows (X_test, y_test)"
        )
    chosen = np.zeros(rows, dtype=np.bool_)
    chosen[generator(seed, Purpose.THIRD).permutation(rows)[:count]] = True
    return chosen


def _share(text: str) -> float | None:
    if not any(mark in text for mark in ".eE"):
        return None
    try:
        share = float(text)
    except ValueError:
        return None
    if not 0 < share < 1:
        raise TrainingError(f"--forget {text}: expected a share in (0, 1), e.g. 0.05")
    return share


def _numbers_of(path: Path) -> list[tuple[int, str]]:
    found: list[tuple[int, str]] = []
    try:
        with open_text_file(path, TABLE) as stream:
            reader = csv.reader(stream)
            for cells in reader:
                words = [cell.strip() for cell in cells if cell.strip()]
                place = f", line {reader.line_num}"
                if reader.line_num == 1 and len(words) == 1 and words[0].isidentifier():
                    continue  # a header such as "row"
                for word in words:
                    if not (word.isascii() and word.isdigit()):
                        raise TrainingError(
                            f"{path}{place}: {word!r} is not a row number; expected whole "
                            "numbers from 0, one per line"
                        )
                    found.append((int(word), place))
    except UnicodeDecodeError:
        raise TrainingError(f"{path}: not text; expected a CSV of row numbers") from None
    except (OSError, csv.Error) as error:
        raise TrainingError(f"{path}: cannot read: {error}") from None
    return found


def _check_rows(found: list[tuple[int, str]], rows: int, where: str) -> NDArray[np.int64]:
    """Return row numbers; raise if they are missing, unknown or repeated."""
    if not found:
        raise TrainingError(f"{where}: names no rows; expected row numbers from 0")
    seen: set[int] = set()
    for number, place in found:
        if number >= rows:
            raise TrainingError(
                f"{where}{place}: no row {number}; the training data has rows 0 to {rows - 1}"
            )
        if number in seen:
            raise TrainingError(f"{where}{place}: row {number} is named twice; name it once")
        seen.add(number)
    if len(seen) == rows:
        raise TrainingError(f"{where}: names all {rows} rows; leave at least one to train on")
    return np.array(sorted(seen), dtype=np.int64)
