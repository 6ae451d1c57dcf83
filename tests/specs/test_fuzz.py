"""Damaged specifications: whatever the text, a `SpecError` or a tree, and soon."""

import random
import re
import time
from pathlib import Path

import pytest

from leaveout.errors import SpecError
from leaveout.specs import check, format_specification, functions, parse

GOOD = [path.read_text("utf-8") for path in sorted((Path(__file__).parent / "good").glob("*.spec"))]
ALPHABET = " \n\t\r\0\"'#()[]{},:;=<>!+-*/.&|%\\_09aexLN\x1b\u00a0é網\u2028\ud800"
TOKENS = [
    *re.findall(r"\w+|[^\w\s]+", " ".join(GOOD)),
    *[
        "forall",
        "with confidence",
        "per label",
        "param",
        "include",
        'include "a"',
        "such that",
        "=>",
        "1e999",
        "1e-999",
        '"a',
        "\\",
    ],
]
TABLE = functions()
ROUNDS = 5
TEXTS = 1000


def damaged(text, chance):
    """Return a text with a few characters or tokens inserted, deleted, swapped or repeated."""
    for _ in range(chance.choice([1, 1, 2, 3, 8])):
        parts = list(text) if chance.random() < 0.5 else re.findall(r"\w+|\s+|.", text, re.S)
        if not parts:
            return text
        place, other = chance.randrange(len(parts)), chance.randrange(len(parts))
        match chance.randrange(6):
            case 0:
                parts.insert(place, chance.choice(ALPHABET))
            case 1:
                parts.insert(place, f" {chance.choice(TOKENS)} ")
            case 2:
                del parts[place : place + chance.choice([1, 1, 1, 5, 50])]
            case 3:
                parts[place], parts[other] = parts[other], parts[place]
            case 4:
                parts[place:place] = parts[other : other + chance.randrange(1, 30)]
            case 5:
                parts[place] = chance.choice(TOKENS)
        text = "".join(parts)
    return text


def survives(text):
    started = time.process_time()
    try:
        spec = parse(text)
        assert parse(str(spec)) == spec
        once = format_specification(text)
        assert format_specification(once) == once
        check(spec, TABLE)
    except SpecError as error:
        assert str(error)
        assert "Token(" not in str(error)
    assert time.process_time() - started < 20


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_damaged_specifications(seed):
    chance = random.Random(seed)
    for _ in range(TEXTS):
        survives(damaged(chance.choice(GOOD), chance))


def test_the_damage_is_real():
    chance = random.Random(0)
    texts = {damaged(GOOD[0], chance) for _ in range(100)}
    assert len(texts) > 95
