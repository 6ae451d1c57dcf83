"""Parameters that an operator is not computed of, in any network of a stack."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leaveout.models.graph import Graph
from leaveout.models.lowering import stacked_constants
from leaveout.models.operators import Affine

__all__ = ["Flaw", "first_flaw"]


@dataclass(frozen=True)
class Flaw:
    """What is wrong.

    Attributes
    ----------
    node : str
    member : int
        Which of the networks; 0 where the constants are shared by all.
    why : str
    """

    node: str
    member: int
    why: str


def first_flaw(graph: Graph, parameters: Mapping[str, NDArray[np.floating]]) -> Flaw | None:
    """Find a network of which an operator divides by zero, or has a negative variance.

    Parameters
    ----------
    graph : Graph
    parameters : mapping of str to ndarray, shape (m, *shape)

    Returns
    -------
    Flaw or None
    """
    constants = stacked_constants(graph, parameters)
    for node in graph.nodes:
        if isinstance(node.operator, Affine):
            for why, found in node.operator.flaws(constants).items():
                if found.any():
                    return Flaw(node.name, int(np.argmax(found)), why)
    return None
