"""The known name that a mistyped one most likely means."""

from __future__ import annotations

import difflib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leaveout.names import hint, nearest_name

_NAMES = st.text("abcAB_é", min_size=1, max_size=6)


@given(_NAMES, st.lists(_NAMES, max_size=6), st.sampled_from([0.5, 0.6, 0.9]))
def test_the_nearest_name_is_one_that_none_is_more_like(name, known, least):
    def alike(other: str) -> float:
        return difflib.SequenceMatcher(None, other.casefold(), name.casefold()).ratio()

    best = max(map(alike, known), default=0.0)
    near = nearest_name(name, known, least)
    assert (near is None) == (best < least)
    assert near is None or (near in known and alike(near) == best)


@given(_NAMES, st.lists(_NAMES, max_size=6), st.randoms())
def test_the_order_of_the_known_names_has_no_say(name, known, random):
    other = known.copy()
    random.shuffle(other)
    assert nearest_name(name, other) == nearest_name(name, known)


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("prise", ["price", "age"]),
        ("PRICE", ["price", "age"]),
        ("bb", ["b"]),
        ("zzz", ["price", "age"]),
        ("price", []),
    ],
)
def test_a_hint_stands_behind_a_name(name, known, snapshot):
    assert hint(name, known) == snapshot
