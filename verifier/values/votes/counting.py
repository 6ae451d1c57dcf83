"""Whether ballots may be counted in a certain way, and on which assumptions."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from leaveout.encoders.votes.threat import Cost, Threat, cost_of
from leaveout.errors import BallotError
from leaveout.models.votes import Ballots
from leaveout.verifier.values.votes.certified import KnapsackVote
from leaveout.verifier.values.votes.schemes import RelabelVote
from leaveout.verifier.values.votes.vote import Vote


def with_declared_hash(
    ballots: Ballots,
    reads_label: bool | None,
    offsets: tuple[int, ...] | None,
    families: tuple[int, ...] | None = None,
) -> Ballots:
    """Return ballots with the specification's statements on their hash."""
    origin = ballots.origin
    if reads_label is not None and origin.hash_reads_label not in (None, reads_label):
        file = "reads" if origin.hash_reads_label else "does not read"
        raise BallotError(
            f"{ballots.source} says that its hash {file} labels, the specification says the "
            "opposite; leave 'hash' out"
        )
    if offsets is not None and set(origin.offsets) not in (set(), set(offsets)):
        raise BallotError(
            f"{ballots.source} has the offsets {list(origin.offsets)}, the specification "
            f"{list(offsets)}; leave 'offsets' out"
        )
    if families is not None and origin.families not in ((), families):
        raise BallotError(
            f"{ballots.source} has families of {list(origin.families)} members, the specification "
            f"{list(families)}; leave 'families' out"
        )
    said: dict[str, object] = {}
    if reads_label is not None:
        said["hash_reads_label"] = reads_label
    if offsets is not None:
        said["offsets"] = offsets
    if families is not None:
        said["families"] = families
    return replace(ballots, origin=msgspec.structs.replace(origin, **said)) if said else ballots


def is_spread(ballots: Ballots) -> bool:
    """Return whether an edit may reach several members, as in Finite Aggregation."""
    return ballots.origin.method == "finite_aggregation" or len(ballots.origin.offsets) > 1


def fit_for_edits(
    ballots: Ballots, *, spread: bool = False, certified: bool = False, families: bool = False
) -> None:
    """Raise if edits reach more members than a vote allows for."""
    method, source = ballots.origin.method, ballots.source
    if not certified:
        _several_parts(ballots)
    if method == "ss_dpa":
        raise BallotError(
            f"{source}: its members were trained as in SS-DPA, each on all points, so that one "
            "edit reaches them all; certify ss_dpa against relabels"
        )
    if not spread and is_spread(ballots):
        raise BallotError(
            f"{source}: one edit reaches {_several(ballots)} members (Finite Aggregation); certify "
            "finite_aggregation"
        )
    if not families and (method == "hash_bagging" or len(ballots.origin.families) > 1):
        raise BallotError(
            f"{source}: one edit reaches a member of each family (hash bagging); certify "
            "hash_bagging"
        )


def fit_for_relabels(ballots: Ballots) -> None:
    """Raise if a relabel may reach more than one member."""
    _several_parts(ballots)
    origin, source = ballots.origin, ballots.source
    if origin.hash_reads_label:
        raise BallotError(
            f"{source}: the hash that divided the training set reads labels, so a relabel may "
            "move a sample to another part; divide by a hash of the sample alone"
        )
    if origin.distinct_samples is False:
        raise BallotError(
            f"{source}: some rows of the training set are one sample, so a relabel may reach two "
            "parts; merge them first (Levine and Feizi, appendix G)"
        )
    if is_spread(ballots):
        raise BallotError(
            f"{source}: one relabel reaches {_several(ballots)} members (Finite Aggregation); "
            "certify finite_aggregation, relabels = ..."
        )
    if origin.method == "hash_bagging" or len(origin.families) > 1:
        raise BallotError(
            f"{source}: one relabel reaches a member of each family (hash bagging); certify "
            "hash_bagging, relabels = ..."
        )


def vote_against(vote: Vote, threat: Threat) -> tuple[Vote, Cost]:
    """Return a vote against one kind of change, and that change's cost."""
    if isinstance(vote, KnapsackVote):
        return vote.against(threat)
    if isinstance(vote, RelabelVote) and vote.ballots.origin.method in (None, "ss_dpa"):
        return vote, Cost(1, "members see all samples, but the labels of their own part only")
    cost = cost_of(threat, hash_reads_label=vote.ballots.origin.hash_reads_label)
    if cost is None:
        raise BallotError(
            f"{vote.ballots.source} does not say whether its hash reads labels, so what a relabel "
            "reaches is not known; say ballots(..., hash = label_independent), or hash = "
            "reads_label"
        )
    return vote, cost


def rests_on(ballots: Ballots, relabels: bool = False) -> tuple[str, ...]:
    """Return the unchecked assumptions on ballots, one sentence each."""
    origin, source = ballots.origin, ballots.source
    found = []
    if origin.method is None:
        found.append(
            f"{source} does not say how its members were trained; that a training sample reaches "
            "no other members than it should is taken on trust"
        )
    if relabels and origin.hash_reads_label is None:
        found.append(f"{source}: taken on trust: a relabelled sample stays in its part")
    if relabels and origin.distinct_samples is None:
        found.append(f"{source}: taken on trust: no two rows of the training set are one sample")
    return (
        *found,
        *(
            f"{source}: taken on trust: {assumption.text}"
            for assumption in origin.assumptions
            if not assumption.checked
        ),
    )


def _several_parts(ballots: Ballots) -> None:
    if ballots.parts == 1:
        raise BallotError(
            f"{ballots.source}: 1 part: one change could change every answer; certify dpa(..., "
            "members = certified), which counts what its thresholds say, or train on at least 2 "
            "parts"
        )


def _several(ballots: Ballots) -> str:
    return str(len(ballots.origin.offsets) or "several")
