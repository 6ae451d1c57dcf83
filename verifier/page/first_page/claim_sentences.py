"""A statement as input for plain sentences, and the sentence for its verdict."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from leaveout.errors import LeaveoutError
from leaveout.specs import Call, Compare, Confident, Expression, Find, ForAll, Guarantee, Name, Text
from leaveout.specs.text.errors import Slip
from leaveout.verifier.amounts import (
    bound,
    count_noun,
    percent,
    share,
    written_number,
)
from leaveout.verifier.page.model import Page, Run, Statement
from leaveout.verifier.points.leak_statements import (
    MIRROR,
    IdpStatement,
    recognise,
    share_of,
    without_share,
)
from leaveout.verifier.points.sentences import NO_CONFIDENCE, label_phrase
from leaveout.verifier.records import BoxRecord, Fact, ModelRecord
from leaveout.verifier.report import SAMPLE, Result
from leaveout.verifier.resolve_names import Reading, Resolver

_WHY = {
    "time": "the time limit was reached",
    "solver": "the solver did not settle it",
    "numerical": "the known bounds are too far apart to tell",
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

    def in_file(self, node: Expression | None) -> str:
        """Return that file in brackets; empty if none."""
        file = self.file(node)
        return f" ({file})" if file else ""

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
            operator, other = MIRROR.get(operator, operator), claim.left
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
        "refuted": f"it is not true that {claimed.that}",
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


_FEW = 6  # labels whose bounds stand in the sentence


def leaks(asked: Asked) -> Claimed | None:
    """Describe a statement about leaks; None for any other statement."""
    try:
        sampled = share_of(asked.claimed) is not None
        whole = without_share(asked.claimed) if sampled else asked.claimed
        read = recognise(whole, asked.resolver)
    except LeaveoutError:
        return None
    if not isinstance(read, IdpStatement):
        return None
    model = asked.model
    pair = asked.resolver.is_network(read.family) or asked.resolver.is_forest(read.family)
    inside = within(asked.page, asked.result.box)
    of = f" of {file}" if (file := asked.file(read.network)) else ""
    change = _change_phrase(asked, read.family)
    unchanged = change or _unchanged_phrase(pair, model, asked.result)
    if asked.statement.kind == "find":
        found = _limits(asked, inside, of, pair, model, unchanged)
    else:
        found = _guarantee(asked, read, inside, of, pair, model, unchanged)
    return replace(found, topics=("changes",)) if change else found


def _change_phrase(asked: Asked, family: Expression) -> str:
    """Return the phrase for an answer that few changed records leave alone; empty for others."""
    call = asked.resolver.value(family)
    if not isinstance(call, Call) or call.function not in ("leave_out", "relabel", "add_one"):
        return ""
    if call.function == "add_one":
        return "stays the same if one more record, of any label, is added to the training records"
    rows = asked.number(asked.resolver.bound_arguments(call)["rows"]) or 0.0
    known = asked.model
    who = "of the training records"
    if known is not None and known.rows is not None:
        who = f"of the {known.rows:,} training records"
    few = f"any one {who} is" if rows == 1 else f"any {rows:,.0f} {who}, or fewer, are"
    if call.function == "leave_out":
        return f"stays the same if {few} left out of training"
    return f"stays the same if {few} given the other label before training"


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


def _unchanged_phrase(pair: bool, model: ModelRecord | None, result: Result) -> str:
    """Return the phrase for an answer that stays the same."""
    if pair:
        return "is the same in both models"
    drawn = next((each.facts for each in result.facts if each.name == SAMPLE), None)
    if drawn is None:
        who = records(model, result.members)
        return f"stays the same if any one of {who} is left out of training"
    rows, sample, exceptions = (drawn[name] for name in ("rows", "sample", "exceptions"))
    return (
        f"stays the same whichever of the {rows:,} training records is left out of training, "
        f"except for at most {exceptions:,} of them ({sample:,} were drawn at random and left out)"
    )


def _limits(
    asked: Asked, inside: str, of: str, pair: bool, model: ModelRecord | None, unchanged: str
) -> Claimed:
    """Describe the proved confidence above which no answer changes."""
    results = asked.results
    topics = ("pair",) if pair else ("leaks",)
    if any(each.verdict == "refuted" for each in results):
        that = f"there is a confidence above which an answer{of} {unchanged}"
        return Claimed(that, inside, topics=topics)
    empty = [each for each in results if _says_nothing(each, model)]
    known = [each for each in results if each.upper is not None and each not in empty]
    before = f"{inside}, " if inside else ""
    if (level := asked.statement.confidence) is not None:
        before = f"with {percent(level)} confidence, {before}"
    found = _below(results, pair)
    if empty and not known:
        none = f"{before}no confidence is known to be high enough that an answer{of} {unchanged}."
        found = _capitalize_first(found.removeprefix("At lower confidence, "))
        more = [f"The bounds say nothing: {NO_CONFIDENCE}.", found]
        return Claimed(
            instead=_capitalize_first(none), more=tuple(filter(None, more)), topics=topics
        )
    if not known:
        none = f"{before}it is not known above which confidence an answer{of} {unchanged}."
        return Claimed(instead=_capitalize_first(none), topics=topics)
    more = [found]
    more += [
        f"Nothing is proved about answers {_label(each)}"
        f"{f': {NO_CONFIDENCE}' if each in empty else ''}."
        for each in results
        if each not in known
    ]
    if any(each.verdict == "unknown" for each in known):
        more.append("Whether a lower confidence would suffice is not known.")
    return Claimed(
        instead=_capitalize_first(f"{before}{_covered_answers(known, of)} {unchanged}."),
        more=tuple(each for each in more if each),
        topics=topics,
    )


def _says_nothing(result: Result, model: ModelRecord | None) -> bool:
    """Return whether a bound excludes no answer that a model can give."""
    forest = model is not None and model.model == "forest"
    return forest and result.upper is not None and result.upper >= 1


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
        return f"At lower confidence, {who}; this was found at up to {bound(most)}."
    return f"At lower confidence, {who}; this was found at {_join_label_numbers(found)}."


def _guarantee(
    asked: Asked,
    read: IdpStatement,
    inside: str,
    of: str,
    pair: bool,
    model: ModelRecord | None,
    unchanged: str,
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
    that = f"{answer}{of}{sure} {unchanged}"
    more = []
    if result.verdict == "refuted" and result.witness is not None:
        who = "the models differ in" if pair else "leaving one record out changes"
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


def guard_sentence(asked: Asked) -> Claimed | None:
    """Describe what answers through a guard reveal about one record."""
    epsilon, members = asked.number(asked.call_argument("epsilon")), asked.facts.get("members")
    if epsilon is None:
        return None
    who = "one training record"
    if isinstance(members, int):
        who = f"any one of {records(None, members)}"
    folder = asked.file(asked.call_argument("access"), parts=2)
    guarded = f"the model{f' in {folder}' if folder else ''}, queried only through its guard,"
    if epsilon == 0:
        that = f"{guarded} is exactly as likely to give any answer with {who} as without it"
        return Claimed(that, topics=("guard",))
    that = (
        f"{guarded} gives no answer that is more than {_factor(epsilon)} times as likely with "
        f"{who} as without it, or vice versa"
    )
    more = (
        "Answers that a record can change are drawn at random. Over several such answers the "
        f"factors multiply: over ten, to {_factor(10 * epsilon)}."
    )
    return Claimed(that, more=(more,), topics=("guard",))


def forgets(asked: Asked) -> Claimed | None:
    """Describe what a service may still hold of the records it deletes."""
    numbers = [asked.number(asked.call_argument(name)) for name in ("alpha", "beta", "gamma")]
    if any(each is None for each in numbers):
        return None
    alpha, beta, gamma = (each for each in numbers if each is not None)
    how = "whatever answers those who requested the deletion had seen"
    if asked.word("updates") == "oblivious":
        how = "by requests that do not depend on its answers"
    of = asked.in_file(asked.call_argument("service"))

    def clause(alpha: float, beta: float, gamma: float) -> str:
        times = (
            f"is more than {_factor(alpha)} times as likely as"
            if alpha
            else ("is more likely than")
        )
        plus = f", plus a probability of {written_number(beta, up=True)}" if beta else ""
        but = f", except with a probability of {written_number(gamma, up=True)}" if gamma else ""
        return (
            f"once records are deleted from the service{of}, {how}, nothing that one can look "
            f"for in its models {times} in models retrained without them{plus}{but}"
        )

    known = [_float(asked.facts.get(f"{each}_shown")) for each in ("alpha", "beta", "gamma")]
    shown = ""
    if asked.statement.verdict == "proved" and None not in known:
        shown = clause(*(each for each in known if each is not None))
    most = asked.facts.get("predictions")
    more: tuple[str, ...] = ()
    if isinstance(most, int):
        more = (f"This holds for up to {count_noun(most, 'answer')} between two full retrainings.",)
    return Claimed(clause(alpha, beta, gamma), shown=shown, more=more, topics=("service",))


def deletions(asked: Asked) -> Claimed | None:
    """Describe whether deleting from a forest equals retraining it."""
    claim, call = asked.claim, asked.call
    if not isinstance(claim, ForAll) or call is None or len(claim.binders) != 1:
        return None
    others = {type(claim.body).__name__} - {"Compare"}
    sides = (getattr(claim.body, side, None) for side in ("left", "right"))
    if others or {"unlearn", "retrain"} != {getattr(each, "function", "") for each in sides}:
        return None
    file = asked.file(claim.binders[0].domain)
    listed = f" listed in {file}" if file else ""
    that = (
        f"each deletion{listed} results in exactly the forest that retraining without the deleted "
        "record produces"
    )
    count = len(asked.result.facts)
    more: tuple[str, ...] = ()
    if asked.statement.verdict == "proved" and count:
        were = "deletion was" if count == 1 else "different deletions were"
        more = (f"{count:,} {were} carried out and compared.",)
    return Claimed(that, more=more, topics=("deletions",))


def stored_state(asked: Asked) -> Claimed | None:
    """Describe whether a forest's stored state equals what training gives."""
    of = asked.in_file(asked.call_argument("forest"))
    that = (
        f"the forest{of}, with everything it stores for later "
        "deletions, is what training on its records produces"
    )
    rows = asked.facts.get("rows")
    more: tuple[str, ...] = ()
    if asked.statement.verdict == "proved" and isinstance(rows, int):
        more = (f"It was recomputed from {count_noun(rows, 'record')}.",)
    return Claimed(that, more=more, topics=("stored",))


