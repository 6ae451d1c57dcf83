"""A neuron of N and a member's: the largest value of a linear form of both.

For a free pair, the form ranges over all ``(z, dz)`` in a rectangle, with ``h = relu(z)`` and ``dh
= relu(z + dz) - relu(z)``. For a tied pair, or one above a tied pair, it ranges over the better of
two branches: *on*, ``dh = dz`` and ``z >= -p``; *off*, ``dh = 0`` and ``z <= q``.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from leaveout.arrays import Floats, Integers
from leaveout.verifier.checker.arithmetic import Arithmetic
from leaveout.verifier.checker.errors import OUT_OF_RANGE, RejectedError
from leaveout.verifier.checker.layout import Net, Sets

Flags = NDArray[np.bool_]


_EQUAL_AREAS = 1.0 + 1e-9
"""Areas above a ReLU within this factor count as equal: rounding must not decide."""


@dataclass(frozen=True, eq=False)
class Facts:
    """Known bounds of one layer's pairs in some nodes; arrays have shape (n, width)."""

    low: Floats  # bounds of z
    high: Floats  # bounds of z
    below: Floats  # bounds of dz: the true one, or the virtual one caused by ties below
    above: Floats  # bounds of dz: the true one, or the virtual one caused by ties below
    on_low: Floats  # bounds of z in the branch on
    off_high: Floats  # bounds of z in the branch off
    can_on: Flags  # which branches are possible
    can_off: Flags
    free: Flags  # whether the pair is free and may be in either branch
    z_low: Floats  # bounds of z in both branches
    z_high: Floats  # bounds of z in both branches
    apart: Flags
    rise: Floats  # slope of a linear bound of ``a relu(z)`` from above, for a > 0
    fall: Floats  # the same for a < 0
    rise_d: Floats  # slope of a bound of ``a dh`` by ``dz``, or of ``a relu(z + dz)`` if ``apart``
    fall_d: Floats  # the same for a < 0
    size: Floats  # bound of ``abs(dh)``

    def take(self, of: NDArray[np.int64]) -> Facts:
        """Return the facts about some nodes, one row each."""
        return Facts(*(getattr(self, field.name)[of] for field in fields(self)))


def facts_of(state: Floats, phase: NDArray[np.int8], tied: Flags) -> Facts:
    """Derive the facts about a layer's pairs from its bounds."""
    low, high, p, q, below, above = (state[:, i] for i in range(6))
    # Closed conditions: at the edge of a band both branches are possible.
    can_on = (phase >= 0) & (high >= -p)
    can_off = (phase <= 0) & (low <= q)
    # Forced if bounds imply it; never both excluded.
    can_on &= ~((high <= -p) & can_off)
    can_off &= ~((low >= q) & can_on)
    free = can_on & can_off & (phase == 0) & ~tied[:, None]
    on_low, off_high = np.maximum(low, -p), np.minimum(high, q)
    z_low, z_high = np.where(can_off, low, on_low), np.where(can_on, high, off_high)
    rise, fall = _slopes(z_low, z_high)
    other_low, other_high = low + below, high + above
    apart = free & ((low >= 0) | (high <= 0) | (other_low >= 0) | (other_high <= 0))
    rise_d, fall_d = _slopes_of_difference(below, above, can_on, can_off)
    first, second = _slopes(other_low, other_high)
    size = np.where(can_on, np.maximum(np.abs(below), np.abs(above)), 0.0)
    return Facts(
        low, high, below, above, on_low, off_high, can_on, can_off, free, z_low, z_high, apart,
        rise, fall, np.where(apart, first, rise_d), np.where(apart, second, fall_d), size,
    )  # fmt: skip


def _slopes(low: Floats, high: Floats) -> tuple[Floats, Floats]:
    crossing = (low < 0) & (high > 0)
    width = np.where(crossing, high - low, 1.0)
    always = (low >= 0).astype(np.float64)
    rise = np.where(crossing, high / width, always)
    fall = np.where(crossing, (high > -low * _EQUAL_AREAS).astype(np.float64), always)
    return rise, fall


def _slopes_of_difference(
    below: Floats, above: Floats, can_on: Flags, can_off: Flags
) -> tuple[Floats, Floats]:
    crossing = (below < 0) & (above > 0)
    width = np.where(crossing, above - below, 1.0)
    rise = np.where(crossing, above / width, (below >= 0).astype(np.float64))
    fall = np.where(crossing, -below / width, (below < 0).astype(np.float64))
    rise = np.where(can_off, np.where(can_on, rise, 0.0), 1.0)
    fall = np.where(can_off, np.where(can_on, fall, 0.0), 1.0)
    return rise, fall


def rule_alone(a: Floats, facts: Facts) -> Floats:
    """Return default multipliers of z, given coefficients ``a`` of h."""
    return np.maximum(a, 0.0) * facts.rise + np.minimum(a, 0.0) * facts.fall


