"""One attack on all test points: its recount, and that no other loses more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leaveout.verifier.checker.errors import RejectedError
from leaveout.verifier.checker.expressions.given import Given, Range
from leaveout.verifier.checker.voting.functions import counted_of, threat_of, vote_of
from leaveout.verifier.checker.voting.run_offs import (
    RunOffsAtStake,
    TooManyError,
    no_more_run_offs_lost,
    run_off_falls,
    run_offs_at_stake,
    run_offs_lost_to,
)
from leaveout.verifier.checker.voting.thresholds import lost_to_changes, no_more_bought, prices_of
from leaveout.verifier.checker.voting.together import (
    WHOLE,
    WORK,
    AtStake,
    TooLongError,
    at_stake,
    lost_to,
    no_more_lost,
    shares_of,
    starts_of,
)
from leaveout.verifier.checker.voting.vote import Vote

SUMMED = ("batches", "uppers", "taken", "counted")
"""Arrays of such a proof."""

_ONE = 256
"""A y or an m of 1."""

_LEAST = 1e8
"""Numbers that may be looked at for a batch, at least."""


def most_summed(stake: AtStake, proof: Mapping[str, NDArray[Any]], work: float = WORK) -> int:
    """Return how many points no attack loses more than."""
    points = np.unique(stake.points)
    batches, uppers, taken, counted = (proof[name].astype(np.int64) for name in SUMMED)
    if batches.shape != points.shape or counted.shape != points.shape:
        raise RejectedError(
            f"its sum is over {batches.shape} points, and {len(points)} are at stake"
        )
    if uppers.ndim != 1 or taken.shape != uppers.shape:
        raise RejectedError("its sum has not one bound for each batch")
    if not ((batches >= -1) & (batches < len(uppers))).all():
        raise RejectedError("its sum has points of batches that it does not have")
    if not all(((each >= 0) & (each < 2**16)).all() for each in (uppers, taken, counted)):
        raise RejectedError("its sum has numbers that count nothing")
    own = max(_LEAST, work / max(1, len(uppers)))
    for number in np.flatnonzero(taken).tolist():
        inside = points[batches == number]
        upper = int(uppers[number])
        if upper < len(inside) and not no_more_lost(stake.only(inside), upper, own):
            raise RejectedError(f"its sum says that a batch loses {upper} points; it loses more")
    missing = np.maximum(_ONE - counted - np.append(taken, 0)[batches], 0)
    total = (int(missing.sum()) + int(taken @ uppers)) * WHOLE
    if counted.any():
        total += _heaviest(stake, counted)
    return total // (_ONE * WHOLE)


def _heaviest(stake: AtStake, counted: NDArray[np.int64]) -> int:
    """Return what the units that may be poisoned weigh at most, by shares as far as they count."""
    shares = shares_of(
        stake.of_units(stake.gains),
        stake.needs,
        starts_of(stake.points),
        sum(stake.quotas),
        plain=len(stake.offsets) == 1,
    )
    weights = shares.astype(np.int64) @ counted
    total = 0
    for number, quota in enumerate(stake.quotas):
        total += int(np.sort(weights[stake.family == number])[::-1][:quota].sum())
    return total


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


def _most_with_thresholds(
    given: Given, vote: Vote, truth: Truth, counted: NDArray[np.bool_], budget: int
) -> int:
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


def run_offs_of(vote: Vote, truth: NDArray[np.integer[Any]], budget: int) -> RunOffsAtStake:
    """Return the right answers that ``budget`` units could change, with requirements."""
    held = vote.ballots
    assert held.scores is not None
    if vote.kind == "run_off":
        edits = np.full(held.points, budget, np.int64)
        near = run_off_falls(held.votes, held.scores, held.labels, edits)
    else:
        near = vote.bounds({})[0] < budget
    points = np.flatnonzero((vote.answers == truth) & near)
    return run_offs_at_stake(
        held.votes, held.scores, held.labels, vote.answers, points, budget, vote.offsets
    )


def run_offs_counted(vote: Vote, truth: NDArray[np.integer[Any]], members: Sequence[int]) -> int:
    """Return how many right answers change if some members vote and prefer as an attacker likes."""
    held = vote.ballots
    assert held.scores is not None
    lost = run_offs_lost_to(held.votes, held.scores, held.labels, vote.answers, members)
    return int(np.count_nonzero(lost & (vote.answers == truth)))


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
