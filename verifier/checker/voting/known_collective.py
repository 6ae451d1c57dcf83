"""One attack on all points of members with thresholds: recount and upper bound."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from leaveout.verifier.checker.errors import RejectedError
from leaveout.verifier.checker.expressions.given import Given
from leaveout.verifier.checker.expressions.ranges import Range
from leaveout.verifier.checker.voting.functions import counted_of, threat_of
from leaveout.verifier.checker.voting.known import lost_to_changes, prices_of
from leaveout.verifier.checker.voting.known_together import no_more_bought
from leaveout.verifier.checker.voting.summed import SUMMED
from leaveout.verifier.checker.voting.together import TooLongError
from leaveout.verifier.checker.voting.vote import Vote

Truth = NDArray[np.int32]


def known_collective(given: Given, vote: Vote) -> Range:
    """Return the share of test points answered right whatever one attack on all of them changes.

    The proof has ``units``, a part once for each change of it, and ``upper``, how many points no
    attack loses more than. Either may be missing. Where it has the arrays of a sum, ``upper`` is
    that of what batches of points lose.
    """
    held, changes = vote.ballots, threat_of(given, vote)
    counted = counted_of(given, vote)
    # A point that does not count has no label that there is, so it cannot be lost.
    truth = np.where(counted, held.truth, np.int32(-1))
    right, points = int(np.count_nonzero(vote.right & counted)), int(np.count_nonzero(counted))
    too_little, _ = vote.withstood
    # Changes beyond each member's largest threshold are of no use.
    budget = min(changes, int(too_little.max(axis=(0, 2)).astype(np.int64).sum()))
    lost = _threshold_attack_loss(given, vote, truth, budget)
    most = _most_with_thresholds(given, vote, truth, counted, budget)
    if lost > most:
        raise AssertionError(f"an attack loses {lost} points, and none more than {most}")
    return Range(Fraction(right - most, points), Fraction(right - lost, points))


def _threshold_attack_loss(given: Given, vote: Vote, truth: Truth, budget: int) -> int:
    """Return the loss of a proof's attack, by thresholds known to suffice."""
    if "units" not in given.proof:
        return 0
    held, units = vote.ballots, given.array("units", np.int64)
    if len(units) > budget or not ((units >= 0) & (units < held.parts)).all():
        raise RejectedError(f"its attack changes parts {len(units)} times, and {budget} may be")
    _, enough = vote.withstood
    return int(
        np.count_nonzero(lost_to_changes(held.votes, truth, enough, held.labels, units.tolist()))
    )


def _most_with_thresholds(given: Given, vote: Vote, truth: Truth, counted: NDArray[np.bool_], budget: int) -> int:
    """Return how many points no attack loses more than, by what is known to be needed."""
    assert vote.radii is not None
    held = vote.ballots
    alone = np.flatnonzero(vote.right & counted & (vote.radii < budget))
    if "upper" not in given.proof:
        return len(alone)
    upper = int(given.array("upper", np.int64, 0))
    if not 0 <= upper <= held.points:
        raise RejectedError(f"its proof says that {upper} points are lost")
    if upper >= len(alone):
        return len(alone)
    batches = [(alone, upper)]
    if all(name in given.proof for name in SUMMED):
        batches = _batches(given, alone)
    try:
        for inside, most in batches:
            own = np.where(np.isin(np.arange(held.points), inside), truth, np.int32(-1))
            prices = prices_of(held.votes, own, vote.withstood[0], held.labels, budget)
            if most < len(inside) and not no_more_bought(prices, most):
                said = f"its proof says that no attack loses more than {most}"
                raise RejectedError(f"{said}; one does")
    except TooLongError:
        raise RejectedError(
            f"that no attack loses more than {upper} points takes too long to be shown"
        ) from None
    total = sum(min(most, len(inside)) for inside, most in batches)
    if total > upper:
        raise RejectedError(f"its proof says {upper} points are lost, its sum {total}")
    return total


def _batches(given: Given, alone: NDArray[np.int64]) -> list[tuple[NDArray[np.int64], int]]:
    """Return batches of points, and how many of each are said to be lost."""
    batches, uppers = given.array("batches", np.int64), given.array("uppers", np.int64)
    if batches.shape != alone.shape or (uppers < 0).any():
        raise RejectedError(f"its sum is over {len(batches)} points, and {len(alone)} are at stake")
    found = [(alone[batches == number], int(upper)) for number, upper in enumerate(uppers)]
    others = alone[(batches < 0) | (batches >= len(uppers))]
    return [*found, (others, len(others))]
