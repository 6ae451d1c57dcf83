"""Features and rows listed by ``grid``, ``integers``, ``one_hot`` and ``circle``."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from leaveout.specs.text.errors import Slip
from leaveout.specs.text.expressions import Call, Expression, Follow, ListOf, Name, Text, constant

LARGEST = 1_000_000
"""Most numbers that one call may list."""

_FLOAT32 = 3.4028234663852886e38
_WHOLE = 1e-6

Row = tuple[float, ...]
Arguments = Mapping[str, Expression]


class Unknown(Exception):  # noqa: N818 - not an error: more is known later
    """The list depends on something not known yet, such as a file."""


@dataclass(frozen=True)
class Listed:
    """Features that together take one of several rows."""

    columns: tuple[int, ...]
    rows: Iterable[Row]  # exact, as written; each as long as ``columns``


def _unknown_file(path: Text, columns: tuple[int, ...]) -> Sequence[Row]:
    raise Unknown


def _unknown_range(column: int) -> tuple[float, float]:
    raise Unknown


@dataclass(frozen=True)
class Reader:
    """Reader of the arguments of a call that lists feature values.

    Methods raise `Slip`, pointing at a bad argument, or `Unknown` if it is not known yet.
    """

    follow: Follow  # maps a name to the expression behind it
    file: Callable[[Text, tuple[int, ...]], Sequence[Row]] = _unknown_file
    range: Callable[[int], tuple[float, float]] = _unknown_range

    def number(self, node: Expression) -> float:
        """Return a constant."""
        value = constant(node, self.follow)
        if value is None:
            raise Unknown
        return value

    def whole(self, node: Expression, what: str, least: int | None = None) -> int:
        """Return a whole number."""
        value = self.number(node)
        if not float(value).is_integer() or (least is not None and value < least):
            start = "" if least is None else f" from {least}"
            wrong = f"{what} must be a whole number{start}, got {node}"
            raise Slip(node.at, wrong, "write it without a fraction, as in 3")
        return int(value)

    def items(self, node: Expression) -> tuple[Expression, ...]:
        """Return the items of a list; anything else counts as a list of one item."""
        value = self.follow(node)
        if isinstance(value, Name | Call):
            raise Unknown
        return value.items if isinstance(value, ListOf) else (node,)

    def is_list(self, node: Expression) -> bool:
        """Return whether an expression is a list."""
        return self.items(node) != (node,)

    def columns(self, node: Expression) -> tuple[int, ...]:
        """Return distinct feature numbers."""
        found: dict[int, None] = {}
        for item in self.items(node):
            column = self.whole(item, "a feature", 0)
            if column in found:
                raise Slip(item.at, f"feature {column} is named twice", "name it once")
            found[column] = None
        return tuple(found)

    def value(self, node: Expression) -> float:
        """Return a number representable in float32."""
        value = self.number(node)
        if abs(value) > _FLOAT32:
            raise Slip(node.at, f"{node} is beyond float32's range", "networks read float32")
        return value

    def row(self, node: Expression, width: int) -> Row:
        """Return a row with one number per feature."""
        items = self.items(node)
        if len(items) != width:
            raise Slip(
                node.at,
                f"{len(items)} number{'s' * (len(items) != 1)} for {width} "
                f"feature{'s' * (width != 1)}",
                "a row lists what the features take together, one number each",
            )
        return tuple(self.value(item) for item in items)

    def also(self, given: Arguments, width: int) -> list[Row]:
        """Return additional rows, given as a list of rows or as one row."""
        if "also" not in given:
            return []
        rows = self.items(given["also"])
        if not self.is_list(rows[0]):
            return [self.row(given["also"], width)]
        return [self.row(row, width) for row in rows]


Lists: TypeAlias = Callable[[Reader, Arguments], tuple[Listed, ...]]
"""Returns the values that a call lists, given its arguments by parameter."""


def grid(reader: Reader, given: Arguments) -> tuple[Listed, ...]:
    """Return the values of ``grid``, for each feature or for several jointly."""
    columns = reader.columns(given["at"])
    values = reader.follow(given["values"])
    if isinstance(values, Text):
        return (Listed(columns, reader.file(values, columns)),)
    items = reader.items(values)
    if reader.is_list(items[0]):
        return (Listed(columns, [reader.row(item, len(columns)) for item in items]),)
    rows = [(reader.value(item),) for item in items]
    return tuple(Listed((column,), rows) for column in columns)


def integers(reader: Reader, given: Arguments) -> tuple[Listed, ...]:
    """Return the integers of each feature of ``integers``."""
    columns = reader.columns(given["at"])
    zero = reader.number(given["zero"]) if "zero" in given else 0.0
    one = reader.number(given["one"]) if "one" in given else 1.0
    if zero == one:
        at = given.get("one", given.get("zero", given["at"])).at
        raise Slip(at, f"'zero' and 'one' are both {zero:g}", "they become 0 and 1 in the feature")
    ends = {}
    for side in ("lower", "upper"):
        if side in given:
            ends[side] = reader.whole(given[side], f"'{side}' of integers")
    return tuple(_whole_numbers(reader, given, column, ends, zero, one) for column in columns)


def _whole_numbers(
    reader: Reader, given: Arguments, column: int, ends: Mapping[str, int], zero: float, one: float
) -> Listed:
    span = one - zero
    low, high = ends.get("lower"), ends.get("upper")
    if low is None or high is None:
        sides = sorted(zero + side * span for side in reader.range(column))
        if not all(map(math.isfinite, sides)):
            raise Slip(given["at"].at, f"too many whole numbers for feature {column}")
        low = math.ceil(sides[0] - _WHOLE) if low is None else low
        high = math.floor(sides[1] + _WHOLE) if high is None else high
    at = given.get("upper", given.get("lower", given["at"])).at
    if low > high:
        wrong = f"there is no whole number from {low} to {high} for feature {column}"
        raise Slip(at, wrong, "'lower' and 'upper' are in whole numbers, before 'zero' and 'one'")
    if high - low >= LARGEST:
        wrong = (
            f"{high - low + 1:,} whole numbers for feature {column}, but at most {LARGEST:,} "
            "are supported"
        )
        raise Slip(at, wrong, "leave such a fine-grained feature continuous")
    # A quotient, the usual way to scale data, so that both round to the same float32.
    return Listed((column,), (((k - zero) / span,) for k in range(low, high + 1)))


def one_hot(reader: Reader, given: Arguments) -> tuple[Listed, ...]:
    """Return the rows of ``one_hot``."""
    columns = reader.columns(given["at"])
    width = len(columns)
    if width * width > LARGEST:
        most = math.isqrt(LARGEST)
        raise Slip(
            given["at"].at,
            f"a one-hot group of {width:,} features, but at most {most:,} are supported",
        )
    rows = (tuple(float(i == k) for i in range(width)) for k in range(width))
    return (Listed(columns, itertools.chain(rows, reader.also(given, width))),)


def circle(reader: Reader, given: Arguments) -> tuple[Listed, ...]:
    """Return the rows of ``circle``."""
    columns = reader.columns(given["at"])
    if len(columns) != 2:
        wrong = f"a circle needs two features, one for cos and one for sin, got {len(columns)}"
        raise Slip(given["at"].at, wrong, "as in: at = [8, 9]")
    points = reader.whole(given["points"], "the number of points", 1)
    if points > LARGEST // 2:
        raise Slip(
            given["points"].at,
            f"{points:,} points on a circle, but at most {LARGEST // 2:,} are supported",
        )
    start = 2 * math.pi * reader.number(given["start"]) if "start" in given else 0.0
    arc = reader.number(given["arc"]) if "arc" in given else None
    if arc is not None and not 0 < arc < 1:
        raise Slip(
            given["arc"].at,
            f"'arc' is the part of a turn from the first to the last point; {given['arc']} is "
            "not between 0 and 1",
            "without 'arc' the points go all the way round",
        )
    if arc is not None and points == 1:
        raise Slip(given["points"].at, "an arc has two ends, so at least 2 points")
    radius = reader.value(given["radius"]) if "radius" in given else 1.0
    if not radius > 0:
        raise Slip(given["radius"].at, f"the radius of a circle must be positive, got {radius:g}")
    x, y = _centre(reader, given)
    rows = (
        (x + radius * math.cos(start + angle), y + radius * math.sin(start + angle))
        for angle in _angles(points, arc)
    )
    return (Listed(columns, itertools.chain(rows, reader.also(given, 2))),)


def _angles(points: int, arc: float | None) -> Iterator[float]:
    """Yield angles from 0, computed in the usual order so that float32 values match the data."""
    turn = 2 * math.pi
    for k in range(points):
        yield turn * k / points if arc is None else turn * arc * (k / (points - 1))


def _centre(reader: Reader, given: Arguments) -> tuple[float, float]:
    if "centre" not in given:
        return 0.0, 0.0
    items = reader.items(given["centre"])
    if len(items) > 2:
        raise Slip(given["centre"].at, f"a centre must be one or two numbers, got {len(items)}")
    return reader.value(items[0]), reader.value(items[-1])
