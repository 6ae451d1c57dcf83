"""Votes of base classifiers, and what survives changes of the training set."""

from __future__ import annotations

from collections.abc import Mapping

from leaveout.kernel.threats import THREATS
from leaveout.kernel.voting import FUNCTIONS as COUNTED
from leaveout.kernel.voting import Scheme
from leaveout.specs.table.signatures import Bound, Function, Parameter, Types, Words
from leaveout.specs.text.expressions import Call, Number
from leaveout.specs.types import (
    BALLOTS,
    BOOLEAN,
    EDIT_VOTES,
    LIST,
    NUMBER,
    RELABEL_VOTES,
    TEST_POINT,
    TEST_POINTS,
    TEXT,
)

_EDITS = "up to n points are inserted or removed"
_RELABELS = "up to n labels are changed; the points stay"


def _one_threat(given: Bound, types: Types) -> str | None:
    """Refuse mixed threats, and threats that votes are not certified against."""
    counts = [name for name in THREATS if name in given]
    relabelled = types["votes"] == RELABEL_VOTES
    right = "relabels" if relabelled else "edits"
    if len(counts) > 1:
        several = " and ".join(counts)
        both = "both" if len(counts) == 2 else "all of them"
        return (
            f"{several} are different threats: this call has {both}\ncertify against one: "
            f"{' or '.join(counts)}"
        )
    if not counts:
        who = "ss_dpa" if relabelled else "dpa"
        return (
            f"it is not stated how much may change\na vote of {who} withstands {right}: write "
            f"{right} = 8"
        )
    return _not_against(counts[0], given, types)


def _not_against(threat: str, given: Bound, types: Types) -> str | None:
    if types["votes"] != RELABEL_VOTES or threat == "relabels":
        return None
    vote, count = given["votes"], given.get(threat)
    ballots = "V"
    if isinstance(vote, Call) and len(vote.arguments) == 1:
        ballots = str(vote.arguments[0])
    edits = count or "8"
    if threat == "modifications" and count is not None:
        edits = f"{Number(2 * count.value)}" if isinstance(count, Number) else f"2 * ({count})"
    return (
        f"a vote of ss_dpa withstands relabels, not {threat}: its members all see every point, "
        f"but only the labels of their part\nagainst {threat}, certify dpa of base classifiers "
        f"trained for it: dpa({ballots}), edits = {edits}\n(a modified point counts as 2 edits, "
        "a removal and an insertion)"
    )


def _against(given: Bound, types: Types) -> str | None:
    return _not_against(str(given["against"]), given, types) if "against" in given else None


def _what_survives(template: str) -> Words:
    """Return words with ``{changes}`` (e.g. 8 edits), ``{do}`` and ``{points}`` filled in.

    The points are all test points that count, or those of one true label.
    """

    def words(given: Mapping[str, str]) -> str | None:
        threats = [threat for threat in THREATS if threat in given]
        if len(threats) != 1:
            return None
        (threat,) = threats
        unit, do = (threat[:-1], "does") if given[threat] == "1" else (threat, "do")
        changes = f"{given[threat]} {unit}"
        return template.format(changes=changes, do=do, points=_points(given), **given)

    return words


def _points(given: Mapping[str, str]) -> str:
    return f"test points with true label {given['label']}" if "label" in given else "test points"


def _median_in_words(given: Mapping[str, str]) -> str:
    counted = given.get("against", "changes")
    return (
        f"the number of {counted} that half of all {_points(given)} survive under {given['votes']}"
    )


def _radius_in_words(given: Mapping[str, str]) -> str:
    unit = f", counted in {given['against']}," if "against" in given else ""
    if "to" in given:
        return (
            f"the number of changes{unit} after which {given['votes']} still does not answer "
            f"{given['to']} at {given['point']}"
        )
    return f"the radius of the answer of {given['votes']} at {given['point']}{unit}"


def _changes(name: str) -> Parameter:
    return Parameter(
        name, (NUMBER,), optional=True, named=True, whole=True, least=0, trend="falling"
    )


def _label(name: str, optional: bool = True) -> Parameter:
    """Return a parameter for a label: its number, or its name in quotes."""
    return Parameter(name, (NUMBER, TEXT), optional=optional, named=True, whole=True, least=0)


_BALLOTS = Parameter("ballots", (BALLOTS,))
_WHICH = (EDIT_VOTES, RELABEL_VOTES)
_VOTES = (Parameter("votes", _WHICH), *map(_changes, THREATS), _label("label"))
_UNIT = Parameter("against", optional=True, named=True, words=THREATS)
_EITHER = (
    "edits: up to n points inserted or removed; insertions, removals: only that; modifications: "
    "up to n points replaced; relabels: up to n labels changed"
)


