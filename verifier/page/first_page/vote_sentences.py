"""What results about votes mean, in sentences."""

from __future__ import annotations

from collections.abc import Mapping

from leaveout.kernel.threats import THREATS
from leaveout.specs import Find, Name, Text
from leaveout.specs.deciders import Accuracy, LabelAccuracy
from leaveout.specs.types import RELABEL_VOTES
from leaveout.verifier.amounts import (
    count_noun,
    no_better,
    percent,
    right_share,
    share,
)
from leaveout.verifier.amounts import least as least_certified
from leaveout.verifier.page.first_page.claim_sentences import Asked, Claimed

_DONE: Mapping[str, str] = {
    "edits": "adds or removes {}",
    "insertions": "adds {}",
    "removals": "removes {}",
    "modifications": "replaces {} by others",
    "relabels": "changes the labels of {}",
}


def certified_share(asked: Asked) -> Claimed | None:
    """Describe how many answers stay right when each row is attacked separately."""
    return _share(asked, "the worst ones for each row")


def collective(asked: Asked) -> Claimed | None:
    """Describe how many answers stay right under one joint attack on all rows."""
    return _share(asked, "the same ones for all rows")


def targeted_share(asked: Asked) -> Claimed | None:
    """Describe how many answers no change can turn into a given label."""
    to = _label_argument(asked, "to")
    rows = (
        f"{' and' if asked.call_argument('label') is not None else ''} that are not answered {to}"
    )
    return _share(asked, "the worst ones for each row", rows, f"cannot be turned into {to}")


def _share(
    asked: Asked, how: str, which: str = "", what: str = "are answered correctly"
) -> Claimed | None:
    compared = asked.comparison()
    if compared is None or compared[0] not in {">=", ">"}:
        return None
    given = [
        (each, asked.call_argument(each))
        for each in THREATS
        if asked.call_argument(each) is not None
    ]
    if len(given) != 1:
        return None
    ((threat, node),) = given
    least = percent(compared[1])
    if asked.statement.kind == "find":
        return _found_radius(asked, threat, node, f"{least} of {_rows(asked)}{which} {what}", how)
    count = asked.number(node)
    if count is None:
        return None
    changed = f"even if someone {_threat_phrase(threat, count)} ({how})"
    rows = f"{_rows(asked)}{which}"
    result = asked.result
    over = "at least" if compared[0] == ">=" else "more than"
    that = f"{over} {least} of {rows} {what} {changed}"
    more: tuple[str, ...] = ()
    if asked.statement.verdict != "proved":
        ends = [f"at least {share(result.lower)}"] if result.lower is not None else []
        ends += [f"at most {share(result.upper, up=True)}"] if result.upper is not None else []
        if ends:
            more = (f"It can be shown for {' and '.join(ends)} of them.",)
    shown = ""
    if asked.statement.verdict == "proved" and result.lower is not None:
        shown = f"at least {share(result.lower)} of {rows} {what} {changed}"
        more = (f"Requested: {over} {least}.",)
    return Claimed(that, shown=shown, more=(*more, *_by_label(asked)), topics=("votes",))


def _found_radius(asked: Asked, threat: str, node: object, who: str, how: str) -> Claimed | None:
    """Describe the number of changes found to leave that share."""
    written = asked.claimed
    variable = written.variable if isinstance(written, Find) else None
    if not (isinstance(node, Name) and node.name == variable):
        return None
    result = asked.result
    if result.verdict == "refuted" or result.lower is None:
        return None
    changed = _threat_phrase(threat, result.lower)
    more = f"Whether this holds for more than {result.lower:,.0f} is not known."
    if result.upper is not None and result.upper == result.lower:
        more = "For more, this cannot be shown."
    return Claimed(
        instead=f"At least {who} even if someone {changed} ({how}).",
        more=(more, *_by_label(asked)),
        topics=("votes",),
    )


