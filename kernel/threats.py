"""What one change of the training set reaches among the members, and ballots that are refused."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from .ballots import NEVER, Ballots
from .numbers import Rejected, need

Thresholds: TypeAlias = NDArray[np.int32]

THREATS = ("edits", "insertions", "removals", "modifications", "relabels")


def reach_of(ballots: Ballots, relabels: bool, threat: str) -> tuple[int, str]:
    """Return the most parts that one change reaches, and why.

    With ``relabels``, members see all samples and withstand those alone.

    A sample is in the part selected by its hash, whatever else the training set contains. So
    inserting or removing a sample changes one part; a modification removes and inserts, perhaps in
    two parts; a relabelled sample stays in its part if the hash does not read the label.
    """
    if relabels and threat != "relabels":
        raise Rejected(f"members that all see every sample do not withstand {threat}")
    if threat in ("edits", "insertions", "removals"):
        return 1, "the sample is in the part that its hash selects"
    if threat == "modifications":
        return 2, "it is a removal and an insertion, and the sample may move to another part"
    if relabels and ballots.origin.method in (None, "ss_dpa"):
        return 1, "members see all samples, but the labels of their own part only"
    reads = ballots.origin.hash_reads_label
    if reads is None:
        raise Rejected(
            f"{ballots.source} does not state whether its hash reads labels, so it is not known "
            "what a relabel reaches; write ballots(..., hash = label_independent), or hash = "
            "reads_label"
        )
    if reads:
        return 2, "the hash reads the label, so the sample may move to another part"
    return 1, "the hash does not read the label, so the sample stays in its part"


def change_of(ballots: Ballots, threat: str) -> tuple[int, str]:
    """Return the most changes counted by thresholds that one change amounts to, and why."""
    own, origin = ballots.origin.thresholds_against or "edits", ballots.origin
    within = ballots.parts == 1 or origin.hash_reads_label is False
    if own == "edits":
        if threat == "modifications" and ballots.parts > 1:
            return 2, "thresholds count edits, and it is a removal and an insertion, anywhere"
        if threat == "relabels" and not within:
            return 2, "thresholds count edits, and it is a removal and an insertion"
        if threat in ("modifications", "relabels"):
            return 1, "thresholds count edits, and it is two edits of its part"
        return 1, "thresholds count edits, and it is one edit"
    if threat != own:
        raise Rejected(
            f"{ballots.source}: its thresholds are against {own}, which do not cover {threat}; "
            f"certify {own} = ..., or provide thresholds against edits"
        )
    if own == "relabels" and not within:
        reads = origin.hash_reads_label
        cure = "write hash = label_independent" if reads is None else "divide with another hash"
        raise Rejected(
            f"{ballots.source}: thresholds count relabels within a part, but the hash that divided "
            f"the training set {'may' if reads is None else 'does'} read labels, so a relabelled "
            f"sample moves; {cure}"
        )
    return 1, f"thresholds count {own}"


def withstood(ballots: Ballots, threat: str) -> tuple[Thresholds, Thresholds]:
    """Return which changes are too few for each vote of members, and which suffice.

    Each is an array like the thresholds: fewer changes than the first never suffice, as many as the
    second do, unless it is -1.
    """
    thresholds, origin = ballots.thresholds, ballots.origin
    if thresholds is None:
        raise Rejected(f"{ballots.source} has no thresholds")
    parts, _ = change_of(ballots, threat)
    if threat == (origin.thresholds_against or "edits"):
        most = origin.thresholds_exact_to
        if most is None:
            return thresholds, thresholds
        return thresholds, np.where(thresholds <= most, thresholds, np.int32(NEVER))
    # It is never known that fewer edits of another kind would suffice.
    enough = np.where(thresholds == 0, 0, NEVER).astype(np.int32)
    if threat in ("modifications", "relabels") and parts == 1:
        halves = np.where(thresholds < 0, thresholds, thresholds - thresholds // 2)
        return halves.astype(np.int32), enough
    return thresholds, enough


def is_spread(ballots: Ballots) -> bool:
    """Return whether a sample may reach several members."""
    return ballots.origin.method == "finite_aggregation" or len(ballots.origin.offsets) > 1


def refuse_misfits(
    ballots: Ballots, spread: bool, certified: bool, families: bool, relabels: bool
) -> None:
    """Refuse ballots where one edit, or one relabel, reaches more members than expected."""
    origin, source = ballots.origin, ballots.source
    unit, more = ("relabel", ", relabels = ...") if relabels else ("edit", "")
    need(
        certified or ballots.parts > 1,
        f"{source}: 1 part: one change could change every answer; certify dpa(..., members = "
        "certified), which uses its thresholds, or train on at least 2 parts",
    )
    need(
        relabels or origin.method != "ss_dpa",
        f"{source}: its members were trained as in SS-DPA, each on all points, so one edit reaches "
        "them all; certify ss_dpa against relabels",
    )
    need(
        not (relabels and origin.hash_reads_label),
        f"{source}: the hash that divided the training set reads labels, so a relabel may move a "
        "sample to another part; divide with a hash of the sample alone",
    )
    need(
        not (relabels and origin.distinct_samples is False),
        f"{source}: some rows of the training set are the same sample, so a relabel may reach two "
        "parts; merge them first (Levine and Feizi, appendix G)",
    )
    need(
        spread or not is_spread(ballots),
        f"{source}: one {unit} reaches {len(origin.offsets) or 'several'} members (Finite "
        f"Aggregation); certify finite_aggregation{more}",
    )
    need(
        families or not (origin.method == "hash_bagging" or len(origin.families) > 1),
        f"{source}: one {unit} reaches a member of each family (hash bagging); certify "
        f"hash_bagging{more}",
    )


def rests_on(ballots: Ballots, relabels: bool) -> list[str]:
    """Return the unchecked assumptions about the ballots' origin, one per line."""
    origin, name, found = ballots.origin, ballots.source, []
    if origin.method is None:
        found.append(
            "how the members were trained; that a sample reaches no other members than stated"
        )
    if relabels:
        if origin.hash_reads_label is None:
            found.append("a relabelled sample stays in its part")
        if origin.distinct_samples is None:
            found.append("no two rows of the training set are one sample")
    found += [each.text for each in origin.assumptions if not each.checked]
    return [f"{name}: taken on trust: {each}" for each in found]
