"""A query holds exactly where the formulas of its text do."""

import itertools
import random
import re
from fractions import Fraction
from operator import eq, ge, gt, le, lt, ne

import pytest

from leaveout.specs.vnnlib import parse_problem, query_of

COMPARED = {"<=": le, ">=": ge, "<": lt, ">": gt, "=": eq, "==": eq, "!=": ne, "distinct": ne}


def trees(text):
    """Read brackets into nested lists, in a way of its own."""
    text = re.sub(r"\|[^|]*\||;[^\n]*", "", text)
    text = re.sub(r"\s*\[\s*([\d, ]*)\s*\]", lambda m: "@" + m.group(1).replace(" ", ""), text)
    stack = [[]]
    for token in re.findall(r"[()]|[^\s()]+", text):
        if token == "(":
            stack.append([])
        elif token == ")":
            done = stack.pop()
            stack[-1].append(done)
        else:
            stack[-1].append(token)
    return stack[0]


def value(tree, at):
    if isinstance(tree, str):
        return at[tree] if tree in at else Fraction(tree)
    first, *rest = (value(part, at) for part in tree[1:])
    match tree[0]:
        case "+":
            return first + sum(rest)
        case "-":
            return first - sum(rest) if rest else -first
        case "*":
            for factor in rest:
                first *= factor
            return first
        case "/":
            for divisor in rest:
                first /= divisor
            return first


def truth(tree, at):
    if tree in ("true", "false"):
        return tree == "true"
    head, *parts = tree
    match head:
        case "and":
            return all(truth(part, at) for part in parts)
        case "or":
            return any(truth(part, at) for part in parts)
        case "not":
            return not truth(parts[0], at)
        case "=>":
            return not truth(parts[0], at) or truth(parts[1], at)
    sides = [value(part, at) for part in parts]
    return all(COMPARED[head](a, b) for a, b in itertools.pairwise(sides))


def exact(form, points, scores):
    return (
        Fraction(form.constant)
        + sum(Fraction(c) * points[p][i] for p, i, c in form.features)
        + sum(Fraction(c) * scores[a][j] for a, j, c in form.scores)
    )


def holds(query, points, scores):
    for box, point in zip(query.points, points):
        for low, x, high in zip(box.lower, point, box.upper):
            if not Fraction(low) <= x <= Fraction(high):
                return False
    return any(
        all(
            (gt if condition.strict else ge)(exact(condition.form, points, scores), 0)
            for condition in case
        )
        for case in query.cases
    )


def assignment(problem, inputs, outputs):
    found = {}
    for network, point, score in zip(problem.networks, inputs, outputs):
        for tensor, values in ((network.input, point), (network.output, score)):
            for i, number in enumerate(values):
                name = tensor.element(i).replace("[", "@").replace("]", "")
                found[name if problem.version == "2.0" else f"{tensor.name}_{i}"] = number
    return found


def check(text, network, chance, tries, grid, one_sided=False):
    """Compare at points on a grid; return how often the formulas hold."""
    problem = parse_problem(text)
    query = query_of(problem, [network] * len(problem.networks)).query
    asserted = [tree[1] for tree in trees(text) if tree[0] == "assert"]
    met = 0
    for _ in range(tries):
        points = [[chance.choice(grid) for _ in range(box.dimension)] for box in query.points]
        inputs = [points[a.point] for a in query.applications]
        scores = [[chance.choice(grid) for _ in range(network.labels)] for _ in inputs]
        direct = all(truth(tree, assignment(problem, inputs, scores)) for tree in asserted)
        found = holds(query, points, scores)
        assert found or not direct
        assert one_sided or found == direct
        met += direct
    return met


GRID = [Fraction(i, 16) for i in range(-20, 21)]


@pytest.mark.parametrize("name", ["acas_1", "acas_2", "acas_6", "smt", "one", "two"])
def test_files(name, queries, network):
    chance = random.Random(0)
    text = queries[name]
    # At these very numbers of the file rounding outwards may let a point in that is a last bit
    # outside, but none out.
    numbers = [Fraction(each) for each in re.findall(r"(?<![\w.])-?\d+\.?\d*(?![\w.])", text)]
    check(text, network, chance, 8_000, [*numbers, *GRID], one_sided=True)
    # Far from them all is the same.
    odd = [Fraction(i, 16) + Fraction(1, 1024) for i in range(-20, 21)]
    check(text, network, chance, 8_000, odd)


def random_term(chance, variables, modern):
    number = f"{chance.randrange(-8, 9) / 4:.2f}"
    if number.startswith("-") and not modern and chance.random() < 0.3:
        number = f"(- {number[1:]})"
    match chance.randrange(8):
        case 0 | 1:
            return number
        case 2 | 3 | 4:
            return chance.choice(variables)
        case 5:
            return f"(* {number} {chance.choice(variables)})"
        case 6:
            parts = [random_term(chance, variables, modern) for _ in range(chance.randrange(1, 4))]
            return f"(+ {' '.join(parts)})"
        case _:
            parts = [random_term(chance, variables, modern) for _ in range(chance.randrange(1, 4))]
            return f"(- {' '.join(parts)})"


def random_formula(chance, variables, modern, depth):
    if depth == 0 or chance.random() < 0.3:
        signs = ["<=", ">=", "<", ">", "==" if modern else "=", "!="]
        sides = [random_term(chance, variables, modern) for _ in range(2)]
        if modern and not any(name in side for side in sides for name in variables):
            sides[0] = variables[0]
        return f"({chance.choice(signs)} {sides[0]} {sides[1]})"
    if not modern and chance.random() < 0.2:
        return f"(not {random_formula(chance, variables, modern, depth - 1)})"
    parts = [
        random_formula(chance, variables, modern, depth - 1) for _ in range(chance.randrange(1, 4))
    ]
    return f"({chance.choice(['and', 'or'])} {' '.join(parts)})"


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
            f"(assert {random_formula(chance, variables, modern, 3)})\n"
            for _ in range(chance.randrange(1, 3))
        )
        met += check(head + boxes + formulas, narrow, chance, 60, grid) > 0
    assert met > 100
