"""One plain sentence per statement, and one for all answers to given rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import cast

from leaveout.names import find_reference
from leaveout.specs import Call, Guarantee, Node, Text
from leaveout.specs.text.expressions import walk
from leaveout.verifier.amounts import count_noun, plain, span
from leaveout.verifier.page.first_page.claim_sentences import (
    Asked,
    Claimed,
    advantage,
    deletions,
    forgets,
    guard_sentence,
    leaks,
    same,
    sentence,
    stored_state,
)
from leaveout.verifier.page.first_page.vote_sentences import (
    certified_share,
    collective,
    median,
    targeted_share,
)
from leaveout.verifier.page.model import Page, Run, Statement
from leaveout.verifier.page.prose import CLAIMED, call_hook, claim_in_words, in_words
from leaveout.verifier.records import AnswersRecord, constant_models
from leaveout.verifier.report import Verdict

Plain = Callable[[Asked], object]

PLAIN: Mapping[str, Plain] = {
    "caches_sound": stored_state,
    "certified_accuracy": certified_share,
    "collective_accuracy": collective,
    "idp": guard_sentence,
    "median_radius": median,
    "membership_advantage": advantage,
    "same_function": same,
    "targeted_robustness": targeted_share,
    "unlearn": deletions,
    "unlearns": forgets,
}
"""What says a statement about a built-in function in plain words; of others the table says it."""


@dataclass(frozen=True)
class Said:
    """The first page's sentence for a statement."""

    words: str  # one sentence, or few
    topics: tuple[str, ...] = ()  # what it is about, of `leaveout.verifier.page.first_page.scope`


def of_statement(page: Page, run: Run, statement: Statement) -> Said:
    """Return a statement's sentence: its own, else of its functions' words, else its verdict."""
    asked = Asked.of(page, run, statement)
    claimed = None if asked is None else _plain(asked)
    if claimed is None:
        claimed = _compose_claim(page, run, statement)
    return Said(sentence(claimed, statement), claimed.topics)


def _plain(asked: Asked) -> Claimed | None:
    found = leaks(asked)
    if found is not None or asked.call is None:
        return found
    function = asked.page.functions.get(asked.call.function)
    plain = None if function is None else function.plain or PLAIN.get(function.name)
    if function is None or plain is None:
        return None
    made = call_hook(function, "plain", lambda: cast("Plain", find_reference(plain))(asked))
    return made if isinstance(made, Claimed) else None


def _compose_claim(page: Page, run: Run, statement: Statement) -> Claimed:
    """Compose a statement from its functions' words, current or stored."""
    written = None if statement.written is None else statement.written.statement
    if isinstance(written, Guarantee):
        return Claimed(claim_in_words(written.claim, page.functions), topics=("other",))
    if written is not None:
        return _describe_find(statement, in_words(written, page.functions), written.variable)
    kept = [each.sentence for each in run.report.statements if each.name == statement.name]
    if len(kept) != 1:
        return _describe_verdict(statement)
    (words,) = kept
    if statement.kind == "find":
        return _describe_find(statement, words, "it")
    that = words.removeprefix(CLAIMED).removesuffix(".")
    return (
        Claimed(that, topics=("other",))
        if words.startswith(CLAIMED)
        else _describe_verdict(statement)
    )


def _describe_find(statement: Statement, said: str, variable: str) -> Claimed:
    """Describe the number a statement asks for, and its bounds."""
    if statement.verdict == "refuted":
        return Claimed(instead=f"There is no such number: {said}", topics=("other",))
    values = "; ".join(
        f"{variable} is {span(*each.claimed_bounds)}"
        + (f" for label {each.label_text}" if each.label is not None else "")
        for each in statement.results
    )
    return Claimed(instead=f"{said.removesuffix('.')}: {values}.", topics=("other",))


def _describe_verdict(statement: Statement) -> Claimed:
    """Describe the verdict of a statement whose text is missing."""
    what = f"The statement {statement.name}"
    ends = [span(*each.claimed_bounds) for each in statement.results]
    if statement.kind == "find" and statement.verdict != "refuted" and len(ends) == 1:
        text = f"{what} asks for a number, which is {ends[0]}."
    elif statement.kind == "find" and statement.verdict != "refuted":
        text = f"{what} asks for {count_noun(len(ends), 'number')}, listed in the table of bounds."
    else:
        text = f"{what} is {statement.verdict}."
    more = "Its wording is not available: its specification was not found, or was changed."
    return Claimed(instead=text, more=(more,), topics=("other",))


def of_answers(found: AnswersRecord) -> str:
    """Return how many answers to given rows no single record can change."""
    count = len(found.answers)
    free = sum(each.owe_nothing for each in found.labels)
    them = f"the {count_noun(count, 'answer')} to {found.data}"
    if count == 1:
        them = f"the one answer to {found.data}"
    who = f"any one of {_records(found)}"
    if not count:
        return f"No rows were given in {found.data}."
    if not free:
        return f"None of {them} is proved independent of {who}."
    percent = 100 * free // count
    rest = count - free
    same = "each would be the same had that record been left out before training"
    if not rest:
        if count == 1:
            return (
                f"The one answer to {found.data} is independent of {who}: it would be the same had "
                "that record been left out before training."
            )
        every = f"All {count_noun(count, 'answer')} to {found.data}"
        return f"{every} are independent of {who}: {same}."
    share = f"{percent} % of {them} ({free:,})" if percent else f"{free:,} of {them}"
    verb = "is" if free == 1 and not percent else "are"
    others = "one" if rest == 1 else f"{rest:,}"
    return (
        f"{share} {verb} independent of {who}: {same}. For the other {others} this is not proved."
    )


