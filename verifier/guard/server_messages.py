"""JSON messages of a served guard."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

_WHOLE = 2**53
"""Whole numbers from here on are not exact as a float."""

Cell = Annotated[int, Meta(ge=-_WHOLE, le=_WHOLE)] | float | str

Inputs = Annotated[list[float], Meta(description="As the model reads them, one a feature.")]

Row = Annotated[
    dict[str, Cell], Meta(description="Column name to value, in the units of the table.")
]


class Question(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One input or several, in exactly one of four forms."""

    x: Inputs | UnsetType = UNSET
    row: Row | UnsetType = UNSET
    X: list[Inputs] | UnsetType = UNSET
    rows: list[Row] | UnsetType = UNSET


class Answer(msgspec.Struct, frozen=True, omit_defaults=True):
    """The label of one input, with its name if known."""

    label: int
    name: str | UnsetType = UNSET


class Answers(msgspec.Struct, frozen=True, omit_defaults=True):
    """The labels of several inputs in order, with their names if known."""

    labels: list[int]
    names: list[str] | UnsetType = UNSET


class Failure(msgspec.Struct, frozen=True):
    """The reason for a missing answer, in one line."""

    error: str


class Health(msgspec.Struct, frozen=True):
    """Whether label requests are answered."""

    status: Literal["ok", "closed", "ending"]


class ListedValues(msgspec.Struct, frozen=True):
    """Features, by number, that jointly take one of the listed rows of values."""

    features: list[int]
    values: list[list[float]]


class BoxFacts(msgspec.Struct, frozen=True):
    """The inputs the promise covers."""

    lower: list[float]
    upper: list[float]
    listed: list[ListedValues]


class Column(msgspec.Struct, frozen=True, omit_defaults=True):
    """A column in the table's own units; a category takes one of the values."""

    name: str
    kind: Literal["number", "category"]
    categories: list[str] | UnsetType = UNSET


class About(msgspec.Struct, frozen=True):
    """A description of the service, without a box where all inputs are covered."""

    features: list[str]
    columns: list[Column]
    labels: int
    names: list[str]
    box: BoxFacts | None
    outside: Literal["refuse", "noise"]
    members: int
    epsilon: float
    promise: str
