"""What a claim is about: the files it names, and its box, read anew."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from leaveout.files import ARCHIVE, opened
from leaveout.models import Family, Manifest, Members, Network, load_family, load_network
from leaveout.verifier.checker.container import BoxPart, FilePart, QuestionPart
from leaveout.verifier.checker.errors import CertificateError, RejectedError

__all__ = ["Question", "Table", "read_question"]

Floats = NDArray[np.float64]

_BLOCK = 2**22


@dataclass(frozen=True, eq=False)
class Table:
    """Features that together take one of the listed rows.

    Attributes
    ----------
    columns : ndarray of int64, shape (g,)
    values : ndarray of float64, shape (v, g)
    """

    columns: NDArray[np.int64]
    values: Floats


@dataclass(frozen=True, eq=False)
class Question:
    """A network, its family and a box.

    Attributes
    ----------
    network : Network
    family : Family
    members : Members
    lower, upper : ndarray of float64, shape (inputs,)
    tables : tuple of Table
    """

    network: Network
    family: Family
    members: Members
    lower: Floats
    upper: Floats
    tables: tuple[Table, ...]


def read_question(
    part: QuestionPart, folder: Path, network: Path | None, family: Path | None
) -> Question:
    """Load the files of a question, from where the certificate or the caller says they are.

    Raises
    ------
    LeaveoutError
        If a file is missing or cannot be read.
    RejectedError
        If a file is not the one the certificate is about.
    """
    where = network or folder / part.network.path
    other = family or folder / part.family.path
    _same(where, part.network, "network")
    _same(other, part.family, "family")
    loaded = load_network(where)
    if part.family.kind == "network":
        alone = load_network(other)
        if alone.architecture != loaded.architecture:
            raise RejectedError(f"{other}: has another architecture than {where}")
        stacked = {k: np.asarray(v, np.float32)[None] for k, v in alone.parameters.items()}
        members = Family(stacked, np.zeros(1, np.int64), Manifest())
    else:
        members = load_family(other, loaded)
    if len(members) != part.members:
        raise RejectedError(
            f"{other}: has {len(members)} members, the certificate is about {part.members}"
        )
    lower, upper, tables = _box(part.box, loaded)
    return Question(loaded, members, Members(loaded.graph, members), lower, upper, tables)


def _same(path: Path, part: FilePart, what: str) -> None:
    if part.kind not in {"network", "family", "folder"}:
        raise CertificateError(f"{path}: the certificate calls it a {part.kind!r}")
    if not path.exists():
        raise CertificateError(f"{path}: no such file; say where it is with --{what}")
    if path.is_dir() != (part.kind == "folder"):
        raise RejectedError(f"{path}: the certificate is about a {part.kind}")
    try:
        found = _folder_digest(path) if part.kind == "folder" else _digest(path)
    except OSError as error:
        raise CertificateError(f"{path}: cannot be read: {error.strerror}") from None
    if found != part.sha256:
        raise RejectedError(
            f"{path}: is not the {what} the certificate is about (SHA-256 {found[:12]}, "
            f"expected {part.sha256[:12]})"
        )


def _digest(path: Path) -> str:
    digest = hashlib.sha256()
    with opened(path, ARCHIVE) as stream:
        while block := stream.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def _folder_digest(folder: Path) -> str:
    lines = [f"{_digest(file)}  {file.name}\n" for file in sorted(folder.glob("*.onnx"))]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def _box(part: BoxPart, network: Network) -> tuple[Floats, Floats, tuple[Table, ...]]:
    lower, upper = np.asarray(part.lower, np.float64), np.asarray(part.upper, np.float64)
    width = network.inputs
    if lower.shape != (width,) or upper.shape != (width,):
        raise RejectedError(f"the box has not the {width} features {network.source} reads")
    if not (np.isfinite(lower).all() and np.isfinite(upper).all() and (lower <= upper).all()):
        raise RejectedError("the box is empty, or not finite")
    tables = []
    for each in part.choices:
        columns = np.asarray(each.columns, np.int64)
        try:
            values = np.asarray(each.values, np.float64).reshape(len(each.values), len(columns))
        except ValueError:
            raise RejectedError("the box lists values of another width than its features") from None
        if not (
            len(columns)
            and len(values)
            and np.isfinite(values).all()
            and ((columns >= 0) & (columns < width)).all()
        ):
            raise RejectedError("the box lists values of features that it does not have")
        tables.append(Table(columns, values))
    return lower, upper, tuple(tables)
