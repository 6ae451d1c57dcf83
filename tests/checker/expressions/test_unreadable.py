"""Expressions that no specification has: nothing false, and no crash, comes of them."""

from __future__ import annotations

import hashlib
import json
import re
from fractions import Fraction

import numpy as np
import pytest

from leaveout.errors import CertificateError, RejectedError
from leaveout.kernel.claims.evaluate import Steps
from leaveout.kernel.claims.functions import FUNCTIONS
from leaveout.kernel.claims.statements import decimal
from leaveout.models.votes import Ballots, Origin, write_ballots
from leaveout.verifier.certify.check import check

SERVICE = """shards = 3
mechanism = "majority"
rows = 1000
"""


def number(value):
    return {"type": "number", "value": str(value)}


def name(text):
    return {"type": "name", "name": text}


def word(text):
    return {"type": "word", "value": text}


def call(function, at=0, **given):
    return {"type": "call", "function": function, "given": given, "number": at}


def two(operator, left, right):
    return {"type": "binary", "operator": operator, "left": left, "right": right}


def items(*found):
    return {"type": "list", "items": list(found)}


def over(binders, body):
    binders = [{"name": key, "domain": domain} for key, domain in binders]
    return {"type": "forall", "binders": binders, "body": body}


TRUE = two("==", number(1), number(1))


def ballots(at=0, place=0):
    return call("ballots", at, path={"type": "file", "file": place})


def dpa(at=0):
    return call("dpa", at, ballots=ballots(at))


def share(edits=None):
    return call("certified_accuracy", votes=dpa(), edits=edits or number(1))


def service(at, alpha):
    held = call("sharded", at, path={"type": "file", "file": 1})
    numbers = {"alpha": number(alpha), "beta": number(0), "gamma": number(0)}
    return call("unlearns", at, service=held, updates=word("adaptive"), **numbers)


@pytest.fixture
def checked(tmp_path):
    """Return what checks a claim about four points that all of five members answer right."""
    found = Ballots(np.zeros((4, 5), np.int32), np.zeros(4, np.int32), 2, origin=Origin())
    write_ballots(found, tmp_path / "b.npz")
    (tmp_path / "s.toml").write_text(SERVICE)
    files = [
        {
            "path": each,
            "sha256": hashlib.sha256((tmp_path / each).read_bytes()).hexdigest(),
            "kind": "file",
        }
        for each in ("b.npz", "s.toml")
    ]

    def run(claim, verdict="proved", lets=None, **more):
        statement = {"name": "s", "claim": claim, "verdict": verdict, **more}
        values = {"files": files, "lets": lets or {}, "statements": [statement], "proofs": {}}
        manifest = {
            "format": 3, "leaveout": "1", "spec": "x", "text": "", "questions": [], "results": [],
            "values": values,
        }  # fmt: skip
        raw = np.frombuffer(json.dumps(manifest).encode(), np.uint8)
        np.savez(tmp_path / "a.npz", manifest=raw)
        (found,) = check(tmp_path / "a.npz")
        return list(found.subject.lines())

    return run


@pytest.mark.parametrize("verdict", ["proved", "refuted"])
@pytest.mark.parametrize("operator", ["==", "!="])
@pytest.mark.parametrize(
    ("left", "right"),
    [
        # Neither is known; one of them is true, the other false.
        (service(0, 0), service(1, 0)),
        (items(share()), items(share())),
        # The same files, counted twice.
        (dpa(0), dpa(1)),
        (ballots(0), ballots(1)),
        (word("edits"), word("edits")),
        (TRUE, TRUE),
    ],
)
def test_only_numbers_and_forests_are_held_against_each_other(
    checked, left, right, operator, verdict, snapshot
):
    with pytest.raises(RejectedError) as told:
        checked(two(operator, left, right), verdict)
    assert str(told.value) == snapshot


def find(direction, lower, upper):
    return {"direction": direction, "variable": "r", "lower": lower, "upper": upper}


@pytest.mark.parametrize(
    ("claim", "asked"),
    [
        # 2 is the greatest.
        (two(">=", share(name("r")), number("1/2")), find("greatest", "2", "-5")),
        (two(">=", share(name("r")), number("1/2")), find("greatest", None, "-2")),
        # 0 is the least.
        (two("<", share(name("r")), number(2)), find("least", "1/2", None)),
        (two("<", share(name("r")), number(2)), find("least", None, "-3")),
        (two("<", share(name("r")), number(2)), find("least", "-3", "-1")),
    ],
)
def test_no_number_below_0_or_between_two_is_sought(checked, claim, asked, snapshot):
    with pytest.raises(RejectedError) as told:
        checked(claim, find=asked)
    assert str(told.value) == snapshot


def test_a_find_claims_something(checked, snapshot):
    claim = two(">=", share(name("r")), number("1/2"))
    assert checked(claim, find=find("greatest", "2", "2"))
    with pytest.raises(RejectedError) as told:
        checked(claim, find=find("greatest", None, None))
    assert str(told.value) == snapshot
    with pytest.raises(RejectedError) as told:
        checked(two("<=", name("r"), share()), find=find("greatest", None, None))
    assert str(told.value) == snapshot


