"""How many parts one change reaches, by what is known of the members' training."""

from __future__ import annotations

from leaveout.models.votes import Ballots
from leaveout.verifier.checker.errors import RejectedError
from leaveout.verifier.checker.voting.known import change_of

THREATS = ("edits", "insertions", "removals", "modifications", "relabels")


def reach_of(ballots: Ballots, kind: str, threat: str) -> tuple[int, str]:
    """Return how many parts one change reaches at most, and why.

    A sample is in the part that a hash of it names, whatever else the training set holds. So a
    sample that comes or goes changes one part; one that is modified goes and comes, and may do so
    in two parts; one that is relabelled stays in its part if the hash does not read the label.
    """
    if kind == "thresholds":
        return change_of(ballots, threat)
    if kind == "ss_dpa" and threat != "relabels":
        raise RejectedError(f"members that all see every sample withstand no {threat}")
    if threat in ("edits", "insertions", "removals"):
        return 1, "the sample is in the part that its hash names"
    if threat == "modifications":
        return 2, "it is a removal and an insertion, and the sample may move to another part"
    if kind == "ss_dpa" and ballots.origin.method in (None, "ss_dpa"):
        return 1, "members see all samples, but the labels of their own part only"
    reads = ballots.origin.hash_reads_label
    if reads is None:
        raise RejectedError(
            f"{ballots.source} does not say whether its hash reads labels, so what a relabel "
            "reaches is not known"
        )
    if reads:
        return 2, "the hash reads the label, so the sample may move to another part"
    return 1, "the hash does not read the label, so the sample stays in its part"


def is_spread(ballots: Ballots) -> bool:
    """Return whether a sample may reach several members."""
    return ballots.origin.method == "finite_aggregation" or len(ballots.origin.offsets) > 1


def refuse_for_edits(
    ballots: Ballots, *, spread: bool = False, certified: bool = False, families: bool = False
) -> None:
    """Refuse ballots where one edit reaches more members than are counted."""
    method = ballots.origin.method
    if not certified:
        _refuse_alone(ballots)
    if method == "ss_dpa":
        raise RejectedError(f"{ballots.source}: one edit reaches all of its members (SS-DPA)")
    if is_spread(ballots) and not spread:
        raise RejectedError(
            f"{ballots.source}: one edit reaches several of its members (Finite Aggregation)"
        )
    several = method == "hash_bagging" or len(ballots.origin.families) > 1
    if several and not families:
        raise RejectedError(f"{ballots.source}: one edit reaches several members (hash bagging)")


def refuse_for_relabels(ballots: Ballots) -> None:
    """Refuse ballots of which one relabel may reach more than one member."""
    _refuse_alone(ballots)
    origin, source = ballots.origin, ballots.source
    if origin.hash_reads_label:
        raise RejectedError(f"{source}: its hash reads labels, so a relabel may move a sample")
    if origin.distinct_samples is False:
        raise RejectedError(f"{source}: some rows of the training set are one sample")
    if is_spread(ballots):
        raise RejectedError(f"{source}: one relabel reaches several of its members")
    if origin.method == "hash_bagging" or len(origin.families) > 1:
        raise RejectedError(f"{source}: one relabel reaches a member of each of its families")


def _refuse_alone(ballots: Ballots) -> None:
    if ballots.parts == 1:
        raise RejectedError(f"{ballots.source}: one change may change every answer of 1 part")


def rests_on(ballots: Ballots, kind: str) -> list[str]:
    """Return, a line each, what of how ballots came about was not checked."""
    origin, name, found = ballots.origin, ballots.source, []
    if origin.method is None:
        found.append(
            "how the members were trained; that a sample reaches no others than it is said to"
        )
    if kind == "ss_dpa":
        if origin.hash_reads_label is None:
            found.append("a relabelled sample stays in its part")
        if origin.distinct_samples is None:
            found.append("no two rows of the training set are one sample")
    found += [each.text for each in origin.assumptions if not each.checked]
    return [f"{name}: taken on trust: {each}" for each in found]
