"""Linear bounds of many neurons in many nodes at once.

A row is a linear form of the outputs (z, dz) of one layer in one node. Going down, the form of a
layer's (h, dh) is replaced by multipliers of its (z, dz) plus the largest error of doing so, until
a form in the input is left. Any multipliers give a valid bound.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leaveout.verifier.checker.arithmetic import Arithmetic
from leaveout.verifier.checker.errors import OUT_OF_RANGE, RejectedError
from leaveout.verifier.checker.layout import Net, Sets
from leaveout.verifier.checker.pairs import (
    Facts,
    best_alone,
    best_pair,
    rule_alone,
    rule_pair,
)

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


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
    """Return float64 forms that are nowhere less in their boxes."""
    slopes = numbers.nearest(forms.slopes)
    if slopes is forms.slopes:
        return forms
    rest = forms.slopes - slopes
    ends = np.maximum(rest * lower, rest * upper)
    return Forms(slopes, numbers.up(forms.constant + ends.sum(axis=1)))


def largest(forms: Forms, lower: Floats, upper: Floats, numbers: Arithmetic) -> Floats:
    """Largest value of each form over its own box, shape (r, inputs) each."""
    slopes = numbers.number(forms.slopes)
    ends = np.maximum(slopes * lower, slopes * upper)
    return within_range(numbers.up(forms.constant + ends.sum(axis=1)))


def within_range(bounds: Floats) -> Floats:
    """Return upper bounds; raise if any is NaN or minus infinity, which bound nothing."""
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
        # Any multipliers will do, so that these may be rounded.
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
    """Return the given multipliers, or the rule's where they are missing."""
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
        """Replace (z, dz) of a layer by what they are of (h, dh) below."""
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
        """Add what differences of weights do to ``a``; also return their part of that of dh.

        A weight anywhere in its interval moves the form by no more than the radius times
        ``h + abs(dh)``.
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
