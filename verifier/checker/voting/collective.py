"""One attack on all test points: its recount, and that no other loses more."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from leaveout.verifier.checker.errors import RejectedError
from leaveout.verifier.checker.expressions.given import Given
from leaveout.verifier.checker.expressions.ranges import Range
from leaveout.verifier.checker.voting.at_stake import at_stake, lost_to
from leaveout.verifier.checker.voting.functions import threat_of, vote_of
from leaveout.verifier.checker.voting.together import TooLongError, no_more_lost
from leaveout.verifier.checker.voting.vote import Vote

__all__ = ["collective_accuracy"]


def collective_accuracy(given: Given) -> Range:
    """Return the share of test points answered right whatever one attack on all of them changes.

    The proof has ``units``, the parts (of Finite Aggregation: hash values) that the worst attack
    poisons, and ``upper``, how many points no attack loses more than. Either may be missing.
    """
    vote = vote_of(given)
    if vote.kind not in ("dpa", "ss_dpa", "finite_aggregation"):
        raise RejectedError(f"one attack on all points is not bounded of a vote of {vote.kind}")
    held = vote.ballots
    budget = min(threat_of(given, vote), held.parts)
    right = int(np.count_nonzero(vote.right))
    lost = _counted(given, vote, budget)
    most = _most(given, vote, budget)
    if lost > most:
        raise AssertionError(f"an attack loses {lost} points, and none more than {most}")
    return Range(Fraction(right - most, held.points), Fraction(right - lost, held.points))


def _counted(given: Given, vote: Vote, budget: int) -> int:
    """Return how many points the attack of a proof loses."""
    if "units" not in given.proof:
        return 0
    held, units = vote.ballots, given.array("units", np.int64)
    distinct = np.unique(units)
    if len(distinct) > budget or not ((distinct >= 0) & (distinct < held.parts)).all():
        raise RejectedError(
            f"its attack poisons {len(distinct)} units of {held.parts}, and {budget} may be"
        )
    members = np.unique((distinct[:, None] + np.array(vote.offsets)) % held.parts)
    return int(np.count_nonzero(lost_to(held.votes, held.truth, held.labels, members.tolist())))


def _most(given: Given, vote: Vote, budget: int) -> int:
    """Return how many points no attack loses more than."""
    held = vote.ballots
    stake = at_stake(held.votes, held.truth, held.labels, budget, vote.offsets)
    if "upper" not in given.proof:
        return stake.count
    claimed = given.array("upper", np.int64, 0)
    upper = int(claimed)
    if not 0 <= upper <= held.points:
        raise RejectedError(f"its proof says that {upper} points are lost")
    try:
        if not no_more_lost(stake, upper):
            raise RejectedError(f"its proof says that no attack loses more than {upper}; one does")
    except TooLongError:
        raise RejectedError(
            f"that no attack loses more than {upper} points takes too long to be shown"
        ) from None
    return min(upper, stake.count)
