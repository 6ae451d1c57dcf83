"""The certificate file: a manifest and plain arrays, read without trusting any of it."""

from __future__ import annotations

import zipfile
import zlib
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
from leaveout.verifier.checker.multipliers import Multipliers

__all__ = [
    "INPUT", "MEMBERS", "PHASE", "ROOT", "UNTIED", "Certificate", "TreePart", "read_certificate",
]  # fmt: skip

ROOT, INPUT, MEMBERS, PHASE, UNTIED = range(5)
"""What a node is of its parent."""

_FORMATS = (1, 2, 3)
_MAPPED_FROM = 2**20

_SHORT = 3
"""The first format that leaves out of trees what is not needed."""

_WIDTHS = tuple(np.dtype(each) for each in (np.int8, np.int16, np.int32, np.int64))
_PER_NODE = (
    "parent",
    "kind",
    "index",
    "side",
    "point",
    "target",
    "claim",
    "proof",
    "group",
    "ident",
)

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
    Where ``short``, sets that are empty are what others leave: see `sets.with_all_sets`.
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
    multipliers: Multipliers
    share: NDArray[np.float64]
    short: bool

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
    arrays: dict[str, Numbers]

    def tree(self, name: str, *, leaks: bool) -> TreePart:
        """Return the arrays of a tree, of leaks or of a claim over points.

        Raises
        ------
        CertificateError
            If one is missing, or has another type or shape than the others call for.
        """
        short = self.manifest.format >= _SHORT
        found = {
            key: self._integers(name, key, short)
            for key in ("parent", "index", "side", "proof", "group", "members", "offsets")
        }
        found["kind"] = self._array(name, "kind", 1, np.int8)
        count = len(found["parent"])
        found["share"] = self._array(name, "share", 2, np.float64)
        if leaks:
            errors = [self._array(name, key, 1, np.float64) for key in ("error", "tie")]
            if len(errors[0]) != len(errors[1]):
                raise self._wrong(name, "error", "and the other errors differ in shape")
            found["errors"] = np.column_stack(errors)
            t = self._array(name, "t", 1, np.float32)
            if len(t) != len(found["share"]):
                raise self._wrong(name, "t", "and the other multipliers differ in shape")
            found["share"] = np.column_stack([found["share"], t.astype(np.float64)])
        else:
            found["errors"] = self._array(name, "errors", 2, np.float64)
        found["point"] = self._array(name, "point", 1, np.float64)
        found["target"] = self._array(name, "target", 1, np.float64)
        if short:
            # One for all, and names and claims that say nothing of their own.
            for key in ("point", "target", "errors"):
                if len(found[key]) == 1:
                    found[key] = np.repeat(found[key], count, axis=0)
            self.arrays.setdefault(f"{name}.ident", np.arange(count))
            self.arrays.setdefault(f"{name}.claim", np.full(count, np.inf))
        found["ident"] = self._integers(name, "ident", short)
        found["claim"] = self._array(name, "claim", 1, np.float64)
        for key in (*_PER_NODE, "errors"):
            if len(found[key]) != count:
                raise self._wrong(name, key, f"has {len(found[key])} nodes, 'parent' has {count}")
        multipliers = self._multipliers(name, len(found["share"]), short)
        for key in ("share", "point", "target", "errors"):
            if not np.isfinite(found[key]).all():
                raise self._wrong(name, key, "holds a number that is not finite")
        return TreePart(**found, multipliers=multipliers, short=short)

    def _multipliers(self, name: str, proofs: int, short: bool) -> Multipliers:
        """Return the multipliers of neurons."""
        listed = short and f"{name}.neuron" in self.arrays
        rank = 1 if listed else 2
        cz = self._array(name, "cz", rank, np.float32)
        # Where nothing differs from N no differences are multiplied.
        bare = short and f"{name}.cd" not in self.arrays
        cd = np.zeros_like(cz) if bare else self._array(name, "cd", rank, np.float32)
        for key, each in (("cz", cz), ("cd", cd)):
            if not (np.isfinite(each) | (short and not listed and np.isnan(each))).all():
                raise self._wrong(name, key, "holds a number that is not finite")
        neuron, starts = None, np.arange(len(cz) + 1)
        if listed:
            neuron = self._integers(name, "neuron", short)
            starts = self._integers(name, "starts", short)
        fine = cz.shape == cd.shape and len(starts) == proofs + 1
        if fine and neuron is not None:
            fine = len(neuron) == len(cz) == starts[-1] and starts[0] == 0
            fine = fine and bool((starts[1:] >= starts[:-1]).all())
        if not fine:
            raise self._wrong(name, "cz", "and the other multipliers differ in shape")
        return Multipliers(cz, cd, neuron, starts)

    def under(self, prefix: str) -> dict[str, Numbers]:
        """Return the arrays whose names begin so, by the rest of their names."""
        start = f"{prefix}."
        return {
            name.removeprefix(start): array
            for name, array in self.arrays.items()
            if name.startswith(start)
        }

    def _integers(self, name: str, key: str, short: bool) -> NDArray[np.int64]:
        """Return whole numbers; of a short tree in whichever width holds them."""
        array = self.arrays.get(f"{name}.{key}")
        if short and array is not None and array.dtype in _WIDTHS:
            array = array.astype(np.int64)
            self.arrays[f"{name}.{key}"] = array
        return self._array(name, key, 1, np.int64)

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
