"""One attack on all test points: its recount, and that no other loses more."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from leaveout.verifier.checker.errors import RejectedError
from leaveout.verifier.checker.expressions.given import Given
from leaveout.verifier.checker.expressions.ranges import Range
from leaveout.verifier.checker.voting.at_stake import at_stake, lost_to
from leaveout.verifier.checker.voting.functions import counted_of, threat_of, vote_of
from leaveout.verifier.checker.voting.known_collective import known_collective
from leaveout.verifier.checker.voting.run_offs_at_stake import RunOffsAtStake, TooManyError
from leaveout.verifier.checker.voting.run_offs_of import run_offs_counted, run_offs_of
from leaveout.verifier.checker.voting.run_offs_together import no_more_run_offs_lost
from leaveout.verifier.checker.voting.summed import SUMMED, most_summed
from leaveout.verifier.checker.voting.together import TooLongError, no_more_lost
from leaveout.verifier.checker.voting.vote import Vote

Truth = NDArray[np.int32]


def collective_accuracy(given: Given) -> Range:
    """Return the share of test points answered right whatever one attack on all of them changes.

    The proof has ``units``, the parts (of Finite Aggregation: hash values) that the worst attack
    poisons, and ``upper``, how many points no attack loses more than. Either may be missing. Where
    it has the arrays of a sum, too, that is what shows ``upper``, rather than a search.
    """
    vote = vote_of(given)
    if vote.kind == "thresholds":
        return known_collective(given, vote)
    held = vote.ballots
    budget = min(threat_of(given, vote), max(vote.sizes))
    counted = counted_of(given, vote)
    # A point that does not count has no label that there is, so it cannot be lost.
    truth = np.where(counted, held.truth, np.int32(-1))
    right, points = int(np.count_nonzero(vote.right & counted)), int(np.count_nonzero(counted))
    lost = _attack_loss(given, vote, truth, budget)
    most = _most(given, vote, truth, budget)
    if lost > most:
        raise AssertionError(f"an attack loses {lost} points, and none more than {most}")
    return Range(Fraction(right - most, points), Fraction(right - lost, points))


def _attack_loss(given: Given, vote: Vote, truth: Truth, budget: int) -> int:
    """Return how many points the attack of a proof loses."""
    if "units" not in given.proof:
        return 0
    held, units = vote.ballots, given.array("units", np.int64)
    distinct = np.unique(units)
    if not ((distinct >= 0) & (distinct < held.parts)).all():
        raise RejectedError(f"its attack poisons units that are none of {held.parts}")
    family = np.repeat(np.arange(len(vote.sizes)), vote.sizes)
    spent = np.bincount(family[distinct])
    if spent.max(initial=0) > budget:
        each = " of each family" if len(vote.sizes) > 1 else ""
        raise RejectedError(
            f"its attack poisons {spent.max()} units of {held.parts}, and {budget}{each} may be"
        )
    members = np.unique((distinct[:, None] + np.array(vote.offsets)) % held.parts)
    if vote.is_run_off:
        return run_offs_counted(vote, truth, members.tolist())
    return int(np.count_nonzero(lost_to(held.votes, truth, held.labels, members.tolist())))


def _most(given: Given, vote: Vote, truth: Truth, budget: int) -> int:
    """Return how many points no attack loses more than."""
    held = vote.ballots
    try:
        stake = (
            run_offs_of(vote, truth, budget)
            if vote.is_run_off
            else at_stake(held.votes, truth, held.labels, budget, vote.offsets, vote.sizes)
        )
    except TooManyError:
        raise RejectedError("run-offs could be lost in too many ways to be looked at") from None
    if "upper" not in given.proof:
        return stake.count
    claimed = given.array("upper", np.int64, 0)
    upper = int(claimed)
    if not 0 <= upper <= held.points:
        raise RejectedError(f"its proof says that {upper} points are lost")
    try:
        if isinstance(stake, RunOffsAtStake):
            holds = no_more_run_offs_lost(stake, upper)
        elif all(name in given.proof for name in SUMMED):
            shown = most_summed(stake, given.proof)
            if shown > upper:
                raise RejectedError(f"its proof says {upper} points are lost, its sum {shown}")
            return min(shown, stake.count)
        else:
            holds = no_more_lost(stake, upper)
        if not holds:
            raise RejectedError(f"its proof says that no attack loses more than {upper}; one does")
    except TooLongError:
        raise RejectedError(
            f"that no attack loses more than {upper} points takes too long to be shown"
        ) from None
    return min(upper, stake.count)
