"""Ballots: base classifiers' labels of test points, and the true labels."""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from leaveout.errors import BallotError
from leaveout.files import TABLE, read_whole, why_unread
from leaveout.models.archive import (
    MANIFEST,
    expect_arrays,
    holds_archive,
    manifest_array,
    read_archive,
    read_manifest,
    write_archive,
)

Method = Literal["dpa", "ss_dpa", "finite_aggregation", "hash_bagging"]

Against = Literal["edits", "insertions", "removals", "relabels"]
"""A kind of change that thresholds count; "edits" are insertions and removals in any mixture."""


AS_ONE_EDIT = "all changes of them together count as one edit"
"""The end of the assumption that a group's rows are in one part."""


class Assumption(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An assumption of a certificate beyond the ballots.

    Attributes
    ----------
    text : str
        As a sentence.
    checked : bool
        Whether the program verified it; otherwise it is trusted.
    """

    text: str
    checked: bool


class Origin(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the members were trained; each field may be unknown.

    Attributes
    ----------
    method : {"dpa", "ss_dpa", "finite_aggregation", "hash_bagging"} or None
        DPA, Finite Aggregation and hash bagging train on parts of the samples, SS-DPA on all
        samples with the labels of a part.
    hash_reads_label : bool or None
        Whether a sample's part depends on its label.
    distinct_samples : bool or None
        Whether no two training rows are the same sample, or such rows were merged; SS-DPA relies on
        this (Levine and Feizi, appendix G).
    offsets : tuple of int
        Finite Aggregation: a sample with hash h reaches the members (h + offset) mod parts.
        Empty for a plain partition.
    families : tuple of int
        Hash bagging: members of each family, one family after another; a sample reaches at most one
        of each. Empty for a plain partition.
    sizes : tuple of int
        Training rows of each member; empty if unknown.
    learner : str
        Name and parameters of the learner.
    seed : int or None
        Seed of the first member; member i has ``seed + i``.
    data_sha256 : str
        Digest of the training rows in sorted order.
    label_names : tuple of str
        One name per label; empty if unknown.
    hash : str
        The hash that assigns samples to parts, with all that is needed to recompute it.
    undefended_right : int or None
        Test points answered correctly by the undefended model: the same learner, trained on all
        rows as one model. Nothing is certified about it; None if it was not trained.
    versions : tuple of str
        Versions of the programs that trained the members, such as ``numpy 2.4.0``.
    notes : tuple of str
        What else was done or omitted, one sentence each.
    assumptions : tuple of Assumption
    thresholds_against : {"edits", "insertions", "removals", "relabels"} or None
        The kind of change that the members' thresholds count; None for edits.
    thresholds_exact_to : int or None
        Thresholds up to this number are exact, and the next larger number means "at least that
        many"; None if all are exact.
    """

    method: Method | None = None
    hash_reads_label: bool | None = None
    distinct_samples: bool | None = None
    offsets: tuple[int, ...] = ()
    families: tuple[int, ...] = ()
    sizes: tuple[int, ...] = ()
    learner: str = ""
    seed: int | None = None
    data_sha256: str = ""
    label_names: tuple[str, ...] = ()
    hash: str = ""
    undefended_right: int | None = None
    versions: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    assumptions: tuple[Assumption, ...] = ()
    thresholds_against: Against | None = None
    thresholds_exact_to: int | None = None

    @property
    def group_words(self) -> str:
        """What an edit is where rows of a group are in one part; else empty."""
        found = (each.text for each in self.assumptions if each.text.endswith(AS_ONE_EDIT))
        return next(found, "")


UNREACHABLE = -1
"""The threshold of a vote that no number of edits can cause."""

MOST_LABELS = 2**15
"""Most labels."""


@dataclass(frozen=True, eq=False)
class Ballots:
    """A table of votes, with a row per test point and a column per member.

    Attributes
    ----------
    votes : ndarray of int32, shape (points, parts)
    truth : ndarray of int32, shape (points,)
    labels : int
        Number of labels; votes and truth are 0 to ``labels - 1``.
    scores : ndarray of float, shape (points, parts, labels), or None
        Each member's scores, as read; `scores_of` checks them before they are compared.
    thresholds : ndarray of int32, shape (points, parts, labels), or None
        Edits within its part that make a member vote a label: 0 for its present vote, `UNREACHABLE`
        if none suffice. ``origin`` states which changes are counted, and up to where they are
        exact.
    origin : Origin
    source : str
        File, for messages.

    Raises
    ------
    BallotError
        If shapes or numbers are not those of ballots.
    """

    votes: NDArray[np.int32]
    truth: NDArray[np.int32]
    labels: int
    scores: NDArray[np.floating] | None = None
    thresholds: NDArray[np.int32] | None = None
    origin: Origin = field(default_factory=Origin)
    source: str = "ballots"

    def __post_init__(self) -> None:
        if self.votes.ndim != 2 or self.truth.shape != self.votes.shape[:1]:
            raise BallotError(
                f"{self.source}: ballots of shape {self.votes.shape} and truth of shape "
                f"{self.truth.shape}; expected (points, parts) and (points,)"
            )
        if not len(self.votes):
            raise BallotError(f"{self.source}: no test points; add one row per test point")
        if self.parts < (2 if self.thresholds is None else 1):
            raise BallotError(
                f"{self.source}: {self.parts} part{'s' * (self.parts != 1)}: one edit could "
                "change every answer, so nothing can be certified; train on at least 2 parts, "
                "or add an array 'thresholds' (points, parts, labels) with the edits that the "
                "one member withstands"
            )
        if not 2 <= self.labels <= MOST_LABELS:
            raise BallotError(
                f"{self.source}: 'labels' is {self.labels}; expected the number of labels, 2 to "
                f"{MOST_LABELS:,}"
            )
        self._in_range(self.votes, "ballots")
        self._in_range(self.truth, "truth")
        if self.scores is not None:
            self._check_shape(self.scores.shape, "scores")
        self._check_origin()
        self._check_thresholds()

    @property
    def points(self) -> int:
        """The number of test points."""
        return int(self.votes.shape[0])

    @property
    def parts(self) -> int:
        """The number of members that vote."""
        return int(self.votes.shape[1])

    def _in_range(self, array: NDArray[np.int32], name: str) -> None:
        wrong = (array < 0) | (array >= self.labels)
        if not wrong.any():
            return
        place = tuple(int(i) for i in np.argwhere(wrong)[0])
        part = f", part {place[1]}" if len(place) > 1 else ""
        label = int(array[place])
        cure = "number the labels from 0" if label < 0 else "or correct 'labels'"
        raise BallotError(
            f"{self.source}: {name!r} of test point {place[0]}{part} is {label}; expected a "
            f"label 0 to {self.labels - 1}; {cure}"
        )

    def scores_of(self, purpose: str) -> NDArray[np.floating]:
        """Return the scores, for methods that compare them; a plurality needs none.

        Parameters
        ----------
        purpose : str
            What needs the scores, for messages.

        Raises
        ------
        BallotError
            If there are none, one is not finite, or a vote is not the label of its member's highest
            score (the smallest such label on a tie).
        """
        if self.scores is None:
            raise BallotError(
                f"{self.source}: no scores; {purpose} needs an array 'scores' (points, parts, "
                "labels)"
            )
        # Point by point, since a boolean array of all scores could be large.
        for point, (row, votes) in enumerate(zip(self.scores, self.votes, strict=True)):
            wrong = ~np.isfinite(row)
            if wrong.any():
                part, label = (int(i) for i in np.argwhere(wrong)[0])
                raise BallotError(
                    f"{self.source}: 'scores' of test point {point}, part {part}, label {label} "
                    f"is {row[part, label]}, but {purpose} compares scores; retrain that member, "
                    "or use dpa, which reads only votes"
                )
            best = row.argmax(axis=1)
            if not np.array_equal(best, votes):
                part = int(np.argmax(best != votes))
                raise BallotError(
                    f"{self.source}: test point {point}, part {part} votes {votes[part]}, but "
                    f"its scores are highest for {best[part]}; in {purpose} a vote is the label "
                    "of the highest score, on a tie the smaller label"
                )
        return self.scores

    def _check_thresholds(self) -> None:
        if self.thresholds is None:
            return
        self._check_shape(self.thresholds.shape, "thresholds")
        own = np.take_along_axis(self.thresholds, self.votes[:, :, None], axis=2)[:, :, 0]
        wrong = (self.thresholds < UNREACHABLE).any(axis=2) | (own != 0)
        zeros = (self.thresholds == 0).sum(axis=2) != 1
        if (wrong | zeros).any():
            point, part = (int(i) for i in np.argwhere(wrong | zeros)[0])
            raise BallotError(
                f"{self.source}: 'thresholds' of test point {point}, part {part} are "
                f"{self.thresholds[point, part].tolist()}; expected 0 for its vote "
                f"{self.votes[point, part]}, and for every other label the number of edits "
                f"needed, at least 1, or {UNREACHABLE} where none suffice"
            )
        most = self.origin.thresholds_exact_to
        if most is not None and (self.thresholds > most + 1).any():
            point, part, label = (int(i) for i in np.argwhere(self.thresholds > most + 1)[0])
            raise BallotError(
                f"{self.source}: 'thresholds' of test point {point}, part {part}, label {label} "
                f"is {self.thresholds[point, part, label]}, but the manifest states that they "
                f"are exact to {most}; expected at most {most + 1}, which means at least that "
                "many"
            )

    def _check_shape(self, shape: tuple[int, ...], name: str) -> None:
        """Refuse an array of the wrong shape."""
        if shape != (self.points, self.parts, self.labels):
            raise BallotError(
                f"{self.source}: {name!r} has shape {shape}, expected (points, parts, labels) = "
                f"{(self.points, self.parts, self.labels)}"
            )

    def _check_origin(self) -> None:
        offsets = self.origin.offsets
        if len(set(offsets)) != len(offsets) or not all(0 <= o < self.parts for o in offsets):
            raise BallotError(
                f"{self.source}: the offsets {list(offsets)} of Finite Aggregation are not "
                f"distinct whole numbers from 0 to {self.parts - 1}"
            )
        families = self.origin.families
        if families and (min(families) < 1 or sum(families) != self.parts):
            raise BallotError(
                f"{self.source}: the families have {list(families)} members; expected at least 1 "
                f"in each and {self.parts} in total"
            )
        if families and offsets:
            raise BallotError(
                f"{self.source}: contains both offsets of Finite Aggregation and families of "
                "hash bagging; drop one"
            )
        sizes = self.origin.sizes
        if sizes and len(sizes) != self.parts:
            raise BallotError(
                f"{self.source}: {len(sizes)} sizes for {self.parts} parts; expected one per "
                "part, or none"
            )
        names = self.origin.label_names
        if names and len(names) != self.labels:
            raise BallotError(
                f"{self.source}: {len(names)} names for {self.labels} labels; expected one per "
                "label, or none"
            )
        right = self.origin.undefended_right
        if right is not None and not 0 <= right <= self.points:
            raise BallotError(
                f"{self.source}: states that the undefended model answers {right} of "
                f"{self.points} test points correctly"
            )
        if (self.origin.thresholds_exact_to or 0) < 0:
            raise BallotError(
                f"{self.source}: states that thresholds are exact to "
                f"{self.origin.thresholds_exact_to}; expected a whole number of at least 0"
            )


_LABELS = re.compile(r"#\s*labels\s*=\s*(\S+)\s*")
_WHOLE = re.compile(r"[+-]?[0-9]{1,18}")


def read_csv(path: Path) -> Ballots:
    """Read a CSV with the header ``truth,part_0,part_1,...``.

    Without a line ``# labels = 10``, labels are counted from the data, at least two. Unseen larger
    labels have no votes and lose ties, so they do not lower any radius.
    """
    try:
        text = read_whole(path, TABLE).decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError as error:
        raise BallotError(
            f"{path}: byte {error.start} is not UTF-8 text; save the table as UTF-8"
        ) from None
    if not text.strip():
        raise BallotError(f"{path}: is empty; expected the header truth,part_0,part_1,...")
    first, _, rest = text.partition("\n")
    labels, line = None, 1
    if first.lstrip().startswith("#"):
        labels, line = _parse_label_count(path, first), 2
        first, _, rest = rest.partition("\n")
    columns = _header(path, line, first)
    table = _numbers(path, line + 1, columns, rest)
    if not len(table):
        raise BallotError(f"{path}: no rows below the header; add one row per test point")
    large = np.argwhere((table >= MOST_LABELS) | (table < -MOST_LABELS))
    if len(large):
        row, column = (int(i) for i in large[0])
        raise BallotError(
            f"{path}: {columns[column]!r} of test point {row} is {table[row, column]}, far beyond "
            "any label; number the labels from 0"
        )
    if labels is None:
        labels = max(2, int(table.max()) + 1)
    numbers = table.astype(np.int32)
    return Ballots(
        votes=np.ascontiguousarray(numbers[:, 1:]),
        truth=np.ascontiguousarray(numbers[:, 0]),
        labels=labels,
        source=str(path),
    )


def _parse_label_count(path: Path, line: str) -> int:
    """Return the number of labels stated in the first line."""
    match = _LABELS.fullmatch(line.strip())
    if match is None or not re.fullmatch(r"[0-9]{1,9}", match[1]):
        raise BallotError(
            f"{path}, line 1: cannot parse {line.strip()!r}; expected the number of labels, e.g. "
            "'# labels = 10', or the header truth,part_0,part_1,..."
        )
    return int(match[1])


def _header(path: Path, line: int, text: str) -> list[str]:
    names = [name.strip() for name in text.split(",")]
    if names[0] != "truth":
        raise BallotError(
            f"{path}, line {line}: the first column is {names[0]!r}; expected 'truth', the true "
            "label, followed by part_0,part_1,..."
        )
    for index, name in enumerate(names[1:]):
        if name != f"part_{index}":
            again = " (duplicate)" if name in names[1 : index + 1] else ""
            raise BallotError(
                f"{path}, line {line}: column {index + 2} is {name!r}{again}; expected "
                f"'part_{index}'; name the columns truth,part_0,part_1,... in this order"
            )
    return names


def _numbers(path: Path, line: int, columns: list[str], text: str) -> NDArray[np.int64]:
    if not text.strip():
        return np.empty((0, len(columns)), dtype=np.int64)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            table = np.loadtxt(
                StringIO(text), dtype=np.int64, delimiter=",", comments=None, ndmin=2
            )
        if table.shape[1] == len(columns):
            return table
    except (ValueError, OverflowError, Warning):
        pass
    # The table is invalid: a slower pass finds the place.
    rows = []
    for number, content in enumerate(text.split("\n"), start=line):
        if content.strip():
            rows.append(_row(f"{path}, line {number}", columns, content))
    return np.array(rows, dtype=np.int64)


def _row(place: str, columns: list[str], content: str) -> list[int]:
    cells = [cell.strip() for cell in content.split(",")]
    if len(cells) != len(columns):
        raise BallotError(
            f"{place}: {len(cells)} cells; expected {len(columns)} as in the header; fix the line"
        )
    for name, cell in zip(columns, cells, strict=True):
        if not _WHOLE.fullmatch(cell):
            what = f"is {cell!r}, which is not a whole number" if cell else "is missing"
            raise BallotError(f"{place}, column {name!r}: the label {what}; expected 0, 1, 2, ...")
    return [int(cell) for cell in cells]


_VERSION = 1
_NEEDED = ("ballots", "truth", "labels")
_MORE = ("scores", "thresholds", MANIFEST)
_INT32 = np.iinfo(np.int32)
_EXPECTED = {
    "labels": f"expected the number of labels, 2 to {MOST_LABELS:,}",
    "thresholds": "not a threshold; expected the number of edits needed, at most "
    f"{_INT32.max:,}, or {UNREACHABLE} where none suffice",
}
"""Expected values of numbers that are not labels, for messages on numbers far out of range."""


class _Manifest(msgspec.Struct, forbid_unknown_fields=True):
    """The content of the array ``manifest``, as JSON."""

    version: int
    origin: Origin


def read_ballots(path: Path | str) -> Ballots:
    """Read a ballots file.

    Parameters
    ----------
    path : Path or str
        An ``.npz`` with ``ballots`` (points, parts), ``truth`` (points,) and ``labels`` (their
        number), and optionally ``scores``, ``thresholds`` (both points, parts, labels) and
        ``manifest`` (JSON in bytes); or a CSV with the header ``truth,part_0,part_1,...``,
        optionally after a line ``# labels = 10`` with the number of labels.

    Raises
    ------
    BallotError
        If the file cannot be read or its numbers are not ballots; states the place and the remedy.
    """
    source = Path(path)
    try:
        return _read_npz(source) if holds_archive(source, BallotError) else read_csv(source)
    except MemoryError:
        raise BallotError(f"{source}: the ballots do not fit in memory") from None
    except OSError as error:
        raise BallotError(f"{source}: {why_unread(error)}") from None


def write_ballots(ballots: Ballots, path: Path | str) -> None:
    """Write ballots as an ``.npz`` atomically; equal ballots give equal bytes.

    Raises
    ------
    BallotError
        If the file cannot be written.
    """
    target = Path(path)
    kind = np.min_scalar_type(-ballots.labels)
    arrays: dict[str, Any] = {
        "ballots": ballots.votes.astype(kind),
        "truth": ballots.truth.astype(kind),
        "labels": np.array(ballots.labels, dtype=np.int64),
        MANIFEST: manifest_array(_Manifest(_VERSION, ballots.origin)),
    }
    if ballots.scores is not None:
        arrays["scores"] = ballots.scores
    if ballots.thresholds is not None:
        arrays["thresholds"] = ballots.thresholds
    write_archive(target, arrays, BallotError)


def _read_npz(source: Path) -> Ballots:
    arrays = read_archive(source, BallotError)
    expect_arrays(source, arrays, BallotError, _NEEDED, _MORE)
    scores = arrays.get("scores")
    if scores is not None and scores.dtype.kind != "f":
        raise BallotError(f"{source}: 'scores' contains {scores.dtype}, expected floating-point")
    if scores is not None and scores.dtype.itemsize not in {4, 8}:
        scores = scores.astype(np.float32 if scores.dtype.itemsize < 4 else np.float64)
    labels = _whole(source, "labels", arrays["labels"])
    if labels.size != 1:
        raise BallotError(
            f"{source}: 'labels' has shape {labels.shape}; expected one number, the number of "
            "labels"
        )
    thresholds = arrays.get("thresholds")
    return Ballots(
        votes=_whole(source, "ballots", arrays["ballots"]),
        truth=_whole(source, "truth", arrays["truth"]),
        labels=int(labels.reshape(())),
        scores=scores,
        thresholds=None if thresholds is None else _whole(source, "thresholds", thresholds),
        origin=_origin(source, arrays.get(MANIFEST)),
        source=str(source),
    )


def _whole(source: Path, name: str, array: NDArray[Any]) -> NDArray[np.int32]:
    if array.dtype.kind not in "iu":
        raise BallotError(
            f"{source}: {name!r} contains {array.dtype}, expected integers; save it as "
            f"{name}.astype(int)"
        )
    if array.size:
        for extreme in (array.argmin(), array.argmax()):
            value = int(array.reshape(-1)[extreme])
            if not _INT32.min <= value <= _INT32.max:
                where = tuple(int(i) for i in np.unravel_index(int(extreme), array.shape))
                place = f"{name!r} at {where}" if where else repr(name)
                said = _EXPECTED.get(name, "far beyond any label; number the labels from 0")
                raise BallotError(f"{source}: {place} is {value}, {said}")
    return np.ascontiguousarray(array, dtype=np.int32).reshape(array.shape)


def _origin(source: Path, raw: NDArray[Any] | None) -> Origin:
    if raw is None:
        return Origin()
    return read_manifest(source, raw, _Manifest, BallotError, _VERSION).origin
