"""Proof trees of a certificate: the parts of a search that its bound depends on."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from leaveout.arrays import Floats
from leaveout.bab.native.files.records import Proof, Record
from leaveout.bab.native.nodes import Kind
from leaveout.models.archive import put_array

_KINDS = get_args(Kind)
_BLOCK = 4096
_ROOM = 1e-7
"""Relative margin of claims above the found bounds, since the checker rounds differently."""

_ROOM_OF_ERRORS = 3e-7
"""The same for evaluation errors, which depend on the last bits of very small regions."""

_ROOM_OF_SUMS = 2e-6  # margin for the checker's float64, relative to the float32 error over the box

Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True, eq=False)
class Room:
    """Reference sizes of the margin for the checker's own rounding."""

    rounding: Floats  # shape (cases, rows)
    scale: Floats  # shape (cases,): scale of each case's values; at most 1

    def above(self, value: float, proof: Proof | None, case: int) -> float:
        """Return a value plus a margin for the checker's own rounding.

        Like float32 errors, it is relative to the scores' terms over the box, which may far exceed
        the value.
        """
        if not math.isfinite(value):
            return value
        rounding = self.rounding[case]
        errors = float(rounding.max(initial=0.0) if proof is None else proof.share @ rounding)
        scale = float(self.scale[case])
        return value + _ROOM * (scale + abs(value)) + _ROOM_OF_SUMS * errors

    def below(self, floor: float) -> float:
        """Return how far below the deciding value a search must get to be provable."""
        scale, rounding = float(self.scale.max()), float(self.rounding.max(initial=0.0))
        return 4.0 * _ROOM * (scale + abs(floor)) + 10.0 * _ROOM_OF_SUMS * rounding


@dataclass(frozen=True, eq=False)
class ProofTree:
    """A complete proof tree."""

    arrays: Arrays  # as in ``docs/certificates.md``, without the multipliers of neurons
    proofs: list[Proof]


def compact(records: Sequence[Record], upper: float, room: Room) -> tuple[float, ProofTree]:
    """Keep the parts of a search that its bound depends on.

    A node may have several splits, if regions were taken back or shared; the one that proves most
    is kept, or none if the node's bound suffices.
    """
    below: dict[int, list[int]] = {}
    for i, record in enumerate(records):
        below.setdefault(record.parent, []).append(i)
    order = list(below.get(-1, []))
    members: dict[int, NDArray[np.int64]] = {}
    for i in order:
        own = records[i].members
        members[records[i].ident] = members[records[i].parent] if own is None else own
        order += below.get(records[i].ident, [])
    proved = {i: records[i].value for i in order}
    chosen: dict[int, list[int]] = {}
    for i in reversed(order):
        record = records[i]
        if record.value <= upper:
            continue
        for ways in _splits(records, below.get(record.ident, [])):
            split = [min(way, key=proved.__getitem__) for way in ways]
            value = max(proved[child] for child in split)
            if value < proved[i] and _is_whole(records, split, members[record.ident]):
                proved[i], chosen[i] = value, split
    kept = list(below.get(-1, []))
    case: dict[int, int] = {}
    for i in kept:
        record = records[i]
        case[record.ident] = record.split.index if record.parent < 0 else case[record.parent]
        kept += chosen.get(i, [])
    nodes, leaves = [records[i] for i in kept], [i not in chosen for i in kept]
    found = [
        room.above(node.value, node.proof, case[node.ident])
        for node, leaf in zip(nodes, leaves, strict=True)
        if leaf
    ]
    most = max(found, default=-math.inf)
    most = max(most, upper + _ROOM * (float(room.scale.min()) + abs(upper)))
    return most, _tree(*_shortest(nodes, leaves, most, room, case), most)


def _shortest(
    nodes: list[Record], leaves: list[bool], upper: float, room: Room, case: dict[int, int]
) -> tuple[list[Record], list[bool]]:
    """Drop subtrees of nodes whose bounds suffice for the tree's."""
    closed, kept, ends = set[int](), [], []
    for node, leaf in zip(nodes, leaves, strict=True):
        if node.parent in closed:
            closed.add(node.ident)
            continue
        done = leaf or room.above(node.value, node.proof, case[node.ident]) <= upper
        if done:
            closed.add(node.ident)
        kept.append(node)
        ends.append(done)
    return kept, ends


def _splits(records: Sequence[Record], children: list[int]) -> Iterator[list[list[int]]]:
    """Yield each way a node was split: for each side its children, of which any suffices."""
    groups: dict[tuple[object, ...], dict[object, list[int]]] = {}
    for i in children:
        split, own = records[i].split, records[i].members
        side = split.side if own is None else own.tobytes()
        sides = groups.setdefault((split.kind, split.index, split.point), {})
        sides.setdefault(side, []).append(i)
    for sides in groups.values():
        yield list(sides.values())


