"""The canonical text of any tree parses to an equal tree, with no parentheses to spare."""

import contextlib
import re

from hypothesis import given

from leaveout.errors import SpecError
from leaveout.specs import parse
from leaveout.specs.text.errors import KEYWORDS

from support.trees import RESERVED, specs, without_texts


def test_every_word_of_the_language_is_reserved():
    assert {word.lower() for word in KEYWORDS} == set(RESERVED)


@given(specs)
def test_the_text_of_a_tree_parses_to_the_tree(spec):
    assert parse(str(spec)) == spec


@given(without_texts)
def test_no_pair_of_parentheses_can_be_left_out(expression):
    text = f"let a = {expression}"
    spec = parse(text)
    # Behind a name stand the parentheses of a call.
    for opening in re.finditer(r"(?<![A-Za-z0-9_])\(", text):
        first, last = opening.start(), _closing(text, opening.start())
        without = f"{text[:first]} {text[first + 1 : last]} {text[last + 1 :]}"
        with contextlib.suppress(SpecError):
            assert parse(without) != spec


def _closing(text, opening):
    depth = 0
    for index in range(opening, len(text)):
        depth += {"(": 1, ")": -1}.get(text[index], 0)
        if depth == 0:
            return index
    raise AssertionError(text)
