"""A statement of the language in words; what has no words of its own stays as written."""

from __future__ import annotations

from leaveout.specs import (
    And,
    Arithmetic,
    Call,
    Compare,
    Confident,
    Expression,
    Find,
    ForAll,
    Guarantee,
    Implies,
    Negate,
    Node,
    Not,
    Number,
    Or,
)
from leaveout.specs.table.functions import BUILT_IN
from leaveout.specs.table.signatures import Bound
from leaveout.specs.text.errors import Slip
from leaveout.specs.text.tree import children
from leaveout.specs.typing.arguments import bind

__all__ = ["in_words", "vocabulary"]

_FUNCTIONS = {function.name: function for function in BUILT_IN}
_THREATS = ("edits", "insertions", "removals", "modifications", "relabels")
_COMPARED = {
    "==": "is",
    "!=": "is not",
    "<": "is below",
    "<=": "is at most",
    ">": "is above",
    ">=": "is at least",
}


def in_words(statement: Guarantee | Find) -> str:
    """Return what a statement says, in a sentence that says no more and no less."""
    said = _claim(statement.claim)
    if isinstance(statement, Guarantee):
        return f"It is claimed that {said}."
    the = "For each label, the" if statement.per_label else "The"
    return f"{the} {statement.direction} {statement.variable} such that {said}."


def vocabulary(nodes: tuple[Node, ...]) -> tuple[tuple[str, str], ...]:
    """Return the functions that are called and what each means, in the order of the text."""
    found: dict[str, str] = {}
    waiting = list(reversed(nodes))
    while waiting:
        node = waiting.pop()
        if isinstance(node, Call) and node.function in _FUNCTIONS:
            found[node.function] = _FUNCTIONS[node.function].doc
        waiting.extend(reversed(list(children(node))))
    return tuple(found.items())


def _claim(node: Expression) -> str:
    match node:
        case ForAll(binders, body):
            names = " and ".join(f"every {each.name} in {each.domain}" for each in binders)
            return f"for {names}: {_claim(body)}"
        case Implies(left, right):
            return f"if {_part(left, And, Or)}, then {_part(right, Implies, And, Or)}"
        case And(left, right):
            return f"{_part(left, And)} and {_part(right, And)}"
        case Or(left, right):
            return f"{_part(left, Or)} or {_part(right, Or)}"
        case Not(claim):
            return f"it is not so that {_part(claim)}"
        case Compare(left, operator, right):
            return f"{_term(left)} {_COMPARED[operator]} {_term(right)}"
        case Confident(claim, level):
            return f"with confidence {level}, {_claim(claim)}"
        case _:
            return _term(node)


def _part(node: Expression, *clear: type[Node]) -> str:
    """Return a claim within another, in parentheses where its end could be mistaken."""
    joins = isinstance(node, ForAll | Implies | And | Or | Confident | Not)
    said = _claim(node)
    return f"({said})" if joins and not isinstance(node, clear) else said


def _term(node: Expression) -> str:
    if isinstance(node, Arithmetic | Negate) or not isinstance(node, Call):
        return str(node)
    function = _FUNCTIONS.get(node.function)
    if function is None:
        return str(node)
    try:
        given = bind(node, function)
    except Slip:
        return str(node)
    name = node.function
    return _network(name, given) or _votes(name, given) or _forgets(name, given) or str(node)


def _network(name: str, given: Bound) -> str | None:
    """Return a term about networks and points."""
    match name:
        case "confidence" if "label" in given:
            return f"{given['network']}'s confidence of label {given['label']} at {given['point']}"
        case "confidence":
            return f"{given['network']}'s confidence at {given['point']}"
        case "label":
            return f"{given['network']}'s label at {given['point']}"
        case "score":
            return f"{given['network']}'s score of label {given['label']} at {given['point']}"
        case "difference":
            return (
                f"the largest difference between the scores of {given['network']} and "
                f"{given['other']} at {given['point']}"
            )
        case "distance":
            return f"the distance between {given['point']} and {given['other']}"
        case "feature":
            return f"feature {given['at']} of {given['point']}"
        case "same_except":
            return (
                f"{given['point']} and {given['other']} are equal in every feature but "
                f"{given['at']}"
            )
        case _:
            return None


def _votes(name: str, given: Bound) -> str | None:
    """Return a term about the votes of members."""
    votes = given.get("votes")
    threats = [threat for threat in _THREATS if threat in given]
    match name:
        case "certified_accuracy" if len(threats) == 1:
            change = _changes(given[threats[0]], threats[0])
            return (
                f"the share of test points that {votes} answers right whatever {change} of the "
                "training set do, each point attacked by itself,"
            )
        case "collective_accuracy" if len(threats) == 1:
            change = _changes(given[threats[0]], threats[0])
            return (
                f"the share of test points that {votes} answers right whatever one attack of "
                f"{change} on all of them together does"
            )
        case "median_radius":
            counted = given.get("against", "changes")
            return f"the number of {counted} that half of all test points survive under {votes}"
        case "radius":
            unit = f", counted in {given['against']}," if "against" in given else ""
            return f"the radius of what {votes} answers at {given['point']}{unit}"
        case "answered_right":
            return f"{votes} answers {given['point']} right"
        case _:
            return None


def _forgets(name: str, given: Bound) -> str | None:
    """Return a term about answers and models that owe nothing to a point."""
    match name:
        case "idp":
            return (
                f"whichever one training point is left out, no label that the guard of "
                f"{given['access']} gives gets more or less likely by more than a factor of "
                f"exp({given['epsilon']})"
            )
        case "unlearns":
            return (
                f"{given['service']} unlearns {given['updates']} updates with alpha = "
                f"{given['alpha']}, beta = {given['beta']} and gamma = {given['gamma']}"
            )
        case "unlearn":
            return f"{given['forest']} after it unlearned {given['record']}"
        case "retrain":
            return f"{given['forest']} trained anew without {given['record']}"
        case "caches_sound":
            return f"what {given['forest']} keeps for later deletions is what training gives"
        case "same_function":
            return (
                f"{given['forest']} and {given['other']} give every input of {given['inputs']} the "
                "same label"
            )
        case "membership_advantage":
            return f"the membership advantage of an attacker in {given['audit']}"
        case _:
            return None


def _changes(count: Expression, threat: str) -> str:
    one = isinstance(count, Number) and count.value == 1
    return f"{count} {threat[:-1] if one else threat}"