def _records(found: AnswersRecord) -> str:
    if found.rows is not None and found.rows <= found.members:
        return f"the {count_noun(found.rows, 'training record')}"
    of = "" if found.rows is None else f" (of {found.rows:,})"
    return f"the {count_noun(found.members, 'training record')} left out in turn{of}"


_TRUST = ("taken on trust: ", "rests on: ")


@dataclass(frozen=True)
class Assumption:
    """An assumption that was not checked."""

    number: int  # from 1
    words: str
    about: tuple[str, ...] = ()  # files and functions that it is said of; empty where of none
    anchors: frozenset[str] = frozenset()


@dataclass
class _Gathered:
    about: dict[str, None] = field(default_factory=dict)
    anchors: set[str] = field(default_factory=set)


def assumptions(page: Page) -> tuple[Assumption, ...]:
    """Return the unchecked assumptions behind a page's results, each once."""
    found: dict[str, _Gathered] = {}
    for run in page.runs:
        named = {each.anchor: _names(run, each) for each in run.statements}
        for note in run.report.notes:
            head, words = _split_assumption(note)
            if not words:
                continue
            kept = found.setdefault(words, _Gathered())
            if head:
                kept.about[PurePath(head).name if "/" in head else head] = None
                kept.anchors |= {anchor for anchor, names in named.items() if head in names}
            else:
                # Only the accounting of a service says what it rests on without a name before it.
                services = {anchor for anchor, names in named.items() if "unlearns" in names}
                kept.anchors |= services
    return tuple(
        Assumption(number, words, tuple(each.about), frozenset(each.anchors))
        for number, (words, each) in enumerate(found.items(), start=1)
    )


def assumption_numbers(found: Iterable[Assumption], statement: Statement) -> tuple[int, ...]:
    """Return the numbers of the assumptions that a statement rests on."""
    return tuple(each.number for each in found if statement.anchor in each.anchors)


def is_assumption(note: str) -> bool:
    """Return whether a note states an unchecked assumption."""
    return bool(_split_assumption(note)[1])


def _split_assumption(note: str) -> tuple[str, str]:
    """Return the subject and the assumption of a note; empty if it has none."""
    for mark in _TRUST:
        head, found, words = note.partition(mark)
        if found and (not head or head.endswith(": ")):
            return head.removesuffix(": "), words
    return "", ""


def _names(run: Run, statement: Statement) -> frozenset[str]:
    """Return the functions a statement calls and the files they read, as named in notes."""
    if statement.written is None:
        return frozenset({statement.name})
    nodes: tuple[Node, ...] = (statement.written.statement, *statement.written.definitions)
    found = {statement.name}
    folder = PurePath(run.report.spec).parent
    for node in walk(*nodes):
        if isinstance(node, Call):
            found.add(node.function)
        elif isinstance(node, Text):
            found |= {node.value, str(folder / node.value)}
    return frozenset(found)


def state(page: Page) -> str:
    """Return what the page's statements amount to, without a full stop."""
    statements = page.statements
    counts = Counter(statement.verdict for statement in statements)
    total = len(statements)
    if not total:
        return "There are no results"
    if counts["proved"] == total:
        few = {1: "The one statement is", 2: "Both statements are"}
        every = few.get(total, f"All {total:,} statements are")
        return f"{every} proved{_sampled_suffix(page, 'proved')}{empty_claims(page)}"
    worst: Verdict = "refuted" if counts["refuted"] else "unknown"
    many = counts[worst]
    head = f"{many:,} of {count_noun(total, 'statement')} {'is' if many == 1 else 'are'} {worst}"
    if total == 1:
        head = f"The one statement is {worst}"
    return head + _sampled_suffix(page, worst) if worst == "refuted" else f"{head}; none is refuted"


def empty_claims(page: Page) -> str:
    """Return how little is proved of a model that ignores its input; empty if there is none."""
    for run in page.runs:
        constant = constant_models(run.report.models, run.report.answers)
        for model in run.report.models:
            if not model.members or model.file not in constant:
                continue
            own = [each for each in run.report.results if each.name in model.statements]
            why = f"the model ignores its input: {constant[model.file]}"
            if model.rows == model.members and all(
                each.upper is not None and each.upper <= 0 for each in own
            ):
                return f", but nothing depends on any record, because {why}"
            return f", but little can depend on any record: {why}"
    return ""


def _sampled_suffix(page: Page, verdict: Verdict) -> str:
    """Return how many statements with a verdict hold only with a confidence."""
    same = [each for each in page.statements if each.verdict == verdict]
    levels = [each.confidence for each in same if each.confidence is not None]
    if not levels:
        return ""
    at_least = "" if len(set(levels)) == 1 else " of at least"
    many = "one" if len(levels) == 1 else f"{len(levels):,}"
    whose = "" if len(same) == 1 else f", {many} of them"
    return f"{whose} with confidence{at_least} {plain(min(levels))}"
