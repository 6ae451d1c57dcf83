"""The campaign against evidence sees a check that believes what the forger writes."""

from __future__ import annotations

import pytest

from leaveout.verifier import evidence

from attacks.evidence import Evidence
from attacks.kind import generator
from attacks.workers import judged


def wrong(number):
    """Return what is wrong with a case of the campaign; empty where nothing is."""
    kind = Evidence()
    return judged(kind, kind.make(generator(0, "evidence", number))).wrong or ""


CASES = {
    "leaks of other questions": 46,
    "bounds that are not reached": 2815,
    "other linear forms": 38,
    "other expressions": 19,
}


@pytest.mark.parametrize("number", CASES.values(), ids=CASES)
def test_such_cases_are_right(number):
    assert wrong(number) == ""


@pytest.mark.parametrize(
    ("number", "believed"),
    [
        (46, {"certified._Networks.other_claim": "", "certified.StatementCheck.other_results": ""}),
        (2815, {"certified._padding": 1e9}),
        (38, {"point_claims.PointsCheck._key": b""}),
        (19, {"certified._normal_form": 0}),
    ],
    ids=CASES,
)
def test_a_check_that_believes_the_forger_is_called_wrong(monkeypatch, number, believed):
    for name, value in believed.items():
        monkeypatch.setattr(f"{evidence.__name__}.{name}", lambda *_, value=value: value)
    assert wrong(number).startswith("a false result is proved again")
