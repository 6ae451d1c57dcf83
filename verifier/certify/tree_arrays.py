"""Arrays of the trees in a certificate: read, and expanded where they were shortened."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leaveout.arrays import Floats, Integers
from leaveout.errors import CertificateError, RejectedError
from leaveout.kernel.cover import MEMBERS, ROOT


@dataclass(frozen=True, eq=False)
class Multipliers:
    """Neuron multipliers of all proofs, for some or all neurons."""

    cz: NDArray[np.float32]
    cd: NDArray[np.float32]
    neuron: Integers | None  # the neurons, if they are listed
    starts: Integers  # shape (proofs + 1,)

    def __len__(self) -> int:
        return len(self.starts) - 1

    def fits(self, hidden: int) -> bool:
        """Return whether they fit a network with this many hidden neurons."""
        if self.neuron is None:
            return not len(self.cz) or self.cz.shape[1:] == (hidden,)
        return bool(((self.neuron >= 0) & (self.neuron < hidden)).all())

    def rows(self, proofs: Integers, hidden: int) -> tuple[Floats, Floats]:
        """Return the multipliers of some proofs, shape (n, hidden) each; NaN for default ones."""
        if self.neuron is None:
            return self.cz[proofs].astype(np.float64), self.cd[proofs].astype(np.float64)
        cz, cd = np.full((2, len(proofs), hidden), np.nan)
        for i, proof in enumerate(proofs.tolist()):
            own = slice(int(self.starts[proof]), int(self.starts[proof + 1]))
            cz[i, self.neuron[own]], cd[i, self.neuron[own]] = self.cz[own], self.cd[own]
        return cz, cd


Numbers = NDArray[Any]

_WIDTHS = tuple(np.dtype(each) for each in (np.int8, np.int16, np.int32, np.int64))
_PER_NODE = (
    "parent", "kind", "index", "side", "point", "target", "claim", "proof", "group", "ident",
    "errors",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class TreePart:
    """The arrays of one tree, of the right types and lengths; see ``docs/certificates.md``.

    ``errors`` has shape (nodes, rows), ``share`` (proofs, rows). For leaks, as read, the rows of
    errors are N's confidence and a member's margin; those of shares are the labels, then the
    margin. If ``short``, empty sets are the rest left by others: see `with_all_sets`.
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
    """Arrays by name, including those of trees."""

    arrays: dict[str, Numbers]
    path: Path  # of the certificate
    short: bool  # whether trees may omit what can be derived

    def tree(self, name: str, *, leaks: bool) -> TreePart:
        """Return the arrays of a tree, either of leaks or of a claim over points."""
        keys = ("parent", "index", "side", "proof", "group", "members", "offsets")
        whole = {key: self._integers(name, key) for key in keys}
        count = len(whole["parent"])
        share, errors = self._forms(name, leaks=leaks)
        floats = {key: self._array(name, key, 1, np.float64) for key in ("point", "target")}
        floats["errors"] = errors
        if self.short:
            # A single number counts for all nodes; names and claims may be left out.
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
                raise self._wrong(name, key, "contains a number that is not finite")
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
            raise self._wrong(name, "error", "and the other arrays of errors differ in shape")
        t = self._array(name, "t", 1, np.float32)
        if len(t) != len(share):
            raise self._wrong(name, "t", "and the other arrays of multipliers differ in shape")
        return np.column_stack([share, t.astype(np.float64)]), np.column_stack(errors)

    def _multipliers(self, name: str, proofs: int) -> Multipliers:
        listed = self.short and f"{name}.neuron" in self.arrays
        rank = 1 if listed else 2
        cz = self._array(name, "cz", rank, np.float32)
        # Without differences from N, there are no multipliers of differences.
        bare = self.short and f"{name}.cd" not in self.arrays
        cd = np.zeros_like(cz) if bare else self._array(name, "cd", rank, np.float32)
        for key, each in (("cz", cz), ("cd", cd)):
            if not (np.isfinite(each) | (self.short and not listed and np.isnan(each))).all():
                raise self._wrong(name, key, "contains a number that is not finite")
        neuron, starts = None, np.arange(len(cz) + 1)
        if listed:
            neuron = self._integers(name, "neuron")
            starts = self._integers(name, "starts")
        fine = cz.shape == cd.shape and len(starts) == proofs + 1
        if fine and neuron is not None:
            fine = len(neuron) == len(cz) == starts[-1] and starts[0] == 0
            fine = fine and bool((starts[1:] >= starts[:-1]).all())
        if not fine:
            raise self._wrong(name, "cz", "and the other arrays of multipliers differ in shape")
        return Multipliers(cz, cd, neuron, starts)

    def _integers(self, name: str, key: str) -> NDArray[np.int64]:
        """Return integers; in a short tree they may have any width."""
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


_MOST = 2**28  # most members of all sets together: a small file must not fill the memory


def with_all_sets(part: TreePart, group: Integers, children: Integers, members: int) -> TreePart:
    """Return a tree whose sets are all listed.

    A root with an empty set has all members; one part of a set may be empty, which means the rest
    left by the others.
    """
    count = len(part.offsets) - 1
    own = part.group[part.group >= 0]
    if len(np.unique(own)) != len(own):
        raise RejectedError("not every node with its own set of members has exactly one")
    sets: list[Integers] = [
        part.members[part.offsets[g] : part.offsets[g + 1]] for g in range(count)
    ]
    everyone, total = np.arange(members, dtype=np.int64), 0
    for root in np.flatnonzero(part.kind == ROOT):
        if not len(sets[part.group[root]]):
            sets[part.group[root]] = everyone
            total += members
    split = children[part.kind[children] == MEMBERS]
    parents, starts = np.unique(part.parent[split], return_index=True)
    pieces = np.split(split, starts[1:]) if len(split) else []
    for parent, own in zip(parents, pieces, strict=True):
        parts = [int(g) for g in part.group[own]]
        empty = [g for g in parts if not len(sets[g])]
        if len(empty) > 1:
            raise RejectedError(
                f"node {int(part.ident[parent])} has two parts without listed members"
            )
        if empty:
            named = np.concatenate([sets[g] for g in parts])
            sets[empty[0]] = np.setdiff1d(sets[group[parent]], named)
        total += sum(len(sets[g]) for g in parts)
        if total > _MOST:
            raise RejectedError("the sets of members are too large in total")
    if not all(len(each) for each in sets):
        raise RejectedError("the sets of members are invalid")
    return replace(
        part,
        members=np.concatenate(sets),
        offsets=np.cumsum([0, *(len(each) for each in sets)]).astype(np.int64),
    )
