"""What a served guard is asked and what it says, as JSON."""

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
    """The label of one input, and what it is called if that is known."""

    label: int
    name: str | UnsetType = UNSET


class Answers(msgspec.Struct, frozen=True, omit_defaults=True):
    """The labels of several inputs in order, and what they are called if that is known."""

    labels: list[int]
    names: list[str] | UnsetType = UNSET


class Failure(msgspec.Struct, frozen=True):
    """Why there is no answer, in one line."""

    error: str


class Health(msgspec.Struct, frozen=True):
    """Whether label requests are answered."""

    status: Literal["ok", "closed", "ending"]


class ListedValues(msgspec.Struct, frozen=True):
    """Features, by number, that together take one of the listed rows of values."""

    features: list[int]
    values: list[list[float]]


class BoxFacts(msgspec.Struct, frozen=True):
    """The inputs that the promise is about."""

    lower: list[float]
    upper: list[float]
    listed: list[ListedValues]


class Column(msgspec.Struct, frozen=True, omit_defaults=True):
    """A column of a row in the table's own units; a category takes one of the values."""

    name: str
    kind: Literal["number", "category"]
    categories: list[str] | UnsetType = UNSET


class About(msgspec.Struct, frozen=True):
    """What is served: nothing that depends on what was asked; no box where all inputs are."""

    features: list[str]
    columns: list[Column]
    labels: int
    names: list[str]
    box: BoxFacts | None
    outside: Literal["refuse", "noise"]
    members: int
    epsilon: float
    promise: str
