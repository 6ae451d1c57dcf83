"""Whether a statement about values in a certificate is the one that the results decided."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import PurePosixPath

from leaveout.errors import LeaveoutError
from leaveout.specs import (
    And,
    Arithmetic,
    Call,
    Compare,
    Confident,
    Expression,
    Find,
    ForAll,
    Function,
    Guarantee,
    Implies,
    Let,
    ListOf,
    Name,
    Negate,
    Not,
    Number,
    Or,
    Text,
    functions,
    parse,
)
from leaveout.specs.text.errors import Slip
from leaveout.specs.typing.arguments import bind
from leaveout.verifier.checker.expressions.parts import (
    BinaryPart,
    CallPart,
    FilePlace,
    ForAllPart,
    InputsPart,
    ListPart,
    NamePart,
    NumberPart,
    Part,
    TextPart,
    UnaryPart,
    WordPart,
)
from leaveout.verifier.checker.expressions.statements import ValueSubject
from leaveout.verifier.report import Report, StatementRecord

__all__ = ["is_same"]

_JOINED: Mapping[type[Expression], str] = {And: "and", Or: "or", Implies: "=>"}


def is_same(subject: ValueSubject, said: StatementRecord, report: Report) -> bool:
    """Whether a claim of a certificate says what a statement of the results says.

    Parameters
    ----------
    subject : ValueSubject
        As it was proved again.
    said : StatementRecord
    report : Report
        With the digests of the files that it names.

    Notes
    -----
    Of a set of inputs, and of a folder that a guard serves, only that there is one is compared:
    the checker prints them.
    """
    try:
        tree = parse("\n".join([*said.definitions, said.text]) + "\n", said.name)
    except LeaveoutError:
        return False
    lets = {each.name: each.value for each in tree.statements if isinstance(each, Let)}
    statement = tree.statements[-1]
    if not isinstance(statement, Guarantee | Find):
        return False
    digests = {str(PurePosixPath(each.path)): each.sha256 for each in report.files}
    compared = _Compared(lets, subject, digests, functions())
    claim = statement.claim.claim if isinstance(statement.claim, Confident) else statement.claim
    asked = subject.statement.find
    if isinstance(statement, Find) != (asked is not None):
        return False
    if isinstance(statement, Find) and asked is not None:
        own = (statement.direction, statement.variable)
        if own != (asked.direction, asked.variable):
            return False
    return compared.same(subject.statement.claim, claim) and all(
        name in lets and compared.same(part, lets[name]) for name, part in subject.lets.items()
    )


@dataclass(frozen=True)
class _Compared:
    lets: Mapping[str, Expression]
    subject: ValueSubject
    digests: Mapping[str, str]
    table: Mapping[str, Function]

    def same(self, part: Part, node: Expression) -> bool:
        """Whether a part of a certificate is an expression of the specification."""
        match part, node:
            case NumberPart(), Number():
                return Fraction(part.value) == Fraction(repr(float(node.value)))
            case NamePart(), Name():
                return part.name == node.name
            case WordPart(), Name():
                return part.value == node.name
            case FilePlace(), _:
                return self._same_file(part, node)
            case TextPart(), _:
                found = self._followed(node)
                return isinstance(found, Text) and part.value == found.value
            case InputsPart(), _:
                return True
            case ListPart(), ListOf():
                return self._all(part.items, node.items)
            case CallPart(), Call():
                return self._same_call(part, node)
            case UnaryPart(operator="-"), Negate():
                return self.same(part.operand, node.operand)
            case UnaryPart(operator="not"), Not():
                return self.same(part.operand, node.claim)
            case BinaryPart(), Arithmetic() | Compare() | And() | Or() | Implies():
                operator = _JOINED.get(type(node)) or getattr(node, "operator", "")
                return part.operator == operator and self._all(
                    (part.left, part.right), (node.left, node.right)
                )
            case ForAllPart(), ForAll():
                names = [each.name for each in part.binders]
                return (
                    names == [each.name for each in node.binders]
                    and self._all(
                        [each.domain for each in part.binders],
                        [each.domain for each in node.binders],
                    )
                    and self.same(part.body, node.body)
                )
            case _:
                return False

    def _all(
        self,
        parts: list[Part] | tuple[Part, ...],
        nodes: list[Expression] | tuple[Expression, ...],
    ) -> bool:
        return len(parts) == len(nodes) and all(map(self.same, parts, nodes))

    def _same_call(self, part: CallPart, node: Call) -> bool:
        if part.function != node.function or node.function not in self.table:
            return False
        try:
            given = bind(node, self.table[node.function])
        except Slip:
            return False
        return set(given) == set(part.given) and all(
            self.same(part.given[name], value) for name, value in given.items()
        )

    def _followed(self, node: Expression) -> Expression:
        while isinstance(node, Name) and node.name in self.lets:
            node = self.lets[node.name]
        return node

    def _same_file(self, part: FilePlace, node: Expression) -> bool:
        node = self._followed(node)
        held = self.subject.files.get(part.file)
        if not isinstance(node, Text) or held is None:
            return False
        known = self.digests.get(str(PurePosixPath(node.value)))
        return known is None or known == held.sha256
