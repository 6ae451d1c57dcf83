"""One plain sentence per statement, and one for all answers to given rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from leaveout.references import find_reference
from leaveout.specs import Guarantee
from leaveout.verifier.amounts import count_noun, span
from leaveout.verifier.page.first_page.about_leaks import leaks
from leaveout.verifier.page.first_page.claimed import Asked, Claimed, sentence
from leaveout.verifier.page.foreign import call_hook
from leaveout.verifier.page.model import Page, Run, Statement
from leaveout.verifier.page.prose import CLAIMED, claim_in_words, in_words
from leaveout.verifier.records import AnswersRecord

_Plain = Callable[[Asked], object]


@dataclass(frozen=True)
class Said:
    """The first page's sentence for a statement."""

    words: str  # one sentence, or few
    topics: tuple[str, ...] = ()  # what it is about, of `leaveout.verifier.page.first_page.scope`


def of_statement(page: Page, run: Run, statement: Statement) -> Said:
    """Return the plain sentence for a statement.

    Without a sentence of its own it is composed from the words of its functions; without its
    specification only the verdict is stated.
    """
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
    if function is None or function.plain is None:
        return None
    plain = function.plain
    made = call_hook(function, "plain", lambda: cast("_Plain", find_reference(plain))(asked))
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
    what = f"The statement called {statement.name}"
    ends = [span(*each.claimed_bounds) for each in statement.results]
    if statement.kind == "find" and statement.verdict != "refuted" and len(ends) == 1:
        text = f"{what} asks for a number, which is {ends[0]}."
    elif statement.kind == "find" and statement.verdict != "refuted":
        text = f"{what} asks for {count_noun(len(ends), 'number')}, listed in the table of bounds."
    else:
        text = f"{what} is {statement.verdict}."
    more = "What it says is not known here: its specification was not found, or was changed."
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
        return f"Of none of {them} is it proved that it owes nothing to {who}."
    percent = 100 * free // count
    rest = count - free
    same = "each would be the same had that record been left out before training"
    if not rest:
        whose = f"All {count_noun(count, 'answer')} to {found.data} owe"
        if count == 1:
            return (
                f"The one answer to {found.data} owes nothing to {who}: it would be the same had "
                "that record been left out before training."
            )
        return f"{whose} nothing to {who}: {same}."
    share = f"{percent} % of {them} ({free:,})" if percent else f"{free:,} of {them}"
    verb = "owes" if free == 1 and not percent else "owe"
    others = "one" if rest == 1 else f"{rest:,}"
    return f"{share} {verb} nothing to {who}: {same}. Of the other {others} this is not proved."


def _records(found: AnswersRecord) -> str:
    if found.rows is not None and found.rows <= found.members:
        return f"the {count_noun(found.rows, 'training record')}"
    of = "" if found.rows is None else f" (of {found.rows:,})"
    return f"the {count_noun(found.members, 'training record')} left out in turn{of}"
