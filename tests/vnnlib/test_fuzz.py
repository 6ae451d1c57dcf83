"""Damaged queries: whatever the text, an error of ours on one line or a query, and soon."""

import random
import re
import time
from fractions import Fraction

import pytest

from leaveout.errors import LeaveoutError
from leaveout.specs.vnnlib import parse_problem, query_of
from leaveout.specs.vnnlib.bounds import Bounds
from leaveout.specs.vnnlib.build import conjuncts
from leaveout.specs.vnnlib.formula import Place

ALPHABET = " \n\t\r\0\"'#()[]{},:;=<>!+-*/.&|%\\_09aexXY\x1b\u00a0é網\ud800"
ODD = [
    *("(", "(and", "(or", "((", ")", "(not", "1e999999999", "1e-400", "9" * 400, "0." + "0" * 400),
    *("X_99999999", "X[999999]", "[-1]", "[1.5]", "Int", "int8", "float64", "Real", "complex64"),
    *("(=> true", "(<= 0 X[0]", "X[0]", "1e-5", "=", "distinct", "/", "initialized", "[]", "<2.1>"),
    *("(equal-to f)", "(isomorphic-to g)", "(declare-hidden H real [1] \"h\")", "<3.0>", "true"),
]  # fmt: skip
ROUNDS = 5
TEXTS = 4000


def damaged(text, chance, tokens):
    """Return a text with a few characters or tokens inserted, deleted, swapped or repeated."""
    for _ in range(chance.choice([1, 1, 1, 2, 3, 8])):
        whole = chance.random() < 0.6
        parts = re.findall(r"[\w.-]+|\s+|.", text, re.S) if whole else list(text)
        if not parts:
            return text
        place, other = chance.randrange(len(parts)), chance.randrange(len(parts))
        match chance.randrange(6):
            case 0:
                parts.insert(place, chance.choice(ALPHABET))
            case 1:
                parts.insert(place, f" {chance.choice(tokens)} ")
            case 2:
                del parts[place : place + chance.choice([1, 1, 1, 5, 50])]
            case 3:
                parts[place], parts[other] = parts[other], parts[place]
            case 4:
                parts[place:place] = parts[other : other + chance.randrange(1, 30)]
            case 5:
                parts[place] = chance.choice(tokens)
        text = "".join(parts)
    return text


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_damaged_queries(seed, queries, network):
    chance = random.Random(seed)
    texts = list(queries.values())
    tokens = sorted({*re.findall(r"[\w.-]+|[^\w\s]+", " ".join(texts)), *ODD})
    read = 0
    for _ in range(TEXTS):
        text = damaged(chance.choice(texts), chance, tokens)
        started = time.process_time()
        try:
            problem = parse_problem(text)
            query_of(problem, [network] * len(problem.networks))
            read += 1
        except LeaveoutError as error:
            assert re.match(r"<text>:\d+:\d+: \S", str(error))
            assert "\n" not in str(error)
        assert time.process_time() - started < 20
    assert 50 < read < TEXTS / 2


@pytest.mark.parametrize(
    "text",
    [
        "(assert " * 100_000,
        "(" * 100_000 + ")" * 100_000,
        "(assert (and " + "(>= X_0 0) " * 100_000 + "))",
        "(assert (or " + "(>= X_0 0) " * 100_000 + "))",
        "(assert (<= (* " + "0.123456789 " * 100_000 + ") X_0))",
        "(assert (<= (+ " + "".join(f"(/ 1 {i}) " for i in range(1, 5000)) + ") X_0))",
        "(assert (and " + "(or (<= X_0 0) (<= X_0 1)) " * 20_000 + "))",
        "(assert (<= X_0 " + "1" * 1_000_000 + "))",
        '"' * 100_001,
        "|" * 100_001,
        "; " * 100_000,
        "(vnnlib-version <2.0>)" + "(assert (and " * 150 + "[" * 100_000,
        "(vnnlib-version <2.0>)" + "(declare-network f " * 150,
        "(assert " + "(not (and (<= X_0 X_1) " * 90 + "true" + "))" * 90 + ")",
        "(assert " + "(=> (<= X_0 X_1) " * 150 + "true" + ")" * 150 + ")",
        "(assert (<= " + "X_0 X_1 " * 50_000 + "))",
        "(assert (and " + "(<= X_0 (* 0.999 X_1)) (<= X_1 (* 0.999 X_0)) " * 20_000 + "))",
        "(assert (or " + "(and (<= X_0 (* 2 X_1)) (<= X_1 (* 2 X_0))) " * 9_000 + "))",
        "(assert (<= (+ " + "1e400 X_0 " * 20_000 + ") X_1))",
        "X" * 1_000_000 + "[",
        ("X" + " " * 1000) * 1000,
        "X[" * 100_000,
        "(assert (<= 0 " + "".join(f"(* {i} X_0) (/ X_1 {i + 1}) " for i in range(9000)) + "))",
    ],
)
def test_large_and_odd_texts_do_not_hang(text, narrow):
    head = "".join(f"(declare-const {name} Real)" for name in ("X_0", "X_1", "Y_0", "Y_1"))
    started = time.process_time()
    for whole in (text, head + text):
        with pytest.raises(LeaveoutError):
            query_of(parse_problem(whole), [narrow])
    assert time.process_time() - started < 60


def test_a_ring_of_relations_is_followed_soon():
    count = 3000
    names = [f"X[{i}]" for i in range(count)]
    ring = " ".join(
        f"(<= {a} (+ {b} 0.001))" for a, b in zip(names, [*names[1:], names[0]], strict=True)
    )
    text = (
        f"(vnnlib-version <2.0>)(declare-network f (declare-input X real [{count}])"
        f"(declare-output Y real [2]))(assert (and (<= 0 X[7] 1) {ring}))"
    )
    atoms, _ = conjuncts(parse_problem(text).formula)
    started = time.process_time()
    bounds = Bounds()
    relations = [atom for atom in atoms if not bounds.tighten(atom)]
    assert bounds.follow(relations, ())
    assert len(bounds.found) == 2 * count
    assert bounds.largest(Place(False, 0, 8)) == Fraction(1) + Fraction(count - 1, 1000)
    assert time.process_time() - started < 20


def test_an_image_sized_query_is_read_soon():
    count = 20_000
    lines = ["(vnnlib-version <2.0>)"]
    lines += [f"(declare-network f (declare-input X real [{count}])(declare-output Y real [2]))"]
    for i in range(count):
        lines += [f"(assert (>= X[{i}] 0.25))", f"(assert (<= X[{i}] 0.75))"]
    modern = "\n".join(lines)
    classic = re.sub(r"X\[(\d+)\]", r"X_\1", "\n".join(lines[2:]))
    head = "".join(f"(declare-const X_{i} Real)\n" for i in range(count))
    started = time.process_time()
    for text in (modern, f"{head}(declare-const Y_0 Real)(declare-const Y_1 Real){classic}"):
        assert parse_problem(text).networks[0].input.size == count
    assert time.process_time() - started < 20
