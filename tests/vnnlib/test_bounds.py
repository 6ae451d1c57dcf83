"""Bounds of inputs that follow from relations lose no point, and are found where there are any."""

import random
import time
from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import linprog

from leaveout.errors import SpecError
from leaveout.specs.text.errors import Position
from leaveout.specs.vnnlib import parse_problem, query_of
from leaveout.specs.vnnlib.bounds import Bounds, propagate
from leaveout.specs.vnnlib.formula import Atom, Linear, Place

from support.meaning import assignment, holds, random_formula, trees, truth

HEAD = """\
(vnnlib-version <2.0>)
(declare-network f (declare-input X real [2]) (declare-output Y real [2]))
(declare-network g (declare-input A real [2]) (declare-output B real [2]))
"""
INPUTS = ["X[0]", "X[1]", "A[0]", "A[1]"]


def box_of(asserted, network):
    """Return the bounds of X and A by name."""
    query = query_of(parse_problem(HEAD + asserted), [network, network]).query
    (x, a), ends = query.points, {}
    for box, name in ((x, "X"), (a, "A")):
        for i in range(2):
            ends[f"{name}[{i}]"] = box.lower[i], box.upper[i]
    return ends, query


@pytest.mark.parametrize(
    ("asserted", "name", "ends"),
    [
        ("(<= 0 X[0] 1) (<= X[0] X[1] 2) (<= X[1] A[0] (* 2 X[1])) (== A[1] (- A[0] X[0]))",
         "A[1]", (-1, 4)),
        ("(<= 0 X[0] 1) (<= X[0] X[1] 2) (<= X[1] A[0] (* 2 X[1])) (== A[1] (- A[0] X[0]))",
         "A[0]", (0, 4)),
        # By a sum of relations only: no single one bounds anything.
        ("(<= -1 (+ X[0] X[1]) 1) (<= -1 (- X[0] X[1]) 1) (<= 0 A[0] 1) (== A[1] A[0])",
         "X[0]", (-1, 1)),
        ("(<= -1 (+ X[0] X[1]) 1) (<= -1 (- X[0] (* 3 X[1])) 2) (<= 0 A[0] 1) (== A[1] A[0])",
         "X[1]", (-0.75, 0.5)),
        ("(<= (+ X[0] X[1] A[0] A[1]) 1) (>= X[0] 0) (>= X[1] 0) (>= A[0] 0) (>= A[1] 0)",
         "A[1]", (0, 1)),
        # Strict relations bound as others do.
        ("(< 0 X[0] 1) (< X[0] X[1] 2) (<= 0 A[0] 1) (<= 0 A[1] 1)", "X[1]", (0, 2)),
        # In every case of a disjunction, in another way.
        ("(<= 0 X[0] 1) (<= 0 A[0] 1) (<= 0 A[1] 1) (or (== X[1] (+ X[0] 3)) (<= -1 X[1] A[0]))",
         "X[1]", (-1, 4)),
        ("(<= 0 X[0] 1) (<= 0 A[0] 1) (<= 0 A[1] 1) (>= X[1] X[0]) (or (<= X[1] A[0]) (< X[1] 0))",
         "X[1]", (0, 1)),
        # What no point meets bounds nothing.
        ("(<= 0 X[0] A[0] 1) (<= 0 A[1] 1) (or (<= 0 X[1] A[0]) (and (<= X[1] X[0]) (>= A[0] 2)))",
         "X[1]", (0, 1)),
        ("(not (< X[0] 0)) (not (> X[0] X[1])) (not (or (> X[1] A[0]) (> A[0] A[1]) (> A[1] 1)))",
         "A[0]", (0, 1)),
    ],
)  # fmt: skip
def test_what_follows(asserted, name, ends, narrow):
    ends_found, query = box_of(f"(assert (and {asserted}))", narrow)
    assert ends_found[name] == ends
    assert query.cases


@pytest.mark.parametrize(
    "asserted",
    [
        "(<= 0 X[0] 1) (<= X[0] X[1]) (<= 0 A[0] 1) (<= 0 A[1] 1)",
        "(<= X[0] X[1]) (<= X[1] X[0]) (<= 0 A[0] 1) (<= 0 A[1] 1)",
        "(<= 0 X[0] A[0] A[1] 1) (<= X[1] Y[0] X[1])",
        "(<= 0 X[0] 1) (<= 0 A[0] 1) (<= 0 A[1] 1) (or (<= 0 X[1] 1) (<= 0 X[1]))",
    ],
)  # fmt: skip
def test_what_does_not_follow_is_refused(asserted, narrow, snapshot):
    with pytest.raises(SpecError) as caught:
        box_of(f"(assert (and {asserted}))", narrow)
    assert str(caught.value) == snapshot


