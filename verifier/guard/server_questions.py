"""From the body of a label request to its inputs, or to an error."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
from msgspec import UnsetType
from numpy.typing import NDArray

from leaveout.errors import GuardError
from leaveout.names import hint
from leaveout.verifier.guard.guard import Guard
from leaveout.verifier.guard.server_messages import Cell, Question

_FORMS = 'give exactly one of "x" or "row" for one input, "X" or "rows" for several'


class BadRequestError(GuardError):
    """A request that no subject could answer."""

    def __init__(self, message: str, status: int = 422) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, eq=False)
class Inputs:
    """The inputs of a request."""

    single: bool  # whether one answer is expected rather than a list of them
    points: Sequence[Sequence[float]] | None  # as the model reads them
    rows: Sequence[Mapping[str, Cell]] | None  # in the table's own units

    def __len__(self) -> int:
        return len(self.rows if self.points is None else self.points)  # type: ignore[arg-type]

    def encode(self, guard: Guard) -> NDArray[np.floating]:
        """Return the inputs as the model reads them, shape (n, inputs)."""
        if self.points is not None:
            for at, point in enumerate(self.points):
                if len(point) != guard.inputs:
                    what = "x" if self.single else f"input {at} of X"
                    raise GuardError(
                        f"{what} has {len(point)} numbers, expected {guard.inputs}, one a feature"
                    )
            return np.asarray(self.points, np.float64)
        assert self.rows is not None
        known = _columns(guard)
        for at, row in enumerate(self.rows):
            for name in row:
                if name not in known:
                    raise GuardError(
                        f"row {at}: there is no column {name!r}{hint(name[:100], known)}"
                    )
        return guard.encode(self.rows)


def read_question(body: bytes, most_rows: int) -> Inputs:
    """Read the body of a request."""
    try:
        question = msgspec.json.decode(body, type=Question)
        _refuse_repeated_keys(body)
    except msgspec.ValidationError as error:
        raise BadRequestError(f"{error}; {_FORMS}") from None
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise BadRequestError(f"the body is no JSON that can be read: {error}", 400) from None
    given = [
        form
        for form in (question.x, question.row, question.X, question.rows)
        if not isinstance(form, UnsetType)
    ]
    if len(given) != 1:
        raise BadRequestError(f"{len(given)} of the four forms are there; {_FORMS}")
    inputs = _inputs(question)
    if not len(inputs):
        raise BadRequestError("no inputs are given; give at least one")
    if len(inputs) > most_rows:
        raise BadRequestError(
            f"{len(inputs):,} inputs are given, and at most {most_rows:,} are answered at once; "
            "ask in parts",
            413,
        )
    return inputs


def _refuse_repeated_keys(body: bytes) -> None:
    """Raise on JSON with repeated keys, which readers resolve differently."""

    def distinct(pairs: list[tuple[str, object]]) -> dict[str, object]:
        found = dict(pairs)
        if len(found) < len(pairs):
            raise BadRequestError("a key is there twice in one object; give each once")
        return found

    # Numbers stay as they are written: no more than the keys is read.
    json.loads(body, object_pairs_hook=distinct, parse_int=str, parse_float=str)


def _inputs(question: Question) -> Inputs:
    if not isinstance(question.x, UnsetType):
        return Inputs(True, [question.x], None)
    if not isinstance(question.row, UnsetType):
        return Inputs(True, None, [question.row])
    if not isinstance(question.X, UnsetType):
        return Inputs(False, question.X, None)
    assert not isinstance(question.rows, UnsetType)
    return Inputs(False, None, question.rows)


def _columns(guard: Guard) -> frozenset[str]:
    encoding = guard.encoding
    if encoding is None:
        return frozenset(guard.features)
    return frozenset(column.name for column in encoding.columns)