def median(asked: Asked) -> Claimed | None:
    """Describe how many changes half of all answers survive."""
    compared, votes = asked.comparison(), asked.votes
    if compared is None or compared[0] not in {">=", ">"} or votes is None or compared[1] < 0:
        return None
    relabelled = asked.reading.checked.type_of(votes) == RELABEL_VOTES
    threat = asked.word("against") or ("relabels" if relabelled else "edits")
    count = compared[1] + (compared[0] == ">" and float(compared[1]).is_integer())
    who = f"at least half of {_rows(asked)} are answered correctly even if someone"
    result = asked.result
    that, shown = f"{who} {_threat_phrase(threat, count)}", ""
    if asked.statement.verdict == "proved" and result.lower is not None:
        shown = f"{who} {_threat_phrase(threat, result.lower)}"
    return Claimed(that, shown=shown, more=_by_label(asked), topics=("votes",))


def _by_label(asked: Asked) -> tuple[str, ...]:
    """Describe the test rows per label, the worst label, and a constant answer."""
    if len(asked.result.accuracies) != 1:
        return _counted_to(asked)
    (record,) = asked.result.accuracies
    among: Accuracy | LabelAccuracy = record
    if len(record.labels) == 1:
        # One label was asked for, or there is no other.
        (among,) = record.labels
    such = "test row" if among.points == record.points else "such row"
    said = [
        f"There {'is' if among.points == 1 else 'are'} {count_noun(among.points, such)}; "
        f"{right_share(among)} of them are answered correctly without any change."
    ]
    if among.points == record.points and record.undefended_right is not None:
        alone = share(record.undefended_right / record.points)
        said.append(f"One model trained on all records is correct for {alone} of them.")
    worst = least_certified(record)
    if worst is not None:
        said.append(
            f"The worst are the {count_noun(worst.points, 'row')} with true label "
            f"{_quote_name(worst.label, worst.name)}: {right_share(worst)} of them are answered "
            f"correctly, and {share(worst.lower / worst.points)} whatever such changes do."
        )
    common = _quote_name(record.common, record.common_name)
    always = share(record.common_points / record.points, up=True)
    if no_better(record):
        said.append(
            f"That is no better than always answering {common}, which is correct for {always} of "
            "them whatever changes."
        )
    elif worst is not None:
        said.append(f"Always answering {common} would be correct for {always} of them.")
    return tuple(said)


def _counted_to(asked: Asked) -> tuple[str, ...]:
    """Describe how many test rows are attacked towards a label."""
    points, right, otherwise = (asked.facts.get(each) for each in ("points", "right", "otherwise"))
    if not (isinstance(points, int) and isinstance(right, int) and isinstance(otherwise, int)):
        return ()
    return (
        (
            f"There are {count_noun(points, 'test row')}, {share(right / points)} of them "
            f"answered correctly without any change; the statement concerns {otherwise:,}."
        ),
    )


def _quote_name(label: int, name: str) -> str:
    """Return a label's name in quotes, or its number."""
    return f"‘{name}’" if name else str(label)


def _threat_phrase(threat: str, count: float) -> str:
    """Return the phrase for a number of changes under a threat."""
    whole = int(count)
    records = "one training record" if whole == 1 else f"up to {whole:,} training records"
    return _DONE[threat].format(records)


def _rows(asked: Asked) -> str:
    """Return the phrase for the test rows of a statement."""
    label = _label_argument(asked, "label")
    of = f" whose true label is {label}" if label else ""
    return f"the test rows{asked.in_file(asked.votes)}{of}"


def _label_argument(asked: Asked, name: str) -> str:
    """Return a label argument of the call; empty if it is not given."""
    node = asked.call_argument(name)
    if node is None:
        return ""
    if isinstance(node, Text):
        return f"‘{node.value}’"
    number = asked.number(node)
    if number is None:
        return str(node)
    if asked.facts.get(name) == number and asked.facts.get(f"{name}_name"):
        return f"‘{asked.facts[f'{name}_name']}’"
    known = [each for record in asked.result.accuracies for each in record.labels]
    names = [each.name for each in known if each.label == number and each.name]
    return f"‘{names[0]}’" if names else f"{number:.15g}"
