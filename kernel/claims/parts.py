"""Entries of a certificate's manifest: what is claimed, of which files; all of it untrusted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, is_dataclass
from typing import ClassVar, Literal, TypeAlias

from ..boxes import BoxPart as BoxPart
from ..boxes import ChoicesPart as ChoicesPart
from ..points import Case
from ..records import encode


@dataclass(frozen=True)
class FilePart:
    """A file of a claim."""

    path: str  # relative to the certificate
    sha256: str
    kind: str


@dataclass(frozen=True)
class DrawPart:
    """The uniform draw of ``size`` of ``rows``: number ``draw`` of ``draws`` planned ones."""

    size: int
    rows: int
    seed: int
    draw: int
    draws: int


@dataclass(frozen=True)
class MembersBoundPart:
    """No leak of the question's members with the label has confidence above ``upper``."""

    label: int
    upper: float
    tree: str


@dataclass(frozen=True)
class SampledPart:
    """One claim about all rows: at most a share of them have a leak above all the bounds."""

    question: int  # with the bounded members; members left out may exceed the bound
    name: str  # of the statement
    bounds: tuple[MembersBoundPart, ...]  # one per label of the claim
    sample: DrawPart
    share: str  # fraction
    confidence: str  # fraction: joint confidence of all results and all planned draws
    results: int  # number of results that share the error


@dataclass(frozen=True)
class QuestionPart:
    """A network, members of a family and a box."""

    network: FilePart
    family: FilePart
    members: int
    box: BoxPart
    without: tuple[int, ...] = ()


@dataclass(frozen=True)
class ResultPart:
    """One claim: no leak of the question with the label has confidence above ``upper``."""

    question: int
    name: str
    label: int
    upper: float
    tree: str


@dataclass(frozen=True)
class FamilyPart:
    """A family whose members an application ranges over."""

    file: FilePart
    members: int


@dataclass(frozen=True)
class ApplicationPart:
    """A network, or a member of a family of its architecture, applied to a point."""

    network: FilePart
    point: int
    family: FamilyPart | None = None
    member: int | None = None  # index of a member of the family; None for any member


@dataclass(frozen=True)
class ClaimPart:
    """One claim over points: no case has a counter-example with least goal above ``upper``."""

    name: str
    upper: float
    decides: bool
    reals: bool  # whether it is about exact rather than float32 arithmetic
    tree: str
    points: tuple[BoxPart, ...]
    applications: tuple[ApplicationPart, ...]
    cases: tuple[Case, ...]
    missing: tuple[tuple[int, ...], ...] = ()  # of each point, where trees read it


@dataclass(frozen=True)
class ForestQuestionPart:
    """A forest, the forests it is compared with, and a set of inputs."""

    forest: FilePart
    other: FilePart | None  # one other forest; None for the forest without each of its rows
    members: int  # number of forests it is compared with
    box: BoxPart


@dataclass(frozen=True)
class ForestResultPart:
    """One claim: no leak with the label has confidence above ``upper``."""

    question: int
    name: str
    label: int  # index among the forest's labels
    upper: float  # negative if there is no leak at all
    proof: str  # prefix of the array names of its trees of boxes


@dataclass(frozen=True)
class ForestsPart:
    """All claims and questions about leaks of forests."""

    questions: tuple[ForestQuestionPart, ...]
    results: tuple[ForestResultPart, ...]


@dataclass(frozen=True)
class LinearQuestionPart:
    """A linear model, its members, and a set of inputs."""

    model: FilePart
    members: int
    hints: str  # prefix of the arrays from which the members are proved
    box: BoxPart


@dataclass(frozen=True)
class LinearResultPart:
    """One claim: what is bounded never exceeds ``upper``.

    Of leaks it is the confidence in ``label``; of differences that of any output's scores; of a
    threshold ``sign`` times the model's output ``label``, where a member's is at most ``level``. Of
    rows left out or relabelled, up to ``count``, or one added of the inputs ``within``, it is the
    confidence in ``label``, or without a label the difference of any output's scores.
    """

    question: int
    name: str
    kind: Literal["leaks", "difference", "threshold", "leave_out", "relabel", "add_one"]
    label: int | None
    sign: int
    level: float
    upper: float
    proof: str  # prefix of the arrays of multipliers
    count: int = 0
    within: BoxPart | None = None


@dataclass(frozen=True)
class LinearPart:
    """All claims and questions about linear models."""

    questions: tuple[LinearQuestionPart, ...]
    results: tuple[LinearResultPart, ...]


@dataclass(frozen=True)
class NumberPart:
    """A number: ``3/10`` for 0.3 in a specification."""

    tag: ClassVar[str] = "number"
    value: str


@dataclass(frozen=True)
class WordPart:
    """A bare word, such as ``adaptive``."""

    tag: ClassVar[str] = "word"
    value: str


@dataclass(frozen=True)
class TextPart:
    """A text that is not a path: the name of a label."""

    tag: ClassVar[str] = "text"
    value: str


@dataclass(frozen=True)
class FilePlace:
    """A file, by its index in the list of files."""

    tag: ClassVar[str] = "file"

    file: int


