"""Nodes as compact arrays, for files and pipes."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from leaveout.bab.native.nodes import Kind, Node, Split

BLOCK = 4096
"""Nodes packed together."""

_KINDS = get_args(Kind)

_FLOAT32 = {"state", "input_score", "neuron_score"}
"""Kept as float32: the bounds among them are rounded outwards, the others only steer."""

_LOWER = (0, 4)
"""Rows of the state that are lower bounds: of z, and of dz."""


@dataclass(frozen=True, eq=False)
class Table:
    """Some nodes."""

    rows: NDArray[np.void]  # shape (n,)
    members: NDArray[np.int64]  # those of all nodes, one node after the other

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
            # Many times as fast as an array of arrays.
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
