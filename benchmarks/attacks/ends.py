"""Queries of VNN-LIB whose truth hangs on one point: strict or not, at the very end of a range.

Networks are so small that exact arithmetic decides them: on a line the truth of every comparison
changes only where a neuron or a comparison turns, and a plane is cut into lines at every place
where two such places meet.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from leaveout.models.onnx.file import network_from
from leaveout.specs.vnnlib import parse_problem, query_of
from leaveout.verifier.points.query import decide

from attacks.kind import Case, Outcome

__all__ = ["Ends"]

Point = tuple[Fraction, ...]
Line = tuple[Fraction, Fraction, Fraction]
"""Where ``a x + b y + c`` is 0."""

_SECONDS = 20.0
_FEW_BITS = [0.0, 1.0, -1.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 3.0, 0.75]
_DECIMALS = ["0.1", "0.3", "0.7", "1e-3", "0.9", "1e-30", "0.2500000000001", "1.1"]
_HOLDS: dict[str, Callable[[Fraction], bool]] = {
    ">=": lambda v: v >= 0, ">": lambda v: v > 0, "<=": lambda v: v <= 0, "<": lambda v: v < 0,
}  # fmt: skip


class Ends:
    """Random queries over one or two inputs, most of them about an end of what can be."""

    name = "ends"

    def make(self, rng: np.random.Generator) -> Case:
        """Draw a network, a box, and conditions that some point only just meets, or misses."""
        inputs, hidden = (1, int(rng.integers(0, 5))) if rng.random() < 0.8 else (2, 2)
        outputs = int(rng.integers(1, 3))
        widths = [inputs, hidden, outputs] if hidden else [inputs, outputs]
        if inputs == 1 and hidden and rng.random() < 0.3:
            widths.insert(2, int(rng.integers(1, 3)))
        coarse = bool(rng.random() < 0.7)
        layers = [
            [_numbers(rng, (m, n), coarse), _numbers(rng, (m,), coarse)]
            for n, m in itertools.pairwise(widths)
        ]
        if outputs == 2 and rng.random() < 0.3:
            # Two outputs that are the same, or each other's negative.
            sign = float(rng.choice([1.0, -1.0]))
            for numbers in layers[-1]:
                numbers[1] = (
                    [sign * v for v in numbers[0]]
                    if isinstance(numbers[0], list)
                    else sign * numbers[0]
                )
        case: Case = {
            "layers": layers,
            "box": [_ends(rng) for _ in range(inputs)],
            "relu": bool(rng.random() < 0.3),
            "cases": [],
        }
        for _ in range(int(rng.integers(1, 3))):
            conditions = [_condition(rng, case, outputs) for _ in range(int(rng.integers(1, 3)))]
            case["cases"].append(conditions)
        return case

    def check(self, case: Case) -> Outcome:
        """Decide the query, and hold the answer against exact arithmetic."""
        network = network_from(_model(case), "f")
        query = query_of(parse_problem(_text(case)), [network]).query
        found = decide(query, seconds=_SECONDS)
        at, told = _truth(case)
        label = f"{len(case['box'])} inputs, {'sat' if at else 'unsat'}"
        wrong = None
        if found.verdict == "proved" and at is not None:
            wrong = f"sat, but unsat is said: {[float(v) for v in at]}"
        elif found.verdict == "refuted":
            assert found.points is not None
            point = tuple(Fraction(float(v)) for v in found.points[0])
            if not _met(case, point):
                wrong = f"the example is none: {found.points[0].tolist()}"
        elif found.verdict == "unknown" and (at is None or told):
            wrong = f"a boundary alone is unknown: {found.reason}, {'sat' if at else 'unsat'}"
        return Outcome(label, found.verdict, wrong)

    def shrink(self, case: Case) -> Iterator[Case]:
        """Yield fewer cases and conditions."""
        cases = case["cases"]
        for i in range(len(cases)):
            if len(cases) > 1:
                yield {**case, "cases": cases[:i] + cases[i + 1 :]}
            for k in range(len(cases[i])):
                if len(cases[i]) > 1:
                    fewer = cases[i][:k] + cases[i][k + 1 :]
                    yield {**case, "cases": [*cases[:i], fewer, *cases[i + 1 :]]}
        if case["relu"]:
            yield {**case, "relu": False}


def _numbers(rng: np.random.Generator, shape: tuple[int, ...], coarse: bool) -> list:  # type: ignore[type-arg]
    values = rng.choice(_FEW_BITS, size=shape) if coarse else rng.normal(size=shape)
    found: list = values.astype(np.float32).astype(float).tolist()  # type: ignore[type-arg]
    return found


def _ends(rng: np.random.Generator) -> list[str]:
    """Draw the bounds of an input, as text: whole, decimal, or both the same."""
    low, high = sorted(rng.choice([-2, -1, 0, 1, 2], size=2, replace=False).tolist())
    ends = [str(low), str(high)]
    if rng.random() < 0.4:
        ends[int(rng.integers(2))] = str(rng.choice(_DECIMALS))
    if rng.random() < 0.1:
        ends = [ends[1], ends[1]]
    return sorted(ends, key=Fraction)


def _condition(rng: np.random.Generator, case: Case, outputs: int) -> list:  # type: ignore[type-arg]
    """Draw a comparison of a linear form with an end of it, a value it takes, or a number."""
    names = [f"Y_{i}" for i in range(outputs)]
    if rng.random() < 0.3:
        names += [f"X_{i}" for i in range(len(case["box"]))]
    count = int(rng.integers(1, min(2, len(names)) + 1))
    chosen = rng.permutation(names)[:count].tolist()
    terms = [[str(rng.choice(["1", "1", "-1", "2", "0.1"])), name] for name in chosen]
    sign = str(rng.choice(list(_HOLDS)))
    values = sorted(_value(case, terms, at) for at in _some_points(case))
    how = rng.random()
    if how < 0.7:
        number = values[-1] if sign[0] == ">" else values[0]
    elif how < 0.85:
        number = values[int(rng.integers(len(values)))]
    else:
        number = Fraction(str(rng.choice(_DECIMALS)))
    text = _decimal(number)
    return [sign, terms, text]


def _decimal(number: Fraction) -> str:
    """Write a number to its last digit, or where it has none to thirty."""
    with localcontext() as context:
        context.prec = 400
        found = Decimal(number.numerator) / Decimal(number.denominator)
        if Fraction(found) != number:
            found = round(found, 30)
    return format(found, "f")


def _bounds(case: Case) -> list[tuple[Fraction, Fraction]]:
    """Return the box as it is read: the nearest float32 numbers."""
    return [tuple(Fraction(float(np.float32(v))) for v in ends) for ends in case["box"]]  # type: ignore[misc]


def _layers(case: Case, point: Point) -> Iterator[list[Fraction]]:
    """Yield what each layer gives, before and after its ReLU where it has one."""
    values = list(point)
    for k, (weights, bias) in enumerate(case["layers"]):
        values = [
            sum((Fraction(w) * v for w, v in zip(row, values, strict=True)), Fraction(b))
            for row, b in zip(weights, bias, strict=True)
        ]
        yield values
        if k + 1 < len(case["layers"]) or case["relu"]:
            values = [max(v, Fraction(0)) for v in values]
            yield values


def _scores(case: Case, point: Point) -> list[Fraction]:
    *_, scores = _layers(case, point)
    return scores


def _turns(case: Case, point: Point) -> list[Fraction]:
    """Return everything whose sign decides: neurons' sums, and comparisons."""
    *found, scores = _layers(case, point)
    compared = itertools.chain.from_iterable(case["cases"])
    return [
        *itertools.chain.from_iterable(found),
        *(_value(case, t, point, scores) - _compared(t, text) for _, t, text in compared),
    ]


