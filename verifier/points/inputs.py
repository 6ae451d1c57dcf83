"""From a specification's input set to the box and listed values of an engine."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from leaveout.encoders import Box, Choices
from leaveout.errors import LeaveoutError, TrainingError
from leaveout.models.train.data import read_npz
from leaveout.specs import Call, Expression, ListOf, Text
from leaveout.specs.table.listed import LARGEST, Listed, Lists, Reader, Row, Unknown
from leaveout.specs.table.signatures import Bound
from leaveout.specs.text.errors import Slip
from leaveout.verifier.resolve_names import Resolver

LARGEST_IN_ALL = 4 * LARGEST  # most numbers that all calls of one set may list together


@dataclass(eq=False)
class InputReader:
    """Reads ``box(...)`` and its refinements."""

    resolver: Resolver
    dimension: int  # features the model reads
    model: Literal["network", "forest", "linear model", "trees"] = "network"
    notes: list[str] = field(default_factory=list)  # what a reader of the results should know
    missing: set[int] = field(default_factory=set)  # features that may also be missing
    _data: dict[Path, NDArray[np.float32]] = field(default_factory=dict, init=False)

    @property
    def _reads(self) -> str:
        return "trees read" if self.model == "trees" else f"{self.model} reads"

    def read(self, node: Expression) -> Box:
        """Return the set an expression denotes."""
        # A loop, since every feature may be refined by a call of its own.
        calls: list[tuple[Call, Lists, Bound]] = []
        call = self.resolver.value(node)
        while isinstance(call, Call):
            lists, given = self.resolver.function(call).lists, self.resolver.bound_arguments(call)
            if call.function == "missing":
                self._allow_missing(call, given)
            elif lists is None:
                break
            else:
                calls.append((call, lists, given))
            call = self.resolver.value(given["inputs"])
        box = self._box(node, call)
        choices = {column: each for each in box.choices for column in each.columns.tolist()}
        count = 0
        for call, lists, given in reversed(calls):
            for listed in self._listed_values(call, lists, given, box):
                count += self._add(choices, listed, call, given.get("at", call), box)
                if count > LARGEST_IN_ALL:
                    wrong = f"this set lists more than {LARGEST_IN_ALL:,} numbers in all"
                    raise self.resolver.fail(call, wrong, "keep such a fine feature continuous")
        for each in dict.fromkeys(choices.values()):
            joint = self.missing.intersection(each.columns.tolist())
            if joint and len(each.columns) > 1:
                wrong = f"feature {min(joint)} is listed together with others, so it is not missing"
                raise self.resolver.fail(node, wrong, "leave it out of missing(...)")
        return Box(box.lower, box.upper, tuple(dict.fromkeys(choices.values())))

    def _allow_missing(self, call: Call, given: Bound) -> None:
        if self.model != "trees":
            raise self.resolver.fail(call, f"a {self.model} reads no missing values")
        reader = Reader(self.resolver.value, self._distinct, lambda column: (0.0, 0.0))
        try:
            columns = reader.columns(given["at"])
        except Slip as slip:
            raise self.resolver.slip_error(slip) from None
        except Unknown:
            raise self.resolver.fail(call, "every argument of missing must be a constant") from None
        for column in columns:
            self._refuse_beyond(column, given["at"])
        self.missing.update(columns)

    def _box(self, node: Expression, call: Expression) -> Box:
        if isinstance(call, Call) and call.function == "around":
            return self._around(call)
        if not (isinstance(call, Call) and call.function == "box"):
            raise self.resolver.fail(node, "expected a box, e.g. box(0, 1)")
        given = self.resolver.bound_arguments(call)
        lower, upper = self._side(given["lower"]), self._side(given["upper"])
        try:
            return Box(*self._readable(lower, upper))
        except LeaveoutError as error:
            raise self.resolver.fail(call, str(error)) from None

    def _around(self, call: Call) -> Box:
        """Return a box around a centre within another set, exact in float64."""
        given = self.resolver.bound_arguments(call)
        centre, radius = self._side(given["centre"]), self.resolver.number(given["radius"])
        if radius is None or radius < 0:
            raise self.resolver.fail(
                given["radius"], "a radius must be a constant number, 0 or more"
            )
        lower, upper = -_greatest_sum(-centre, radius), _greatest_sum(centre, radius)
        choices: tuple[Choices, ...] = ()
        if "within" in given:
            within = self.read(given["within"])
            lower, upper = np.maximum(lower, within.lower), np.minimum(upper, within.upper)
            choices = within.choices
        try:
            lower, upper = self._readable(lower, upper)
            if (lower <= upper).all():
                choices = tuple(each.within(lower, upper) for each in choices)
            return Box(lower, upper, choices)
        except LeaveoutError as error:
            raise self.resolver.fail(call, str(error)) from None

    def _readable(
        self, lower: NDArray[np.float64], upper: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Round a fixed feature to the number a network reads.

        Over a box without a float32 number every claim would be vacuous. Forests and linear models
        read every float64 number.
        """
        if self.model != "network":
            return lower, upper
        with np.errstate(over="ignore", invalid="ignore"):
            least = lower.astype(np.float32)
            least = np.where(least < lower, np.nextafter(least, np.float32(np.inf)), least)
            read = ((lower + upper) / 2).astype(np.float32).astype(np.float64)
        none = (least > upper) & (lower <= upper) & np.isfinite(read)
        for i in np.flatnonzero(none):
            self.notes.append(
                f"feature {i} is fixed at {lower[i]:g}, which a network reads as "
                f"{float(read[i])!r}; the claim is about that value"
            )
        return np.where(none, read, lower), np.where(none, read, upper)

    def _side(self, node: Expression) -> NDArray[np.float64]:
        resolver, dimension = self.resolver, self.dimension
        value = resolver.value(node)
        items = value.items if isinstance(value, ListOf) else (value,)
        numbers = [resolver.number(item) for item in items]
        known = [number for number in numbers if number is not None]
        if len(known) != len(numbers):
            raise resolver.fail(node, "a bound of a box must be a constant number")
        if not isinstance(value, ListOf):
            return np.full(dimension, known[0])
        if len(known) != dimension:
            raise resolver.fail(
                node,
                f"{len(known)} bounds for {dimension} features",
                f"the {self._reads} {dimension} features; pass one number for all, or "
                f"{dimension} numbers",
            )
        return np.asarray(known)

    def _listed_values(
        self, call: Call, lists: Lists, given: Bound, box: Box
    ) -> tuple[Listed, ...]:
        def bounds(column: int) -> tuple[float, float]:
            self._refuse_beyond(column, given.get("at", call))
            return float(box.lower[column]), float(box.upper[column])

        reader = Reader(self.resolver.value, self._distinct, bounds)
        try:
            with self.resolver.answering_for(call):
                made = tuple(lists(reader, given))
                for each in made:
                    if not isinstance(each, Listed):
                        raise TypeError(f"expected Listed, got {type(each).__name__}")
                return made
        except Slip as slip:
            raise self.resolver.slip_error(slip) from None
        except Unknown:
            raise self.resolver.fail(
                call, f"every argument of {call.function} must be a constant"
            ) from None

    def _refuse_beyond(self, column: int, at: Expression) -> None:
        if column >= self.dimension:
            raise self.resolver.fail(
                at,
                f"feature {column} is out of range",
                f"the {self._reads} {self.dimension} features, numbered 0 to {self.dimension - 1}",
            )

    def _add(
        self, choices: dict[int, Choices], listed: Listed, call: Call, at: Expression, box: Box
    ) -> int:
        """Add a table to ``choices``; return how many numbers it lists."""
        for column in listed.columns:
            self._refuse_beyond(column, at)
            if column in choices:
                raise self.resolver.fail(
                    at,
                    f"feature {column} already takes listed values",
                    "list the values of a feature once",
                )
        with self.resolver.answering_for(call):
            columns, rows = np.asarray(listed.columns), np.asarray(list(listed.rows), np.float64)
        try:
            every = Choices(columns, rows, exact=self.model != "network")
            inside = every.within(box.lower, box.upper)
        except LeaveoutError as error:
            wrong = str(error).removeprefix("box: ")
            raise self.resolver.fail(call, wrong, "widen the box, or list other values") from None
        if len(inside) < len(every):
            left_out = len(every) - len(inside)
            self.notes.append(
                f"{left_out:,} of the {len(every):,} listed values of {every} lie outside the "
                "box and are dropped"
            )
        choices.update(dict.fromkeys(listed.columns, inside))
        return every.values.size

    def _distinct(self, text: Text, columns: tuple[int, ...]) -> list[Row]:
        path = self.resolver.path(text)
        if path not in self._data:
            try:
                data = read_npz(path)
            except TrainingError as error:
                raise Slip(text.at, str(error)) from None
            parts = [data.X] if data.X_test is None else [data.X, data.X_test]
            self._data[path] = np.concatenate(parts)
        values = self._data[path]
        if values.shape[1] != self.dimension:
            raise Slip(
                text.at,
                f"{path} has {values.shape[1]} features, the {self._reads} {self.dimension}",
                "list the values from the arrays used for training",
            )
        for column in columns:
            self._refuse_beyond(column, text)
        rows = np.unique(values[:, columns].astype(np.float64), axis=0)
        if rows.size > LARGEST:
            wrong = f"{len(rows):,} different values in {path}, at most {LARGEST // len(columns):,}"
            raise Slip(text.at, wrong, "keep such a fine feature continuous")
        return [tuple(row) for row in rows.tolist()]


def _greatest_sum(terms: NDArray[np.float64], other: float) -> NDArray[np.float64]:
    """Return the greatest float64 numbers that are at most the sums."""
    near = terms + other
    above = [
        np.isfinite(found) and Fraction(found) > Fraction(term) + Fraction(other)
        for found, term in zip(near.tolist(), terms.tolist(), strict=True)
    ]
    found: NDArray[np.float64] = np.where(above, np.nextafter(near, -np.inf), near)
    return found
