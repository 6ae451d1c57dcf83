"""The arrays of one tree, read without trust; see ``docs/certificates.md``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leaveout.verifier.checker.errors import CertificateError
from leaveout.verifier.checker.multipliers import Multipliers

ROOT, INPUT, MEMBERS, PHASE, UNTIED = range(5)
"""What a node is of its parent."""

Numbers = NDArray[Any]

_WIDTHS = tuple(np.dtype(each) for each in (np.int8, np.int16, np.int32, np.int64))
_PER_NODE = (
    "parent", "kind", "index", "side", "point", "target", "claim", "proof", "group", "ident",
    "errors",
)  # fmt: skip


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
class TreeArrays:
    """Arrays by name, of which some are a tree's."""

    arrays: dict[str, Numbers]
    path: Path  # of the certificate
    short: bool  # whether trees may leave out what the rest of them tells

    def tree(self, name: str, *, leaks: bool) -> TreePart:
        """Return the arrays of a tree, of leaks or of a claim over points."""
        keys = ("parent", "index", "side", "proof", "group", "members", "offsets")
        whole = {key: self._integers(name, key) for key in keys}
        count = len(whole["parent"])
        share, errors = self._forms(name, leaks=leaks)
        floats = {key: self._array(name, key, 1, np.float64) for key in ("point", "target")}
        floats["errors"] = errors
        if self.short:
            # One for all; and names and claims that say nothing of their own.
            for key, array in floats.items():
                floats[key] = np.repeat(array, count, axis=0) if len(array) == 1 else array
            self.arrays.setdefault(f"{name}.ident", np.arange(count))
            self.arrays.setdefault(f"{name}.claim", np.full(count, np.inf))
        ident = self._integers(name, "ident")
        kind = self._array(name, "kind", 1, np.int8)
        claim = self._array(name, "claim", 1, np.float64)
        found = {**whole, **floats, "ident": ident, "kind": kind, "claim": claim}
        for key in _PER_NODE:
            if len(found[key]) != count:
                raise self._wrong(name, key, f"has {len(found[key])} nodes, 'parent' has {count}")
        for key, array in {**floats, "share": share}.items():
            if not np.isfinite(array).all():
                raise self._wrong(name, key, "holds a number that is not finite")
        return TreePart(
            ident, whole["parent"], kind, whole["index"], whole["side"], floats["point"],
            floats["target"], floats["errors"], claim, whole["proof"], whole["group"],
            whole["members"], whole["offsets"], self._multipliers(name, len(share)), share,
            self.short,
        )  # fmt: skip

    def _forms(self, name: str, *, leaks: bool) -> tuple[Numbers, Numbers]:
        """Return the multipliers of forms, and their evaluation errors."""
        share = self._array(name, "share", 2, np.float64)
        if not leaks:
            return share, self._array(name, "errors", 2, np.float64)
        errors = [self._array(name, key, 1, np.float64) for key in ("error", "tie")]
        if len(errors[0]) != len(errors[1]):
            raise self._wrong(name, "error", "and the other errors differ in shape")
        t = self._array(name, "t", 1, np.float32)
        if len(t) != len(share):
            raise self._wrong(name, "t", "and the other multipliers differ in shape")
        return np.column_stack([share, t.astype(np.float64)]), np.column_stack(errors)

    def _multipliers(self, name: str, proofs: int) -> Multipliers:
        """Return the multipliers of neurons."""
        listed = self.short and f"{name}.neuron" in self.arrays
        rank = 1 if listed else 2
        cz = self._array(name, "cz", rank, np.float32)
        # Where nothing differs from N no differences are multiplied.
        bare = self.short and f"{name}.cd" not in self.arrays
        cd = np.zeros_like(cz) if bare else self._array(name, "cd", rank, np.float32)
        for key, each in (("cz", cz), ("cd", cd)):
            if not (np.isfinite(each) | (self.short and not listed and np.isnan(each))).all():
                raise self._wrong(name, key, "holds a number that is not finite")
        neuron, starts = None, np.arange(len(cz) + 1)
        if listed:
            neuron = self._integers(name, "neuron")
            starts = self._integers(name, "starts")
        fine = cz.shape == cd.shape and len(starts) == proofs + 1
        if fine and neuron is not None:
            fine = len(neuron) == len(cz) == starts[-1] and starts[0] == 0
            fine = fine and bool((starts[1:] >= starts[:-1]).all())
        if not fine:
            raise self._wrong(name, "cz", "and the other multipliers differ in shape")
        return Multipliers(cz, cd, neuron, starts)

    def _integers(self, name: str, key: str) -> NDArray[np.int64]:
        """Return whole numbers; of a short tree in whichever width holds them."""
        array = self.arrays.get(f"{name}.{key}")
        if self.short and array is not None and array.dtype in _WIDTHS:
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
