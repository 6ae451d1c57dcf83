"""Records of nodes for certificates."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from leaveout.bab.native.kernels.interface import Bounded
from leaveout.bab.native.nodes import Kind, Node, Split


@dataclass(frozen=True, slots=True, eq=False)
class Proof:
    """Multipliers that bound a node, in float32 except for the last bits of goal shares."""

    cz: NDArray[np.float32]  # shape (hidden,)
    cd: NDArray[np.float32]  # shape (hidden,)
    share: NDArray[np.float64]  # shape (rows,): for the forms of the node's case

    @staticmethod
    def of(found: Bounded, i: int) -> Proof:
        """Return a kernel's result for one node."""
        cz, cd = found.cz[i].astype(np.float32), found.cd[i].astype(np.float32)
        return Proof(cz, cd, found.share[i].copy())


@dataclass(frozen=True, slots=True, eq=False)
class Record:
    """One bounded node of the search tree."""

    ident: int
    parent: int
    split: Split
    members: NDArray[np.int64] | None  # None if they are the parent's
    target: float  # value up to which linear forms could cut parts away
    errors: NDArray[np.float64]  # shape (rows,)
    rounding_width: float  # of the node
    status: int  # status from the kernel
    value: float  # no counter-example of the node has a higher value
    proof: Proof | None  # None if linear forms, or an empty region, settle the node

    @staticmethod
    def of(node: Node, target: float, status: int, proof: Proof | None) -> Record:
        """Record a bounded node."""
        own = node.split.kind in {"root", "members"}
        return Record(
            node.ident,
            node.parent,
            node.split,
            node.members if own else None,
            target,
            node.errors,
            node.rounding_width,
            status,
            node.bound,
            proof,
        )


BLOCK = 4096
"""Nodes packed at once."""

_KINDS = get_args(Kind)

_FLOAT32 = {"state", "input_score", "neuron_score"}
"""Stored as float32: bounds among them are rounded outwards, the others only guide the search."""

_LOWER = (0, 4)  # rows of the state that are lower bounds: of z, and of dz


@dataclass(frozen=True, eq=False)
class Table:
    """Some nodes."""

    rows: NDArray[np.void]  # shape (n,)
    members: NDArray[np.int64]  # the members of all nodes, concatenated

    def __len__(self) -> int:
        return len(self.rows)


def row_type(example: Node) -> np.dtype[np.void]:
    """Return the row type of a `Table` for nodes of the example's shape."""
    columns: list[tuple[str, Any] | tuple[str, Any, tuple[int, ...]]] = [
        ("count", "<i8"),
        ("kind", "i1"),
        ("index", "<i8"),
        ("side", "<i8"),
        ("point", "<f8"),
    ]
    for name in _plain():
        value = getattr(example, name)
        if isinstance(value, np.ndarray):
            kind = np.dtype("<f4") if name in _FLOAT32 else value.dtype.newbyteorder("<")
            columns.append((name, kind, value.shape))
        else:
            columns.append((name, _scalar(value)))
    return np.dtype(columns)


def _scalar(value: bool | int | float) -> str:
    return "?" if isinstance(value, bool) else "<i8" if isinstance(value, int) else "<f8"


def _plain() -> list[str]:
    return [each.name for each in fields(Node) if each.name not in {"split", "members"}]


def pack(nodes: list[Node], kind: np.dtype[np.void]) -> Table:
    """Pack nodes."""
    rows = np.zeros(len(nodes), kind)
    rows["count"] = [len(node.members) for node in nodes]
    rows["kind"] = [_KINDS.index(node.split.kind) for node in nodes]
    for name in ("index", "side", "point"):
        rows[name] = [getattr(node.split, name) for node in nodes]
    for name in _plain() if nodes else []:
        given = [getattr(node, name) for node in nodes]
        if kind[name].shape:
            # Much faster than an array of arrays.
            values = np.concatenate(given).reshape(len(nodes), *kind[name].shape)
            rows[name] = _outwards(values) if name == "state" else values
        else:
            rows[name] = given
    members = [node.members for node in nodes]
    return Table(rows, np.concatenate(members) if members else np.zeros(0, np.int64))


