"""Records of nodes for certificates."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leaveout.bab.native.kernels.interface import Bounded
from leaveout.bab.native.nodes import Node, Split


@dataclass(frozen=True, slots=True, eq=False)
class Proof:
    """Multipliers that bound a node, in float32 except the last bits of goal shares."""

    cz: NDArray[np.float32]  # shape (hidden,)
    cd: NDArray[np.float32]  # shape (hidden,)
    share: NDArray[np.float64]  # shape (rows,): of the forms of the node's case

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
    members: NDArray[np.int64] | None  # where they are not the parent's
    target: float  # value up to which linear forms were allowed to cut away
    errors: NDArray[np.float64]  # shape (rows,)
    rounding_width: float  # of the node
    status: int  # of the kernel
    value: float  # no counter-example of the node has a higher one
    proof: Proof | None  # None where linear forms, or an empty region, settle the node

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
