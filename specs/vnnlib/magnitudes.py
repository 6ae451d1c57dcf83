"""Bounds on score magnitudes, for the rare coefficient that float64 cannot hold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np

from leaveout.encoders.box import Box, Floats
from leaveout.errors import SpecError
from leaveout.models import Network
from leaveout.specs.vnnlib.formula import Place
from leaveout.specs.vnnlib.onnx_files import score_of


def magnitudes(
    boxes: Sequence[Box], networks: Sequence[Network], points: Sequence[int]
) -> Callable[[Place], Fraction]:
    """Return a function that bounds the magnitude of any score over the boxes."""
    known: dict[int, Floats] = {}

    def largest(spot: Place) -> Fraction:
        if spot.network not in known:
            box = boxes[points[spot.network]]
            known[spot.network] = _of_scores(networks[spot.network], box)
        element = score_of(networks[spot.network], spot.element)
        return Fraction(float(known[spot.network][element]))

    return largest


def _of_scores(network: Network, box: Box) -> Floats:
    """Return twice the summed absolute values of all terms, which covers rounding too.

    No activation increases a magnitude.
    """
    sources: list[Floats] = [np.maximum(np.abs(box.lower), np.abs(box.upper))]
    for layer in network.stack.layers:
        total = np.abs(layer.bias[0]) + sum(
            sources[source] @ np.abs(weights[0]).T for source, weights in layer.weights.items()
        )
        sources.append(np.asarray(total, np.float64) + np.finfo(np.float32).tiny)
    found = np.asarray(2 * sources[-1])
    if not np.isfinite(found).all():
        raise SpecError(f"{network.source}: no float64 bounds its scores over the query's inputs")
    return found