@pytest.mark.parametrize(
    "asserted",
    [
        "(<= 0 X[0] 1) (<= 2 X[1]) (<= X[1] X[0])",
        "(< X[0] X[1]) (<= 1 X[1] 1) (<= 1 X[0])",
        "(< X[0] X[1]) (< X[1] X[0]) (<= 0 X[0] 1)",
        "(<= 0 X[0] X[1] 1) (> X[0] X[1])",
        "(<= 1 X[0] X[1] (- X[0] 1e-9))",
        "(== X[0] 0.1) (> X[0] 0.1)",
        "(!= X[0] X[0])",
        "(<= (+ X[0] X[1]) 1) (<= (- X[0] X[1]) 1) (> X[0] 1)",
        "(>= X[0] 1) (<= X[0] 0)",
        "(< 1 0)",
        "(or (and (>= X[0] 1) (<= X[0] 0)) false)",
        "(or (and (<= 0 X[0] 1) (<= 2 X[1] X[0])) (and (<= 0 X[1] 1) (> X[1] 1) (< X[1] X[0] 1)))",
    ],
)  # fmt: skip
def test_where_no_input_is_left_nothing_needs_bounds(asserted, narrow):
    _, query = box_of(f"(assert (and {asserted}))", narrow)
    assert query.cases == ()


@pytest.mark.parametrize("seed", range(3))
def test_no_point_is_lost(seed, narrow):
    """Random relations, some under 'or' and 'not', that one point meets."""
    chance = random.Random(seed)
    grid = [Fraction(i, 4) for i in range(-9, 10)]
    read = met = 0
    for _ in range(80):
        base = [[chance.choice(grid) for _ in range(2)] for _ in range(2)]
        flat = dict(zip(INPUTS, (*base[0], *base[1]), strict=True))
        known = {name.replace("[", "@").replace("]", ""): x for name, x in flat.items()}
        texts = [
            f"(<= {float(x) - chance.choice([0, 1])} {name} {float(x) + chance.choice([0, 2])})"
            for name, x in flat.items()
            if chance.random() < 0.85
        ]
        while len(texts) < 8:
            text = random_formula(chance, INPUTS, chance.choice([0, 0, 1, 2]))
            if truth(trees(text)[0], known):
                texts.append(text)
        text = HEAD + "\n".join(f"(assert {each})" for each in texts)
        problem = parse_problem(text)
        try:
            query = query_of(problem, [narrow, narrow]).query
        except SpecError as error:
            assert "bound" in str(error)
            continue
        read += 1
        asserted = [trees(each)[0] for each in texts]
        shared = len(query.points) == 1
        for attempt in range(60):
            share = chance.choice([0.2, 0.6]) if attempt else 0.0
            points = [
                [chance.choice(grid) if chance.random() < share else x for x in each]
                for each in base
            ]
            points = points[:1] if shared else points
            inputs = [points[a.point] for a in query.applications]
            scores = [[Fraction(0), Fraction(0)]] * 2
            at = assignment(problem, inputs, scores)
            direct = all(truth(tree, at) for tree in asserted)
            assert holds(query, points, scores) == direct, text
            assert direct or attempt > 0
            met += direct
    assert read > 30
    assert met > 200


@pytest.mark.parametrize("seed", range(2))
def test_relations_bound_what_a_linear_programme_bounds(seed, narrow):
    chance = random.Random(seed)
    known, empty = [0, 0], 0
    for _ in range(70):
        rows = [[chance.randrange(-2, 3) for _ in range(4)] for _ in range(chance.randrange(3, 9))]
        right = [chance.randrange(-2, 5) for _ in rows]
        text = "\n".join(
            "(assert (<= (+ "
            + " ".join(f"(* {c} {name})" for c, name in zip(row, INPUTS, strict=True))
            + f") {limit}))"
            for row, limit in zip(rows, right, strict=True)
        )
        solved = [
            linprog(sign * np.eye(4)[i], A_ub=rows, b_ub=right, bounds=(None, None))
            for i in range(4)
            for sign in (1, -1)
        ]
        if linprog(np.zeros(4), A_ub=rows, b_ub=right, bounds=(None, None)).status == 2:
            # No point meets them all.
            assert box_of(text, narrow)[1].cases == ()
            empty += 1
            continue
        bounded = all(each.status == 0 for each in solved)
        known[bounded] += 1
        try:
            ends, _ = box_of(text, narrow)
        except SpecError:
            assert not bounded, text
            continue
        assert bounded, text
        for i, name in enumerate(INPUTS):
            low, high = ends[name]
            assert low <= solved[2 * i].fun + 1e-6
            assert high >= -solved[2 * i + 1].fun - 1e-6
    assert min(*known, empty) > 2


def at_least(terms, constant, *, strict=False):
    """Return ``terms + constant >= 0``."""
    linear = {Place(False, 0, i): Fraction(c) for i, c in terms.items()}
    return Atom(Linear(linear, Fraction(constant)), strict, Position())