@pytest.mark.parametrize(
    ("claim", "lets"),
    [
        (name("share(b, edits = 9) >= 1"), {"share(b, edits = 9) >= 1": TRUE}),
        (two(">=", share() | {"given": share()["given"] | {"relabels = 9, x": number(1)}},
             number(0)), {}),
        (two(">=", share() | {"given": share()["given"] | {"per": number(1)}}, number(0)), {}),
        (over([("x", items(number(1)))], TRUE), {"x": number(2)}),
        (over([("x", items(number(1))), ("x", items(number(2)))], TRUE), {}),
        (over([], TRUE), {}),
        (two("or", TRUE, two("==", call("other"), number(1))), {}),
        (two("or", TRUE, two("==", number("x"), number(1))), {}),
        (two("or", TRUE, call("same_function", inputs={
            "type": "inputs", "box": {"lower": [0.0], "upper": []}})), {}),
    ],
)  # fmt: skip
def test_what_would_be_read_as_another_claim_is_refused(checked, claim, lets):
    with pytest.raises(RejectedError):
        checked(claim, lets=lets)


def test_numbers_are_printed_under_the_names_that_the_language_asks_for(checked, snapshot):
    lets = {"k": number(1)}
    (line,) = checked(two(">=", share(name("k")), number(1)), lets=lets)
    assert line.endswith(", edits = k) >= 1")
    # However the certificate orders them.
    given = dict(reversed(service(0, 5)["given"].items()))
    held = call("unlearns", **given | {"updates": word("oblivious"), "gamma": name("k")})
    (line,) = checked(held, lets=lets)
    assert line == snapshot


@pytest.mark.parametrize("function", [*FUNCTIONS, "abs"])
@pytest.mark.parametrize(
    "value", [None, number(1), word("x"), items(), items(word("x")), TRUE, ballots()]
)
def test_arguments_of_other_kinds_are_refused_in_a_line(checked, function, value):
    takes = FUNCTIONS[function].takes if function in FUNCTIONS else ("number",)
    given = {} if value is None else dict.fromkeys(takes, value)
    for claim in (
        two("==", call(function, **given), number(10**9)),
        over([("z", call(function, **given))], two("==", number(1), number(2))),
    ):
        with pytest.raises(RejectedError) as caught:
            checked(claim)
        assert "\n" not in str(caught.value)


def nested(depth):
    part = number(1)
    for _ in range(depth):
        part = {"type": "unary", "operator": "-", "operand": part}
    return two("==", part, number(1))


@pytest.mark.parametrize(
    ("claim", "lets"),
    [
        (nested(400), {}),
        (two("==", name("x0"), number(0)),
         {f"x{i}": two("+", name(f"x{i + 1}"), number(1)) for i in range(399)}
         | {"x399": number(1)}),
        (two("==", name("x0"), number(0)),
         {f"x{i}": two("*", name(f"x{i + 1}"), name(f"x{i + 1}")) for i in range(60)}
         | {"x60": number(3)}),
    ],
)  # fmt: skip
def test_what_would_not_end_is_refused(checked, claim, lets):
    with pytest.raises((RejectedError, CertificateError)) as caught:
        checked(claim, lets=lets)
    assert "\n" not in str(caught.value)


def test_more_values_than_a_proof_may_take_are_refused(checked, monkeypatch, snapshot):
    take = Steps.take

    def hundredfold(steps):
        steps.left -= 99
        take(steps)

    monkeypatch.setattr(Steps, "take", hundredfold)
    claim = over([(f"z{i}", items(*[number(1)] * 100)) for i in range(9)], TRUE)
    with pytest.raises(RejectedError) as caught:
        checked(claim)
    assert str(caught.value) == snapshot
    assert "\n" not in str(caught.value)


def test_a_manifest_that_is_nested_or_claims_nothing_is_refused(checked, tmp_path, snapshot):
    checked(TRUE)
    with np.load(tmp_path / "a.npz") as arrays:
        text = arrays["manifest"].tobytes().decode()
    one, deep = json.dumps(number(1)), '{"type": "list", "items": ['
    statements = json.dumps(json.loads(text)["values"]["statements"])
    for false in (
        text.replace(one, deep * 10**5 + "]}" * 10**5, 1),
        text.replace(statements, "[]"),
        text.replace("b.npz", "b" * 5000),
    ):
        if "bbb" in false:
            held = json.loads(false)
            held["values"]["statements"][0]["claim"] = two(">=", share(), number(0))
            false = json.dumps(held)
        assert false != text
        np.savez(tmp_path / "false.npz", manifest=np.frombuffer(false.encode(), np.uint8))
        with pytest.raises(CertificateError) as told:
            check(tmp_path / "false.npz")
        # How much of a long name is shown depends on the folder's.
        assert re.sub("b{5,}", "b...", str(told.value)) == snapshot


def test_long_numbers_are_printed(checked):
    (line,) = checked(two("<", number(0), number(f"{10**1990}/7")))
    assert line == "s: 0 < about 1.42857142857e+1989"
    assert decimal(Fraction(1, 3**900)) == "about 3.89825955719e-430"
    assert decimal(Fraction(1, 3**50)) == "about 1.3929555691e-24"
