"""What a claim is about: the files it names, and its box, read anew."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path, PurePath

import numpy as np
from numpy.typing import NDArray

from leaveout.files import ARCHIVE, opened
from leaveout.models import Family, Manifest, Members, Network, load_family, load_network
from leaveout.verifier.checker.container import BoxPart, ChoicesPart, FilePart, QuestionPart
from leaveout.verifier.checker.errors import CertificateError, RejectedError
from leaveout.verifier.checker.subject import Subject, Table

__all__ = ["Question", "read_question"]

Floats = NDArray[np.float64]

_BLOCK = 2**22
_LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True, eq=False)
class Question:
    """A network, its family and a box.

    Attributes
    ----------
    network : Network
    family : Family
    members : Members
    subject : Subject
    """

    network: Network
    family: Family
    members: Members
    subject: Subject

    @property
    def lower(self) -> Floats:
        """Lower bounds of the box, shape (inputs,)."""
        return self.subject.lower

    @property
    def upper(self) -> Floats:
        """Upper bounds of the box, shape (inputs,)."""
        return self.subject.upper

    @property
    def tables(self) -> tuple[Table, ...]:
        """Features that take listed rows only."""
        return self.subject.tables


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
    where = network or _below(folder, part.network.path, "network")
    other = family or _below(folder, part.family.path, "family")
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
    subject = Subject(
        where,
        part.network.sha256,
        other,
        part.family.sha256,
        len(members),
        loaded.labels,
        *_box(part.box, loaded),
    )
    return Question(loaded, members, Members(loaded.graph, members), subject)


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
    files = sorted(folder.glob("*.onnx"))
    if not all(file.name.isprintable() for file in files):
        # A line break in a name would make one file pass for two.
        raise RejectedError(f"{folder}: a file's name in it is none")
    lines = [f"{_digest(file)}  {file.name}\n" for file in files]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def _below(folder: Path, path: str, what: str) -> Path:
    """Return where a file is that a certificate names: under the certificate's own folder.

    A certificate may come from anybody; it is not to choose what else is opened.
    """
    named = folder / path
    if PurePath(path).is_absolute() or not named.resolve().is_relative_to(folder.resolve()):
        raise CertificateError(
            f"the certificate has its {what} at {path!r}, outside its own folder; say where it is "
            f"with --{what}"
        )
    return named


def _box(part: BoxPart, network: Network) -> tuple[Floats, Floats, tuple[Table, ...]]:
    lower, upper = np.asarray(part.lower, np.float64), np.asarray(part.upper, np.float64)
    width = network.inputs
    if lower.shape != (width,) or upper.shape != (width,):
        raise RejectedError(f"the box has not the {width} features {network.source} reads")
    if not ((np.abs(lower) <= _LARGEST) & (np.abs(upper) <= _LARGEST) & (lower <= upper)).all():
        raise RejectedError("the box is empty, or not finite in float32")
    tables = tuple(_table(each, width) for each in part.choices)
    for table in tables:
        inside = (table.values >= lower[table.columns]) & (table.values <= upper[table.columns])
        if not inside.all():
            # The row is none of the points asked about, and a claim about no point is no claim.
            row = int(np.argmin(inside.all(axis=1)))
            raise RejectedError(
                f"the box lists a row that lies outside of it: {table.values[row].tolist()} of "
                f"features {table.columns.tolist()}"
            )
    columns = np.concatenate([np.zeros(0, np.int64), *(table.columns for table in tables)])
    if len(np.unique(columns)) < len(columns):
        raise RejectedError("the box lists the values of a feature twice")
    return lower, upper, tables


def _table(part: ChoicesPart, width: int) -> Table:
    if not part.columns or not all(0 <= column < width for column in part.columns):
        raise RejectedError("the box lists values of features that it does not have")
    if not part.values or any(len(row) != len(part.columns) for row in part.values):
        raise RejectedError("the box lists no values, or rows of another width than its features")
    values = np.asarray(part.values, np.float64)
    # Anything else is no number that a network reads; NaN and infinity are none either.
    if not (np.abs(values) <= _LARGEST).all() or (values.astype(np.float32) != values).any():
        raise RejectedError("the box lists a number that float32 does not have")
    return Table(np.asarray(part.columns, np.int64), values)