def _value(
    case: Case, terms: list[list[str]], point: Point, scores: Sequence[Fraction] | None = None
) -> Fraction:
    given = {"X": point, "Y": _scores(case, point) if scores is None else scores}
    return sum((Fraction(c) * given[n[0]][int(n[2:])] for c, n in terms), Fraction(0))


def _compared(terms: list[list[str]], text: str) -> Fraction:
    """Return the number that terms are compared with: beside an input alone a float32 one."""
    alone = len(terms) == 1 and terms[0][1][0] == "X" and abs(Fraction(terms[0][0])) == 1
    return Fraction(float(np.float32(text))) if alone else Fraction(text)


def _met(case: Case, point: Point) -> bool:
    """Whether a point is in the box and meets all conditions of a case."""
    ends = zip(point, _bounds(case), strict=True)
    inside = all(low <= value <= high for value, (low, high) in ends)
    scores = _scores(case, point)
    return inside and any(
        all(
            _HOLDS[sign](_value(case, terms, point, scores) - _compared(terms, text))
            for sign, terms, text in each
        )
        for each in case["cases"]
    )


def _truth(case: Case) -> tuple[Point | None, bool]:
    """Return a point that meets the query, if any does, and whether float32 has one."""
    met: Point | None = None
    for point in _points(case):
        if not _met(case, point):
            continue
        met = met or point
        if any(_met(case, near) for near in _float32(point)):
            return met, True
    return met, False


