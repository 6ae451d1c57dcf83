"""Plain sentences on what remains of deleted records in services, forests and audits."""

from __future__ import annotations

import math

from leaveout.specs import ForAll
from leaveout.verifier.amounts import bound, count_noun, share, written_number
from leaveout.verifier.page.first_page.about_leaks import records
from leaveout.verifier.page.first_page.claimed import Asked, Claimed
from leaveout.verifier.records import Fact


def guard_sentence(asked: Asked) -> Claimed | None:
    """Describe what answers through a guard reveal about one record."""
    epsilon, members = asked.number(asked.call_argument("epsilon")), asked.facts.get("members")
    if epsilon is None:
        return None
    who = "one training record"
    if isinstance(members, int):
        who = f"any one of {records(None, members)}"
    folder = asked.file(asked.call_argument("access"), parts=2)
    guarded = f"asked only through its guard, the model{f' in {folder}' if folder else ''}"
    if epsilon == 0:
        that = f"{guarded} gives every answer exactly as likely with {who} as without it"
        return Claimed(that, topics=("guard",))
    that = (
        f"{guarded} gives no answer that is more than {_factor(epsilon)} times as likely with "
        f"{who} as without it, or the other way round"
    )
    more = (
        "Answers that a record can change are drawn at random; over several of them the factors "
        f"multiply: over ten to {_factor(10 * epsilon)}."
    )
    return Claimed(that, more=(more,), topics=("guard",))


def forgets(asked: Asked) -> Claimed | None:
    """Describe what a service may still hold of the records it deletes."""
    numbers = [asked.number(asked.call_argument(name)) for name in ("alpha", "beta", "gamma")]
    if any(each is None for each in numbers):
        return None
    alpha, beta, gamma = (each for each in numbers if each is not None)
    how = "whatever answers those who asked for it had seen"
    if asked.word("updates") == "oblivious":
        how = "by requests that do not depend on its answers"
    of = _in_file_of(asked, "service")

    def clause(alpha: float, beta: float, gamma: float) -> str:
        times = f"is more than {_factor(alpha)} times as likely as" if alpha else "is likelier than"
        plus = f", plus a probability of {written_number(beta, up=True)}" if beta else ""
        but = f", except with a probability of {written_number(gamma, up=True)}" if gamma else ""
        return (
            f"once records are deleted from the service{of}, {how}, nothing that one can look for "
            f"in its models {times} in models trained anew without them{plus}{but}"
        )

    known = [_float(asked.facts.get(f"{each}_shown")) for each in ("alpha", "beta", "gamma")]
    shown = ""
    if asked.statement.verdict == "proved" and None not in known:
        shown = clause(*(each for each in known if each is not None))
    most = asked.facts.get("predictions")
    more: tuple[str, ...] = ()
    if isinstance(most, int):
        more = (f"This is for up to {count_noun(most, 'answer')} between two full retrainings.",)
    return Claimed(clause(alpha, beta, gamma), shown=shown, more=more, topics=("service",))


def deletions(asked: Asked) -> Claimed | None:
    """Describe whether deleting from a forest equals retraining it."""
    claim, call = asked.claim, asked.call
    if not isinstance(claim, ForAll) or call is None or len(claim.binders) != 1:
        return None
    others = {type(claim.body).__name__} - {"Compare"}
    if others or {"unlearn", "retrain"} != {_function(each) for each in _sides(claim)}:
        return None
    file = asked.file(claim.binders[0].domain)
    listed = f" listed in {file}" if file else ""
    that = (
        f"each deletion{listed} leaves exactly the forest that training anew without the deleted "
        "record gives"
    )
    count = len(asked.result.facts)
    more: tuple[str, ...] = ()
    if asked.statement.verdict == "proved" and count:
        were = "deletion was" if count == 1 else "different deletions were"
        more = (f"{count:,} {were} carried out and compared.",)
    return Claimed(that, more=more, topics=("deletions",))


def stored_state(asked: Asked) -> Claimed | None:
    """Describe whether a forest's stored state equals what training gives."""
    that = (
        f"the forest{_in_file_of(asked, 'forest')}, and everything it stores for later deletions, is what "
        "training on the records that it holds gives"
    )
    rows = asked.facts.get("rows")
    more: tuple[str, ...] = ()
    if asked.statement.verdict == "proved" and isinstance(rows, int):
        more = (f"It was computed anew from {count_noun(rows, 'record')}.",)
    return Claimed(that, more=more, topics=("stored",))


def same(asked: Asked) -> Claimed | None:
    """Describe whether two forests give the same answers."""
    that = (
        "the two forests give the same answer to every input of the set that the specification "
        "names"
    )
    return Claimed(that, topics=("same",))


def advantage(asked: Asked) -> Claimed | None:
    """Describe how well attacks could tell unlearned models from retrained ones."""
    compared, result = asked.comparison(), asked.result
    if compared is None or compared[0] not in {"<=", "<"}:
        return None

    of = _in_file_of(asked, "audit")

    def clause(points: str) -> str:
        return (
            "whatever the attacks that were tried look for, they find it in models that forgot "
            f"records at most {points} percentage points more, or less, often than in models "
            f"trained without them{of}"
        )

    def points(value: float) -> str:
        return share(value, up=True).removesuffix(" %")

    claimed, shown = clause(written_number(100 * compared[1], up=True)), ""
    more = []
    if asked.statement.verdict == "proved" and result.upper is not None:
        shown = clause(points(result.upper))
        more.append(
            f"Asked for: at most {written_number(100 * compared[1], up=True)}; 0 would mean that no attack "
            "tells the two apart."
        )
    elif result.lower is not None and result.lower > 0:
        more.append(f"An attack finds it {share(result.lower).removesuffix(' %')} points apart.")
    return Claimed(claimed, shown=shown, more=tuple(more), topics=("audit",))


def _in_file_of(asked: Asked, argument: str) -> str:
    file = asked.file(asked.call_argument(argument))
    return f" ({file})" if file else ""


def _sides(claim: ForAll) -> tuple[object, object]:
    return getattr(claim.body, "left", None), getattr(claim.body, "right", None)


def _function(node: object) -> str:
    return str(getattr(node, "function", ""))


def _factor(exponent: float) -> str:
    """Return the factor e^exponent that bounds a change of probability, rounded up."""
    return bound(math.exp(exponent), up=True) if exponent < 700 else "any number of"


def _float(value: Fact | None) -> float | None:
    return float(value) if isinstance(value, int | float) else None
