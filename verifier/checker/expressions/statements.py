"""Statements about values: evaluated again and compared with their claims."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from leaveout.verifier.checker.arithmetic import FLOATS, Arithmetic
from leaveout.verifier.checker.errors import RejectedError
from leaveout.verifier.checker.expressions.evaluate import Evaluation, Kept, Steps
from leaveout.verifier.checker.expressions.functions import FUNCTIONS
from leaveout.verifier.checker.expressions.given import HeldFile
from leaveout.verifier.checker.expressions.parts import (
    BinaryPart,
    CallPart,
    FilePlace,
    FindPart,
    ForAllPart,
    NamePart,
    Part,
    StatementPart,
    ValuesPart,
    canonical,
    everything,
)
from leaveout.verifier.checker.expressions.ranges import Range, number
from leaveout.verifier.checker.expressions.reading import refuse_unreadable
from leaveout.verifier.checker.expressions.words import decimal, statement_lines, text


@dataclass(frozen=True, eq=False)
class ValueSubject:
    """Description of one statement about values."""

    statement: StatementPart
    lets: Mapping[str, Part]  # those it needs
    files: Mapping[int, HeldFile]
    told: list[str] = field(default_factory=list)  # what it rests on

    @property
    def members(self) -> int | None:
        """None, as it is not about a family."""
        return None

    def lines(self) -> Iterator[str]:
        """Yield the lines of the statement."""
        yield from statement_lines(self.statement, self._paths)

    def rests_on(self) -> Iterator[str]:
        """Yield a line for each definition, file and assumption it rests on."""
        for name, part in self.lets.items():
            yield f"{name} = {text(part, self._paths)}"
        for each in self.files.values():
            yield f"file {each.path} (SHA-256 {each.sha256})"
        yield from self.told

    @property
    def _paths(self) -> dict[int, Path]:
        return {place: each.path for place, each in self.files.items()}


@dataclass(eq=False)
class Statements:
    """Checker of one certificate's statements about values."""

    part: ValuesPart
    file: Callable[[int], HeldFile]
    proof: Callable[[str], Mapping[str, NDArray[Any]]]
    arithmetic: Arithmetic = FLOATS  # what bounds of networks are computed with
    _kept: Kept = field(default_factory=dict)
    _steps: Steps = field(default_factory=Steps)

    def check(self, statement: StatementPart) -> ValueSubject:
        """Evaluate a statement again.

        Raises
        ------
        RejectedError
            If what is claimed of it does not follow.
        LeaveoutError
            If a file is missing or cannot be read.
        """
        needed = self._lets(statement.claim)
        refuse_unreadable(statement, needed, self.part.lets)
        places = [
            each.file
            for each in everything(statement.claim, *needed.values())
            if isinstance(each, FilePlace)
        ]
        files = {place: self.file(place) for place in dict.fromkeys(places)}
        for each in files.values():
            if '"' in str(each.path):
                # What follows would be read as part of the claim.
                raise RejectedError(f"the name of {str(each.path)!r} has a quotation mark")
        evaluation = self._evaluation(statement, needed)
        if statement.find is None:
            found = evaluation.truth(statement.claim, {})
            if found is not (statement.verdict == "proved"):
                which = "not decided" if found is None else "refuted" if not found else "proved"
                raise RejectedError(f"it is claimed to be {statement.verdict}, and is {which}")
        else:
            self._find(statement, statement.find, evaluation)
        return ValueSubject(statement, needed, files, evaluation.told)

    def _evaluation(self, statement: StatementPart, needed: Mapping[str, Part]) -> Evaluation:
        """Return the evaluator of a statement, whose sampled numbers share the risk."""
        each: Fraction | None = None
        if statement.confidence is not None:
            level = number(statement.confidence)
            if not 0 < level < 1:
                raise RejectedError(f"{level} is no confidence")
            calls = [*everything(statement.claim, *needed.values())]
            if any(isinstance(part, ForAllPart) for part in calls):
                raise RejectedError("a confidence is of no claim over many values")
            sampled = {
                canonical(part) for part in calls if isinstance(part, CallPart) and _samples(part)
            }
            each = 1 - (1 - level) / max(1, len(sampled))
        return Evaluation(
            self.part.lets, self.file, self._proof, each, self._kept,
            arithmetic=self.arithmetic, steps=self._steps,
        )  # fmt: skip

    def _proof(self, key: str) -> Mapping[str, NDArray[Any]]:
        prefix = self.part.proofs.get(key)
        return {} if prefix is None else self.proof(prefix)

    def _lets(self, claim: Part) -> dict[str, Part]:
        """Return the lets a claim needs, in the order of the certificate."""
        lets, found, stack = self.part.lets, set[str](), [claim]
        while stack:
            for each in everything(stack.pop()):
                if isinstance(each, NamePart) and each.name in lets and each.name not in found:
                    found.add(each.name)
                    stack.append(lets[each.name])
        return {name: part for name, part in lets.items() if name in found}

    def _find(self, statement: StatementPart, asked: FindPart, evaluation: Evaluation) -> None:
        """Compare the claimed bounds with the claim at numbers next to them."""
        claim, variable = statement.claim, asked.variable
        if statement.verdict == "proved" and asked.lower is None and asked.upper is None:
            raise RejectedError(f"nothing is claimed of {variable}")
        ends = [None if end is None else number(end) for end in (asked.lower, asked.upper)]
        value = _comparand(claim, variable)
        if value is not None:
            _right_way(claim, asked)
            found = evaluation.range(value, {})
            lower, upper = ends
            if statement.verdict == "refuted":
                raise RejectedError("a value is never none")
            if (lower is not None and not found.lower >= lower) or (
                upper is not None and not found.upper <= upper
            ):
                raise RejectedError(f"the value is between {found.lower} and {found.upper}")
            return
        if statement.confidence is not None:
            raise RejectedError("a confidence is of no search over many numbers")
        holds_below = self._holds_below(claim, variable)
        if holds_below != (asked.direction == "greatest"):
            raise RejectedError(f"there is no {asked.direction} {variable}")

        def holds(at: Fraction) -> bool | None:
            return evaluation.truth(claim, {variable: Range.exactly(at)})

        if statement.verdict == "refuted":
            if not holds_below or holds(Fraction(0)) is not False:
                raise RejectedError("the claim is not shown to hold of no number")
            return
        # The claim changes at the number sought: beside each end of its range it is evaluated.
        lower, upper = ends
        beside = [(lower, True, 0), (upper, False, 1)]
        if not holds_below:
            beside = [(lower, False, -1), (upper, True, 0)]
        for end, expected, step in beside:
            if end is None:
                continue
            if end.denominator != 1 or end < 0:
                raise RejectedError(f"{variable} is a whole number from 0, not {decimal(end)}")
            if end + step < 0:
                continue
            if holds(end + step) is not expected:
                word = "hold" if expected else "fail"
                raise RejectedError(
                    f"the claim is not shown to {word} for {variable} = {end + step}"
                )

    def _holds_below(self, claim: Part, variable: str) -> bool:
        """Return whether the claim, if true of a number, is true of all smaller ones."""
        wrong = RejectedError(f"how the claim changes with {variable} is not known")
        if not isinstance(claim, BinaryPart) or claim.operator not in ("<", "<=", ">", ">="):
            raise wrong
        left, operator, right = claim.left, claim.operator, claim.right
        if _mentions(right, variable):
            mirrored = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
            left, operator, right = right, mirrored[operator], left  # type: ignore[assignment]
        if _mentions(right, variable) or not isinstance(left, CallPart):
            raise wrong
        holders = [name for name, part in left.given.items() if _mentions(part, variable)]
        if len(holders) != 1 or left.given[holders[0]] != NamePart(variable):
            raise wrong
        known = FUNCTIONS.get(left.function)
        if known is None or holders[0] not in known.falling:
            raise wrong
        return operator in (">", ">=")


def _comparand(claim: Part, variable: str) -> Part | None:
    """Return what a variable is directly compared with; None if it is an argument."""
    if isinstance(claim, BinaryPart):
        for one, other in ((claim.left, claim.right), (claim.right, claim.left)):
            if one == NamePart(variable) and not _mentions(other, variable):
                return other
    return None


def _right_way(claim: Part, asked: FindPart) -> None:
    """Refuse a least or greatest number that does not exist."""
    assert isinstance(claim, BinaryPart)
    below = "<=" if claim.left == NamePart(asked.variable) else ">="
    above = ">=" if below == "<=" else "<="
    if claim.operator != {"greatest": below, "least": above}[asked.direction]:
        raise RejectedError(f"there is no {asked.direction} {asked.variable}")


def _samples(call: CallPart) -> bool:
    known = FUNCTIONS.get(call.function)
    return known is not None and known.samples


def _mentions(part: Part, name: str) -> bool:
    return any(each == NamePart(name) for each in everything(part))
