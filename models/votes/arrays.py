"""Samples given as numeric arrays."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from leaveout.errors import TrainingError
from leaveout.models.arrays import rows_and_labels, same_features
from leaveout.models.votes.ballots import MOST_LABELS
from leaveout.models.votes.features import ArrayFeatures
from leaveout.models.votes.hashing import array_keys, held_out
from leaveout.models.votes.origin import Assumption
from leaveout.models.votes.samples import (
    BadRows,
    Samples,
    bad_row_assumption,
    checked_names,
    checked_truth,
    number_labels,
    refuse_measurements,
    rows_with_known_labels,
)

_LARGEST = np.finfo(np.float32).max

_PLAIN = Assumption(
    text="what was done to the features before the file was written did not look at any of "
    "its training rows: values are taken as they are",
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
        All labels there are, as numbers in text; None: 0 to the largest of ``y``.
    bad_rows : {"refuse", "skip"}
        What becomes of training rows whose values are not finite float32 numbers, or whose label
        is no whole number.

    Raises
    ------
    TrainingError
        If a value is not a finite float32 number, shapes differ, or a test row's label is none of
        the labels.
    """
    train, words, places, left_aside = _training(source, ("X_train", "y_train"), X, y, bad_rows)
    test, answers = _rows(source, ("X_test", "y_test"), X_test, y_test)
    same_features(source, train, test)
    names, assumption = _names(source, "y_train", words, places, labels)
    truth = checked_truth(answers, names, lambda row: f"{source}: 'y_test' row {row}")
    return Samples(
        keys=array_keys(train),
        y=number_labels(words, names),
        words=words,
        truth=truth,
        labels=names,
        features=ArrayFeatures(np.vstack([train, test])),
        source=source,
        assumptions=(_PLAIN, bad_row_assumption(bad_rows, "row"), assumption),
        left_aside=left_aside,
    )


def samples_from_share(
    X: NDArray[np.generic],  # shape (rows, features)
    y: NDArray[np.generic],  # shape (rows,)
    share: float,
    *,
    names: tuple[str, str] = ("X", "y"),
    labels: Sequence[str] | None = None,
    hash_key: str = "",
    source: str = "arrays",
    bad_rows: BadRows = "refuse",
) -> Samples:
    """Return samples from rows of numbers, holding out test rows by their hash."""
    values, words, places, left_aside = _training(source, names, X, y, bad_rows)
    keys = array_keys(values)
    out = held_out(keys, share, hash_key)
    kept = np.flatnonzero(~out).tolist()
    # Sorted, so that the order of the file has no say in theirs either.
    tests = sorted(np.flatnonzero(out).tolist(), key=lambda row: (keys[row], words[row], row))
    if not kept or not tests:
        raise TrainingError(f"{source}: no row is left to train or to test on; add rows")
    given = tuple(words[row] for row in kept)
    known, assumption = _names(source, names[1], given, [places[row] for row in kept], labels)
    if bad_rows == "skip":
        right, lost = rows_with_known_labels([words[row] for row in tests], known)
        tests, left_aside = [tests[place] for place in right], (*left_aside, *lost)
        if not tests:
            raise TrainingError(f"{source}: no row is left to test on; add rows")
    truth = checked_truth(
        [words[row] for row in tests],
        known,
        lambda row: f"{source}: {names[1]!r} row {places[tests[row]]}, held out to test on",
    )
    return Samples(
        keys=[keys[row] for row in kept],
        y=number_labels(given, known),
        words=given,
        truth=truth,
        labels=known,
        features=ArrayFeatures(values[[*kept, *tests]]),
        source=source,
        assumptions=(_PLAIN, bad_row_assumption(bad_rows, "row"), assumption),
        left_aside=left_aside,
    )


def _training(
    source: str,
    names: tuple[str, str],
    X: NDArray[np.generic],
    y: NDArray[np.generic],
    bad_rows: BadRows,
) -> tuple[NDArray[np.float64], tuple[str, ...], Sequence[int], tuple[str, ...]]:
    """Return rows and labels, their positions in the arrays, and what was skipped.

    An invalid label is an empty word: the row stays a sample, or a relabel would move others.
    """
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
            f"{lost} row{'s' * (lost != 1)} of {names[0]!r} left aside: not all finite numbers in "
            f"the range of float32 (the first is row {int(np.argmin(fine))})",
        )
    return values, words, kept.tolist(), left_aside


def _rows(
    source: str, names: tuple[str, str], X: NDArray[np.generic], y: NDArray[np.generic]
) -> tuple[NDArray[np.float64], tuple[str, ...]]:
    """Return numbers as float64 and labels as text, or refuse unusable ones."""
    if X.dtype.kind in "fiub" and X.dtype.itemsize > 8:
        raise TrainingError(
            f"{source}: {names[0]!r} is {X.dtype}, expected numbers that float64 holds; save it as "
            f"{names[0]}.astype(float)"
        )
    values, labels = rows_and_labels(source, names, X, y, np.float64)
    if not len(values):
        raise TrainingError(f"{source}: {names[0]!r} has no row; add some")
    # Adding 0 takes the sign off a zero, which no key shows either.
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
        # Before there is a name for each up to the largest.
        if largest >= MOST_LABELS:
            raise TrainingError(
                f"{source}: {name!r} row {rows[numbers.index(largest)]} is {largest}, expected a "
                f"label 0 to {MOST_LABELS - 1}; number the labels from 0, or say which there are "
                "with --labels"
            )
        refuse_measurements(f"{source}: {name!r}", words, sorted(set(words) - {""}))
        names = tuple(map(str, range(largest + 1)))
    else:
        names = tuple(label.strip() for label in labels)
        for label in names:
            if not (label.isascii() and label.isdigit() and str(int(label)) == label):
                raise TrainingError(
                    f"--labels {','.join(names)}: {label!r} is not a label of {source}; expected "
                    "numbers, as in --labels 0,1,2"
                )
    return checked_names(source, names, given=labels is not None)
