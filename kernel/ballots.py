"""Ballots: what members vote at each test point, read strictly from the file that a claim names."""

from __future__ import annotations

import hashlib
import io
import re
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from .files import bytes_of, read_archive
from .numbers import Rejected, need
from .records import decode
from .values import HeldFile

NEVER = -1
"""The threshold of a vote that no number of changes can cause."""

MOST_LABELS = 2**15


@dataclass(frozen=True)
class Assumption:
    """An assumption about how members were trained, which the program verified or did not."""

    text: str
    checked: bool


@dataclass(frozen=True, kw_only=True)
class Origin:
    """How the members were trained, as far as claims rest on it; None or empty: unknown."""

    method: Literal["dpa", "ss_dpa", "finite_aggregation", "hash_bagging"] | None = None
    hash_reads_label: bool | None = None
    distinct_samples: bool | None = None
    offsets: tuple[int, ...] = ()  # a sample with hash h reaches the members (h + offset) mod parts
    families: tuple[int, ...] = ()  # sizes of families; a sample reaches one member of each
    label_names: tuple[str, ...] = ()
    assumptions: tuple[Assumption, ...] = ()
    thresholds_against: Literal["edits", "insertions", "removals", "relabels"] | None = None
    thresholds_exact_to: int | None = None


@dataclass(frozen=True, kw_only=True)
class _Stated(Origin):
    """An origin as manifests state it, with what no claim rests on."""

    sizes: tuple[int, ...] = ()
    learner: str = ""
    seed: int | None = None
    data_sha256: str = ""
    hash: str = ""
    undefended_right: int | None = None
    versions: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Manifest:
    version: int
    origin: _Stated


@dataclass(frozen=True, eq=False)
class Ballots:
    """A row per test point, a column per member; every number is checked."""

    votes: NDArray[np.int32]  # shape (points, parts)
    truth: NDArray[np.int32]  # shape (points,)
    labels: int
    scores: NDArray[np.floating] | None = None  # shape (points, parts, labels)
    thresholds: NDArray[np.int32] | None = None  # shape (points, parts, labels)
    origin: Origin = field(default_factory=Origin)
    source: str = "ballots"

    def __post_init__(self) -> None:
        votes, truth, origin, source = self.votes, self.truth, self.origin, self.source
        need(votes.ndim == 2 and truth.shape == votes.shape[:1], f"{source}: not a table of votes")
        need(votes.size and 2 <= self.labels <= MOST_LABELS, f"{source}: no votes, or no labels")
        shape = (*votes.shape, self.labels)
        for each in (votes, truth):
            need((each >= 0) & (each < self.labels), f"{source}: a label that does not exist")
        for array in (self.scores, self.thresholds):
            need(array is None or array.shape == shape, f"{source}: an array has the wrong shape")
        need(self.thresholds is not None or self.parts > 1, f"{source}: has 1 part")
        self._check_thresholds()
        offsets, families, names = origin.offsets, origin.families, origin.label_names
        inside = all(0 <= each < self.parts for each in offsets)
        need(inside and len(set(offsets)) == len(offsets), f"{source}: offsets are wrong")
        whole = not families or (min(families) > 0 and sum(families) == self.parts)
        need(whole and not (families and offsets), f"{source}: families are wrong")
        need(len(names) in (0, self.labels), f"{source}: names of labels are wrong")

    @property
    def points(self) -> int:
        """The number of test points."""
        return len(self.votes)

    @property
    def parts(self) -> int:
        """The number of members that vote."""
        return int(self.votes.shape[1])

    def _check_thresholds(self) -> None:
        """Thresholds are 0 for a member's own vote alone, else at least 1, or `NEVER`."""
        if self.thresholds is not None:
            own = np.arange(self.labels) == self.votes[:, :, None]
            most = self.origin.thresholds_exact_to
            fine = np.where(own, self.thresholds == 0, self.thresholds != 0)
            fine &= self.thresholds >= NEVER
            if most is not None:
                fine &= (self.thresholds <= most + 1) & (most >= 0)
            need(fine, f"{self.source}: thresholds are wrong")