def _float32(point: Point) -> Iterator[Point]:
    """Yield float32 points next to one."""
    sides = []
    for value in point:
        near = np.float32(float(value))
        sides.append([near, np.nextafter(near, -np.float32(9)), np.nextafter(near, np.float32(9))])
    for each in itertools.product(*sides):
        yield tuple(Fraction(float(v)) for v in each)


def _points(case: Case) -> Iterator[Point]:
    """Yield a point of every piece of the box on which nothing turns."""
    bounds = _bounds(case)
    if any(low > high for low, high in bounds):
        return
    if len(bounds) == 1:
        for x in _along(lambda t: _turns(case, (t,)), *bounds[0]):
            yield (x,)
        return
    for x in _pieces(_meetings(case), *bounds[0]):
        for y in _along(lambda t, x=x: _turns(case, (x, t)), *bounds[1]):  # type: ignore[misc]
            yield x, y


def _some_points(case: Case) -> list[Point]:
    """Return points where a form may be at its end: corners, and where neurons turn."""
    bounds = _bounds(case)
    if len(bounds) == 1:
        return [(x,) for x in _along(lambda t: _turns(case, (t,)), *bounds[0])]
    found = list(itertools.product(*bounds))
    return [*found, tuple(Fraction(low + high, 2) for low, high in bounds)]


def _along(
    turns: Callable[[Fraction], list[Fraction]], low: Fraction, high: Fraction
) -> list[Fraction]:
    """Return places of a line between which, and at which, no sign changes; turns bend there only.

    A function that bends where another turns is straight between these places: so they are sought
    again until none is new.
    """
    places = [low, high]
    while True:
        found = set(places)
        for a, b in itertools.pairwise(sorted(found)):
            third = (2 * a + b) / 3, (a + 2 * b) / 3
            ends = [turns(t) for t in third]
            for v, w in zip(*ends, strict=True):
                if v != w:
                    at = third[0] - v * (third[1] - third[0]) / (w - v)
                    if a < at < b:
                        found.add(at)
        if len(found) == len(places):
            return _pieces(places, low, high)
        places = sorted(found)


def _pieces(places: Iterable[Fraction], low: Fraction, high: Fraction) -> list[Fraction]:
    """Return places within two ends, and one between each two."""
    inside = sorted({low, high, *(p for p in places if low < p < high)})
    return [*inside, *((a + b) / 2 for a, b in itertools.pairwise(inside))]


