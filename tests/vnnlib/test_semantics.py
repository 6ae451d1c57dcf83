"""A query holds exactly where the formulas of its text do."""

import random
import re
from fractions import Fraction

import pytest

from leaveout.specs.vnnlib import parse_problem, query_of

from support.meaning import assignment, float32, holds, random_formula, trees, truth


def check(text, network, chance, tries, grid):
    """Compare at points on a grid; return how often the formulas hold."""
    problem = parse_problem(text)
    query = query_of(problem, [network] * len(problem.networks)).query
    asserted = [tree[1] for tree in trees(text) if tree[0] == "assert"]
    met = 0
    for _ in range(tries):
        points = [[chance.choice(grid) for _ in range(box.dimension)] for box in query.points]
        inputs = [points[a.point] for a in query.applications]
        scores = [
            [chance.choice(grid) for _ in range(a.network.labels)] for a in query.applications
        ]
        direct = all(truth(tree, assignment(problem, inputs, scores)) for tree in asserted)
        found = holds(query, points, scores)
        assert found == direct
        met += direct
    return met


GRID = [Fraction(i, 16) for i in range(-20, 21)]


@pytest.mark.parametrize("name", ["acas_1", "acas_2", "acas_6", "smt", "one", "two"])
def test_files(name, queries, network):
    chance = random.Random(0)
    text = queries[name]
    numbers = [Fraction(each) for each in re.findall(r"(?<![\w.])-?\d+\.?\d*(?![\w.])", text)]
    numbers += [float32(each) for each in numbers]
    check(text, network, chance, 8_000, [*numbers, *GRID])
    odd = [Fraction(i, 16) + Fraction(1, 1024) for i in range(-20, 21)]
    check(text, network, chance, 8_000, odd)


@pytest.mark.parametrize("modern", [False, True])
def test_random_formulas(modern, narrow):
    chance = random.Random(1)
    if modern:
        variables = ["X[0]", "X[1]", "Y[0]", "Y[1]", "A[0]", "A[1]", "B[0]", "B[1]"]
        head = (
            "(vnnlib-version <2.0>)\n(declare-network f (declare-input X real [2])"
            "(declare-output Y real [2]))(declare-network g (declare-input A real [2])"
            "(declare-output B real [2]))\n"
        )
    else:
        variables = ["X_0", "X_1", "Y_0", "Y_1"]
        head = "".join(f"(declare-const {name} Real)\n" for name in variables)
    grid = [Fraction(i, 4) for i in range(-5, 6)]
    met = 0
    for _ in range(300):
        boxes = "".join(
            f"(assert (and (<= {name} 1.0) (>= {name} -1.0)))\n"
            for name in variables
            if name[0] in "XA"
        )
        formulas = "".join(
            f"(assert {random_formula(chance, variables, 3)})\n"
            for _ in range(chance.randrange(1, 3))
        )
        met += check(head + boxes + formulas, narrow, chance, 60, grid) > 0
    assert met > 100


@pytest.mark.parametrize("seed", range(8))
def test_disjunctions_that_are_left_aside(seed, narrow):
    chance = random.Random(seed)
    names = ["X_0", "X_1", "Y_0", "Y_1"]
    head = "".join(f"(declare-const {name} Real)\n" for name in names)
    head += "(assert (and (<= -1 X_0 1) (<= -1 X_1 1)))\n"
    formulas = [
        f"(or {' '.join(random_formula(chance, names, 1) for _ in range(3))})" for _ in range(9)
    ]
    text = head + "".join(f"(assert {each})\n" for each in formulas)
    query = query_of(parse_problem(text), [narrow]).query
    assert query.alternatives or not query.cases
    check(text, narrow, chance, 2_000, [Fraction(i, 4) for i in range(-5, 6)])
