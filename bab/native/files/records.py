"""What a certificate needs to know of each node."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leaveout.bab.native.kernels.interface import Bounded
from leaveout.bab.native.nodes import Node, Split

__all__ = ["Proof", "Record"]


@dataclass(frozen=True, slots=True, eq=False)
class Proof:
    """Multipliers that bound a node; all are float32 numbers but the last bits of goals' shares.

    Attributes
    ----------
    cz, cd : ndarray of float32, shape (hidden,)
    share : ndarray of float64, shape (rows,)
        Of the forms of the node's case.
    """

    cz: NDArray[np.float32]
    cd: NDArray[np.float32]
    share: NDArray[np.float64]

    @staticmethod
    def of(found: Bounded, i: int) -> Proof:
        """Return what a kernel found of one node."""
        cz, cd = found.cz[i].astype(np.float32), found.cd[i].astype(np.float32)
        return Proof(cz, cd, found.share[i].copy())


@dataclass(frozen=True, slots=True, eq=False)
class Record:
    """One node of the search tree, bounded.

    Attributes
    ----------
    ident, parent : int
    split : Split
    members : ndarray of int64 or None
        Where they are not the parent's.
    target : float
        Value up to which linear forms were allowed to cut away.
    errors : ndarray of float64, shape (rows,)
    rounding_width : float
        Of the node.
    status : int
        Of the kernel.
    value : float
        No counter-example of the node has a higher one.
    proof : Proof or None
        None where linear forms, or an empty region, settle the node.
    """

    ident: int
    parent: int
    split: Split
    members: NDArray[np.int64] | None
    target: float
    errors: NDArray[np.float64]
    rounding_width: float
    status: int
    value: float
    proof: Proof | None

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
