"""The certificate file: a manifest and plain arrays, read without trusting any of it."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from leaveout.files import UnusualFileError
from leaveout.models.npz import read_arrays
from leaveout.verifier.checker.errors import CertificateError

__all__ = ["BoxPart", "Certificate", "FilePart", "ResultPart", "TreePart", "read_certificate"]

_FORMAT = 1
_MAPPED_FROM = 2**20

_OTHERS = {
    "removed": "a family",
    "member_upper": "what verify --bounds wrote, for leaveout guard",
    "ballots": "ballots",
}
"""What other files of leaveout hold, by an array that no certificate has."""

Numbers = NDArray[Any]


class FilePart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file that a question is about.

    Attributes
    ----------
    path : str
        Relative to the certificate.
    sha256 : str
    kind : {"network", "family", "folder"}
        A single ONNX file, a family file, or a folder of ONNX files.
    """

    path: str
    sha256: str
    kind: str


class ChoicesPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Features that together take one of the listed rows."""

    columns: tuple[int, ...]
    values: tuple[tuple[float, ...], ...]


class BoxPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The inputs a question is about."""

    lower: tuple[float, ...]
    upper: tuple[float, ...]
    choices: tuple[ChoicesPart, ...] = ()


class QuestionPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A network, a family and a box."""

    network: FilePart
    family: FilePart
    members: int
    box: BoxPart


class ResultPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One claim: over the question, no leak with the label has a confidence above ``upper``."""

    question: int
    name: str
    label: int
    upper: float
    tree: str


class ManifestPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Everything but the trees."""

    format: int
    leaveout: str
    spec: str
    text: str
    questions: tuple[QuestionPart, ...]
    results: tuple[ResultPart, ...]


@dataclass(frozen=True, eq=False)
class TreePart:
    """The arrays of one tree, of the right types and lengths; see ``docs/certificates.md``."""

    ident: NDArray[np.int64]
    parent: NDArray[np.int64]
    kind: NDArray[np.int8]
    index: NDArray[np.int64]
    side: NDArray[np.int64]
    point: NDArray[np.float64]
    target: NDArray[np.float64]
    error: NDArray[np.float64]
    tie: NDArray[np.float64]
    claim: NDArray[np.float64]
    proof: NDArray[np.int64]
    group: NDArray[np.int64]
    members: NDArray[np.int64]
    offsets: NDArray[np.int64]
    cz: NDArray[np.float32]
    cd: NDArray[np.float32]
    t: NDArray[np.float32]
    share: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.ident)


@dataclass(frozen=True, eq=False)
class Certificate:
    """A certificate as read.

    Attributes
    ----------
    path : Path
    manifest : ManifestPart
    """

    path: Path
    manifest: ManifestPart
    arrays: Mapping[str, Numbers]

    def tree(self, name: str) -> TreePart:
        """Return the arrays of a tree.

        Raises
        ------
        CertificateError
            If one is missing, or has another type or shape than the others call for.
        """
        one: dict[str, type[np.generic]] = {
            "ident": np.int64, "parent": np.int64, "kind": np.int8, "index": np.int64,
            "side": np.int64, "point": np.float64, "target": np.float64, "error": np.float64,
            "tie": np.float64, "claim": np.float64, "proof": np.int64, "group": np.int64,
        }  # fmt: skip
        found = {key: self._array(name, key, 1, dtype) for key, dtype in one.items()}
        count = len(found["ident"])
        for key in one:
            if len(found[key]) != count:
                raise self._wrong(name, key, f"has {len(found[key])} nodes, 'ident' has {count}")
        found["members"] = self._array(name, "members", 1, np.int64)
        found["offsets"] = self._array(name, "offsets", 1, np.int64)
        for key, rank, dtype in (
            ("cz", 2, np.float32), ("cd", 2, np.float32), ("t", 1, np.float32),
            ("share", 2, np.float64),
        ):  # fmt: skip
            found[key] = self._array(name, key, rank, dtype)
        if found["cz"].shape != found["cd"].shape or not (
            len(found["cz"]) == len(found["t"]) == len(found["share"])
        ):
            raise self._wrong(name, "cz", "and the other multipliers differ in shape")
        for key in ("cz", "cd", "t", "share", "point", "target", "error", "tie"):
            if not np.isfinite(found[key]).all():
                raise self._wrong(name, key, "holds a number that is not finite")
        return TreePart(**found)

    def _array(self, name: str, key: str, rank: int, dtype: type[np.generic]) -> Numbers:
        array = self.arrays.get(f"{name}.{key}")
        if array is None:
            raise self._wrong(name, key, "is missing")
        if array.ndim != rank or array.dtype != dtype:
            raise self._wrong(
                name, key,
                f"is {array.dtype} of rank {array.ndim}, expected {np.dtype(dtype)} of rank {rank}",
            )  # fmt: skip
        return array

    def _wrong(self, name: str, key: str, what: str) -> CertificateError:
        return CertificateError(f"{self.path}: array {name}.{key} {what}")


def read_certificate(path: Path) -> Certificate:
    """Read a certificate.

    Raises
    ------
    CertificateError
        If the file is missing, is no certificate, or is damaged.
    """
    try:
        arrays = read_arrays(path, _MAPPED_FROM)
    except FileNotFoundError:
        raise CertificateError(f"{path}: no such file") from None
    except IsADirectoryError:
        raise CertificateError(f"{path}: is a folder, expected a certificate") from None
    except UnusualFileError as error:
        raise CertificateError(f"{path}: {error}") from None
    except (
        OSError, ValueError, EOFError, RuntimeError, MemoryError, NotImplementedError,
        zipfile.BadZipFile, zlib.error,
    ):  # fmt: skip
        raise CertificateError(f"{path}: not a certificate, or damaged") from None
    for name, what in _OTHERS.items():
        if name in arrays:
            raise CertificateError(f"{path}: is {what}, expected what verify --certificate wrote")
    raw = arrays.pop("manifest", None)
    if raw is None:
        raise CertificateError(f"{path}: not a certificate: it has no manifest")
    try:
        manifest = msgspec.json.decode(raw.tobytes(), type=ManifestPart)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise CertificateError(f"{path}: the manifest is damaged: {error}") from None
    if manifest.format != _FORMAT:
        raise CertificateError(
            f"{path}: is of format {manifest.format}; this program checks format {_FORMAT}"
        )
    if not manifest.results:
        raise CertificateError(f"{path}: claims nothing")
    for text in _printed(manifest):
        if not text.isprintable() or "  " in text:
            raise CertificateError(f"{path}: a name in it is none: {text!r}")
    for result in manifest.results:
        if not 0 <= result.question < len(manifest.questions):
            raise CertificateError(f"{path}: {result.name} is about no question of the manifest")
    return Certificate(path, manifest, arrays)


def _printed(manifest: ManifestPart) -> Iterator[str]:
    """Yield what of a manifest is shown on a terminal, which it must not steer."""
    for result in manifest.results:
        yield from (result.name, result.tree)
    for question in manifest.questions:
        for part in (question.network, question.family):
            yield from (part.path, part.sha256, part.kind)
