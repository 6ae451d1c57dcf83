"""Merging of equal inputs: networks that read the same point."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from leaveout.specs.vnnlib.formula import Atom, Place
from leaveout.specs.vnnlib.problem import Declared


def _no_less(atom: Atom) -> tuple[Place, Place] | None:
    """Return the two inputs of ``a - b >= 0``, or None for any other inequality."""
    linear = atom.linear
    if atom.strict or linear.constant or len(linear.terms) != 2:
        return None
    (first, c), (second, d) = linear.terms.items()
    if c + d or first.output or second.output:
        return None
    return (first, second) if c > 0 else (second, first)


def points_of(networks: Sequence[Declared], atoms: Iterable[Atom]) -> list[int]:
    """Return the number of the point each network reads, in order of first use."""
    if len(networks) < 2:
        return [0] * len(networks)
    pairs = {pair for pair in map(_no_less, atoms) if pair is not None}
    equal: dict[tuple[int, int], set[int]] = {}
    for first, second in pairs:
        one, other = first.network, second.network
        if one < other and first.element == second.element and (second, first) in pairs:
            equal.setdefault((one, other), set()).add(first.element)
    root = list(range(len(networks)))
    for (one, other), indices in equal.items():
        sizes = networks[one].input.size, networks[other].input.size
        if sizes[0] == sizes[1] == len(indices):
            joined = {root[one], root[other]}
            root = [min(joined) if each in joined else each for each in root]
    order = {each: i for i, each in enumerate(dict.fromkeys(root))}
    return [order[each] for each in root]
