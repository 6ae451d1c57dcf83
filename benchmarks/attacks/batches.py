"""Attacks on bounds of one attack on all points: batches of them, and shares of units."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

import leaveout.bab.votes.collective as batches
from leaveout.bab.votes.collective import Batch, Summed, least_sum
from leaveout.bab.votes.search import search
from leaveout.deadline import Deadline
from leaveout.kernel.counting import Stake, counts_of, show_no_more_lost, show_sum
from leaveout.kernel.numbers import Rejected
from leaveout.kernel.schemes import answers_of, counted_stake
from leaveout.verifier.certify.votes import answer

from attacks.kind import Case, Outcome
from attacks.vote_truth import Truth
from attacks.votes import families
from support.votes import random_ballots

__all__ = ["Batches"]


class Batches:
    """Random ballots, an attack of some edits, batches of a few points, and proofs forged."""

    name = "batches"

    def make(self, rng: np.random.Generator) -> Case:
        """See `Kind.make`."""
        vote = ("dpa", "finite_aggregation", "hash_bagging")[rng.integers(3)]
        labels, most = ((2, 9), (3, 7), (4, 5))[rng.integers(3)]
        parts = int(rng.integers(2, most + 1))
        votes, truth = random_ballots(rng, int(rng.integers(1, 15)), parts, labels)
        truth = np.where(rng.random(len(truth)) < 0.1, rng.integers(0, labels), truth)
        spread = int(rng.integers(1, min(3, parts) + 1)) if vote == "finite_aggregation" else 0
        return {
            "vote": vote,
            "votes": votes.tolist(),
            "truth": truth.tolist(),
            "labels": labels,
            "offsets": sorted(map(int, rng.choice(parts, spread, replace=False))),
            "families": families(rng, parts) if vote == "hash_bagging" else [],
            "edits": int(rng.integers(1, 4)),
            "size": int(rng.integers(1, 5)),
        }

    def check(self, case: Case) -> Outcome:
        """See `Kind.check`."""
        votes, truth = np.array(case["votes"], np.int32), np.array(case["truth"], np.int32)
        labels, offsets, sizes = case["labels"], tuple(case["offsets"]), tuple(case["families"])
        budget = min(case["edits"], max(sizes, default=votes.shape[1]))
        known = Truth(case)
        worst = int(known.right.sum()) - known.collective(budget)
        right = answers_of(counts_of(votes, labels)) == truth
        stake = counted_stake(votes, labels, right, budget, offsets or (0,), sizes)
        with patch.object(batches, "_FIRST", case["size"]):
            *_, found = ((), *batches.in_batches(stake, Deadline.after(60.0), lambda words: None))
        wrong = _mistake(stake, found, worst)
        return Outcome(case["vote"], "proved", wrong)

    def shrink(self, case: Case) -> Iterator[Case]:
        """See `Kind.shrink`."""
        for at in range(len(case["votes"]) if len(case["votes"]) > 1 else 0):
            smaller = copy.deepcopy(case)
            del smaller["votes"][at], smaller["truth"][at]
            yield smaller


def _mistake(stake: Stake, found: tuple[Batch, ...], worst: int) -> str | None:
    whole, points = search(stake), np.unique(stake.points)
    if (whole.lost, whole.upper) != (worst, worst):
        return f"search: {whole.lost} to {whole.upper} lost, where it is {worst}"
    if not _shown(stake, worst) or (worst and _shown(stake, worst - 1)):
        return f"kernel: it is {worst}"
    saved = sum(batch.surviving_points for batch in found)
    if len(points) - saved < worst:
        return f"batches: at most {len(points) - saved}, where it is {worst}"
    for given in ((), found):
        summed = least_sum(stake, given)
        if summed is None:
            if len(points):
                return "sum: none"
            continue
        if summed.upper < worst:
            return f"sum: at most {summed.upper}, where it is {worst}"
        if given and summed.upper > len(points) - saved:
            return f"sum: {summed.upper}, batches alone {len(points) - saved}"
        arrays = _arrays(points, summed)
        shown = show_sum(stake, arrays, answer)
        if shown > summed.upper or shown < worst:
            return f"kernel: a sum of {summed.upper} is {shown}, where it is {worst}"
        forged = _forged(stake, arrays, worst)
        if forged is not None:
            return forged
    return None


def _shown(stake: Stake, upper: int) -> bool:
    """Return whether the kernel accepts that no attack loses more."""
    try:
        show_no_more_lost(stake, upper, answer)
    except Rejected:
        return False
    return True


def _forged(stake: Stake, arrays: Mapping[str, NDArray[Any]], worst: int) -> str | None:
    """Return what is wrong if any numbers in the place of a proof's show too little."""
    rng = np.random.default_rng(int(arrays["counted"].sum()))
    for name in ("uppers", "taken", "counted", "batches"):
        other = np.array(arrays[name], np.int64)
        if not other.size:
            continue
        other[rng.integers(other.size)] += int(rng.choice([-300, -1, 1, 100]))
        try:
            shown = show_sum(stake, {**arrays, name: other}, answer)
        except Rejected:
            continue
        if shown < worst:
            return f"forged: other {name} show {shown}, where it is {worst}"
    return None


def _arrays(points: NDArray[np.int64], summed: Summed) -> dict[str, NDArray[Any]]:
    inside = np.full(len(points), -1, np.int64)
    for number, batch in enumerate(summed.batches):
        inside[np.searchsorted(points, batch.points)] = number
    uppers = np.array([batch.upper for batch in summed.batches], np.int64)
    return {
        "batches": inside, "uppers": uppers, "taken": summed.taken, "counted": summed.counted
    }  # fmt: skip