def _function_of(name: str, scheme: Scheme) -> Function:
    """Return the function that counts ballots by a scheme."""
    options = (
        Parameter(option, optional=True, named=True, words=words)
        for option, words in scheme.options.items()
    )
    return Function(
        name,
        (_BALLOTS, *options),
        RELABEL_VOTES if scheme.relabels else EDIT_VOTES,
        scheme.says,
        f'let W = {name}(ballots("ballots.npz"))',
        threat=_RELABELS if scheme.relabels else _EDITS,
        solver="certificate" in scheme.options,
        kernels=(name,),
    )


FUNCTIONS: tuple[Function, ...] = (
    Function(
        "ballots",
        (
            Parameter("path", (TEXT,)),
            Parameter(
                "hash", optional=True, named=True, words=("label_independent", "reads_label")
            ),
            Parameter("offsets", (LIST,), optional=True, named=True),
            Parameter("families", (LIST,), optional=True, named=True),
        ),
        BALLOTS,
        "The labels that base classifiers give test points, and the true labels; if the file "
        "does not state it, also whether the hash that divided the training set reads labels, "
        "the offsets of a spread hash, and how many members each family of hash bagging has.",
        'let V = ballots("ballots.npz")',
        reads=True,
    ),
    *(_function_of(name, scheme) for name, scheme in COUNTED.items()),
    Function(
        "certified_accuracy",
        _VOTES,
        NUMBER,
        "The share of test points answered correctly whatever changes, each attacked "
        "separately; with 'label', the share of those with that true label.",
        "certified_accuracy(dpa(V), edits = 8) >= 0.5",
        _one_threat,
        threat=_EITHER,
        words=_what_survives(
            "the share of {points} that {votes} answers correctly whatever {changes} of "
            "the training set {do}, each point attacked separately,"
        ),
        share=True,
    ),
    Function(
        "collective_accuracy",
        _VOTES,
        NUMBER,
        "The share of test points answered correctly whatever one attack on all of them "
        "changes; with 'label', of those with that true label, under the attack that is worst "
        "for them.",
        "collective_accuracy(dpa(V), edits = 8) >= 0.55",
        _one_threat,
        threat=_EITHER,
        solver=True,
        kernels=("collective_accuracy",),
        words=_what_survives(
            "the share of {points} that {votes} answers correctly whatever one attack of "
            "{changes} on all of them together does"
        ),
        share=True,
    ),
    Function(
        "targeted_robustness",
        (Parameter("votes", _WHICH), _label("to", optional=False), *_VOTES[1:]),
        NUMBER,
        "The share of the test points answered differently that no changes turn into the label "
        "'to', each attacked separately; with 'label', of those with that true label.",
        'targeted_robustness(dpa(V), to = "approve", edits = 8) >= 0.9',
        _one_threat,
        threat=_EITHER,
        words=_what_survives(
            "the share of the {points} not answered {to} by {votes} that {changes} of "
            "the training set cannot turn into {to}, each point attacked separately,"
        ),
        share=True,
    ),
    Function(
        "median_radius",
        (Parameter("votes", _WHICH), _UNIT, _label("label")),
        NUMBER,
        "How many changes half of all test points (with 'label', of those with that true label) "
        "survive, answered correctly; -1 where fewer than half are answered correctly with no "
        "change.",
        "median_radius(dpa(V)) >= 8",
        _against,
        threat=_EITHER,
        words=_median_in_words,
    ),
    Function(
        "test_points",
        (_BALLOTS,),
        TEST_POINTS,
        "The test points of ballots.",
        "forall p in test_points(V): radius(dpa(V), p) >= 1",
    ),
    Function(
        "radius",
        (Parameter("votes", _WHICH), Parameter("point", (TEST_POINT,)), _UNIT, _label("to")),
        NUMBER,
        "How many changes leave the answer at a test point unchanged, right or wrong; with "
        "'to', how many leave it other than that label, -1 where it already is that label.",
        "forall p in test_points(V): answered_right(dpa(V), p) => radius(dpa(V), p) >= 1",
        _against,
        threat=_EITHER,
        words=_radius_in_words,
    ),
    Function(
        "answered_right",
        (Parameter("votes", _WHICH), Parameter("point", (TEST_POINT,))),
        BOOLEAN,
        "Whether a test point is answered with its true label.",
        "forall p in test_points(V): answered_right(dpa(V), p) => radius(dpa(V), p) >= 1",
        words="{votes} answers {point} correctly",
    ),
)
