"""What changes of a training set leave of votes, in plain sentences."""

from __future__ import annotations

from collections.abc import Mapping

from leaveout.specs import Find, Name
from leaveout.specs.table.votes import THREATS
from leaveout.specs.types import RELABEL_VOTES
from leaveout.verifier.amounts import percent, share
from leaveout.verifier.page.first_page.claimed import Asked, Claimed

__all__ = ["certified", "collective", "median"]

_DONE: Mapping[str, str] = {
    "edits": "adds or removes {}",
    "insertions": "adds {}",
    "removals": "removes {}",
    "modifications": "replaces {} by others",
    "relabels": "changes the labels of {}",
}


def certified(asked: Asked) -> Claimed | None:
    """Say how many answers are right whatever changes, each attacked by itself."""
    return _share(asked, "the worst ones for each row")


def collective(asked: Asked) -> Claimed | None:
    """Say how many answers are right whatever one attack on all of them does."""
    return _share(asked, "the same ones for all rows")


def _share(asked: Asked, how: str) -> Claimed | None:
    compared = asked.compared()
    if compared is None or compared[0] not in {">=", ">"}:
        return None
    given = [(each, asked.given(each)) for each in THREATS if asked.given(each) is not None]
    if len(given) != 1:
        return None
    ((threat, node),) = given
    least = percent(compared[1])
    if asked.statement.kind == "find":
        return _found(asked, threat, node, least, how)
    count = asked.number(node)
    if count is None:
        return None
    changed = f"even if someone {_done(threat, count)} ({how})"
    rows = f"the test rows{_of(asked)}"
    result = asked.result
    over = "at least" if compared[0] == ">=" else "more than"
    that = f"{over} {least} of {rows} are answered right {changed}"
    more: tuple[str, ...] = ()
    if asked.statement.verdict != "proved":
        ends = [f"at least {share(result.lower)}"] if result.lower is not None else []
        ends += [f"at most {share(result.upper, up=True)}"] if result.upper is not None else []
        if ends:
            more = (f"It can be shown for {' and '.join(ends)} of them.",)
    shown = ""
    if asked.statement.verdict == "proved" and result.lower is not None:
        shown = f"at least {share(result.lower)} of {rows} are answered right {changed}"
        more = (f"Asked for: {over} {least}.",)
    return Claimed(that, shown=shown, more=more, topics=("votes",))


def _found(asked: Asked, threat: str, node: object, least: str, how: str) -> Claimed | None:
    """Say how many changes leave that share, where their number is sought."""
    written = asked.claimed
    variable = written.variable if isinstance(written, Find) else None
    if not (isinstance(node, Name) and node.name == variable):
        return None
    who = f"At least {least} of the test rows{_of(asked)}"
    result = asked.result
    if result.verdict == "refuted" or result.lower is None:
        return None
    changed = _done(threat, result.lower)
    more = f"Whether that holds for more than {result.lower:,.0f} is not known."
    if result.upper is not None and result.upper == result.lower:
        more = "For more this cannot be shown."
    return Claimed(
        instead=f"{who} are answered right even if someone {changed} ({how}).",
        more=(more,),
        topics=("votes",),
    )


def median(asked: Asked) -> Claimed | None:
    """Say how many changes half of all answers survive."""
    compared, votes = asked.compared(), asked.votes
    if compared is None or compared[0] not in {">=", ">"} or votes is None or compared[1] < 0:
        return None
    relabelled = asked.reading.checked.type_of(votes) == RELABEL_VOTES
    threat = asked.word("against") or ("relabels" if relabelled else "edits")
    count = compared[1] + (compared[0] == ">" and float(compared[1]).is_integer())
    who = f"at least half of the test rows{_of(asked)} are answered right even if someone"
    result = asked.result
    that, shown = f"{who} {_done(threat, count)}", ""
    if asked.statement.verdict == "proved" and result.lower is not None:
        shown = f"{who} {_done(threat, result.lower)}"
    return Claimed(that, shown=shown, topics=("votes",))


def _done(threat: str, count: float) -> str:
    whole = int(count)
    records = "one training record" if whole == 1 else f"up to {whole:,} training records"
    return _DONE[threat].format(records)


def _of(asked: Asked) -> str:
    file = asked.file(asked.votes)
    return f" ({file})" if file else ""
