"""Functions of which claims about values are made in tests, and such claims decided."""

from __future__ import annotations

import time
from fractions import Fraction
from pathlib import Path

import pytest

from leaveout.errors import LeaveoutError
from leaveout.specs import Function, Parameter, Type, check, functions, parse
from leaveout.specs.deciders import Bounds, Decided
from leaveout.specs.types import BOOLEAN, LIST, NUMBER
from leaveout.verifier.options import VerifyOptions
from leaveout.verifier.resolve_names import Resolver
from leaveout.verifier.tasks import Context
from leaveout.verifier.time_sharing import Clock
from leaveout.verifier.values.decider import Values, is_value_claim

ITEM = Type("Item", "an item", equates=True)
ITEMS = Type("Items", "some items", each=ITEM)


def function(name, decider, *parameters, result=NUMBER):
    """Return a function that a plug-in could declare."""
    return Function(name, parameters, result, "For tests.", f"{name}() < 1", decider=decider)


def number(name, **fields):
    """Return a parameter that is a number."""
    return Parameter(name, (NUMBER,), **fields)


def between(given):
    """Bounds as they are given."""
    return Bounds(given["low"], given["high"], "numerical: sampled")


def accuracy(given):
    """A share that falls from 1 to 0 in steps; between two amounts only bounds are known."""
    at, spread = given["at"], given.number("spread", 0)
    return Bounds(Fraction(10 - int(at + spread), 10), Fraction(10 - int(at - spread), 10))


TABLE = {
    **functions(),
    "between": function("between", between, number("low"), number("high")),
    "accuracy": function(
        "accuracy",
        accuracy,
        number("at", named=True, whole=True, least=0, most=10, trend="falling"),
        number("spread", named=True, optional=True),
    ),
    "told": function(
        "told",
        lambda given: Decided(given["verdict"], "solver: gave up", "because", "as told"),
        Parameter("verdict", words=("proved", "refuted", "unknown")),
        result=BOOLEAN,
    ),
    "items": function("items", lambda given: given["of"], Parameter("of", (LIST,)), result=ITEMS),
    "amount": function(
        "amount", lambda given: Bounds.exactly(given["item"]), Parameter("item", (ITEM,))
    ),
}


def decide_all(text, folder=Path(), seconds=None, **more):
    """Return the results of a specification, and the notes."""
    table = {**TABLE, **more}
    checked = check(parse(text, "patient.spec"), table)
    values = Values(Context(checked, Resolver(checked, folder), folder, VerifyOptions()))
    for statement in checked.statements:
        assert is_value_claim(statement, checked)
    jobs = [values.load(each) for each in checked.statements]
    clocks = (Clock(seconds, time.perf_counter(), 1) for _ in jobs)
    return [values.decide(job, next(clocks))[0] for job in jobs], values.notes


def decide(text, folder=Path(), seconds=None, **more):
    """Return the result of the one statement."""
    (result,), _ = decide_all(text, folder, seconds, **more)
    return result


def refused(text, **more):
    """Return what is said of a specification that is refused."""
    with pytest.raises(LeaveoutError) as caught:
        decide(text, **more)
    return str(caught.value)
