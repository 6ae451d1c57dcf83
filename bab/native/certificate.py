"""Write what proves the upper bounds of native searches, for ``leaveout check``.

The file is described in ``docs/certificates.md``. The checker reads it with code of its own;
nothing here is used there.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, get_args

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from leaveout.bab.instance import Instance
from leaveout.bab.native.nodes import Kind
from leaveout.bab.native.records import Proof, Record
from leaveout.files import ARCHIVE, opened, written_whole

__all__ = ["CertificateBook", "FileFacts", "compact"]

_FORMAT = 1
_KINDS = get_args(Kind)
_BLOCK = 4096
_BYTES = 2**22

_ROOM = 1e-7
"""Relative: claims are this much above what was found, since the checker rounds otherwise."""

_ROOM_OF_ERRORS = 3e-7
"""The same of evaluation errors, which hang on the last bits of very small regions."""

_ROOM_OF_SUMS = 2e-6
"""What the checker's float64 may round otherwise, relative to what float32 may over the box."""

Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class FileFacts:
    """Where a question's network and family are.

    Attributes
    ----------
    network, family : Path
    family_is_network : bool
        Whether the family is a single network.
    """

    network: Path
    family: Path
    family_is_network: bool = False


@dataclass(eq=False)
class _Claim:
    names: list[str]
    question: int
    label: int
    upper: float
    tree: _Tree


@dataclass(frozen=True, eq=False)
class _Tree:
    arrays: Arrays
    proofs: list[Proof]


@dataclass(eq=False)
class CertificateBook:
    """Collects what proves the results of one specification.

    Attributes
    ----------
    version : str
        Of leaveout.
    spec, text : str
        Name and text of the specification.
    """

    version: str
    spec: str
    text: str
    _questions: list[tuple[Instance, FileFacts]] = field(default_factory=list)
    _claims: dict[tuple[int, int], _Claim] = field(default_factory=dict)

    def add(
        self,
        name: str,
        label: int,
        upper: float,
        records: Sequence[Record],
        instance: Instance,
        files: FileFacts,
    ) -> None:
        """Keep what proves the bound of one label.

        Of several searches for one label of a question the lowest bound is kept.

        Parameters
        ----------
        name : str
            Of the statement.
        label : int
        upper : float
            What the search found.
        records : sequence of Record
            All nodes it bounded, in the order it did; none where it did not search.
        instance : Instance
        files : FileFacts
        """
        place = self._place(instance, files)
        known = self._claims.get((place, label))
        if records:
            proved, tree = compact(records, upper, instance, label)
            if known is None or proved < known.upper:
                names = [] if known is None else known.names
                known = _Claim(names, place, label, proved, tree)
                self._claims[place, label] = known
        if known is not None and name not in known.names:
            known.names.append(name)

    def rested(self, name: str, instance: Instance, label: int) -> float:
        """Note that a result is about a label; return the bound proved of it, infinite if none."""
        for i, (question, _) in enumerate(self._questions):
            claim = self._claims.get((i, label))
            if question is instance and claim is not None:
                if name not in claim.names:
                    claim.names.append(name)
                return claim.upper
        return math.inf

    def __bool__(self) -> bool:
        return bool(self._claims)

    def _place(self, instance: Instance, files: FileFacts) -> int:
        for i, (known, _) in enumerate(self._questions):
            if known is instance:
                return i
        self._questions.append((instance, files))
        return len(self._questions) - 1

    def outside(self, folder: Path) -> list[FileFacts]:
        """Return the files of questions that a checker does not open by itself from a folder."""
        return [
            files
            for _, files in self._questions
            if not all(
                each.resolve().is_relative_to(folder) for each in (files.network, files.family)
            )
        ]

    def write(self, path: Path) -> None:
        """Write the certificate, whole or not at all.

        Raises
        ------
        OSError
            If the file cannot be written; what was there is still there.
        """
        with written_whole(path) as stream:
            self._write(stream, path.resolve().parent)

    def _write(self, stream: IO[bytes], folder: Path) -> None:
        claims = sorted(self._claims.values(), key=lambda claim: (claim.question, claim.label))
        manifest = {
            "format": _FORMAT,
            "leaveout": self.version,
            "spec": self.spec,
            "text": self.text,
            "questions": [
                _question(instance, files, folder) for instance, files in self._questions
            ],
            "results": [
                {
                    "question": claim.question,
                    "name": ", ".join(claim.names),
                    "label": claim.label,
                    "upper": claim.upper,
                    "tree": f"tree{i}",
                }
                for i, claim in enumerate(claims)
            ],
        }
        encoded = np.frombuffer(json.dumps(manifest, allow_nan=False).encode(), np.uint8)
        with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
            _put(archive, "manifest", encoded)
            for i, claim in enumerate(claims):
                for key, array in claim.tree.arrays.items():
                    _put(archive, f"tree{i}.{key}", array)
                _put_proofs(archive, f"tree{i}", claim.tree)


def compact(
    records: Sequence[Record], upper: float, instance: Instance, label: int
) -> tuple[float, _Tree]:
    """Keep of a search what its bound rests on.

    Regions that were taken back are dropped, and so are splits that were interrupted; the node
    above such a split is a leaf.

    Parameters
    ----------
    records : sequence of Record
    upper : float
        What the search found.
    instance : Instance
    label : int
        The question.

    Returns
    -------
    float
        What the tree proves, at least ``upper``.
    """
    below: dict[int, list[int]] = {}
    for i, record in enumerate(records):
        below.setdefault(record.parent, []).append(i)
    order = list(below.get(-1, []))
    members: dict[int, NDArray[np.int64]] = {}
    leaves: list[bool] = []
    for i in order:
        record = records[i]
        own = record.members
        members[record.ident] = members[record.parent] if own is None else own
        children = _last_whole(records, below.get(record.ident, []), members[record.ident])
        leaves.append(not children)
        order += children
    kept = [records[i] for i in order]
    found = [_roomy(r, r.value, instance) for r, leaf in zip(kept, leaves, strict=True) if leaf]
    proved = max(found, default=-math.inf)
    proved = max(proved, upper + _ROOM * (1.0 + abs(upper)))
    return proved, _tree(kept, leaves, proved, instance, label)


