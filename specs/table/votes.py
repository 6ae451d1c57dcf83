"""Votes of base classifiers, and what they keep when someone changes the training set."""

from __future__ import annotations

from leaveout.specs.expressions import Call, Number
from leaveout.specs.signatures import Bound, Function, Parameter, Types
from leaveout.specs.types import BALLOTS, EDIT_VOTES, NUMBER, RELABEL_VOTES, TEXT

__all__ = ["FUNCTIONS"]

_EDITS = "up to n points are inserted or removed"
_RELABELS = "up to n labels are changed; the points stay"


def _one_threat(given: Bound, types: Types) -> str | None:
    """Refuse a count of changes that the votes are not certified against."""
    counts = [name for name in ("edits", "relabels") if name in given]
    votes = "dpa" if types["votes"] == EDIT_VOTES else "ss_dpa"
    right = "edits" if votes == "dpa" else "relabels"
    if len(counts) == 2:
        return (
            "edits and relabels are different threats: this gives both\n"
            f"a vote of {votes} withstands {right}: leave the other out"
        )
    if not counts:
        wrong = "how much may change is not said"
        return f"{wrong}\na vote of {votes} withstands {right}: write {right} = 8"
    if counts[0] == right:
        return None
    count, vote = given[counts[0]], given["votes"]
    ballots = "V"
    if isinstance(vote, Call) and len(vote.arguments) == 1:
        ballots = str(vote.arguments[0])
    if right == "relabels":
        return (
            "a vote of ss_dpa withstands relabels, not edits: an edit inserts or removes one "
            "point, a relabel changes the label of one\n"
            f"against edits, certify dpa of base classifiers trained for it: dpa({ballots}), "
            f"edits = {count}\n"
            "(a point that is modified counts as 2 edits, a removal and an insertion)"
        )
    twice = f"{Number(2 * count.value)}" if isinstance(count, Number) else f"2 * ({count})"
    return (
        "a vote of dpa withstands edits, not relabels: an edit inserts or removes one point, a "
        "relabel changes the label of one\n"
        f"a relabel is a removal and an insertion, so this holds if it does for edits = {twice}\n"
        f"or certify ss_dpa of base classifiers trained for it: ss_dpa({ballots}), "
        f"relabels = {count}"
    )


def _changes(name: str) -> Parameter:
    return Parameter(
        name, (NUMBER,), optional=True, named=True, whole=True, least=0, trend="falling"
    )


_VOTES = (
    Parameter("votes", (EDIT_VOTES, RELABEL_VOTES)),
    _changes("edits"),
    _changes("relabels"),
)
_EITHER = "edits: up to n points inserted or removed; relabels: up to n labels changed"

FUNCTIONS: tuple[Function, ...] = (
    Function(
        "ballots",
        (Parameter("path", (TEXT,)),),
        BALLOTS,
        "The labels that base classifiers give test points, and the true labels.",
        'let V = ballots("ballots.npz")',
    ),
    Function(
        "dpa",
        (Parameter("ballots", (BALLOTS,)),),
        EDIT_VOTES,
        "The majority of base classifiers trained on parts of the training set.",
        'let W = dpa(ballots("ballots.npz"))',
        threat=_EDITS,
    ),
    Function(
        "ss_dpa",
        (Parameter("ballots", (BALLOTS,)),),
        RELABEL_VOTES,
        "The majority of base classifiers that each see all points and the labels of a part.",
        'let W = ss_dpa(ballots("ballots.npz"))',
        threat=_RELABELS,
    ),
    Function(
        "certified_accuracy",
        _VOTES,
        NUMBER,
        "The share of test points answered right whatever changes, each attacked by itself.",
        "certified_accuracy(dpa(V), edits = 8) >= 0.5",
        _one_threat,
        threat=_EITHER,
    ),
    Function(
        "collective_accuracy",
        _VOTES,
        NUMBER,
        "The share of test points answered right whatever one attack on all of them changes.",
        "collective_accuracy(dpa(V), edits = 8) >= 0.55",
        _one_threat,
        threat=_EITHER,
    ),
)
