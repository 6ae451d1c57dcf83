"""Finds over values that follow a trend."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leaveout.specs.deciders import Bounds

from support.depth import rounds
from support.values import decide, function, number, refused


@pytest.mark.parametrize(
    ("find", "verdict", "bounds"),
    [
        ("greatest r such that accuracy(at = r) >= 0.5", "proved", (5, 5)),
        ("greatest r such that 0.5 <= accuracy(at = r)", "proved", (5, 5)),
        ("greatest r such that accuracy(at = r) > 0.5", "proved", (4, 4)),
        ("least r such that accuracy(at = r) < 0.5", "proved", (6, 6)),
        ("least r such that accuracy(at = r) <= 1", "proved", (0, 0)),
        ("greatest r such that accuracy(at = r) >= 0", "proved", (10, 10)),
        ("greatest r such that accuracy(at = r) > 1", "refuted", (None, None)),
        ("least r such that accuracy(at = r) < 0", "refuted", (None, None)),
        ("greatest r such that accuracy(at = r, spread = 2) >= 0.5", "unknown", (3, 7)),
        ("greatest r such that steps(r) <= 1000", "proved", (1000, 1000)),
        ("least r such that steps(r) >= 1000.5", "proved", (1001, 1001)),
        ("least r such that steps(r) >= 0", "proved", (0, 0)),
        ("greatest b such that between(1, 1) >= b", "proved", (1, 1)),
        ("least b such that between(1, 2) <= b", "unknown", (1, 2)),
        ("least b such that b >= between(1, 2)", "unknown", (1, 2)),
        ("greatest t such that level(t) <= 0.25", "proved", (0.5, 0.5)),
        ("least t such that level(t) >= 0.25", "proved", (0.5, 0.5)),
        ("greatest r such that flat(r) <= 1", "unknown", (2**40, None)),
    ],
)
def test_a_find(find, verdict, bounds):
    result = decide(
        f"find f: {find}",
        steps=function(
            "steps",
            lambda given: Bounds.exactly(given["r"]),
            number("r", whole=True, least=0, trend="rising"),
        ),
        level=function(
            "level",
            lambda given: Bounds.exactly(given["t"] ** 2),
            number("t", least=0, most=1, trend="rising"),
        ),
        flat=function(
            "flat", lambda _: Bounds.exactly(1), number("r", whole=True, least=0, trend="rising")
        ),
    )
    assert result.kind == "find"
    assert result.verdict == verdict
    for found, expected in zip((result.lower, result.upper), bounds, strict=True):
        assert found == (None if expected is None else pytest.approx(expected, abs=2e-6))
    assert (result.reason is not None) == (verdict == "unknown")


@given(
    near=st.integers(-1, 40), gap=st.integers(1, 10), most=st.integers(30, 60), least=st.booleans()
)
@settings(deadline=None, max_examples=rounds(60))
def test_a_find_ends_at_what_is_known(near, gap, most, least):
    far = near + gap
    # known(r) is 0 up to near, 1 from far, and anything between.
    known = function(
        "known",
        lambda given: Bounds(int(given["r"] >= far), int(given["r"] > near)),
        number("r", whole=True, least=0, most=most, trend="rising"),
    )
    direction, claim = ("least", "known(r) >= 1") if least else ("greatest", "known(r) <= 0")
    result = decide(f"find f: {direction} r such that {claim}", known=known)
    if least:
        expected = (max(near + 1, 0), far if far <= most else None)
    else:
        expected = (near if near >= 0 else None, min(far - 1, most))
    if result.verdict == "refuted":
        assert far <= 0 if not least else near >= most
    else:
        assert (result.lower, result.upper) == (
            (min(expected[0], most), expected[1]) if not least and near >= most else expected
        )


@pytest.mark.parametrize(
    "find",
    [
        "least r such that accuracy(at = r) >= 0.5",
        "greatest b such that between(1, 2) <= b",
        "least b such that between(1, 2) < b",
        "least r per label such that accuracy(at = r) < 0.5",
        "greatest r such that accuracy(at = 2 * r) >= 0.5",
        "greatest r such that accuracy(at = r) + 1 >= 0.5",
        "greatest r such that accuracy(at = r) >= r",
        "greatest r such that not accuracy(at = r) < 0.5",
        "greatest r such that between(r, 9) >= 2",
        "greatest r such that accuracy(at = r) >= 0.5 with confidence 0.9",
    ],
)
def test_finds_that_cannot_be_answered(find, snapshot):
    assert refused(f"find f: {find}") == snapshot