def _is_whole(records: Sequence[Record], split: list[int], members: NDArray[np.int64]) -> bool:
    """Return whether children cover their parent."""
    sets = [own for i in split if (own := records[i].members) is not None]
    if not sets:
        return len(split) == (1 if records[split[0]].split.kind == "untied" else 2)
    return np.array_equal(np.sort(np.concatenate(sets)), np.sort(members))


def _target(record: Record, upper: float) -> float:
    """Return a target for which the margin of errors does not change the cut."""
    return min(record.target + _ROOM_OF_ERRORS * float(record.errors.max(initial=0.0)), upper)


def _tree(kept: list[Record], leaves: list[bool], upper: float) -> ProofTree:
    """Return the arrays of a tree, except what a reader can derive."""
    row = {record.ident: i for i, record in enumerate(kept)}
    proofs: list[Proof] = []
    sets: list[NDArray[np.int64]] = []
    proof, group = [], []
    told = _nodes_with_members(kept)
    for i, (record, leaf) in enumerate(zip(kept, leaves, strict=True)):
        group.append(-1 if record.members is None else len(sets))
        if record.members is not None:
            sets.append(record.members[:0] if i in told else record.members)
        proves = leaf and record.proof is not None
        proof.append(len(proofs) if proves else -1)
        if proves and record.proof is not None:
            proofs.append(record.proof)
    bare = [record.split for record in kept]
    errors = np.stack([record.errors for record in kept])
    arrays: Arrays = {
        "parent": narrow([row.get(record.parent, -1) for record in kept]),
        "kind": np.array([_KINDS.index(split.kind) for split in bare], np.int8),
        "index": narrow([split.index for split in bare]),
        "side": narrow([split.side for split in bare]),
        "point": _once(np.array([split.point for split in bare])),
        "target": _once(np.array([_target(record, upper) for record in kept])),
        "errors": _once(errors * (1.0 + _ROOM_OF_ERRORS)),
        "proof": narrow(proof),
        "group": narrow(group),
        "members": narrow(np.concatenate([np.zeros(0, np.int64), *sets])),
        "offsets": narrow(np.cumsum([0, *(len(each) for each in sets)])),
        "share": np.array([each.share for each in proofs], np.float64).reshape(-1, errors.shape[1]),
    }
    return ProofTree(arrays, proofs)


def _nodes_with_members(kept: list[Record]) -> set[int]:
    """Return the nodes that store their members: roots, and the larger part of each split."""
    largest: dict[int, int] = {}
    found = set()
    for i, record in enumerate(kept):
        if record.members is None:
            continue
        if record.parent < 0:
            found.add(i)
            continue
        known = kept[largest.setdefault(record.parent, i)].members
        if known is not None and len(record.members) > len(known):
            largest[record.parent] = i
    return found | set(largest.values())


def narrow(numbers: Sequence[int] | NDArray[np.int64]) -> NDArray[Any]:
    """Return integers in the narrowest signed type that suffices."""
    found = np.asarray(numbers, np.int64)
    ends = [int(found.min(initial=0)), int(found.max(initial=0))]
    fits = (np.int8, np.int16, np.int32)
    for each in fits:
        if np.iinfo(each).min <= ends[0] and ends[1] <= np.iinfo(each).max:
            return found.astype(each)
    return found


def _once(values: Floats) -> Floats:
    """Return the first of equal values, in a new array."""
    return values[:1] if len(values) and (values == values[0]).all() else values


def tree_arrays(name: str, tree: ProofTree) -> Arrays:
    """Return a tree's arrays by name, including neuron multipliers."""
    found = {f"{name}.{key}": array for key, array in tree.arrays.items()}
    for key in ("cz", "cd"):
        rows = [getattr(each, key) for each in tree.proofs]
        none = np.zeros((0, 0), np.float32)
        found[f"{name}.{key}"] = np.stack(rows).astype(np.float32) if rows else none
    return found


def put_tree(archive: zipfile.ZipFile, name: str, tree: ProofTree) -> None:
    """Write a tree; multipliers, which may be very large, in batches."""
    for key, array in tree.arrays.items():
        put_array(archive, f"{name}.{key}", np.ascontiguousarray(array), packed=True)
    width = len(tree.proofs[0].cz) if tree.proofs else 0
    header = {
        "descr": npy.dtype_to_descr(np.dtype(np.float32)),
        "fortran_order": False,
        "shape": (len(tree.proofs), width),
    }
    for key in ("cz", "cd"):
        with archive.open(f"{name}.{key}.npy", "w", force_zip64=True) as stream:
            npy.write_array_header_1_0(stream, header)
            for i in range(0, len(tree.proofs), _BLOCK):
                rows = [getattr(each, key) for each in tree.proofs[i : i + _BLOCK]]
                stream.write(np.stack(rows).astype("<f4").tobytes())
