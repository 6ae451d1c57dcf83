"""Samples given as arrays of numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from leaveout.errors import TrainingError
from leaveout.models.votes.features import ArrayFeatures
from leaveout.models.votes.hashing import array_keys
from leaveout.models.votes.origin import Assumption
from leaveout.models.votes.samples import Samples, checked_names, checked_truth, number_labels

__all__ = ["samples_from_arrays"]

_LARGEST = float(np.finfo(np.float32).max)


def samples_from_arrays(
    X: NDArray[np.generic],
    y: NDArray[np.generic],
    X_test: NDArray[np.generic],
    y_test: NDArray[np.generic],
    *,
    labels: Sequence[str] | None = None,
    source: str = "arrays",
) -> Samples:
    """Take rows of numbers as they are.

    Parameters
    ----------
    X, X_test : ndarray of numbers, shape (rows, features)
        A sample is its values as float64.
    y, y_test : ndarray of integers, shape (rows,)
    labels : sequence of str or None
        All labels there are, as numbers in text; None: 0 to the largest of ``y``.

    Raises
    ------
    TrainingError
        If a value is not a finite float32 number, shapes differ, or a test row's label is none of
        the labels.
    """
    train, test = _values(source, "X_train", X), _values(source, "X_test", X_test)
    if train.shape[1] != test.shape[1]:
        raise TrainingError(
            f"{source}: 'X_test' has {test.shape[1]} features, 'X_train' has {train.shape[1]}"
        )
    words = _words(source, "y_train", y, len(train))
    answers = _words(source, "y_test", y_test, len(test))
    names, assumption = _names(source, words, labels)
    plain = Assumption(
        text="what was done to the features before the file was written did not look at any of "
        "its training rows: values are taken as they are",
        checked=False,
    )
    return Samples(
        keys=array_keys(train),
        y=number_labels(words, names),
        words=words,
        truth=checked_truth(answers, names, lambda row: f"{source}: 'y_test' row {row}"),
        labels=names,
        features=ArrayFeatures(np.vstack([train, test])),
        source=source,
        assumptions=(plain, assumption),
    )


def _values(source: str, name: str, raw: NDArray[np.generic]) -> NDArray[np.float64]:
    """Return numbers as float64, or say which cannot be used."""
    if raw.ndim != 2 or not raw.shape[1] or raw.dtype.kind not in "fiub" or raw.dtype.itemsize > 8:
        raise TrainingError(
            f"{source}: {name!r} is {raw.dtype} of shape {raw.shape}, expected numbers of shape "
            "(rows, features)"
        )
    if not len(raw):
        raise TrainingError(f"{source}: {name!r} has no row; add some")
    # Adding 0 takes the sign off a zero, which no key shows either.
    values = np.ascontiguousarray(raw, dtype=np.float64) + 0.0
    wrong = ~(np.abs(values) <= _LARGEST)
    if wrong.any():
        row, column = (int(i) for i in np.argwhere(wrong)[0])
        raise TrainingError(
            f"{source}: {name!r} row {row}, column {column} is {values[row, column]}, expected a "
            "finite number of the range of float32; fill it in, or drop the row"
        )
    return values


def _words(source: str, name: str, raw: NDArray[np.generic], rows: int) -> tuple[str, ...]:
    if raw.ndim != 1 or raw.dtype.kind not in "fiub":
        raise TrainingError(
            f"{source}: {name!r} is {raw.dtype} of shape {raw.shape}, expected whole numbers of "
            "shape (rows,)"
        )
    if len(raw) != rows:
        raise TrainingError(
            f"{source}: {name!r} has {len(raw)} rows where the features have {rows}; expected as "
            "many"
        )
    values = raw.astype(np.float64)
    wrong = ~((values >= 0) & (values < 2**31) & (np.floor(values) == values))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise TrainingError(
            f"{source}: {name!r} row {row} is {raw[row]}, expected a label 0, 1, 2, ...; number "
            "the labels from 0"
        )
    return tuple(map(str, raw.astype(np.int64).tolist()))


def _names(
    source: str, words: Sequence[str], labels: Sequence[str] | None
) -> tuple[tuple[str, ...], Assumption]:
    if labels is None:
        names = tuple(map(str, range(max(map(int, words)) + 1)))
    else:
        names = tuple(label.strip() for label in labels)
        for name in names:
            if not (name.isascii() and name.isdigit() and str(int(name)) == name):
                raise TrainingError(
                    f"--labels {','.join(names)}: {name!r} is not a label of {source}; expected "
                    "numbers, as in --labels 0,1,2"
                )
    return checked_names(source, names, given=labels is not None)
