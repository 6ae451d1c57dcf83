"""Networks as sums: linear forms in the input that lie above what N and its members compute.

A layer of N is ``z = W h + b``; a member's is ``z + dz``, its weights and biases moved by ``C`` and
``s``, up to ``R`` and ``t`` for a set of members. With ``h = relu(z)``, ``dh = relu(z + dz) - h``,

    dz  is in  s + C h + (W + C) dh  +-  (t + R (h + |dh|)),

and every rule below is a sum of multiples of such lines. Inputs are shifted by ``origin`` so that
none is negative: then a radius of weights costs the radius times the input.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from .boxes import Inputs, Table, shifted_rows
from .numbers import UNIT, Floats, gamma, need
from .smooth import Kinds, by_kind, change_of, floors, pair_ends, tops

Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]

LOW, HIGH, P, Q, BELOW, ABOVE = range(6)
"""What is known of a hidden pair: bounds of z; that dz is at most p and at least -q; bounds of dz
as the phases of pairs let it vary."""


@dataclass(frozen=True, eq=False)
class Layer:
    """One affine map of some networks; source 0 is the input, source k layer k when activated."""

    sources: tuple[int, ...]
    weights: tuple[Floats, ...]  # by source, shape (m, outputs, width of the source)
    bias: Floats  # shape (m, outputs)
    kinds: Kinds  # of activations


class Networks(Protocol):
    """The networks that a claim ranges over, all of one architecture."""

    def __len__(self) -> int: ...

    def chunks(self, members: Integers, /) -> Iterator[tuple[Integers, Sequence[Layer]]]:
        """Yield some of them, a few at a time, with their positions."""


def positive(values: Floats) -> Floats:
    """Return the positive parts."""
    return np.maximum(values, 0.0)


def negative(values: Floats) -> Floats:
    """Return the negative parts, which are at most 0."""
    return np.minimum(values, 0.0)


def at_least(values: Floats) -> Floats:
    """Return upper bounds; what is no number, or minus infinity, bounds nothing."""
    return np.where(values > -np.inf, values, np.inf)


@dataclass(frozen=True, eq=False)
class Hull:
    """What a set of members adds to N: centre and radius of weights and of biases."""

    centre: list[list[Floats]]  # by layer and source, shape (outputs, width of the source)
    radius: list[list[Floats]] | None  # None for a single network
    shift: list[Floats]  # by layer, shape (outputs,)
    slack: list[Floats]


class Net:
    """N over one region of shifted inputs, the hulls of its members, and what holds for all."""

    def __init__(
        self, network: Sequence[Layer], others: Networks, box: Inputs, origin: Floats
    ) -> None:
        self.network, self.others, self.origin = network, others, origin
        self.kinds = [layer.kinds for layer in network[:-1]]
        self.is_bent = np.concatenate([*self.kinds, np.zeros(0)]) > 0
        need(origin <= box.lower, "an origin above the box")
        self.lower = positive(np.nextafter(box.lower - origin, -np.inf))
        self.upper = np.nextafter(box.upper - origin, np.inf)
        self.tables: tuple[Table, ...] = shifted_rows(box.tables, origin)
        self.weights = [[w[0] for w in layer.weights] for layer in network]
        # What each source is moved by, so that it is never negative.
        self.shifts = [origin, *(-floors(kinds) for kinds in self.kinds)]
        self.bias = [layer.bias[0] + self._at_shifts(layer)[0] for layer in network]
        widths = [len(bias) for bias in self.bias]
        self.depth, self.inputs, self.labels = len(network), len(origin), widths[-1]
        ends = np.cumsum([0, *widths]).tolist()
        self.hidden = ends[-2]
        self.at = [slice(a, b) for a, b in pairwise(ends)]
        # A form's terms go through every neuron once, and each is summed and multiplied.
        self.unit = gamma(12 * ends[-1] + 4 * self.inputs + 128)
        self._hulls: dict[bytes, Hull] = {}
        self._start(self.hull(np.arange(len(others))))

    def hull(self, members: Integers) -> Hull:
        """Return the hull of some members, minus N."""
        key = members.tobytes()
        if key not in self._hulls:
            if len(self._hulls) >= 64:
                self._hulls.pop(next(iter(self._hulls)))
            self._hulls[key] = self._hull(members)
        return self._hulls[key]

    def _hull(self, members: Integers) -> Hull:
        """Bound the difference of each weight, in float64 rounded outwards."""
        low: list[Floats] = []
        high: list[Floats] = []
        for _, layers in self.others.chunks(members):
            parts = []
            for own, layer in zip(self.network, layers, strict=True):
                fine = own.sources == layer.sources and np.array_equal(own.kinds, layer.kinds)
                need(fine, "a member of another architecture")
                parts += [a - b for a, b in zip(layer.weights, own.weights, strict=True)]
                # Of the difference, so that no large numbers cancel.
                moved = Layer(own.sources, tuple(parts[-len(own.sources) :]), layer.bias, own.kinds)
                parts.append(layer.bias - own.bias + self._at_shifts(moved))
            least, most = [p.min(0) for p in parts], [p.max(0) for p in parts]
            low = least if not low else [np.minimum(a, b) for a, b in zip(low, least, strict=True)]
            high = most if not high else [np.maximum(a, b) for a, b in zip(high, most, strict=True)]
        need(len(low) and all(np.isfinite(a).all() for a in (*low, *high)), "weights out of range")
        if len(members) == 1:
            # Their rounding is charged with every term.
            centre, radius = iter(low), None
            slack = [np.zeros_like(bias) for bias in self.bias]
        else:
            middle = [(a + b) / 2 for a, b in zip(low, high, strict=True)]
            apart = [
                np.nextafter(np.maximum(b - c, c - a), np.inf)
                for a, b, c in zip(low, high, middle, strict=True)
            ]
            centre, radius, slack = iter(middle), [], []
            spread = iter(apart)
            for layer in self.network:
                radius.append([next(spread) for _ in layer.sources])
                slack.append(next(spread))
        weights, shift = [], []
        for layer in self.network:
            weights.append([next(centre) for _ in layer.sources])
            shift.append(next(centre))
        return Hull(weights, radius, shift, slack)

    def _at_shifts(self, layer: Layer) -> Floats:
        """Return what the layer makes of what its sources are moved by, shape (m, outputs)."""
        found = np.zeros_like(layer.bias)
        for source, weights in zip(layer.sources, layer.weights, strict=True):
            if np.any(self.shifts[source]):
                found = found + weights @ self.shifts[source]
        return found

    def _start(self, everyone: Hull) -> None:
        """Bound all layers, with ``dh`` anywhere between 0 and dz, and sum absolute terms.

        So the bounds of dz hold whichever pairs are tied. Twice the absolute terms of a sum, times
        ``unit``, is what rounding can move it and what is computed from it.
        """
        self.terms, self.terms_d = [], []
        self.state = np.zeros((6, self.hidden))
        h, dh = [(self.lower, self.upper)], [(np.zeros(self.inputs), np.zeros(self.inputs))]
        for k, layer in enumerate(self.network):
            bias, shift, slack = self.bias[k], everyone.shift[k], everyone.slack[k]
            low, high, low_d, high_d = bias.copy(), bias.copy(), shift - slack, shift + slack
            own, own_d = np.abs(bias), np.abs(shift) + slack
            for b, source in enumerate(layer.sources):
                w, c = self.weights[k][b], everyone.centre[k][b]
                r = np.zeros_like(c) if everyone.radius is None else everyone.radius[k][b]
                (h0, h1), (d0, d1), moved = h[source], dh[source], w + c
                size_d = np.maximum(np.abs(d0), np.abs(d1))
                size = h1 + np.abs(self.shifts[source])
                own = own + np.abs(w) @ size
                own_d = own_d + (np.abs(c) + r) @ (size + size_d) + (np.abs(moved) + r) @ size_d
                spread = r @ (h1 + size_d)
                low = low + positive(w) @ h0 + negative(w) @ h1
                high = high + positive(w) @ h1 + negative(w) @ h0
                low_d = low_d + positive(c) @ h0 + negative(c) @ h1 - spread
                low_d = low_d + positive(moved) @ d0 + negative(moved) @ d1
                high_d = high_d + positive(c) @ h1 + negative(c) @ h0 + spread
                high_d = high_d + positive(moved) @ d1 + negative(moved) @ d0
            self.terms.append(2 * own)
            self.terms_d.append(2 * own_d)
            low, high = low - self.unit * 2 * own, high + self.unit * 2 * own
            low_d, high_d = low_d - self.unit * 2 * own_d, high_d + self.unit * 2 * own_d
            need(np.isfinite([low, high, low_d, high_d]), "scores may leave float64's range")
            if k < self.depth - 1:
                self.state[:, self.at[k]] = (
                    low, high, positive(high_d), positive(-low_d), low_d, high_d
                )  # fmt: skip
                h.append((positive(low), positive(high)))
                dh.append((negative(low_d), positive(high_d)))
                ends = pair_ends(self.kinds[k], *(e[None] for e in (low, high, low_d, high_d)))
                for curve, at in by_kind(self.kinds[k]):
                    h[-1][0][at], h[-1][1][at] = curve.ends(low[at], high[at])
                    dh[-1][0][at], dh[-1][1][at] = (e[0, at] for e in change_of(ends))


@dataclass(frozen=True, eq=False)
class Pairs:
    """Where the pairs of one layer are in some nodes, as corners; arrays have shape (n, v, width).

    A free pair is in a rectangle of (z, dz), which ``z = 0`` and ``z + dz = 0`` cut into pieces on
    which h and dh are linear: a form is largest at a corner of a piece. A pair that is tied, or
    above a tied one, is *on*, with ``dh = dz`` and ``z >= -p``, or *off*, with ``dh = 0`` and
    ``z <= q``: its corners are those of both rectangles, cut at z = 0.
    """

    z: Floats
    d: Floats
    h: Floats
    e: Floats  # dh at the corner
    alone: Floats  # corners of z where dz does not matter
    size: Floats  # the largest |dh|, shape (n, width)
    on: Flags
    off: Flags
    free: Flags
    ends: Floats  # of smooth pairs, shape (n, 11, width), or none

    @staticmethod
    def of(state: Floats, phase: NDArray[np.int8], above_tie: Flags, kinds: Kinds) -> Pairs:
        """List the corners."""
        low, high, p, q, below, above = np.moveaxis(state, 1, 0)
        # At the edge of a band both branches are possible; if none is, there are no points.
        on, off = (phase >= 0) & (high >= -p), (phase <= 0) & (low <= q)
        on, off = on & ~((high <= -p) & off), off & ~((low >= q) & on)
        free = on & off & (phase == 0) & ~above_tie[:, None]
        size = np.where(on, np.maximum(np.abs(below), np.abs(above)), 0.0)
        on_low, off_high = np.maximum(low, -p), np.minimum(high, q)
        z_low, z_high = np.where(off, low, on_low), np.where(on, high, off_high)
        alone = np.stack([z_low, z_high, np.clip(0.0, z_low, np.maximum(z_low, z_high))], 1)
        # The two branches.
        there, here = off | ~on, on
        rise = np.stack([on_low, high, np.clip(0.0, on_low, np.maximum(on_low, high))] * 2, 1)
        flat = np.stack([low, off_high, np.clip(0.0, low, np.maximum(low, off_high))] * 2, 1)
        d = np.stack([below] * 3 + [above] * 3, 1)
        one = np.where(here[:, None], rise, flat), np.where(here[:, None], d, 0.0)
        two = np.where(there[:, None], flat, rise), np.where(there[:, None], 0.0, d)
        z, e = (np.concatenate([a, b], 1) for a, b in zip(one, two, strict=True))
        d = np.concatenate([d, d], 1)
        # A free pair: the rectangle's corners, where a line meets an edge, where the lines meet.
        top, over = np.maximum(low, high), np.maximum(below, above)
        edge = np.clip(0.0, low, top)
        meets = (low < 0) & (high > 0) & (below < 0) & (above > 0)
        kinks = np.clip(-below, low, top), np.clip(-above, low, top)
        zs = [low, high, edge, kinks[0], low, high, edge, kinks[1]]
        zs += [low, high, np.where(meets, 0.0, low), low]
        ds = [below] * 4 + [above] * 4
        ds += [np.clip(-low, below, over), np.clip(-high, below, over)]
        ds += [np.where(meets, 0.0, below), below]
        free_z, free_d = np.stack(zs, 1), np.stack(ds, 1)
        free_e = np.maximum(free_d + negative(free_z), -positive(free_z))
        z, d, e = (
            np.where(free[:, None], one, other)
            for one, other in ((free_z, z), (free_d, d), (free_e, e))
        )
        ends = np.zeros((len(low), 11, 0))
        if kinds.any():
            ends = pair_ends(kinds, low, high, below, above)
            size = np.where(kinds > 0, np.maximum(*map(np.abs, change_of(ends))), size)
            free = free | (kinds > 0)
        return Pairs(z, d, positive(z), e, alone, size, on, off, free, ends)

    def most(self, of: slice, a: Floats, b: Floats | None, cz: Floats, cd: Floats | None) -> Floats:
        """Return the largest ``a h + b dh - cz z - cd dz`` of each pair, shape (n, r, width)."""
        best = np.full(a.shape, -np.inf)
        if b is None or cd is None:
            for v in range(3):
                z = self.alone[of, v][:, None]
                np.maximum(best, a * positive(z) - cz * z, out=best)
            return at_least(best)
        for v in range(12):
            z, d, h, e = (each[of, v][:, None] for each in (self.z, self.d, self.h, self.e))
            np.maximum(best, (a * h - cz * z) + (b * e - cd * d), out=best)
        return at_least(best)


def take(record: Any, nodes: Integers) -> Any:
    """Return a record of arrays with some nodes alone."""
    return type(record)(*(getattr(record, each.name)[nodes] for each in fields(record)))


@dataclass(frozen=True, eq=False)
class Slopes:
    """Of lines above and below h and dh: any will do, since corners make up for what they miss."""

    rise: Floats  # by z above h, shape (n, width)
    fall: Floats  # by z below h
    rise_d: Floats  # by dz above dh, or by z + dz above relu(z + dz) where apart
    fall_d: Floats
    apart: Flags


class Descent:
    """Linear forms of one layer's (z, dz), replaced by forms in what lies below, down to the input.

    ``cz z + cd dz <= cz (W h + b) + cd (C h + (W + C) dh + s) + |cd| (R (h + |dh|) + t)``
    """

    def __init__(
        self, net: Net, hulls: Sequence[Hull], pairs: Sequence[Pairs], slopes: Sequence[Slopes],
        of: slice,
    ) -> None:  # fmt: skip
        self._net, self._pairs, self._slopes, self._of = net, pairs, slopes, of
        self._parts = list(_runs(hulls[of]))

    def forms(
        self, top: int, cz: Floats, cd: Floats | None, given: tuple[Floats, Floats] | None = None
    ) -> tuple[Floats, Floats]:
        """Return slopes in x and a constant above ``cz z + cd dz``, shapes (n, r, width).

        Multipliers may be given for the hidden neurons, shape (n, hidden); NaN leaves them to the
        slopes.
        """
        net = self._net
        count, rows = cz.shape[:2]
        self._constant: Floats = np.zeros((count, rows))
        a: dict[int, Floats] = {}
        b: dict[int, Floats] = {}
        self._replace(top, cz, cd, a, b)
        for k in range(top - 1, -1, -1):
            if k + 1 not in a:
                continue
            f, fd = a.pop(k + 1), b.pop(k + 1, None)
            own, change = self._multipliers(k, f, fd)
            if given is not None:
                stated, stated_d = (each[:, None, net.at[k]] for each in given)
                own = np.where(np.isnan(stated), own, stated)
                if change is not None:
                    change = np.where(np.isnan(stated_d), change, stated_d)
            most = self._pairs[k].most(self._of, f, fd, own, change)
            kinds, ends = net.kinds[k], self._pairs[k].ends[self._of]
            if kinds.any():
                bent = tops(kinds, ends, self._slopes[k].apart[self._of], f, fd, own, change)
                most = np.where(kinds > 0, bent, most)
            self._constant += most.sum(-1)
            self._replace(k, own, change, a, b)
        return a.pop(0, np.zeros((count, rows, net.inputs))), self._constant

    def _multipliers(self, k: int, a: Floats, b: Floats | None) -> tuple[Floats, Floats | None]:
        """Return multipliers of z and dz along the lines."""
        rise, fall, rise_d, fall_d, apart = (
            getattr(self._slopes[k], name)[self._of][:, None]
            for name in ("rise", "fall", "rise_d", "fall_d", "apart")
        )
        if b is None:
            return positive(a) * rise + negative(a) * fall, None
        own, cd = a - np.where(apart, b, 0.0), positive(b) * rise_d + negative(b) * fall_d
        return positive(own) * rise + negative(own) * fall + np.where(apart, cd, 0.0), cd

    def _replace(
        self, k: int, cz: Floats, cd: Floats | None, a: dict[int, Floats], b: dict[int, Floats]
    ) -> None:
        """Replace (z, dz) of a layer by (h, dh) below."""
        net, layer = self._net, self._net.network[k]
        self._constant += cz @ net.bias[k] + net.unit * (np.abs(cz) @ net.terms[k])
        if cd is not None:
            size = np.abs(cd)
            self._constant += net.unit * (size @ net.terms_d[k])
            for hull, at in self._parts:
                self._constant[at] += cd[at] @ hull.shift[k] + size[at] @ hull.slack[k]
        for j, source in enumerate(layer.sources):
            weights = net.weights[k][j]
            f = cz @ weights
            if cd is not None:
                change = np.empty_like(f)
                for hull, at in self._parts:
                    change[at] = cd[at] @ hull.centre[k][j]
                    if hull.radius is not None:
                        cost = size[at] @ hull.radius[k][j]
                        f[at] += cost
                        if source:
                            far = self._pairs[source - 1].size[self._of][at]
                            self._constant[at] += (cost @ far[..., None])[..., 0]
                f += change
                if source:
                    d = cd @ weights + change
                    b[source] = d if source not in b else b[source] + d
            a[source] = f if source not in a else a[source] + f


def _runs(hulls: Sequence[Hull]) -> Iterator[tuple[Hull, slice]]:
    """Yield the hulls with the runs of nodes that have them."""
    begin = 0
    for i in range(1, len(hulls) + 1):
        if i == len(hulls) or hulls[i] is not hulls[begin]:
            yield hulls[begin], slice(begin, i)
            begin = i


def largest(
    slopes: Floats, constant: Floats, lower: Floats, upper: Floats, tables: Sequence[Table] = ()
) -> Floats:
    """Bound the largest values of forms over boxes, shapes (n, r, inputs) and (n, inputs).

    Features of tables take one of their rows together, anywhere in the region. A sum of so many
    terms rounds by its absolute terms.
    """
    high, low = upper[:, None], lower[:, None]
    ends = np.where(slopes > 0, slopes * high, slopes * low)
    far = np.abs(slopes) * np.maximum(np.abs(high), np.abs(low))
    total = constant
    for table in tables:
        ends[..., table.columns] = 0.0
        total = total + (slopes[..., table.columns] @ table.values.T).max(-1)
    size = np.abs(constant) + far.sum(-1)
    return at_least(total + ends.sum(-1) + 2 * gamma(2 * slopes.shape[-1] + 64) * size)


def above(values: Floats) -> Floats:
    """Return numbers that a few roundings cannot reach."""
    return values + 16 * UNIT * np.abs(values)
