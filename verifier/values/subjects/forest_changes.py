"""What a deletion changed in a forest's trees, as stored in certificates."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from leaveout.models.forest.files import digest_of
from leaveout.models.forest.plain import Ensemble, PlainTree


def changes_between(before: Ensemble, after: Ensemble) -> dict[str, NDArray[Any]]:
    """Return the nodes of each tree where splits changed, and a digest."""
    changes: list[tuple[int, int, int]] = []
    features = [np.zeros(0, np.int32)]
    thresholds = [np.zeros(0)]
    for i, (old, new) in enumerate(zip(before.trees, after.trees, strict=True)):
        new_ends = _ends(new)
        stack = [(0, 0)]
        while stack:
            a, b = stack.pop()
            if old.feature[a] == new.feature[b] and old.threshold[a] == new.threshold[b]:
                if old.feature[a] >= 0:
                    stack += [
                        (int(old.right[a]), int(new.right[b])),
                        (int(old.left[a]), int(new.left[b])),
                    ]
                continue
            changes.append((i, a, int(new_ends[b]) - b))
            features.append(new.feature[b : new_ends[b]])
            thresholds.append(new.threshold[b : new_ends[b]])
    columns = np.array(changes, np.int32).reshape(-1, 3)
    return {
        "tree": columns[:, 0].copy(),
        "node": columns[:, 1].copy(),
        "size": columns[:, 2].copy(),
        "feature": np.concatenate(features),
        "threshold": np.concatenate(thresholds),
        "digest": np.frombuffer(bytes.fromhex(digest_of(after)), np.uint8),
    }


def _ends(tree: PlainTree) -> NDArray[np.int64]:
    """Return the end of each node's subtree."""
    ends = np.arange(1, len(tree.feature) + 1, dtype=np.int64)
    for node in range(len(ends) - 1, -1, -1):
        if tree.feature[node] >= 0:
            ends[node] = ends[tree.right[node]]
    return ends