def _outwards(state: NDArray[np.float64]) -> NDArray[np.float32]:
    rounded = state.astype(np.float32)
    for row in range(state.shape[1]):
        given, kept = state[:, row], rounded[:, row]
        lower = row in _LOWER
        wrong = kept > given if lower else kept < given
        np.nextafter(kept, np.float32(-np.inf if lower else np.inf), out=kept, where=wrong)
    return rounded


def unpack(table: Table, example: Node) -> list[Node]:
    """Return the nodes of a table, with the number types of ``example``."""
    rows = table.rows
    if not len(rows):
        return []
    names = _plain()
    columns: list[Any] = []
    for name in names:
        value = getattr(example, name)
        if isinstance(value, np.ndarray):
            columns.append([row.copy() for row in rows[name].astype(value.dtype)])
        else:
            columns.append(rows[name].tolist())
    ends = np.cumsum(rows["count"])[:-1]
    members = [part.copy() for part in np.split(table.members, ends)]
    splits = [
        Split(_KINDS[kind], index, side, point)
        for kind, index, side, point in zip(
            *(rows[name].tolist() for name in ("kind", "index", "side", "point")), strict=True
        )
    ]
    return [
        replace(example, split=split, members=own, **dict(zip(names, values, strict=True)))
        for split, own, *values in zip(splits, members, *columns, strict=True)
    ]


_ROW = np.dtype(
    [
        ("ident", "<i8"),
        ("parent", "<i8"),
        ("kind", "i1"),
        ("index", "<i8"),
        ("side", "<i8"),
        ("point", "<f8"),
        ("count", "<i8"),
        ("target", "<f8"),
        ("rounding_width", "<f8"),
        ("status", "<i8"),
        ("value", "<f8"),
        ("proved", "?"),
    ]
)
_OWN = ("ident", "parent", "target", "rounding_width", "status", "value")
_SPLIT = ("index", "side", "point")


def pack_records(records: list[Record]) -> dict[str, NDArray[np.generic]]:
    """Pack records, at least one."""
    rows = np.zeros(len(records), _ROW)
    for name in _OWN:
        rows[name] = [getattr(record, name) for record in records]
    for name in _SPLIT:
        rows[name] = [getattr(record.split, name) for record in records]
    rows["kind"] = [_KINDS.index(record.split.kind) for record in records]
    rows["count"] = [-1 if record.members is None else len(record.members) for record in records]
    rows["proved"] = [record.proof is not None for record in records]
    members = [record.members for record in records if record.members is not None]
    proofs = [record.proof for record in records if record.proof is not None]
    packed: dict[str, NDArray[np.generic]] = {
        "rows": rows,
        "errors": np.stack([record.errors for record in records]),
        "members": np.concatenate([np.zeros(0, np.int64), *members]),
    }
    for name in ("cz", "cd", "share"):
        packed[name] = np.array([getattr(proof, name) for proof in proofs])
    return packed


def unpack_records(packed: dict[str, NDArray[np.generic]]) -> list[Record]:
    """Return the records of `pack_records`."""
    rows: NDArray[np.void] = np.asarray(packed["rows"])
    proofs = iter(
        Proof(cz, cd, share)
        for cz, cd, share in zip(packed["cz"], packed["cd"], packed["share"], strict=True)
    )
    records, begin = [], 0
    for row, errors in zip(rows, np.asarray(packed["errors"], np.float64), strict=True):
        count, own = int(row["count"]), None
        if count >= 0:
            own = np.asarray(packed["members"][begin : begin + count], np.int64)
            begin += count
        values = {name: row[name].item() for name in _OWN}
        split = Split(_KINDS[row["kind"]], *(row[name].item() for name in _SPLIT))
        proof = next(proofs) if row["proved"] else None
        records.append(Record(split=split, members=own, errors=errors, proof=proof, **values))
    return records
