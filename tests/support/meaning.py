"""What the text of a VNN-LIB query means, read in another way than `leaveout` reads it."""

import itertools
import re
from fractions import Fraction
from operator import eq, ge, gt, le, lt, ne

import numpy as np

COMPARED = {"<=": le, ">=": ge, "<": lt, ">": gt, "=": eq, "==": eq, "!=": ne, "distinct": ne}


def trees(text):
    """Read brackets into nested lists, in a way that is not the reader's."""
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
    """Evaluate a term exactly; ``at`` gives variables their values."""
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
    """Evaluate a formula."""
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
    return all(COMPARED[head](read(a, b, at), read(b, a, at)) for a, b in itertools.pairwise(parts))


def read(tree, other, at):
    """Evaluate a side of a comparison: a number beside an input alone is a float32 number."""
    found = value(tree, at)
    return float32(found) if is_input(other, at) and not varies(tree, at) else found


def is_input(tree, at):
    """Whether a term is an input, or minus one; their tensors are called X or A."""
    if isinstance(tree, list) and tree[0] == "-" and len(tree) == 2:
        return is_input(tree[1], at)
    return isinstance(tree, str) and tree in at and tree[0] in "XA"


def varies(tree, at):
    """Whether a term names a variable."""
    return tree in at if isinstance(tree, str) else any(varies(part, at) for part in tree[1:])


def float32(number):
    """Return the float32 number that a runtime reads a decimal as."""
    return Fraction(float(np.float32(float(number))))


def exact(form, points, scores):
    """Evaluate a form exactly."""
    return (
        Fraction(form.constant)
        + sum(Fraction(c) * points[p][i] for p, i, c in form.features)
        + sum(Fraction(c) * scores[a][j] for a, j, c in form.scores)
    )


def holds(query, points, scores):
    """Whether a query holds, as it was built."""
    for box, point in zip(query.points, points):
        for low, x, high in zip(box.lower, point, box.upper):
            if not Fraction(low) <= x <= Fraction(high):
                return False
    return all(
        any(
            all(
                (gt if condition.strict else ge)(exact(condition.form, points, scores), 0)
                for condition in case
            )
            for case in cases
        )
        for cases in (query.cases, *query.alternatives)
    )


def assignment(problem, inputs, outputs):
    """Name the values of variables: of each network its input, of each application its output."""
    found = {}
    hidden = iter(outputs[len(problem.networks) :])
    for network, point, score in zip(problem.networks, inputs, outputs, strict=False):
        values = [point, *(next(hidden) for _ in network.hidden), score]
        for tensor, numbers in zip(network.tensors, values, strict=True):
            for i, number in enumerate(numbers):
                name = tensor.element(i).replace("[", "@").replace("]", "")
                found[name if problem.version == "2.0" else f"{tensor.name}_{i}"] = number
    return found


def random_number(chance):
    """Write a quarter in one of many ways."""
    quarters = chance.randrange(-8, 9)
    match chance.randrange(6):
        case 0:
            return f"{quarters * 25}e-2"
        case 1:
            return f"{quarters / 40:.3f}E+1"
        case 2:
            return str(4 * quarters // 4)
        case 3 if quarters > 0:
            return f"+{quarters / 4}"
    return f"{quarters / 4:.2f}"


def random_term(chance, variables):
    """Write a linear term."""
    number = random_number(chance)
    if number.startswith("-") and chance.random() < 0.3:
        number = f"(- {number[1:]})"
    match chance.randrange(9):
        case 0 | 1:
            return number
        case 2 | 3 | 4:
            return chance.choice(variables)
        case 5:
            return f"(* {number} {chance.choice(variables)})"
        case 6:
            return f"(/ {chance.choice(variables)} {chance.choice(['2', '-0.5', '4e0'])})"
        case 7:
            parts = [random_term(chance, variables) for _ in range(chance.randrange(1, 4))]
            return f"(+ {' '.join(parts)})"
        case _:
            parts = [random_term(chance, variables) for _ in range(chance.randrange(1, 4))]
            return f"(- {' '.join(parts)})"


def random_formula(chance, variables, depth):
    """Write a formula."""
    if depth == 0 or chance.random() < 0.3:
        signs = ["<=", ">=", "<", ">", "==", "=", "!=", "distinct"]
        sides = [random_term(chance, variables) for _ in range(2)]
        return f"({chance.choice(signs)} {sides[0]} {sides[1]})"
    match chance.randrange(8):
        case 0:
            return f"(not {random_formula(chance, variables, depth - 1)})"
        case 1:
            parts = [random_formula(chance, variables, depth - 1) for _ in range(2)]
            return f"(=> {parts[0]} {parts[1]})"
    parts = [random_formula(chance, variables, depth - 1) for _ in range(chance.randrange(1, 4))]
    return f"({chance.choice(['and', 'or'])} {' '.join(parts)})"