def _target(record: Record, upper: float) -> float:
    """Return a target that the room of errors leaves the cut where it was."""
    return min(record.target + _ROOM_OF_ERRORS * float(record.errors[0]), upper)


def _roomy(record: Record, value: float, instance: Instance) -> float:
    """Return a value with room for the checker's own rounding.

    That is relative to the terms that make up the scores over the whole box, which may be far
    larger than the value; so are the evaluation errors there, in float32 instead of float64.
    """
    if not math.isfinite(value):
        return value
    t = float(record.proof.share[-1]) if record.proof is not None else 0.0
    errors = instance.network_error + t * instance.member_error
    return value + _ROOM * (1.0 + abs(value)) + _ROOM_OF_SUMS * errors


def _last_whole(
    records: Sequence[Record], children: list[int], members: NDArray[np.int64]
) -> list[int]:
    """Return the children of the last split of a node whose children are all there."""
    groups: dict[tuple[object, ...], list[int]] = {}
    for i in children:
        split = records[i].split
        groups.setdefault((split.kind, split.index, split.point), []).append(i)
    for (kind, *_), group in reversed(groups.items()):
        if kind == "members":
            sets = [records[i].members for i in group]
            whole = sum(len(each) for each in sets if each is not None) == len(members)
        else:
            whole = len(group) == 2
        if whole:
            return group
    return []


def _tree(
    kept: list[Record], leaves: list[bool], upper: float, instance: Instance, label: int
) -> _Tree:
    rivals = [c for c in range(instance.labels) if c != label]
    row = {record.ident: i for i, record in enumerate(kept)}
    proofs: list[Proof] = []
    sets: list[NDArray[np.int64]] = []
    proof, group, claim = [], [], []
    for record, leaf in zip(kept, leaves, strict=True):
        group.append(-1 if record.members is None else len(sets))
        if record.members is not None:
            sets.append(record.members)
        proves = leaf and record.proof is not None
        proof.append(len(proofs) if proves else -1)
        least = max(record.value, min(record.target, upper))
        claim.append(min(upper, _roomy(record, least, instance)) if proves else -math.inf)
        if proves and record.proof is not None:
            proofs.append(record.proof)
    bare = [record.split for record in kept]
    share = np.zeros((len(proofs), instance.labels))
    for i, each in enumerate(proofs):
        share[i, rivals] = each.share[:-1]
    arrays: Arrays = {
        "ident": np.array([record.ident for record in kept], np.int64),
        "parent": np.array([row.get(record.parent, -1) for record in kept], np.int64),
        "kind": np.array([_KINDS.index(split.kind) for split in bare], np.int8),
        "index": np.array(
            [rivals[s.index] if s.kind == "root" else s.index for s in bare], np.int64
        ),
        "side": np.array([split.side for split in bare], np.int64),
        "point": np.array([split.point for split in bare]),
        "target": np.array([_target(record, upper) for record in kept]),
        "error": np.array([record.errors[0] * (1.0 + _ROOM_OF_ERRORS) for record in kept]),
        "tie": np.array([record.errors[-1] * (1.0 + _ROOM_OF_ERRORS) for record in kept]),
        "claim": np.array(claim),
        "proof": np.array(proof, np.int64),
        "group": np.array(group, np.int64),
        "members": np.concatenate([np.zeros(0, np.int64), *sets]),
        "offsets": np.cumsum([0, *(len(each) for each in sets)]).astype(np.int64),
        "t": np.array([each.share[-1] for each in proofs], np.float32),
        "share": share,
    }
    return _Tree(arrays, proofs)


def _question(instance: Instance, files: FileFacts, folder: Path) -> dict[str, object]:
    kind = "network" if files.family_is_network else "folder" if files.family.is_dir() else "family"
    box = instance.box
    return {
        "network": _file(files.network, folder, "network"),
        "family": _file(files.family, folder, kind),
        "members": len(instance.family),
        "box": {
            "lower": box.lower.tolist(),
            "upper": box.upper.tolist(),
            "choices": [
                {"columns": each.columns.tolist(), "values": each.values.tolist()}
                for each in box.choices
            ],
        },
    }


def _file(path: Path, folder: Path, kind: str) -> dict[str, str]:
    if kind == "folder":
        lines = [f"{_digest(file)}  {file.name}\n" for file in sorted(path.glob("*.onnx"))]
        digest = hashlib.sha256("".join(lines).encode()).hexdigest()
    else:
        digest = _digest(path)
    relative = os.path.relpath(path.resolve(), folder)
    return {"path": Path(relative).as_posix(), "sha256": digest, "kind": kind}


def _digest(path: Path) -> str:
    digest = hashlib.sha256()
    with opened(path, ARCHIVE) as stream:
        while block := stream.read(_BYTES):
            digest.update(block)
    return digest.hexdigest()


def _put(archive: zipfile.ZipFile, name: str, array: NDArray[Any]) -> None:
    with archive.open(f"{name}.npy", "w", force_zip64=True) as stream:
        npy.write_array(stream, np.ascontiguousarray(array), allow_pickle=False)


def _put_proofs(archive: zipfile.ZipFile, name: str, tree: _Tree) -> None:
    """Write the multipliers a few at a time: together they may be as large as the records."""
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