def _meetings(case: Case) -> set[Fraction]:
    """Return where on the first axis two lines of the plane meet; of one hidden layer."""
    (weights, bias), *_ = case["layers"]
    rows = zip(weights, bias, strict=True)
    lines = {(Fraction(row[0]), Fraction(row[1]), Fraction(b)) for row, b in rows}
    low, high = _bounds(case)[1]
    lines |= {(Fraction(0), Fraction(1), -low), (Fraction(0), Fraction(1), -high)}
    for pattern in itertools.product((0, 1), repeat=len(weights)):
        lines |= set(_linear(case, pattern))
    found = {-c / a for a, b, c in lines if a and not b}
    for (a, b, c), (d, e, f) in itertools.combinations(lines, 2):
        if a * e != b * d:
            found.add((b * f - c * e) / (a * e - b * d))
    return found


def _linear(case: Case, pattern: tuple[int, ...]) -> Iterator[Line]:
    """Yield outputs and comparisons as lines, where neurons are in a pattern of phases."""
    (first, second), (weights, bias) = case["layers"]
    outputs = []
    for row, b in zip(weights, bias, strict=True):
        total = [Fraction(0), Fraction(0), Fraction(b)]
        for w, on, inner, own in zip(row, pattern, first, second, strict=True):
            for i, v in enumerate((*inner, own)):
                total[i] += on * Fraction(w) * Fraction(v)
        outputs.append(total)
    yield from ((a, b, c) for a, b, c in outputs)
    axes = [[Fraction(1), Fraction(0), Fraction(0)], [Fraction(0), Fraction(1), Fraction(0)]]
    for cut in itertools.product((0, 1), repeat=len(outputs) if case["relu"] else 0):
        cuts = cut or (1,) * len(outputs)
        given = {"X": axes, "Y": [[on * v for v in o] for on, o in zip(cuts, outputs, strict=True)]}
        for _, terms, text in itertools.chain.from_iterable(case["cases"]):
            a, b, c = (
                sum((Fraction(f) * given[n[0]][int(n[2:])][i] for f, n in terms), Fraction(0))
                for i in range(3)
            )
            yield a, b, c - _compared(terms, text)


def _model(case: Case) -> onnx.ModelProto:
    nodes, constants, at = [], [], "x"
    for k, (weights, bias) in enumerate(case["layers"]):
        matrix = np.asarray(weights, np.float32)
        constants += [
            numpy_helper.from_array(matrix, f"w{k}"),
            numpy_helper.from_array(np.asarray(bias, np.float32), f"b{k}"),
        ]
        nodes.append(helper.make_node("Gemm", [at, f"w{k}", f"b{k}"], [f"z{k}"], transB=1))
        at = f"z{k}"
        if k + 1 < len(case["layers"]) or case["relu"]:
            nodes.append(helper.make_node("Relu", [at], [f"h{k}"]))
            at = f"h{k}"
    inputs, outputs = len(case["box"]), len(case["layers"][-1][1])
    graph = helper.make_graph(
        nodes,
        "ends",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", inputs])],
        [helper.make_tensor_value_info(at, TensorProto.FLOAT, ["batch", outputs])],
        constants,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def _text(case: Case) -> str:
    outputs = len(case["layers"][-1][1])
    names = [f"X_{i}" for i in range(len(case["box"]))] + [f"Y_{i}" for i in range(outputs)]
    lines = [f"(declare-const {name} Real)" for name in names]
    for i, (low, high) in enumerate(case["box"]):
        lines += [f"(assert (>= X_{i} {low}))", f"(assert (<= X_{i} {high}))"]
    cases = [f"(and {' '.join(map(_written, each))})" for each in case["cases"]]
    lines.append(f"(assert (or {' '.join(cases)}))")
    return "\n".join(lines) + "\n"


def _written(condition: list) -> str:  # type: ignore[type-arg]
    sign, terms, text = condition
    each = [name if c == "1" else f"(* {c} {name})" for c, name in terms]
    left = f"(+ {' '.join(each)})" if len(each) > 1 else each[0]
    return f"({sign} {left} {text})"
