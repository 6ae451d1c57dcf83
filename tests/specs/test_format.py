"""The one layout: comments kept, lines short, the tree the same, and nothing left to change."""

import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leaveout.errors import SpecError
from leaveout.specs import Spec, parse
from leaveout.specs.format import format_specification, pieces, render_lines
from leaveout.specs.text.parse import tokens

from support.trees import specs, statements

GOOD = sorted((Path(__file__).parent / "good").glob("*.spec"))
MESSY = """\


# a head

guarantee close:      # wherever N is sure
    forall x in X:
        # its own line
        confidence(N, x) >= 0.2 =>   # why


        not label(N, x)==1


# about a
let a = f(1, # one
2
# two
)
let b = (1)*(2+3) let c = [1,2]  # both
include   "x"   #i
# the end
"""
TIDY = """\
# a head

guarantee close:  # wherever N is sure
    forall x in X:
        # its own line
        confidence(N, x) >= 0.2 =>  # why
        not label(N, x) == 1

# about a
let a = f(
    1,  # one
    2
    # two
)
let b = 1 * (2 + 3)
let c = [1, 2]  # both
include "x"  #i
# the end
"""


def unchanged(text):
    once = format_specification(text)
    assert parse(once) == parse(text)
    assert format_specification(once) == once
    return once


def test_comments_stay_where_they_were():
    assert unchanged(MESSY) == TIDY


@pytest.mark.parametrize("path", GOOD, ids=lambda path: path.stem)
def test_what_is_formatted_says_the_same(path):
    text = path.read_text("utf-8")
    once = unchanged(text)
    for line in text.splitlines():
        _, mark, comment = line.partition("#")
        assert mark + comment in once


def test_long_lines_are_broken():
    long = " and ".join(f"confidence(N, x, {i}) > 0.{i}" for i in range(1, 9))
    text = unchanged(f"guarantee g: forall x in X: {long} => label(N, x) == {'9' * 14} + 1")
    assert max(map(len, text.splitlines())) <= 100
    assert "\n        and confidence(N, x, 2) > 0.2\n" in text


def test_long_lists_fill_their_lines():
    text = unchanged(f"let a = {list(range(200))}")
    assert len(text.splitlines()) == 12
    assert max(map(len, text.splitlines())) <= 100


def test_the_layout_of_what_fits_is_that_of_the_tree():
    text = 'let N = network("n")\nguarantee g: forall x in X: label(N, x) == 1\n'
    assert format_specification(text) == text == str(parse(text))


def test_what_is_no_specification_is_refused(snapshot):
    with pytest.raises(SpecError) as told:
        format_specification("let a = (1")
    assert str(told.value) == snapshot


@given(statements)
def test_on_one_line_the_pieces_are_the_canonical_text(statement):
    (line,) = render_lines(pieces(statement), 10**9, {})
    assert line == " ".join(str(statement).split("\n    "))


@given(specs)
@settings(deadline=None)
def test_the_layout_of_any_tree(spec):
    unchanged(str(spec))


@given(st.lists(statements, min_size=1, max_size=3).map(tuple).map(Spec), st.integers(0, 2**32))
@settings(deadline=None)
def test_comments_may_stand_anywhere(spec, seed):
    chance = random.Random(seed)
    written = []
    for token in tokens(str(spec)):
        if chance.random() < 0.2:
            written.append(chance.choice([" # a\n", "# b\n", "\n# c\n", "\n\n  # d\n\n"]))
        written.append(chance.choice([" ", " ", "\n"]) + str(token))
    text = "".join(written) + chance.choice(["", "\n", " # e", "\n# f\n"])
    assert unchanged(text).count("# ") >= text.count("# ")