@dataclass(frozen=True)
class InputsPart:
    """A set of inputs."""

    tag: ClassVar[str] = "inputs"

    box: BoxPart


@dataclass(frozen=True)
class NamePart:
    """A name defined by a let, ``forall`` or ``find``."""

    tag: ClassVar[str] = "name"

    name: str


@dataclass(frozen=True)
class ListPart:
    """A list."""

    tag: ClassVar[str] = "list"

    items: tuple[Part, ...]


@dataclass(frozen=True)
class CallPart:
    """A function call, with arguments by parameter name."""

    tag: ClassVar[str] = "call"

    function: str
    given: dict[str, Part]
    number: int  # key of its proofs


@dataclass(frozen=True)
class UnaryPart:
    """A negated number or claim."""

    tag: ClassVar[str] = "unary"

    operator: Literal["-", "not"]
    operand: Part


@dataclass(frozen=True)
class BinaryPart:
    """An operation on two numbers or two claims."""

    tag: ClassVar[str] = "binary"

    operator: Literal["+", "-", "*", "/", "==", "!=", "<", "<=", ">", ">=", "and", "or", "=>"]
    left: Part
    right: Part


@dataclass(frozen=True)
class BinderPart:
    """``name in domain`` of a ``forall``."""

    name: str
    domain: Part


@dataclass(frozen=True)
class ForAllPart:
    """A claim for all values of names."""

    tag: ClassVar[str] = "forall"

    binders: tuple[BinderPart, ...]
    body: Part


Part: TypeAlias = (
    NumberPart
    | WordPart
    | TextPart
    | FilePlace
    | InputsPart
    | NamePart
    | ListPart
    | CallPart
    | UnaryPart
    | BinaryPart
    | ForAllPart
)
"""An expression."""


@dataclass(frozen=True)
class FindPart:
    """The goal of a ``find``, and the bounds of its answer."""

    direction: Literal["least", "greatest"]
    variable: str
    lower: str | None  # fraction; None if no lower end is claimed
    upper: str | None  # fraction; None if no upper end is claimed


@dataclass(frozen=True)
class StatementPart:
    """A statement and its claimed result."""

    name: str
    claim: Part
    verdict: Literal["proved", "refuted"]
    confidence: str | None = None  # confidence of a claim about samples; None if it is certain
    find: FindPart | None = None


@dataclass(frozen=True)
class ValuesPart:
    """Statements about values, with the names and files they share."""

    files: tuple[FilePart, ...]
    lets: dict[str, Part]
    statements: tuple[StatementPart, ...]
    proofs: dict[str, str] = field(
        default_factory=dict
    )  # prefix of a call's arrays, by the call's key


@dataclass(frozen=True)
class ManifestPart:
    """Everything except arrays.

    Format 1 has only leaks, format 2 no statements about values, format 3 no samples.
    """

    format: int
    leaveout: str
    spec: str
    text: str
    questions: tuple[QuestionPart, ...]
    results: tuple[ResultPart, ...]
    claims: tuple[ClaimPart, ...] = ()
    values: ValuesPart | None = None
    forests: ForestsPart | None = None
    samples: tuple[SampledPart, ...] = ()
    linear: LinearPart | None = None


def canonical(part: Part) -> str:
    """Return a text that is equal only for expressions with the same meaning."""
    return encode(part, ordered=True).decode()


def children(part: Part) -> Iterator[Part]:
    """Yield the direct parts of an expression."""
    match part:
        case ListPart():
            yield from part.items
        case CallPart():
            yield from part.given.values()
        case UnaryPart():
            yield part.operand
        case BinaryPart():
            yield from (part.left, part.right)
        case ForAllPart():
            yield from (binder.domain for binder in part.binders)
            yield part.body


def everything(*parts: Part) -> Iterator[Part]:
    """Yield expressions and all their parts."""
    stack = list(reversed(parts))
    while stack:
        part = stack.pop()
        yield part
        stack.extend(reversed(list(children(part))))


def claim_names(manifest: ManifestPart) -> Iterator[str]:
    """Yield the names under which something is claimed."""
    yield from (each.name for each in manifest.results)
    yield from (each.name for each in manifest.claims)
    yield from (each.name for each in manifest.samples)
    if manifest.forests is not None:
        yield from (each.name for each in manifest.forests.results)
    if manifest.linear is not None:
        yield from (each.name for each in manifest.linear.results)
    if manifest.values is not None:
        yield from (each.name for each in manifest.values.statements)


def printed_texts(manifest: ManifestPart) -> Iterator[str]:
    """Yield all texts but the specification's; printed, they must have no control characters."""
    own = vars(manifest).items()
    stack = [held for name, held in own if name not in ("leaveout", "spec", "text")]
    while stack:
        held = stack.pop()
        if isinstance(held, str):
            yield held
        elif isinstance(held, tuple):
            stack += held
        elif isinstance(held, Mapping):
            stack += [*held, *held.values()]
        elif is_dataclass(held):
            stack += vars(held).values()
