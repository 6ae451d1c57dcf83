"""Records as JSON: what is not exactly of their form is not read."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

import pytest

from leaveout.kernel.records import convert, decode, encode, parse, plain


@dataclass(frozen=True)
class Leaf:
    """A number."""

    tag: ClassVar[str] = "leaf"
    value: float


@dataclass(frozen=True)
class Pair:
    """Two trees."""

    tag: ClassVar[str] = "pair"
    left: Tree
    right: Tree
    notes: dict[str, str] = field(default_factory=dict)


Tree = Leaf | Pair


@dataclass(frozen=True)
class Whole:
    """Everything that a record may have."""

    name: str
    tree: Tree
    places: tuple[tuple[int, int, float], ...] = ()
    least: int | None = None
    kind: Literal["a", "b"] = "a"
    sure: bool = False


EXAMPLE = Whole(
    "é", Pair(Leaf(0.1), Pair(Leaf(-1e300), Leaf(2.0)), {"k": "v"}), ((1, 2, 0.5),), 3, "b", True
)


def test_what_is_written_reads_the_same():
    assert decode(encode(EXAMPLE), Whole) == EXAMPLE
    assert decode(encode(EXAMPLE, ordered=True), Whole) == EXAMPLE
    assert convert(plain(EXAMPLE), Whole) == EXAMPLE
    assert decode(b'{"name":"","tree":{"type":"leaf","value":3}}', Whole) == Whole("", Leaf(3.0))


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"[]",
        b"nul",
        b'{"name": ""}',
        b'{"name": "", "tree": {"value": 1}}',
        b'{"name": "", "tree": {"type": "other", "value": 1}}',
        b'{"name": "", "tree": {"type": ["leaf"], "value": 1}}',
        b'{"name": "", "tree": {"type": "leaf", "value": 1, "more": 2}}',
        b'{"name": "", "tree": {"type": "leaf", "value": "1"}}',
        b'{"name": "", "tree": {"type": "leaf", "value": true}}',
        b'{"name": "", "tree": {"type": "leaf", "value": NaN}}',
        b'{"name": "", "tree": {"type": "leaf", "value": 1e400}}',
        b'{"name": "", "tree": {"type": "leaf", "value": 1, "value": 2}}',
        b'{"name": 1, "tree": {"type": "leaf", "value": 1}}',
        b'{"name": "", "tree": {"type": "leaf", "value": 1}, "least": 1.0}',
        b'{"name": "", "tree": {"type": "leaf", "value": 1}, "least": true}',
        b'{"name": "", "tree": {"type": "leaf", "value": 1}, "kind": "c"}',
        b'{"name": "", "tree": {"type": "leaf", "value": 1}, "kind": ["a"]}',
        b'{"name": "", "tree": {"type": "leaf", "value": 1}, "sure": 1}',
        b'{"name": "", "tree": {"type": "leaf", "value": 1}, "places": [[1, 2]]}',
        b'{"name": "", "tree": {"type": "leaf", "value": 1}, "places": {"0": 1}}',
        b'{"name": "\xff", "tree": {"type": "leaf", "value": 1}}',
        b'{"name": "", "tree": ' + b'{"type":"pair","right":0,"left":' * 3000,
        b"[" * 100_000,
        b'{"name": "", "tree": {"type": "leaf", "value": ' + b"1" * 5000 + b"}}",
    ],
)
def test_anything_else_is_refused(text):
    with pytest.raises(ValueError):
        decode(text, Whole)


def test_a_number_out_of_range_is_not_written():
    with pytest.raises(ValueError, match="JSON"):
        encode(Leaf(float("nan")))


def test_a_name_that_stands_twice_is_named():
    with pytest.raises(ValueError, match="duplicate key 'b'"):
        parse(b'{"a": 1, "c": {"b": 1, "b": 1}}')


def test_two_hundred_levels_are_read():
    tree = Leaf(1.0)
    for _ in range(200):
        tree = Pair(Leaf(0.0), tree)
    assert decode(encode(Whole("", tree)), Whole).tree == tree
