"""Plain sentences on what one training record can change of a model's answers."""

from __future__ import annotations

import math

from leaveout.errors import LeaveoutError
from leaveout.verifier.amounts import bound, written_number
from leaveout.verifier.page.first_page.claimed import Asked, Claimed
from leaveout.verifier.page.model import Page
from leaveout.verifier.points.leak_statements import IdpStatement, recognise
from leaveout.verifier.points.names import label_phrase
from leaveout.verifier.records import BoxRecord, ModelRecord
from leaveout.verifier.report import Result

_FEW = 6
"""Labels whose bounds stand in the sentence."""


def leaks(asked: Asked) -> Claimed | None:
    """Describe a statement about leaks; None for any other statement."""
    try:
        read = recognise(asked.claimed, asked.resolver)
    except LeaveoutError:
        return None
    if not isinstance(read, IdpStatement):
        return None
    model = asked.model
    pair = asked.resolver.is_network(read.family) or asked.resolver.is_forest(read.family)
    inside = within(asked.page, asked.result.box)
    of = f" of {file}" if (file := asked.file(read.network)) else ""
    if asked.statement.kind == "find":
        return _limits(asked, inside, of, pair, model)
    return _guarantee(asked, read, inside, of, pair, model)


def records(model: ModelRecord | None, members: int) -> str:
    """Return the phrase for the left-out records that follows ``any one of``."""
    if model is None or model.rows is None:
        return f"{members:,} training records"
    if model.members < model.rows:
        return f"{model.members:,} of the {model.rows:,} training records"
    return f"the {model.rows:,} training records"


def within(page: Page, box: BoxRecord) -> str:
    """Return the phrase for a set of inputs; empty if there is none."""
    if not box.lower:
        return ""
    which = f"range {page.boxes[box]}" if len(page.boxes) > 1 else "the range"
    return f"within {which} of inputs below"


def _unchanged_phrase(pair: bool, model: ModelRecord | None, members: int) -> str:
    """Return the phrase for an answer that stays the same."""
    if pair:
        return "is the same from both models"
    return f"stays the same whichever one of {records(model, members)} is left out of training"


def _limits(asked: Asked, inside: str, of: str, pair: bool, model: ModelRecord | None) -> Claimed:
    """Describe the proved confidence above which no answer changes."""
    results, unchanged = asked.results, _unchanged_phrase(pair, model, asked.result.members)
    topics = ("pair",) if pair else ("leaks",)
    if any(each.verdict == "refuted" for each in results):
        that = f"there is a confidence above which an answer{of} {unchanged}"
        return Claimed(that, inside, topics=topics)
    known = [each for each in results if each.upper is not None]
    before = f"{inside}, " if inside else ""
    if not known:
        none = f"{before}it is not known above which confidence an answer{of} {unchanged}."
        return Claimed(instead=_capitalize_first(none), topics=topics)
    more = [_below(results, pair)]
    more += [
        f"Of answers {_label(each)} nothing is proved." for each in results if each.upper is None
    ]
    if any(each.verdict == "unknown" for each in known):
        more.append("Whether less confidence would do is not known.")
    return Claimed(
        instead=_capitalize_first(f"{before}{_covered_answers(known, of)} {unchanged}."),
        more=tuple(each for each in more if each),
        topics=topics,
    )


def _covered_answers(known: list[Result], of: str) -> str:
    """Return the phrase for the covered answers: those above a bound."""
    if len(known) > _FEW:
        least, most = (bound(pick(map(_upper, known)), up=True) for pick in (min, max))
        return (
            f"an answer{of} with a confidence above the bound of its label ({least} to {most}, "
            "see the table of bounds)"
        )
    first, *others = [
        (f" {_label(each)}" if each.label is not None else "", bound(each.upper, up=True))
        for each in known
    ]
    said = f"an answer{first[0]}{of} with a confidence above {first[1]}"
    return (
        said
        + "".join(f", or{name} with one above {least}" for name, least in others)
        + ("," if others else "")
    )


def _below(results: tuple[Result, ...], pair: bool) -> str:
    found = [(each, bound(each.witness.confidence)) for each in results if each.witness is not None]
    if not found:
        return ""
    who = "the other model may answer otherwise" if pair else "one record can change it"
    if len(found) > _FEW:
        most = max(each.witness.confidence for each, _ in found if each.witness is not None)
        return f"With less confidence {who}: this was found at up to {bound(most)}."
    return f"With less confidence {who}: this was found at {_join_label_numbers(found)}."


def _guarantee(
    asked: Asked,
    read: IdpStatement,
    inside: str,
    of: str,
    pair: bool,
    model: ModelRecord | None,
) -> Claimed:
    result, threshold = asked.result, read.threshold
    names = () if model is None else model.labels
    answer = "an answer"
    if read.label is not None:
        name = names[read.label] if read.label < len(names) else ""
        answer += f" {_quote_label(read.label, name)}"
    every = threshold is None or threshold == -math.inf
    sure = (
        ""
        if threshold is None or every
        else f" with a confidence above {written_number(threshold, up=True)}"
    )
    if every:
        answer = answer.replace("an answer", "every answer", 1)
    that = f"{answer}{of}{sure} {_unchanged_phrase(pair, model, result.members)}"
    more = []
    if result.verdict == "refuted" and result.witness is not None:
        who = "the models differ on" if pair else "leaving one record out changes"
        more.append(
            f"An input was found at which {who} an answer given with a confidence of "
            f"{bound(result.witness.confidence)}."
        )
    if result.verdict == "unknown" and result.upper is not None and result.label == read.label:
        more.append(f"It is proved where the confidence is above {bound(result.upper, up=True)}.")
    return Claimed(that, inside, more=tuple(more), topics=("pair",) if pair else ("leaks",))


def _join_label_numbers(found: list[tuple[Result, str]]) -> str:
    """Return the numbers of the labels as a list in words."""
    said = [
        f"{number} for {_label(each)}" if each.label is not None else number
        for each, number in found
    ]
    return said[0] if len(said) == 1 else f"{', '.join(said[:-1])} and {said[-1]}"


def _label(result: Result) -> str:
    return "" if result.label is None else _quote_label(result.label, result.label_name)


def _quote_label(label: int, name: str) -> str:
    """Return a label's name in quotes, or its number."""
    return label_phrase(label, "") if not name or name == str(label) else f"‘{name}’"


def _upper(result: Result) -> float:
    assert result.upper is not None
    return result.upper


def _capitalize_first(text: str) -> str:
    """Return a text with its first letter in upper case."""
    return f"{text[:1].upper()}{text[1:]}"
