"""Construction of the neutral query from a parsed problem and its networks."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from itertools import chain

import numpy as np

from leaveout.arrays import Floats
from leaveout.encoders.box import Box
from leaveout.encoders.query import Application, Condition, ExactForm, Form, Query
from leaveout.errors import SpecError
from leaveout.models import Network
from leaveout.specs.text.errors import Position, Slip
from leaveout.specs.vnnlib.bounds import Bounds, Key, is_relation
from leaveout.specs.vnnlib.formula import All, Atom, Formula, Linear, Place
from leaveout.specs.vnnlib.onnx_files import score_of
from leaveout.specs.vnnlib.problem import Declared, Problem
from leaveout.specs.vnnlib.rounding import is_exact, relax_coefficients

MOST_CASES = 10_000
_MOST_MULTIPLIED = 256
"""Most cases from multiplying out disjunctions; further disjunctions are kept."""

_MOST_LEFT = 1_000

LARGEST = 5_000_000
"""Most conditions in all cases together."""


def conjuncts(formula: Formula) -> tuple[list[Atom], list[Formula]]:
    """Separate the parts that hold in every case."""
    atoms: list[Atom] = []
    rest: list[Formula] = []
    stack = [formula]
    while stack:
        each = stack.pop()
        if isinstance(each, Atom):
            atoms.append(each)
        elif isinstance(each, All):
            stack.extend(reversed(each.parts))
        else:
            rest.append(each)
    return atoms, rest


def _count(formula: Formula) -> tuple[int, int]:
    """Return the number of cases, and their total number of inequalities."""
    if isinstance(formula, Atom):
        return 1, 1
    counts = [_count(part) for part in formula.parts]
    if not isinstance(formula, All):
        return sum(cases for cases, _ in counts), sum(size for _, size in counts)
    cases, size = 1, 0
    for more, its_size in counts:
        cases, size = cases * more, size * more + cases * its_size
        if cases > MOST_CASES or size > LARGEST:
            return MOST_CASES + 1, LARGEST + 1
    return cases, size


def _expand(formula: Formula) -> list[tuple[Atom, ...]]:
    """Return the cases of a formula."""
    if isinstance(formula, Atom):
        return [(formula,)]
    parts = [_expand(part) for part in formula.parts]
    if not isinstance(formula, All):
        return list(chain.from_iterable(parts))
    found: list[list[Atom]] = [[]]
    for part in parts:
        if len(part) == 1:
            for left in found:
                left.extend(part[0])
        else:
            found = [[*left, *right] for left in found for right in part]
    return [tuple(each) for each in found]


def alternatives(rest: list[Formula], at: Position) -> list[tuple[Atom, ...]]:
    """Write disjunctions as cases."""
    whole = All(tuple(rest))
    cases, size = _count(whole)
    if cases > MOST_CASES:
        raise Slip(at, f"the query splits into more than {MOST_CASES:,} cases")
    if size > LARGEST:
        raise Slip(at, f"the cases of the query have more than {LARGEST:,} conditions in total")
    return _expand(whole)


def split_disjunctions(rest: list[Formula], at: Position) -> tuple[list[Formula], list[Formula]]:
    """Split disjunctions into those to multiply out and those to keep.

    The largest is multiplied out, so that its bounds on inputs are known in all cases.
    """
    if _count(All(tuple(rest)))[0] <= _MOST_MULTIPLIED:
        return rest, []
    kept: list[Formula] = []
    left: list[Formula] = []
    cases = 1
    for each in sorted(rest, key=lambda formula: -_count(formula)[0]):
        count = _count(each)[0]
        if kept and cases * count > _MOST_MULTIPLIED:
            left.append(each)
        else:
            kept.append(each)
            cases *= count
    if len(left) > _MOST_LEFT:
        wrong = f"the query has more than {_MOST_LEFT:,} disjunctions that must hold together"
        raise Slip(at, wrong)
    return kept, left


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
            sources[source] @ abs(weights[0]).T for source, weights in layer.weights.items()
        )
        sources.append(np.asarray(total, np.float64) + np.finfo(np.float32).tiny)
    found = np.asarray(2 * sources[-1])
    if not np.isfinite(found).all():
        raise SpecError(f"{network.source}: no float64 bounds its scores over the query's inputs")
    return found


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


def build(problem: Problem, networks: Sequence[Network], reals: bool | None = None) -> Query:
    """Build the query of a file."""
    start = problem.networks[0].at
    atoms, rest = conjuncts(problem.formula)
    points = points_of(problem.networks, atoms)
    read = [*points, *(points[position] for position, _ in problem.hidden_nodes)]
    moved = _Moved(points, _first_alike(networks, read))
    bounds = Bounds()
    always, possible = _without_constants(map(moved, atoms))
    common = [atom for atom in always if not bounds.tighten(atom)]
    rest, later = split_disjunctions(rest, start)
    cases, *others = (
        _possible(each, moved, start) if possible else [] for each in (rest, *([f] for f in later))
    )
    if any(not each for each in others):
        cases = []
    if len(cases) * len(common) > LARGEST:
        raise Slip(start, f"the cases of the query have more than {LARGEST:,} conditions in total")
    inputs = _inputs(problem, points)
    cases = _bound_all(problem, bounds, common, cases, others, inputs, points)
    boxes = [bounds.box(spots) for spots in inputs]
    if any(empty for _, empty in boxes):
        cases = []
    points = read
    names = [each.name for each in problem.networks] + [
        node.name for _, node in problem.hidden_nodes
    ]
    scores = magnitudes([box for box, _ in boxes], networks, points)

    def largest(spot: Place) -> Fraction:
        return scores(spot) if spot.output else bounds.largest(spot)

    shared = [_condition(atom, largest, networks) for atom in common]
    return Query(
        tuple(box for box, _ in boxes),
        tuple(
            Application(network, point, name)
            for network, point, name in zip(networks, points, names, strict=True)
        ),
        tuple(
            (
                *shared,
                *(_condition(atom, largest, networks) for atom in case if not bounds.says(atom)),
            )
            for case in cases
        ),
        reals=problem.reals if reals is None else reals,
        alternatives=tuple(
            tuple(tuple(_condition(atom, largest, networks) for atom in case) for case in each)
            for each in (others if cases else [])
        ),
    )


def _possible(rest: list[Formula], moved: _Moved, at: Position) -> list[Sequence[Atom]]:
    """Write disjunctions as cases, dropping those that no input satisfies."""
    found: list[Sequence[Atom]] = []
    for case in alternatives(rest, at):
        kept, possible = _without_constants(map(moved, case))
        if possible:
            found.append(kept)
    return found


def _first_alike(networks: Sequence[Network], points: Sequence[int]) -> list[int]:
    """Return for each network the first equal one that reads the same point."""
    first: dict[tuple[int, int], int] = {}
    pairs = zip(networks, points, strict=True)
    return [first.setdefault((id(each), at), i) for i, (each, at) in enumerate(pairs)]


class _Moved:
    """Translation of statements on inputs and outputs to points and first equal outputs."""

    def __init__(self, points: Sequence[int], outputs: Sequence[int]) -> None:
        self.points, self.outputs = points, outputs
        kept = list(range(len(outputs)))
        self.same = list(points) == kept[: len(points)] and list(outputs) == kept

    def __call__(self, atom: Atom) -> Atom:
        if self.same:
            return atom
        terms: dict[Place, Fraction] = {}
        for spot, coefficient in atom.linear.terms.items():
            moved = (self.outputs if spot.output else self.points)[spot.network]
            to = spot._replace(network=moved)
            terms[to] = terms.get(to, Fraction(0)) + coefficient
        linear = Linear({spot: c for spot, c in terms.items() if c}, atom.linear.constant)
        return Atom(linear, atom.strict, atom.at)


def _without_constants(atoms: Iterable[Atom]) -> tuple[list[Atom], bool]:
    """Drop inequalities between numbers; return the rest and whether the dropped hold."""
    kept, possible = [], True
    for atom in atoms:
        if atom.linear.terms:
            kept.append(atom)
        else:
            value = atom.linear.constant
            possible = possible and (value > 0 if atom.strict else value >= 0)
    return kept, possible


def _inputs(problem: Problem, points: Sequence[int]) -> list[list[Place]]:
    sizes = {point: each.input.size for point, each in zip(points, problem.networks, strict=True)}
    return [[Place(False, point, i) for i in range(sizes[point])] for point in sorted(sizes)]


def _bound_all(
    problem: Problem,
    bounds: Bounds,
    common: Sequence[Atom],
    cases: list[Sequence[Atom]],
    others: Sequence[Sequence[Sequence[Atom]]],
    inputs: Sequence[Sequence[Place]],
    points: Sequence[int],
) -> list[Sequence[Atom]]:
    """Bound every input, also by other disjunctions; return the satisfiable cases."""
    needed = [(spot, upper) for spots in inputs for spot in spots for upper in (False, True)]
    relations = [atom for atom in common if is_relation(atom)]
    if (
        not cases
        or not bounds.consistent()
        or (relations and not bounds.follow(relations, _unbounded_keys(needed, bounds)))
    ):
        cases = []
    missing = _unbounded_keys(needed, bounds)
    if cases:
        possible = bounds.widen(cases, relations, missing)
        cases = [case for case, kept in zip(cases, possible, strict=True) if kept]
    for each in others:
        missing = _unbounded_keys(needed, bounds)
        if cases and missing and not any(bounds.widen(each, relations, missing)):
            cases = []
    if not cases:
        # There is no counter-example, whatever the inputs' bounds.
        missing = _unbounded_keys(needed, bounds)
        bounds.close(missing)
    for spot, upper in needed:
        if (spot, upper) not in bounds.found:
            first = points.index(spot.network)
            name = problem.name_of(spot._replace(network=first))
            raise Slip(
                problem.networks[first].at,
                f"{name} has no {'upper' if upper else 'lower'} bound",
                "every input needs two bounds, outside all 'or' or in every case of one, by "
                "itself or through relations to inputs that have them",
            )
    return cases


def _unbounded_keys(needed: Sequence[Key], bounds: Bounds) -> set[Key]:
    """Return the needed bounds that are not known."""
    return {key for key in needed if key not in bounds.found}


def _condition(
    atom: Atom, largest: Callable[[Place], Fraction], networks: Sequence[Network]
) -> Condition:
    terms, constant = relax_coefficients(atom.linear.terms, atom.linear.constant, largest)
    if math.isinf(constant):
        raise Slip(atom.at, "a number of this condition is too large for float64")
    features = tuple((p.network, p.element, c) for p, c in sorted(terms.items()) if not p.output)
    scores = tuple(
        (p.network, score_of(networks[p.network], p.element), c)
        for p, c in sorted(terms.items())
        if p.output
    )
    exact = None
    if not all(map(is_exact, (*atom.linear.terms.values(), atom.linear.constant))):
        meant = sorted(atom.linear.terms.items())
        exact = ExactForm(
            tuple((p.network, p.element, c) for p, c in meant if not p.output),
            tuple(
                (p.network, score_of(networks[p.network], p.element), c)
                for p, c in meant
                if p.output
            ),
            atom.linear.constant,
        )
    return Condition(Form(features, scores, constant, exact=exact), atom.strict)