def rule_pair(a: Floats, b: Floats, facts: Facts) -> tuple[Floats, Floats]:
    """Return default multipliers of z and dz, given coefficients of h and dh."""
    cd = np.maximum(b, 0.0) * facts.rise_d + np.minimum(b, 0.0) * facts.fall_d
    own = a - np.where(facts.apart, b, 0.0)
    return rule_alone(own, facts) + np.where(facts.apart, cd, 0.0), cd


def best_alone(a: Floats, c: Floats, facts: Facts, numbers: Arithmetic) -> Floats:
    """Return the largest ``a relu(z) - c z``."""
    return _best_z(a, numbers.number(c), facts.z_low, facts.z_high)


def best_pair(
    a: Floats, b: Floats, c: Floats, e: Floats, facts: Facts, numbers: Arithmetic
) -> Floats:
    """Return the largest ``a h + b dh - c z - e dz``."""
    c, e = numbers.number(c), numbers.number(e)
    below, above, rest = numbers.number(facts.below), numbers.number(facts.above), b - e
    on = _best_z(a, c, facts.on_low, facts.high)
    on = on + np.maximum(rest * below, rest * above)
    off = _best_z(a, c, facts.low, facts.off_high)
    off = off + np.maximum(-e * below, -e * above)
    # If neither branch is possible, there are no points, and any bound is valid.
    both = facts.can_on & facts.can_off
    best = np.where(both, np.maximum(on, off), np.where(facts.can_on, on, off))
    chosen = np.nonzero(facts.free)
    if len(chosen[0]):
        best[chosen] = _best_free(
            a[chosen], b[chosen], c[chosen], e[chosen], facts.low[chosen], facts.high[chosen],
            facts.below[chosen], facts.above[chosen], numbers,
        )  # fmt: skip
    return best


def _best_z(a: Floats, c: Floats, low: Floats, high: Floats) -> Floats:
    ends = np.maximum(a * np.maximum(low, 0.0) - c * low, a * np.maximum(high, 0.0) - c * high)
    # At z = 0 the value is 0.
    return np.where((low < 0) & (high > 0), np.maximum(ends, 0.0), ends)


def _best_free(
    a: Floats, b: Floats, c: Floats, e: Floats,
    low: Floats, high: Floats, below: Floats, above: Floats, numbers: Arithmetic,
) -> Floats:  # fmt: skip
    """Return the largest value over a rectangle.

    The form is linear on the pieces into which the lines z = 0 and z + dz = 0 cut the rectangle, so
    it is largest at a corner of a piece: of the rectangle, where a line meets its edge, or where
    the lines meet.
    """
    corners = []
    for d in (below, above):
        middle = np.minimum(np.maximum(0.0, low), high)
        bend = np.minimum(np.maximum(-d, low), high)
        corners += [(z, d) for z in (low, high, middle, bend)]
    corners += [(z, np.minimum(np.maximum(-z, below), above)) for z in (low, high)]
    best = _value(a, b, c, e, *corners[0], numbers)
    for z, d in corners[1:]:
        best = np.maximum(best, _value(a, b, c, e, z, d, numbers))
    crossing = (low < 0) & (high > 0) & (below < 0) & (above > 0)
    return np.where(crossing, np.maximum(best, 0.0), best)


def _value(
    a: Floats, b: Floats, c: Floats, e: Floats, z: Floats, d: Floats, numbers: Arithmetic
) -> Floats:
    z, d = numbers.number(z), numbers.number(d)
    h = np.maximum(z, 0.0)
    # relu(z + d) - relu(z), without subtracting large numbers.
    dh = np.maximum(d + np.minimum(z, 0.0), -h)
    return a * h + b * dh - c * z - e * d


@dataclass(eq=False)
class Nodes:
    """Nodes that are bounded together, ordered by their set of members."""

    net: Net
    sets: Sets
    which: Integers  # shape (n,): position of each node's set
    terms: Floats  # shape (hidden + labels,)
    terms_d: Floats  # shape (hidden + labels,)
    facts: list[Facts]  # of the layers bounded so far


@dataclass(frozen=True, eq=False)
class Forms:
    """Upper bounds ``slopes x + constant`` of some rows."""

    slopes: Floats  # shape (r, inputs)
    constant: Floats  # shape (r,)


def round_up_forms(forms: Forms, lower: Floats, upper: Floats, numbers: Arithmetic) -> Forms:
    """Return float64 forms that are at least as large everywhere in their boxes."""
    slopes = numbers.nearest(forms.slopes)
    if slopes is forms.slopes:
        return forms
    rest = forms.slopes - slopes
    ends = np.maximum(rest * lower, rest * upper)
    return Forms(slopes, numbers.up(forms.constant + ends.sum(axis=1)))


def largest(forms: Forms, lower: Floats, upper: Floats, numbers: Arithmetic) -> Floats:
    """Return the largest value of each form over its box, shape (r, inputs) each."""
    slopes = numbers.number(forms.slopes)
    ends = np.maximum(slopes * lower, slopes * upper)
    return within_range(numbers.up(forms.constant + ends.sum(axis=1)))


