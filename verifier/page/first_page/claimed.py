"""A statement as input for plain sentences, and the sentence for its verdict."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from leaveout.errors import LeaveoutError
from leaveout.specs import Call, Compare, Confident, Expression, Find, ForAll, Guarantee, Name, Text
from leaveout.specs.text.errors import Slip
from leaveout.verifier.amounts import percent
from leaveout.verifier.page.model import Page, Run, Statement
from leaveout.verifier.read_spec import Reading
from leaveout.verifier.records import Fact, ModelRecord
from leaveout.verifier.report import Result
from leaveout.verifier.resolve_names import Resolver

_MIRROR = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}

_WHY = {
    "time": "the time given was over",
    "solver": "the solver that was asked did not settle it",
    "numerical": "the numbers known lie too far apart to tell",
}


@dataclass(frozen=True)
class Claimed:
    """The claim of a statement in plain words."""

    that: str = ""  # the claim as a clause, from its first word on, without a full stop
    where: str = ""  # what it is claimed of, to stand before it and its verdict; may be empty
    shown: str = ""
    more: tuple[str, ...] = ()  # sentences that stand whatever the verdict, each with its full stop
    instead: str = ""  # the whole text, where no clause has a verdict; may be empty
    topics: tuple[str, ...] = ()  # what it is about, of `leaveout.verifier.page.first_page.scope`


@dataclass(frozen=True, eq=False)
class Asked:
    """A statement whose specification passed the check, with its results."""

    page: Page
    run: Run
    statement: Statement
    reading: Reading
    resolver: Resolver
    claimed: Guarantee | Find  # as checked
    claim: Expression  # its claim without how surely it is to hold
    call: Call | None  # the function that the claim is about, where it is about one

    @staticmethod
    def of(page: Page, run: Run, statement: Statement) -> Asked | None:
        """Return a statement; None if its specification is missing or fails the check."""
        reading = run.specification.reading
        if reading is None or statement.written is None:
            return None
        same = [each for each in reading.checked.statements if each.name == statement.name]
        if len(same) != 1 or isinstance(same[0], Find) != (statement.kind == "find"):
            return None
        claim = same[0].claim
        claim = claim.claim if isinstance(claim, Confident) else claim
        resolver = reading.resolver()
        return Asked(page, run, statement, reading, resolver, same[0], claim, main_call(claim))

    @property
    def results(self) -> tuple[Result, ...]:
        """The results of the statement."""
        return self.statement.results

    @property
    def result(self) -> Result:
        """The first result; the only one of a guarantee."""
        return self.statement.results[0]

    @property
    def model(self) -> ModelRecord | None:
        """The model of the statement; None if the results do not store it."""
        own = [each for each in self.run.report.models if self.statement.name in each.statements]
        return own[0] if len(own) == 1 else None

    @property
    def facts(self) -> Mapping[str, Fact]:
        """The computed facts of the call, if there is one record of them."""
        own = self.result.facts
        return own[0].facts if len(own) == 1 else {}

    def call_argument(self, name: str) -> Expression | None:
        """Return an argument of the call, with names resolved; None if missing."""
        if self.call is None:
            return None
        found = self.resolver.bound_arguments(self.call).get(name)
        return None if found is None else self.resolver.value(found)

    @property
    def votes(self) -> Expression | None:
        """The votes that the call reads."""
        return self.call_argument("votes")

    def number(self, node: Expression | None) -> float | None:
        """Return the value of a constant expression; None for any other."""
        try:
            value = None if node is None else self.resolver.number(node)
        except (LeaveoutError, Slip):
            return None
        return value if value is not None and math.isfinite(value) else None

    def word(self, name: str) -> str:
        """Return a bare-word argument of the call; empty if missing."""
        found = None if self.call is None else self.resolver.bound_arguments(self.call).get(name)
        return found.name if isinstance(found, Name) else ""

    def file(self, node: Expression | None, parts: int = 1) -> str:
        """Return the end of the path of the file a call reads; empty if none."""
        node = None if node is None else self.resolver.value(node)
        if not isinstance(node, Call):
            return ""
        for argument in self.resolver.bound_arguments(node).values():
            value = self.resolver.value(argument)
            if isinstance(value, Text):
                return "/".join(Path(value.value).parts[-parts:])
            if found := self.file(value, parts):
                return found
        return ""

    def comparison(self) -> tuple[str, float] | None:
        """Return the operator and number that the call is compared with, or None."""
        claim = self.claim
        if not isinstance(claim, Compare):
            return None
        operator: str = claim.operator
        other: Expression = claim.right
        if claim.right is self.call:
            operator, other = _MIRROR.get(operator, operator), claim.left
        value = self.number(other)
        return None if value is None else (operator, value)


def main_call(claim: Expression) -> Call | None:
    """Return the call a claim is about: the claim itself or the side it compares."""
    if isinstance(claim, ForAll):
        claim = claim.body
    if isinstance(claim, Compare):
        sides = [each for each in (claim.left, claim.right) if isinstance(each, Call)]
        return sides[0] if sides else None
    return claim if isinstance(claim, Call) else None


def sentence(claimed: Claimed, statement: Statement) -> str:
    """Return the sentence for a statement: its claim, its verdict and what is known."""
    if claimed.instead:
        return " ".join((claimed.instead, *claimed.more))
    verdict, level = statement.verdict, statement.confidence
    said = {
        "proved": claimed.shown or claimed.that,
        "refuted": f"it is not so that {claimed.that}",
        "unknown": f"it is not known whether {claimed.that}",
    }[verdict]
    if level is not None:
        said = f"measured on samples, with {percent(level)} confidence: {said}"
    if claimed.where:
        said = f"{claimed.where}, {said}"
    whole = f"{said[:1].upper()}{said[1:]}."
    return " ".join((whole, *_why(statement), *claimed.more))


def _why(statement: Statement) -> tuple[str, ...]:
    kinds = [each.reason.partition(":")[0] for each in statement.results if each.reason]
    known = dict.fromkeys(_WHY[each] for each in kinds if each in _WHY)
    return tuple(f"Reason: {each}." for each in known) if statement.verdict == "unknown" else ()
