"""Claims about linear models: their members and bounds, proved, and what they are about."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import exact as whole_numbers
from ..boxes import Inputs, number, read_box
from ..budget import Change, check_change
from ..design import Region
from ..family import Family, Hints, check_bounds, check_leaks, check_shifts, prove_members
from ..files import read_archive
from ..model import LinearModel, model_from
from ..numbers import need
from ..refusal import Rejected, Unreadable
from ..regular_files import open_regular
from ..values import Arrays
from .networks import label_text
from .parts import LinearQuestionPart, LinearResultPart
from .places import Places


@dataclass(frozen=True, eq=False)
class LinearSubject:
    """The model and inputs of claims about a linear model."""

    path: Path
    sha256: str
    members: int
    inputs: Inputs
    labels: tuple[str, ...]
    group: str  # the column whose equal cells name rows that leave together; or empty
    tolerance: float
    claim: LinearResultPart | None = None  # None: of leaks, whatever the label
    added: Inputs | None = None  # what an added row may be

    def lines(self) -> Iterator[str]:
        """Yield a line for the claim and for the model, and a line per range of inputs."""
        one = f"all rows of one {self.group!r}" if self.group else "one row"
        over = f"over all {self.members:,} models without {one} and every x"
        yield f"{self._claim_words()}, {over if self._change is None else self._change}"
        yield f"linear model {self.path} (SHA-256 {self.sha256})"
        exactly = (
            ("the exact minimum" if self._change else "the exact minimum without them")
            if self.tolerance == 0
            else f"any coefficients with a gradient of at most {number(self.tolerance)}"
        )
        yield f"  a member is {exactly}; the encoding of the inputs is fixed; scores are float64"
        if self.labels:
            known = ", ".join(f"{at} is {label!r}" for at, label in enumerate(self.labels))
            yield f"labels: {known}"
        yield from self.inputs.lines()
        if self.added is not None:
            yield from (f"the added row: {line}" for line in self.added.lines())

    @property
    def _change(self) -> str | None:
        """What changes in the training rows, if it is not one row or group that is left out."""
        claim, unit = self.claim, f"groups by {self.group!r}" if self.group else "rows"
        if claim is None or claim.kind in ("leaks", "difference", "threshold"):
            return None
        if claim.kind == "add_one":
            return "over all models with one more row, of any label, and every x"
        how = "without" if claim.kind == "leave_out" else "with flipped labels of"
        return f"over all models {how} up to {claim.count:,} {unit} and every x"

    def _claim_words(self) -> str:
        claim = self.claim
        if claim is None or (claim.label is not None and self._change is not None):
            return "no confidence above upper is a leak"
        upper, level = number(claim.sign * claim.upper), number(claim.sign * claim.level)
        if claim.label is None:
            return f"{claim.name}: no score differs by more than {upper}"
        above, most = ("above", "at most") if claim.sign > 0 else ("below", "at least")
        return (
            f"{claim.name}: where score {claim.label} is {above} {upper}, no member's is {most} "
            f"{level}"
        )

    def claim_text(self, labels: Collection[int]) -> str:
        """Return the claimed labels in words."""
        return label_text(labels, len(self.labels))


@dataclass(frozen=True, eq=False)
class LinearQuestion:
    """A model's members over a set of inputs."""

    family: Family
    subject: LinearSubject


Members = dict[tuple[str, str], Family]
"""Proved members, by the model's digest and the hints' prefix."""


def read_linear(
    part: LinearQuestionPart, places: Places, under: Callable[[str], Arrays], known: Members
) -> LinearQuestion:
    """Read the model of a question, and prove its members."""
    where = places.find(part.model, "files")
    key = part.model.sha256, part.hints
    if key not in known:
        known[key] = _prove(_model(where), under(part.hints))
    family, model = known[key], known[key].model
    inputs = read_box(part.box, model.inputs, str(where), single=False)
    need(
        part.members == len(family),
        f"{where}: {len(family)} members, but the certificate is about {part.members}",
    )
    subject = LinearSubject(
        where, part.model.sha256, len(family), inputs, model.labels,
        "" if model.groups is None else model.groups.column, model.tolerance,
    )  # fmt: skip
    return LinearQuestion(family, subject)


def _model(path: Path) -> LinearModel:
    try:
        with open_regular(path) as stream:
            return model_from(read_archive(stream, strangers=True))
    except (OSError, ValueError, MemoryError) as error:
        raise Unreadable(f"{path}: not a linear model: {error}") from None


def _prove(model: LinearModel, arrays: Arrays) -> Family:
    names = ("R", "measured", "centres")
    hints = []
    for i in range(len(model.problems)):
        own = [_array(arrays, f"{name}{i}", "i8" if name == "measured" else "f8") for name in names]
        hints.append(Hints(*own))
    need(len(arrays) == len(hints) * len(names), "it has hints of more fits than the model")
    try:
        return prove_members(model, hints)
    except (Rejected, IndexError) as error:
        raise Rejected(f"the members are not proved: {error}") from None


def _array(arrays: Arrays, name: str, kind: str) -> NDArray[Any]:
    found = arrays.get(name)
    if found is None or found.dtype != np.dtype(kind) or not found.ndim:
        raise Rejected(f"it has no array {name!r}, or one of another type")
    return np.asarray(found)


def check_linear(
    part: LinearResultPart, question: LinearQuestion, proof: Arrays, exact: bool = False
) -> LinearSubject:
    """Prove one claim, also in whole numbers if asked; return what it is about."""
    family, subject = question.family, question.subject
    model, inputs, label = family.model, subject.inputs, part.label
    plain = (part.sign, part.level) == (1, 0) or (part.kind == "threshold" and part.sign in (1, -1))
    need(plain, "it has a sign or a level that its kind of claim has not")
    changes = part.kind in ("leave_out", "relabel", "add_one")
    named = changes or (label is None) == (part.kind == "difference")
    need(named, "it names a label or an output where there is none, or names none")
    counts = changes or (part.count == 0 and part.within is None)
    need(counts, "it counts rows that its kind of claim does not")
    if exact and part.kind != "leaks":
        raise Unreadable(f"{part.name}: whole numbers cover leaks only; leave out --exact")
    try:
        region = Region.of(model.design, inputs.lower, inputs.upper, inputs.tables)
        if changes:
            within = None
            if part.within is not None:
                read = read_box(part.within, model.inputs, str(subject.path), single=False)
                within = Region.of(model.design, read.lower, read.upper, read.tables)
                subject = replace(subject, added=read)
            change = Change(part.kind, part.count, within)  # type: ignore[arg-type]
            check_change(family, region, change, label, part.upper)
        elif label is None:
            for output in range(model.outputs):
                check_shifts(family, region, output, part.upper)
        elif part.kind == "leaks":
            rivals = [each for each in range(len(model.labels)) if each != label]
            multipliers = {each: _array(proof, f"t{each}", "f8") for each in rivals}
            weights = {
                each: _array(proof, f"w{each}", "f8") for each in rivals if f"w{each}" in proof
            }
            check_leaks(family, region, label, part.upper, multipliers, weights)
            if exact:
                whole_numbers.check_leaks(model, family, region, label, part.upper, multipliers)
            return subject
        else:
            need(0 <= label < model.outputs, f"the model has no output {label}")
            score = family.output(label) if part.sign > 0 else -family.output(label)
            t = _array(proof, "t", "f8")
            check_bounds(family, region, score, part.level, part.upper, t)
    except whole_numbers.NotCoveredError as error:
        raise Unreadable(f"{part.name}: {error}; leave out --exact") from None
    return replace(subject, claim=part)