def within_range(bounds: Floats) -> Floats:
    """Return upper bounds; raise if any is NaN or minus infinity, which prove nothing."""
    if np.isnan(bounds).any() or (bounds == -np.inf).any():
        raise RejectedError(OUT_OF_RANGE)
    return bounds


def pull_back(
    nodes: Nodes,
    of: Integers,  # shape (r,)
    top: int,
    cz: Floats,  # shape (r, width of the layer)
    cd: Floats | None,  # shape (r, width of the layer)
    given: tuple[Floats, Floats] | None = None,  # shape (r, hidden)
) -> Forms:
    """Bound ``cz z + cd dz`` of a layer from above by forms in the input."""
    numbers = nodes.net.arithmetic
    descent = _Descent(nodes, of, cd is not None)
    descent.replace(top, cz, cd)
    for k in range(top - 1, -1, -1):
        a, b = descent.sources.get(k + 1), descent.sources_d.get(k + 1)
        if a is None:
            continue
        facts = nodes.facts[k].take(of)
        at = nodes.net.at(k)
        # Any multipliers are valid, so these can be rounded.
        own = None if given is None else given[0][:, at]
        if b is None:
            if own is None or np.isnan(own).any():
                own = _fill_multipliers(own, rule_alone(numbers.nearest(a), facts))
            descent.constant += best_alone(a, own, facts, numbers).sum(axis=1)
            descent.replace(k, own, None)
            continue
        change = None if given is None else given[1][:, at]
        if own is None or change is None or np.isnan(own).any() or np.isnan(change).any():
            rule, rule_d = rule_pair(numbers.nearest(a), numbers.nearest(b), facts)
            own, change = _fill_multipliers(own, rule), _fill_multipliers(change, rule_d)
        descent.constant += best_pair(a, b, own, change, facts, numbers).sum(axis=1)
        descent.replace(k, own, change)
    slopes = descent.sources.get(0)
    if slopes is None:
        slopes = np.zeros((len(of), nodes.net.inputs))
    return Forms(slopes, descent.constant + descent.charged)


def _fill_multipliers(given: Floats | None, rule: Floats) -> Floats:
    """Return the given multipliers, or default ones where they are missing."""
    return rule if given is None else np.where(np.isnan(given), rule, given)


class _Descent:
    def __init__(self, nodes: Nodes, of: Integers, pair: bool) -> None:
        self._nodes, self._of = nodes, of
        self._numbers = nodes.net.arithmetic
        self.constant = self._numbers.number(np.zeros(len(of)))
        self.charged = np.zeros(len(of))
        self.sources: dict[int, Floats] = {}
        self.sources_d: dict[int, Floats] = {}
        self._parts: list[tuple[int, slice]] = []
        if pair:
            which = nodes.which[of]
            edges = [0, *(np.flatnonzero(np.diff(which)) + 1).tolist(), len(of)]
            self._parts = [
                (int(which[a]), slice(a, b)) for a, b in itertools.pairwise(edges) if a < b
            ]

    def replace(self, layer: int, cz: Floats, cd: Floats | None) -> None:
        """Express a layer's (z, dz) by (h, dh) below."""
        nodes, net = self._nodes, self._nodes.net
        at = net.at(layer)
        cz = self._numbers.number(cz)
        self.constant += cz @ net.bias[at]
        self.charged += net.unit * (np.abs(self._numbers.nearest(cz)) @ nodes.terms[at])
        size = None
        if cd is not None:
            cd = self._numbers.number(cd)
            size = np.abs(cd)
            self.charged += net.unit * (self._numbers.nearest(size) @ nodes.terms_d[at])
            for s, rows in self._parts:
                self.constant[rows] += cd[rows] @ nodes.sets.shift[s, at]
                if not nodes.sets.exact[s]:
                    self.constant[rows] += size[rows] @ nodes.sets.slack[s, at]
        for b, source in enumerate(net.sources[layer]):
            weights = net.weights[layer][b]
            a = cz @ weights
            if cd is not None and size is not None:
                a, d = self._through(layer, b, source, cd, size, a)
                if source:
                    d = d + cd @ weights
                    known_d = self.sources_d.get(source)
                    self.sources_d[source] = d if known_d is None else known_d + d
            known = self.sources.get(source)
            self.sources[source] = a if known is None else known + a

    def _through(
        self, layer: int, block: int, source: int, cd: Floats, size: Floats, a: Floats
    ) -> tuple[Floats, Floats]:
        """Add the effect of weight differences to ``a``; also return their part of that of dh.

        Any weight in an interval moves the form by at most the radius times ``h + abs(dh)``.
        """
        nodes = self._nodes
        centre, radius = nodes.sets.centre[layer][block], nodes.sets.radius[layer][block]
        d = np.concatenate([cd[rows] @ centre[s] for s, rows in self._parts])
        a = a + d
        for s, rows in self._parts:
            if nodes.sets.exact[s]:
                continue
            cost = size[rows] @ radius[s]
            a[rows] += cost
            if source:
                self.constant[rows] += (cost * nodes.facts[source - 1].size[self._of[rows]]).sum(
                    axis=1
                )
        return a, d
