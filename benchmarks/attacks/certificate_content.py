"""What a certificate file holds, to be changed and written again whatever it says."""

from __future__ import annotations

import io
import itertools
import json
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["PER_NODE", "Content", "spell_out"]

PER_NODE = {
    "ident": np.int64, "parent": np.int64, "kind": np.int8, "index": np.int64, "side": np.int64,
    "point": np.float64, "target": np.float64, "error": np.float64, "tie": np.float64,
    "claim": np.float64, "proof": np.int64, "group": np.int64,
}  # fmt: skip
"""Arrays of a tree with a row a node, and their types."""


@dataclass(eq=False)
class Content:
    """A certificate's content, to be changed."""

    manifest: dict[str, Any]
    arrays: dict[str, NDArray[Any]]

    @staticmethod
    def of(path: Path) -> Content:
        """Read a certificate."""
        with np.load(path) as found:
            arrays = {name: found[name] for name in found.files}
        manifest = json.loads(arrays.pop("manifest").tobytes())
        found = Content(manifest, arrays)
        for each in (*manifest["results"], *manifest.get("claims", ())):
            if manifest["format"] > 2 and f"{each['tree']}.parent" in arrays:
                spell_out(found, each)
        newer = any(manifest.get(each) for each in ("values", "forests", "samples"))
        if not any(name.endswith(".neuron") for name in arrays) and not newer:
            # All is there that older formats have, so that it is read as one of these.
            manifest["format"] = min(manifest["format"], 2)
        return found

    def save(self, path: Path) -> None:
        """Write it, whatever it holds."""
        raw = np.frombuffer(json.dumps(self.manifest).encode(), np.uint8)
        with zipfile.ZipFile(path, "w") as archive:
            for name, array in {"manifest": raw, **self.arrays}.items():
                stream = io.BytesIO()
                np.save(stream, array, allow_pickle=False)
                archive.writestr(f"{name}.npy", stream.getvalue())

    @property
    def box(self) -> dict[str, Any]:
        """The box of the first question."""
        found: dict[str, Any] = self.manifest["questions"][0]["box"]
        return found

    def array(self, key: str) -> NDArray[Any]:
        """Return a copy of an array of the first tree, in its place."""
        self.arrays[f"tree0.{key}"] = self.arrays[f"tree0.{key}"].copy()
        return self.arrays[f"tree0.{key}"]

    @property
    def first(self) -> dict[str, Any]:
        """The first result, or else the first claim over points."""
        found: dict[str, Any] = [*self.manifest["results"], *self.manifest.get("claims", ())][0]
        return found

    @property
    def per_node(self) -> list[str]:
        """Arrays of the first tree with a row a node."""
        return [key for key in (*PER_NODE, "errors") if f"tree0.{key}" in self.arrays]

    @property
    def hidden(self) -> int:
        """How many hidden neurons the multipliers are of; 0 where there are none."""
        return int(self.arrays["tree0.cz"].shape[1])

    def drop(self, tree: str, node: int) -> None:
        """Remove a leaf of a tree."""
        keep = np.arange(len(self.arrays[f"{tree}.ident"])) != node
        for key in self.per_node:
            array = self.arrays[f"{tree}.{key}"][keep]
            if key == "parent":
                array = np.where(array > node, array - 1, array)
            self.arrays[f"{tree}.{key}"] = array


def spell_out(content: Content, claim: dict[str, Any]) -> None:
    """Write out what a tree leaves to its reader, as older formats have it."""
    arrays, tree = content.arrays, claim["tree"]
    for key, array in list(arrays.items()):
        if key.startswith(f"{tree}.") and array.dtype.kind == "i" and not key.endswith(".kind"):
            arrays[key] = array.astype(np.int64)
    parent, proof = arrays[f"{tree}.parent"], arrays[f"{tree}.proof"]
    count = len(parent)
    arrays.setdefault(f"{tree}.ident", np.arange(count))
    claimed = np.where(proof >= 0, claim["upper"], -np.inf)
    arrays.setdefault(f"{tree}.claim", claimed)
    for key in ("point", "target", "error", "tie", "errors"):
        array = arrays.get(f"{tree}.{key}")
        if array is not None and len(array) == 1:
            arrays[f"{tree}.{key}"] = np.repeat(array, count, axis=0)
    _list_sets(content, claim)


def _list_sets(content: Content, claim: dict[str, Any]) -> None:
    arrays, tree = content.arrays, claim["tree"]
    parent, group = arrays[f"{tree}.parent"], arrays[f"{tree}.group"]
    members, offsets = arrays[f"{tree}.members"], arrays[f"{tree}.offsets"]
    sets = [members[a:b] for a, b in itertools.pairwise(offsets)]
    of: dict[int, NDArray[Any]] = {}
    for node in range(len(parent)):
        g = int(group[node])
        if g >= 0 and not len(sets[g]):
            if parent[node] < 0:
                sets[g] = np.arange(_members(content, claim))
            else:
                others = np.flatnonzero(parent == parent[node])
                named = np.concatenate([sets[int(group[o])] for o in others])
                sets[g] = np.setdiff1d(of[int(parent[node])], named)
        of[node] = sets[g] if g >= 0 else of[int(parent[node])]
    arrays[f"{tree}.members"] = np.concatenate(sets).astype(np.int64)
    arrays[f"{tree}.offsets"] = np.cumsum([0, *(len(each) for each in sets)]).astype(np.int64)


def _members(content: Content, claim: dict[str, Any]) -> int:
    if "question" in claim:
        return int(content.manifest["questions"][claim["question"]]["members"])
    applied = claim["applications"]
    own = [
        each["family"]["members"] for each in applied if each["family"] and each["member"] is None
    ]
    return int(own[0]) if own else 1
