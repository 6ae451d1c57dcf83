"""A compact description of how each member differs from N."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from leaveout.encoders.interval import gamma
from leaveout.verifier.guard.layout import Layout, round_up
from leaveout.verifier.guard.packing import Packed

Number = TypeVar("Number", np.float32, np.float64)

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]

GROUP = 32
"""Members of a group, and groups of a block."""

_RANK = 96
"""Most coordinates of a member."""

_SHARE = 4
"""Members at least to a coordinate: a basis must not be as large as the family."""

_SAMPLED_MEMBERS = 256
"""Members that the basis is fitted to, and at most as many slopes."""

_CHUNK = 2**21
"""Numbers of members that are looked at together."""

_SUMMED = 2**22
"""Numbers whose sum in float32 is known to lose less than half of what it adds up."""

_UNIT32 = 2.0**-24

_TINY = 2.0**-126
"""What float32 may lose of a number or product that is below its range."""


@dataclass(frozen=True, eq=False)
class Differences:
    """Compact bounds of what members minus N can do.

    A difference is ``basis @ coordinates`` plus a rest; groups hold members about equally far from
    N.
    """

    layout: Layout
    order: NDArray[np.int64]  # shape (m,): the members
    norms: Singles  # shape (m, layers)
    groups: Singles  # shape (groups or blocks, layers)
    blocks: Singles  # shape (groups or blocks, layers)
    scales: Floats  # shape (layers,)
    basis: Floats  # shape (rank, numbers of a member): about orthonormal; of float32 numbers
    coordinates: Singles  # shape (m, rank)
    rests: Singles  # shape (m, layers + 1)
    rounding: Floats  # shape (layers,)


def summarise(packed: Packed, slopes: Singles, lengths: Floats) -> Differences:
    """Describe how members differ from N."""
    layout = Layout.of(packed)
    own = packed.own
    rounding = layout.rounding(own[None])[0]
    members, rank = len(packed.weights), min(_RANK, len(packed.weights) // _SHARE)
    rows = np.unique(np.linspace(0, members - 1, _SAMPLED_MEMBERS).astype(np.int64))
    scales, basis = _choose_basis(layout, packed.apart(rows), slopes, rank)
    norms = np.empty((members, len(scales)), np.float32)
    rests = np.empty((members, len(scales) + 1), np.float32)
    coordinates = np.empty((members, len(basis)), np.float32)
    step = max(1, _CHUNK // len(own))
    for start in range(0, members, step):
        chosen = np.arange(start, min(start + step, members))
        apart = packed.apart(chosen)
        norms[chosen] = round_up(layout.spectral_norms(apart) + rounding)
        coordinates[chosen], rests[chosen] = _coordinates(layout, apart, scales, basis)
    order = np.argsort(norms @ lengths, kind="stable")
    norms = norms[order]
    groups = largest(norms, 0)
    return Differences(
        layout, order, norms, groups, largest(groups, 0), scales, basis.astype(np.float64),
        np.ascontiguousarray(coordinates[order]), rests[order], rounding,
    )  # fmt: skip


def largest(values: NDArray[Number], axis: int) -> NDArray[Number]:
    """Return the largest value of each group along an axis."""
    starts = np.arange(0, values.shape[axis], GROUP)
    found: NDArray[Number] = np.maximum.reduceat(values, starts, axis=axis)
    return found


def _choose_basis(
    layout: Layout, apart: Floats, slopes: Singles, rank: int
) -> tuple[Floats, Singles]:
    """Choose scales and a basis that leave little of members or slopes.

    Sound for any choice, because what is left of both is bounded afterwards.
    """
    sizes = [np.sqrt(np.mean(layout.norms(rows) ** 2, axis=0)) for rows in (apart, slopes)]
    known = (sizes[0] > 0) & (sizes[1] > 0) & np.isfinite(sizes[0]) & np.isfinite(sizes[1])
    scales = np.where(known, np.sqrt(sizes[1] / np.where(known, sizes[0], 1.0)), 1.0)
    factors = np.ones(apart.shape[1])
    for layer, scale in enumerate(scales):
        for columns in layout.columns(layer):
            factors[columns] = scale
    both = []
    for rows in (apart * factors, slopes / factors):
        size = np.sqrt(np.mean(np.einsum("ij,ij->i", rows, rows)))
        if 0 < size < np.inf:
            both.append(rows / size)
    if not (both and rank):
        return scales, np.zeros((0, apart.shape[1]), np.float32)
    rows = np.concatenate(both)
    values, vectors = np.linalg.eigh(rows @ rows.T)
    chosen = np.flatnonzero(values > 1e-9 * values[-1])[-rank:]
    basis, _ = np.linalg.qr(rows.T @ (vectors[:, chosen] / np.sqrt(values[chosen])))
    return scales, np.ascontiguousarray(basis.T, np.float32)


def _coordinates(
    layout: Layout, apart: Floats, scales: Floats, basis: Singles
) -> tuple[Singles, Singles]:
    """Return the coordinates of differences and the norms of their rests."""
    for layer, scale in enumerate(scales):
        for columns in layout.columns(layer):
            apart[:, columns] *= scale
    single = apart.astype(np.float32)
    coordinates = single @ basis.T
    rest = single - coordinates @ basis
    whole = np.sqrt(np.einsum("ij,ij->i", apart, apart))
    along = np.linalg.norm(coordinates.astype(np.float64), axis=1)
    rank, numbers = basis.shape
    spread = float(np.linalg.norm(basis.astype(np.float64))) if rank else 0.0
    # What float32 may have lost in the rest and in its product with the basis.
    lost = _UNIT32 * (2.0 * whole + (rank + 4.0) * along * spread)
    lost += (rank + 4.0) * np.sqrt(numbers) * _TINY
    left = layout.norms(rest) + lost[:, None]
    total = np.sqrt((left * left).sum(axis=1))
    hidden = np.linalg.norm((rest @ basis.T).astype(np.float64), axis=1)
    # Of very many numbers a sum may lose all, but never more than Cauchy and Schwarz allow.
    share = gamma(numbers + 4, _UNIT32) if numbers < _SUMMED else 1.0
    hidden += spread * (lost + share * total) + rank * numbers * _TINY
    # What float32 may lose in products of coordinates, and of slopes that are rounded.
    hidden += _UNIT32 * (2.0 * (rank + 8.0) * along + 8.0 * whole)
    return coordinates, round_up(np.concatenate([left, hidden[:, None]], axis=1) * (1.0 + 1e-6))
