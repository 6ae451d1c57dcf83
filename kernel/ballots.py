"""Ballots: what members vote at each test point, read strictly from the file that a claim names."""

from __future__ import annotations

import hashlib
import io
import json
import re
import zipfile
import zlib
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from .numbers import Rejected, need
from .values import HeldFile

NEVER = -1
"""The threshold of a vote that no number of changes can cause."""

MOST_LABELS = 2**15
_LARGEST = 2**32  # bytes of all arrays
_KINDS = ("edits", "insertions", "removals", "relabels")


@dataclass(frozen=True)
class Assumption:
    """An assumption about how members were trained, which the program verified or did not."""

    text: str
    checked: bool


@dataclass(frozen=True, kw_only=True)
class Origin:
    """How the members were trained, as far as claims rest on it; None or empty: unknown."""

    method: str | None = None
    hash_reads_label: bool | None = None
    distinct_samples: bool | None = None
    offsets: tuple[int, ...] = ()  # a sample with hash h reaches the members (h + offset) mod parts
    families: tuple[int, ...] = ()  # sizes of families; a sample reaches one member of each
    label_names: tuple[str, ...] = ()
    assumptions: tuple[Assumption, ...] = ()
    thresholds_against: str | None = None
    thresholds_exact_to: int | None = None


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
    found = _arrays(content, source)
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
        _origin(found["manifest"], source) if "manifest" in found else Origin(),
        source,
    )


def _arrays(content: bytes, source: str) -> dict[str, NDArray[Any]]:
    found: dict[str, NDArray[Any]] = {}
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            infos = archive.infolist()
            need(sum(each.file_size for each in infos) <= _LARGEST, f"{source}: too large")
            for info in infos:
                name = info.filename.removesuffix(".npy")
                need(name != info.filename and name not in found, f"{source}: holds {name!r} twice")
                with archive.open(info) as stream:
                    found[name] = npy.read_array(stream, allow_pickle=False)
                    need(not stream.read(1), f"{source}: {name!r} has more than its array")
    except (ValueError, OSError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
        raise Rejected(f"{source}: is damaged: {error}") from None
    return found


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


def _origin(raw: NDArray[Any], source: str) -> Origin:
    """Read the manifest, JSON in bytes: no field twice, none unknown, each of its type."""
    need(raw.dtype == np.uint8 and raw.ndim == 1, f"{source}: its manifest is not text")
    try:
        held = json.loads(raw.tobytes().decode(), object_pairs_hook=_once)
        need(isinstance(held, dict) and set(held) == {"version", "origin"}, "no manifest")
        need(type(held["version"]) is int and held["version"] == 1, "another version")
        origin: dict[str, Any] = held["origin"]
        need(isinstance(origin, dict) and set(origin) <= set(_FIELDS), "unknown fields")
        for name, value in origin.items():
            need(_FIELDS[name](value), f"{name!r} is wrong")
    except (ValueError, RecursionError, Rejected) as error:
        raise Rejected(f"{source}: the manifest is damaged: {error}") from None
    known = {each.name: origin[each.name] for each in fields(Origin) if each.name in origin}
    for name in known.keys() & {"offsets", "families", "label_names"}:
        known[name] = tuple(known[name])
    if "assumptions" in known:
        known["assumptions"] = tuple(Assumption(**each) for each in known["assumptions"])
    return Origin(**known)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    need(len({name for name, _ in pairs}) == len(pairs), "a field stands twice")
    return dict(pairs)


def _one_of(*words: str) -> Any:
    return lambda value: value is None or (isinstance(value, str) and value in words)


def _list_of(fits: Any) -> Any:
    return lambda value: isinstance(value, list) and all(map(fits, value))


def _is_assumption(value: Any) -> bool:
    texts = isinstance(value, dict) and set(value) == {"text", "checked"}
    return texts and _is_line(value["text"]) and isinstance(value["checked"], bool)


def _is_whole(value: Any) -> bool:
    return type(value) is int


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_line(value: Any) -> bool:
    return isinstance(value, str) and value.isprintable()


def _is_flag(value: Any) -> bool:
    return value is None or isinstance(value, bool)


_FIELDS: dict[str, Any] = {
    "method": _one_of("dpa", "ss_dpa", "finite_aggregation", "hash_bagging"),
    "hash_reads_label": _is_flag,
    "distinct_samples": _is_flag,
    "offsets": _list_of(_is_whole),
    "families": _list_of(_is_whole),
    "sizes": _list_of(_is_whole),
    "learner": _is_text,
    "seed": lambda value: value is None or _is_whole(value),
    "data_sha256": _is_text,
    "label_names": _list_of(_is_text),
    "hash": _is_text,
    "undefended_right": lambda value: value is None or _is_whole(value),
    "versions": _list_of(_is_text),
    "notes": _list_of(_is_text),
    "assumptions": _list_of(_is_assumption),
    "thresholds_against": _one_of(*_KINDS),
    "thresholds_exact_to": lambda value: value is None or _is_whole(value),
}