def read_ballots(file: HeldFile) -> Ballots:
    """Return the ballots of the file that a claim names, which has the claim's digest."""
    source = str(file.path)
    try:
        content = file.path.read_bytes()
    except OSError as error:
        raise Rejected(f"{source}: cannot be read: {error.strerror}") from None
    need(hashlib.sha256(content).hexdigest() == file.sha256, f"{source}: is not the file claimed")
    if not content.startswith(b"PK\x03\x04"):
        return _from_csv(content, source)
    try:
        found = read_archive(io.BytesIO(content))
        origin = _origin(bytes_of(found["manifest"])) if "manifest" in found else Origin()
    except (ValueError, OSError, MemoryError) as error:
        raise Rejected(f"{source}: is damaged: {error}") from None
    known = {"ballots", "truth", "labels", "scores", "thresholds", "manifest"}
    need(set(found) <= known, f"{source}: has arrays that are not of ballots")
    need({"ballots", "truth", "labels"} <= set(found), f"{source}: lacks an array of ballots")
    labels, scores = _whole(found, "labels", source), found.get("scores")
    need(labels.size == 1, f"{source}: 'labels' is not one number")
    if scores is not None:
        need(scores.dtype.kind == "f", f"{source}: 'scores' are not floating-point numbers")
        if scores.dtype.itemsize not in (4, 8):
            scores = scores.astype(np.float32 if scores.dtype.itemsize < 4 else np.float64)
    return Ballots(
        _whole(found, "ballots", source),
        _whole(found, "truth", source),
        int(labels.reshape(())),
        scores,
        _whole(found, "thresholds", source) if "thresholds" in found else None,
        origin,
        source,
    )


def _whole(found: dict[str, NDArray[Any]], name: str, source: str) -> NDArray[np.int32]:
    array = found[name]
    need(array.dtype.kind in "iu", f"{source}: {name!r} are not whole numbers")
    need((array >= -(2**31)) & (array < 2**31), f"{source}: {name!r} has a number out of range")
    return np.ascontiguousarray(array, np.int32).reshape(array.shape)


def _from_csv(content: bytes, source: str) -> Ballots:
    """Read ``truth,part_0,...``, below an optional ``# labels = 10``; else labels are counted."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise Rejected(f"{source}: is not UTF-8 text") from None
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    said = re.fullmatch(r"\s*#\s*labels\s*=\s*([0-9]{1,9})\s*", lines[0])
    head, *rest = lines[1:] if said else lines
    names = [name.strip() for name in head.split(",")]
    wanted = ["truth", *(f"part_{k}" for k in range(len(names) - 1))]
    need(names == wanted, f"{source}: its columns are not truth,part_0,part_1,...")
    rows = [[cell.strip() for cell in line.split(",")] for line in rest if line.strip()]
    need(len(rows) > 0, f"{source}: no rows below the header")
    whole = re.compile(r"[+-]?[0-9]{1,9}")
    for row in rows:
        fine = len(row) == len(names) and all(map(whole.fullmatch, row))
        need(fine, f"{source}: a row is not {len(names)} whole numbers")
    table = np.array([[int(cell) for cell in row] for row in rows], np.int32)
    labels = int(said[1]) if said else max(2, int(table.max()) + 1)
    votes, truth = np.ascontiguousarray(table[:, 1:]), np.ascontiguousarray(table[:, 0])
    return Ballots(votes, truth, labels, source=source)


def _origin(text: bytes) -> Origin:
    """Read a manifest: no field twice, none unknown, each of its type."""
    try:
        found = decode(text, _Manifest)
    except ValueError as error:
        raise ValueError(f"the manifest: {error}") from None
    if found.version != 1:
        raise ValueError("the manifest has another version")
    if not all(each.text.isprintable() for each in found.origin.assumptions):
        raise ValueError("the manifest has an assumption that is not a line")
    return found.origin
