"""The certificate file: a manifest and plain arrays, read without trusting any of it."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from leaveout.files import UnusualFileError
from leaveout.models.npz import read_arrays
from leaveout.verifier.checker.errors import CertificateError
from leaveout.verifier.checker.manifest import ManifestPart, printed

__all__ = ["Certificate", "TreePart", "read_certificate"]

_FORMATS = (1, 2, 3)
_MAPPED_FROM = 2**20

_OTHERS = {
    "removed": "a family",
    "member_upper": "what verify --bounds wrote, for leaveout guard",
    "ballots": "ballots",
}
"""What other files of leaveout hold, by an array that no certificate has."""

Numbers = NDArray[Any]


@dataclass(frozen=True, eq=False)
class TreePart:
    """The arrays of one tree, of the right types and lengths; see ``docs/certificates.md``.

    ``errors`` has shape (nodes, rows), ``share`` (proofs, rows). Of leaks, as read, the rows of
    errors are N's confidence and a member's margin; those of shares the labels, then the margin.
    """

    ident: NDArray[np.int64]
    parent: NDArray[np.int64]
    kind: NDArray[np.int8]
    index: NDArray[np.int64]
    side: NDArray[np.int64]
    point: NDArray[np.float64]
    target: NDArray[np.float64]
    errors: NDArray[np.float64]
    claim: NDArray[np.float64]
    proof: NDArray[np.int64]
    group: NDArray[np.int64]
    members: NDArray[np.int64]
    offsets: NDArray[np.int64]
    cz: NDArray[np.float32]
    cd: NDArray[np.float32]
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

    def tree(self, name: str, *, leaks: bool) -> TreePart:
        """Return the arrays of a tree, of leaks or of a claim over points.

        Raises
        ------
        CertificateError
            If one is missing, or has another type or shape than the others call for.
        """
        one: dict[str, type[np.generic]] = {
            "ident": np.int64, "parent": np.int64, "kind": np.int8, "index": np.int64,
            "side": np.int64, "point": np.float64, "target": np.float64, "claim": np.float64,
            "proof": np.int64, "group": np.int64,
        }  # fmt: skip
        found = {key: self._array(name, key, 1, dtype) for key, dtype in one.items()}
        found["members"] = self._array(name, "members", 1, np.int64)
        found["offsets"] = self._array(name, "offsets", 1, np.int64)
        for key in ("cz", "cd"):
            found[key] = self._array(name, key, 2, np.float32)
        found["share"] = self._array(name, "share", 2, np.float64)
        if leaks:
            found["errors"] = self._side_by_side(name, ("error", np.float64), ("tie", np.float64))
            t = self._array(name, "t", 1, np.float32)
            if len(t) != len(found["share"]):
                raise self._wrong(name, "t", "and the other multipliers differ in shape")
            found["share"] = np.column_stack([found["share"], t.astype(np.float64)])
        else:
            found["errors"] = self._array(name, "errors", 2, np.float64)
        count = len(found["ident"])
        for key in (*one, "errors"):
            if len(found[key]) != count:
                raise self._wrong(name, key, f"has {len(found[key])} nodes, 'ident' has {count}")
        if found["cz"].shape != found["cd"].shape or len(found["cz"]) != len(found["share"]):
            raise self._wrong(name, "cz", "and the other multipliers differ in shape")
        for key in ("cz", "cd", "share", "point", "target", "errors"):
            if not np.isfinite(found[key]).all():
                raise self._wrong(name, key, "holds a number that is not finite")
        return TreePart(**found)

    def under(self, prefix: str) -> dict[str, Numbers]:
        """Return the arrays whose names begin so, by the rest of their names."""
        start = f"{prefix}."
        return {
            name.removeprefix(start): array
            for name, array in self.arrays.items()
            if name.startswith(start)
        }

    def _side_by_side(self, name: str, *columns: tuple[str, type[np.generic]]) -> Numbers:
        found = [self._array(name, key, 1, dtype) for key, dtype in columns]
        if len({len(each) for each in found}) > 1:
            raise self._wrong(name, columns[0][0], "and the other errors differ in shape")
        return np.column_stack(found)

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


def _least_format(manifest: ManifestPart) -> int:
    """Return the first format that has all that a manifest says."""
    return 3 if manifest.values is not None else 2 if manifest.claims else 1


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
    if manifest.format not in _FORMATS or manifest.format < _least_format(manifest):
        raise CertificateError(
            f"{path}: is of format {manifest.format}; this program checks the formats "
            f"{_FORMATS[0]}, of leaks alone, {_FORMATS[1]}, with claims over points, and "
            f"{_FORMATS[2]}, with statements about values"
        )
    if not manifest.results and not manifest.claims and manifest.values is None:
        raise CertificateError(f"{path}: claims nothing")
    for text in printed(manifest):
        if not text.isprintable() or "  " in text:
            raise CertificateError(f"{path}: a name in it is none: {text!r}")
    for result in manifest.results:
        if not 0 <= result.question < len(manifest.questions):
            raise CertificateError(f"{path}: {result.name} is about no question of the manifest")
    return Certificate(path, manifest, arrays)
