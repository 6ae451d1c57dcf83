"""The topics of statements, by the functions they call."""

from __future__ import annotations

import re
from dataclasses import dataclass

from leaveout.specs.table import votes
from leaveout.verifier.report import Report, Result

_CALLED = re.compile(r"\b([a-z_]+)\(")
_STRING = re.compile(r'"[^"]*"')


@dataclass(frozen=True)
class Topic:
    """A topic of statements."""

    name: str  # one word, or words joined by ``-``
    title: str  # a short name
    says: str  # meaning of a proved statement, as a sentence
    refuted: str  # advice if it is refuted or unknown, as a sentence
    limit: str  # what is not covered, as a sentence
    functions: frozenset[str] = frozenset()  # functions whose calls identify it


TOPICS: tuple[Topic, ...] = (
    Topic(
        "guarded-access",
        "Labels from behind a guard",
        "Labels from the guard are epsilon-iDP: no single row with a member changes the "
        "probability of an answer by more than a factor of e^epsilon.",
        "Prove the bounds again with leaveout verify --bounds, and serve only with these.",
        "Several rows at once, rows without a member, scores, and how long an answer takes where "
        "padding is off are not covered.",
        frozenset({"access", "idp"}),
    ),
    Topic(
        "membership-audit",
        "Membership, as measured",
        "In trials, no attack of the audit distinguished deleted rows from unseen rows better "
        "than stated, with the stated confidence.",
        "Look at the best attack that the notes name; unlearn more, or state a larger advantage.",
        "This is measured, not proved: attacks that were not tried may do better.",
        frozenset({"audit", "membership_advantage"}),
    ),
    Topic(
        "adaptive-deletion",
        "Deletion from a service",
        "What a service publishes after deletions, even if chosen by someone who sees its "
        "answers, is close to what it would publish had it never seen the points.",
        "Answer fewer questions between two full retrainings, or lower epsilon.",
        "It is assumed that seeds and models stay secret and that shards are drawn as declared.",
        frozenset({"sharded", "unlearns"}),
    ),
    Topic(
        "poisoning",
        "Poisoned training data",
        "The stated share of test points is answered correctly whatever training rows are "
        "inserted, removed or relabelled, up to the stated number.",
        "Train more parts, or state fewer changes.",
        "It covers these test points, and holds as long as one change touches no more parts "
        "than stated.",
        frozenset(each.name for each in votes.FUNCTIONS),
    ),
    Topic(
        "exact-deletion",
        "Deletion from a forest",
        "A forest after a deletion is the forest trained without the row, bit for bit.",
        "The forest file is damaged or was made by another program: retrain it.",
        "What was derived from the forest before the deletion, such as released answers, remains.",
        frozenset({"unlearn", "retrain", "caches_sound", "same_function", "points"}),
    ),
    Topic(
        "one-record",
        "What one training row can change",
        "Above the stated confidence no answer, to any input of the set, changes when a single "
        "training row is left out.",
        "The witness is an input whose answer one row changes: guard the answers, or train so "
        "that fewer answers depend on one row.",
        "Several rows at once, inputs outside the set, rows without a member, and what scores "
        "reveal beyond the label are not covered.",
        frozenset({"family", "leave_one_out"}),
    ),
    Topic(
        "behaviour",
        "What models answer",
        "The claim holds for every input of the set, as the models compute it.",
        "The counter-example is an input for which the claim fails.",
        "Inputs outside the set are not covered.",
    ),
)
"""In order of preference: a guard depends on a family, too."""


def topic_of(result: Result, report: Report) -> Topic:
    """Return the topic of a result."""
    own = report.statement_of(result)
    called = set(_CALLED.findall(_STRING.sub("", "" if own is None else own.text)))
    if result.engine == "trees":
        called.discard("same_function")
    names = set(() if own is None else own.names)
    kinds = {str(each.kind) for each in report.files if names & set(each.called)}
    for topic in TOPICS:
        if called & topic.functions or _tells(topic, kinds):
            return topic
    by_name = {each.name: each for each in TOPICS}
    return by_name["one-record" if result.members > 1 else "behaviour"]


def _tells(topic: Topic, kinds: set[str]) -> bool:
    """Return whether the kinds of the named files determine a topic."""
    told = {"audit": "membership-audit", "service": "adaptive-deletion", "ballots": "poisoning"}
    told |= {"bounds": "guarded-access", "family": "one-record", "member": "one-record"}
    return any(told.get(kind) == topic.name for kind in kinds)
