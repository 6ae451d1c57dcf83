"""Version 2.0 against the parser of those who keep the standard."""

import random
import re

import pytest

from leaveout.errors import SpecError
from leaveout.specs.vnnlib import parse_problem
from leaveout.specs.vnnlib.text import Bracketed, read_lists, without_comments

vnnlib = pytest.importorskip("vnnlib")

BASE = """\
(vnnlib-version <2.0>)
; one network, its twin and a smaller one
(declare-network f
  (declare-input X real [1,2])
  (declare-hidden H real [3] "relu one")
  (declare-output Y real [2,1]))
(declare-network g (equal-to f)
  (declare-input A real [1,2])
  (declare-output B real [2,1]))
(declare-network small (isomorphic-to f)
  (declare-input P_1 real [1,2])
  (declare-hidden Q real [] "scalar")
  (declare-output R2d2 real [2,1]))
(assert (>= X[0,0] -1.0)) (assert (<= X [ 0 , 0 ] 01.50))
(assert (and (< A[0,1] 0.5) (> A[0,1] (- 0.5)) (== P_1[0,0] (+ X[0,0] 1.0))))
(assert (or (!= Y[0,0] (* -2.0 B[1,0])) (<= Q (- Y[1,0] B[0,0] H[2] -0.25))))
(assert (and (or (<= (* 2.0 3.0 R2d2[0,0]) (+ H[0])))))
"""

REFUSED = [
    r"\d+ (in|out)puts; only one is supported",
    "has the type",
    "a query in both real and float32",
    "not valid (indices|sizes)",
    "is declared twice|word of formulas",
    "is not linear",
    "too many digits",
    "is itself related to|to two networks",
    "has shape .*, (and|but)",
    r"needs its name",
    "closes nothing|is not closed",
]
"""What is not read though the parser takes it: queries that the page says are refused, names and
relations that the standard rules out, and what is left of a text after its last assertion."""


def accepted(text, capfd):
    """Whether the parser takes a text."""
    try:
        vnnlib.parse_query_string(text)
    except Exception:
        return False
    finally:
        capfd.readouterr()
    return True


def beyond(tree):
    """Whether a formula uses what the standard does not have."""
    if not isinstance(tree, Bracketed):
        return re.fullmatch(r"true|false|[+-]?\d+|.*[eE].*|\+.*|\..*|.*\.", tree.text) is not None
    head, count = tree.head, len(tree.items) - 1
    if head in {"<=", ">=", "<", ">", "==", "!="} and count != 2:
        return True
    if head in {"=", "distinct", "not", "=>", "/"} or (head in {"and", "or"} and not count):
        return True
    return any(map(beyond, tree.items[1:]))


def test_what_the_parser_takes_is_read(capfd):
    assert accepted(BASE, capfd)
    problem = parse_problem(BASE)
    assert [each.name for each in problem.networks] == ["f", "g", "small"]
    assert problem.networks[0].hidden[0].onnx_name == "relu one"
    assert problem.networks[2].hidden[0].shape == ()


@pytest.mark.parametrize("seed", range(4))
def test_damaged_texts_are_taken_by_both_or_by_none(seed, capfd):
    chance = random.Random(seed)
    parts = re.findall(
        r"<2.0>|\(vnnlib-version|\((?:declare|equal|isomorphic)-\w+|\(assert|\"[^\"]*\"|[<>=!]=|"
        r"-?[\w.]+|\S",
        re.sub(r";[^\n]*", "", BASE),
    )
    tokens = sorted(set(parts))
    both = 0
    for _ in range(3000):
        damaged = list(parts)
        for _ in range(chance.choice([1, 1, 2])):
            place, other = chance.randrange(len(damaged)), chance.randrange(len(damaged))
            match chance.randrange(4):
                case 0:
                    damaged.insert(place, f" {chance.choice(tokens)} ")
                case 1:
                    del damaged[place]
                case 2:
                    damaged[place], damaged[other] = damaged[other], damaged[place]
                case 3:
                    damaged[place] = chance.choice(tokens)
        text = " ".join(damaged)
        theirs = accepted(text, capfd)
        try:
            parse_problem(text)
        except SpecError as error:
            why = str(error)
            assert not theirs or any(re.search(each, why) for each in REFUSED), (why, text)
            continue
        lists = read_lists(without_comments(text))
        asserted = [each for each in lists if each.head == "assert"]
        if theirs:
            both += 1
        elif asserted and not any(map(beyond, asserted)):
            # A bracket and the word after it may be apart here, and inputs have names in the model.
            apart = r"\( (assert|declare|vnnlib|equal|isomorphic)|declare-(in|out)put[^()]*\""
            assert re.search(apart, text), text
    assert both > 50
