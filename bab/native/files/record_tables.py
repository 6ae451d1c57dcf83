"""Records as compact arrays, for files."""

from __future__ import annotations

from typing import get_args

import numpy as np
from numpy.typing import NDArray

from leaveout.bab.native.files.records import Proof, Record
from leaveout.bab.native.nodes import Kind, Split

_KINDS = get_args(Kind)

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
