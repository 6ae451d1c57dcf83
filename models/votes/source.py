"""Reading of the user's data file into samples."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import get_args

from leaveout.errors import TrainingError
from leaveout.models.archive import expect_arrays, holds_archive, read_archive
from leaveout.models.votes.arrays import samples_from_arrays, samples_from_share
from leaveout.models.votes.samples import BadRows, Samples
from leaveout.models.votes.table import table_samples

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
) -> Samples:
    """Read a CSV or an NPZ file, distinguished by content.

    Parameters
    ----------
    path : Path or str
        A CSV with a header, or an NPZ with ``X_train, y_train, X_test, y_test``, or with ``X, y``
        and a ``test_share``.
    label : str or None
        The CSV's column to predict.
    test : Path or str or None
        A CSV of rows to test on, with the same columns.
    test_share : float or None
        Share of the rows to test on instead; the hash of a row's values says which.
    labels : sequence of str or None
        All labels there are; None: those in the file.
    hash_key : str
        Of the hash that holds rows out.
    encoding : Path or str or None
        A CSV whose rows decide the features of every part; None: the rows of a part decide its own.
    bad_rows : {"refuse", "skip"}
        What becomes of rows that may be the attacker's and cannot be read: too few or too many
        cells, an open quote, bytes that are no text; in arrays a number that is not finite, or a
        label that is no whole number. With ``"skip"`` each is left aside by itself, so that an
        edit that inserts one reaches no member; a row of a CSV is then a line of it.

    Raises
    ------
    TrainingError
        If it cannot be read or used, with the place and the cure.
    """
    source = Path(path)
    if test is not None and test_share is not None:
        raise TrainingError("--test and --test-share both say what to test on; drop one")
    if test_share is not None and not 0 < test_share < 1:
        raise TrainingError(f"--test-share {test_share}: expected a share in (0, 1), as in 0.2")
    if bad_rows not in get_args(BadRows):
        raise TrainingError(f"--bad-rows {bad_rows}: expected refuse or skip")
    if holds_archive(source, TrainingError):
        if test is not None:
            raise TrainingError(
                f"{source}: an NPZ has its test rows in X_test and y_test; drop --test"
            )
        if encoding is not None:
            raise TrainingError(f"{source}: an NPZ is used as it is; drop --encoding")
        if label is not None:
            raise TrainingError(f"{source}: an NPZ has its labels in y_train; drop --label")
        try:
            return _read_npz(source, test_share, labels, hash_key, bad_rows)
        except MemoryError:
            raise TrainingError(f"{source}: the samples do not fit into memory") from None
    tests = None if test is None else Path(test)
    basis = None if encoding is None else Path(encoding)
    return table_samples(source, label, tests, test_share, labels, hash_key, bad_rows, basis)


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
        raise TrainingError(f"{source}: has test rows in X_test already; drop --test-share")
    return samples_from_share(
        arrays[names[0]],
        arrays[names[1]],
        share,
        names=(names[0], names[1]),
        labels=labels,
        hash_key=hash_key,
        source=str(source),
        bad_rows=bad_rows,
    )
