"""Points, features and plain numbers."""

from __future__ import annotations

from contextlib import suppress

from leaveout.specs.table.listed import Reader, Unknown
from leaveout.specs.table.signatures import Bound, Function, Parameter, Types
from leaveout.specs.types import BOOLEAN, LIST, NUMBER, POINT


def _features(given: Bound, types: Types) -> str | None:
    """Refuse repeated features, and arguments known not to be features."""
    with suppress(Unknown):
        Reader(lambda node: node).columns(given["at"])
    return None


_POINTS = (Parameter("point", (POINT,)), Parameter("other", (POINT,)))

FUNCTIONS: tuple[Function, ...] = (
    Function(
        "feature",
        (Parameter("point", (POINT,)), Parameter("at", (NUMBER,))),
        NUMBER,
        "A feature of a point, counted from 0, as the float32 number that networks read.",
        "feature(x, 3) >= 0.5",
        _features,
        words="feature {at} of {point}",
    ),
    Function(
        "distance",
        (_POINTS[0], Parameter("other", (POINT, LIST))),
        NUMBER,
        "The largest absolute difference, over all features, of two points, or of a point and a "
        "list with one number per feature.",
        "distance(x, y) <= 0.01",
        words="the distance between {point} and {other}",
    ),
    Function(
        "same_except",
        (*_POINTS, Parameter("at", (NUMBER, LIST), named=True)),
        BOOLEAN,
        "Whether two points are equal in every feature that is not listed; those listed may "
        "differ.",
        "same_except(x, y, at = [3, 4])",
        _features,
        words="{point} and {other} are equal in every feature but {at}",
    ),
    Function(
        "abs",
        (Parameter("number", (NUMBER,)),),
        NUMBER,
        "The absolute value of a number, such as a difference of scores.",
        "abs(score(N, x, 0) - score(M, x, 0)) <= 0.1",
        words="the absolute value of {number}",
    ),
)
