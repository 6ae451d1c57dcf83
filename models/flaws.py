"""Parameters with which an operator cannot be computed, in any network of a stack."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leaveout.models.graph import Graph
from leaveout.models.lowering import stacked_constants
from leaveout.models.operators.base import Affine


@dataclass(frozen=True)
class Flaw:
    """The invalid parameter that was found."""

    node: str
    member: int  # which of the networks; 0 where the constants are shared by all
    why: str


def first_flaw(graph: Graph, parameters: Mapping[str, NDArray[np.floating]]) -> Flaw | None:
    """Return the first division by zero or negative variance in any network, or None."""
    constants = stacked_constants(graph, parameters)
    for node in graph.nodes:
        if isinstance(node.operator, Affine):
            for why, found in node.operator.flaws(constants).items():
                if found.any():
                    return Flaw(node.name, int(np.argmax(found)), why)
    return None
