"""Construction of the neutral query from a file's problem and its networks."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction

from leaveout.encoders.query import Application, Condition, ExactForm, Form, Query
from leaveout.models import Network
from leaveout.specs.text.errors import Slip
from leaveout.specs.text.source import Position
from leaveout.specs.vnnlib.bounds import Bounds
from leaveout.specs.vnnlib.cases import LARGEST, alternatives, conjuncts, split_disjunctions
from leaveout.specs.vnnlib.formula import Atom, Formula, Linear, Place
from leaveout.specs.vnnlib.magnitudes import magnitudes
from leaveout.specs.vnnlib.merging import points_of
from leaveout.specs.vnnlib.onnx_files import score_of
from leaveout.specs.vnnlib.problem import Problem
from leaveout.specs.vnnlib.propagation import Key, is_relation
from leaveout.specs.vnnlib.rounding import is_exact, relax_coefficients


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
        raise Slip(start, f"the cases of the query have more than {LARGEST:,} conditions together")
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
        # Nothing is a counter-example, wherever the inputs are.
        missing = _unbounded_keys(needed, bounds)
        bounds.close(missing)
    for spot, upper in needed:
        if (spot, upper) not in bounds.found:
            first = points.index(spot.network)
            name = problem.name_of(spot._replace(network=first))
            raise Slip(
                problem.networks[first].at,
                f"{name} has no {'upper' if upper else 'lower'} bound",
                "every input needs two bounds, outside of all 'or' or in every case of one, by "
                "itself or by relations to inputs that have them",
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