def same(asked: Asked) -> Claimed | None:
    """Describe whether two forests, or models of trees, give the same answers."""
    what = "the two forests give the same answer"
    if asked.result.engine == "trees":
        what = "the two models of trees give the same scores, to the last bit,"
    that = f"{what} to every input of the set in the specification"
    return Claimed(that, topics=("same",))


def advantage(asked: Asked) -> Claimed | None:
    """Describe how well attacks could tell unlearned models from retrained ones."""
    compared, result = asked.comparison(), asked.result
    if compared is None or compared[0] not in {"<=", "<"}:
        return None

    of = asked.in_file(asked.call_argument("audit"))

    def clause(points: str) -> str:
        return (
            "the attacks that were tried find what they look for in models that forgot records "
            f"at most {points} percentage points more often, or less often, than in models "
            f"trained without them{of}"
        )

    def points(value: float) -> str:
        return share(value, up=True).removesuffix(" %")

    claimed, shown = clause(written_number(100 * compared[1], up=True)), ""
    more = []
    if asked.statement.verdict == "proved" and result.upper is not None:
        shown = clause(points(result.upper))
        more.append(
            f"The limit was {written_number(100 * compared[1], up=True)}; 0 would mean that no "
            "attack tells the two apart."
        )
    elif result.lower is not None and result.lower > 0:
        more.append(
            f"An attack finds a difference of {share(result.lower).removesuffix(' %')} points."
        )
    return Claimed(claimed, shown=shown, more=tuple(more), topics=("audit",))


def _factor(exponent: float) -> str:
    """Return the factor e^exponent that bounds a change of probability, rounded up."""
    return bound(math.exp(exponent), up=True) if exponent < 700 else "any number of"


def _float(value: Fact | None) -> float | None:
    return float(value) if isinstance(value, int | float) else None