@pytest.mark.parametrize(
    "relations",
    [
        # Each halves the bounds once more, without end.
        [at_least({0: 1, 1: -2}, 0), at_least({1: 1, 0: -1}, 0)],
        [at_least({0: "1/3", 1: -1}, "1/7"), at_least({1: "1/3", 0: -1}, "1/11")],
        # Each moves them by one millionth of their distance.
        [at_least({0: -1, 1: 1}, "-1/1000000"), at_least({1: -1, 0: 1}, "-1/1000000")],
        [at_least({0: "1e300", 1: -1}, 1), at_least({1: "1e-300", 0: -1}, 1)],
        [at_least({0: "1e-324", 1: "-1e308"}, 0), at_least({0: -1, 1: 1}, 0)],
    ],
)  # fmt: skip
def test_propagation_ends(relations):
    bounds = Bounds()
    for i in range(2):
        bounds.tighten(at_least({i: 1}, 100))
        bounds.tighten(at_least({i: -1}, 100))
    started = time.process_time()
    propagate(bounds.found, relations)
    assert time.process_time() - started < 5


def test_many_long_relations_end_soon(narrow):
    count = 2000
    names = [f"X[{i}]" for i in range(count)]
    text = (
        f"(vnnlib-version <2.0>)(declare-network f (declare-input X real [{count}])"
        "(declare-output Y real [2]))"
        + "".join(f"(assert (<= -1 {name} 1))" for name in names)
        + "".join(f"(assert (<= (+ {' '.join(names[i:])}) {i}.5))" for i in range(60))
    )
    problem = parse_problem(text)
    started = time.process_time()
    bounds = Bounds()
    atoms = [part for part in problem.formula.parts if isinstance(part, Atom)]
    for part in problem.formula.parts:
        if not isinstance(part, Atom):
            for atom in part.parts:
                bounds.tighten(atom)
    assert len(atoms) == 60
    assert propagate(bounds.found, atoms)
    assert time.process_time() - started < 20


@pytest.mark.parametrize(
    "asserted",
    [
        "(<= 0 X[0] X[1] 1) (>= X[0] X[1])",
        "(<= 0 X[0] X[1] 1) (> X[0] (- X[1] 1e-300))",
        "(<= (+ X[0] X[1]) 1) (<= (- X[0] X[1]) 1) (>= X[0] 1) (<= 0 X[1])",
        "(== X[0] 0.1) (>= X[0] 0.1) (<= 0 X[1] 1)",
        "(<= 0 X[0] 1) (<= 0 X[1] 1) (or (< X[0] X[1]) (< X[1] X[0]))",
        "(<= 0 X[0] 1) (== X[1] (* 1e-320 X[0]))",
        "(<= 0 X[0] 1) (== (* 1e-320 X[1]) (* 1e-320 X[0]))",
        "(<= 0 X[0] 1e-320) (== X[1] X[0])",
    ],
)
def test_what_some_point_meets_stays(asserted, narrow):
    _, query = box_of(f"(assert (and (<= 0 A[0] A[1] 1) {asserted}))", narrow)
    assert query.cases


def test_many_cases_with_relations_end_soon(narrow):
    parts = [f"(and (<= X[0] {i}.5) (<= X[1] (+ X[0] {i})) (>= X[1] {-i}.5))" for i in range(4000)]
    text = f"(assert (and (<= 0 A[0] A[1] 1) (<= 0 X[0]) (or {' '.join(parts)})))"
    started = time.process_time()
    ends, query = box_of(text, narrow)
    assert ends["X[1]"] == (-3999.5, 2 * 3999 + 0.5)
    assert len(query.cases) == 4000
    assert time.process_time() - started < 30


def test_huge_and_tiny_numbers_lose_nothing(narrow, snapshot):
    for number in ("1e400", "1e-400", "-1e300", "4.9e-324", "0." + "0" * 330 + "7"):
        text = (
            f"(assert (and (<= 0 X[0] 1) (<= 0 A[0] 1) (<= 0 A[1] 1) (<= 0 X[1]) "
            f"(<= (* {number} X[1]) (* {number} X[0])) (<= X[1] (+ 2 X[0]))))"
        )
        try:
            ends, query = box_of(text, narrow)
        except SpecError as error:
            assert str(error) == snapshot
            continue
        assert ends["X[1]"][0] == 0
        assert ends["X[1]"][1] >= 1
        problem = parse_problem(HEAD + text)
        points = [[Fraction(1, 2), Fraction(1, 2)], [Fraction(0), Fraction(1)]]
        scores = [[Fraction(0), Fraction(0)]] * 2
        at = assignment(problem, points, scores)
        assert truth(trees(text)[0][1], at)
        assert holds(query, points, scores)
