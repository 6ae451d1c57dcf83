"""The settings that a table allows: accuracy of private answers, and their number."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray
from scipy.special import bdtrc

from leaveout.errors import ShardedError
from leaveout.kernel.tails import is_rare
from leaveout.models.sharded.accounting import (
    Unlearning,
    guarantee,
    largest_epsilon,
    safe_predictions,
)
from leaveout.models.sharded.aggregation import expected_chances
from leaveout.models.sharded.rows import Rows
from leaveout.models.sharded.settings import SHARPEST, Mechanism, ServiceSettings
from leaveout.models.sharded.shards import Shards


def retrained_at_most(shards: int, inclusion: float, risk: float, points: int | None = None) -> int:
    """Return how many shards an update retrains, except with probability ``risk``.

    The number of shards that contain a point is binomial. If updates are chosen without seeing
    answers, one such number counts; otherwise at worst the largest of ``points``.

    Parameters
    ----------
    shards : int
    inclusion : float
        Probability that a shard holds a point.
    risk : float
        Above 0 and below 1.
    points : int or None
        All points ever, first fitted or added later. None if updates are chosen without seeing
        answers.
    """
    share = risk / (1 if points is None else max(1, points))
    bound = int(np.argmax(bdtrc(np.arange(shards + 1), shards, inclusion) <= share))
    # That is a guess: step up until the tail is small enough.
    while bound < shards and not is_rare(bound + 1, shards, Fraction(inclusion), Fraction(share)):
        bound += 1
    return min(bound, shards)


def published_retrained(risk: float, points: int | None = None) -> float:
    """Return the bound stated in Theorem 5.2 of *Adaptive Machine Unlearning*.

    ``1 + sqrt(2 ln(1 / risk))``, and with ``points`` (n + t) in the numerator where updates are
    adaptive. It is the tail of a normal distribution; a binomial tail is heavier with more than a
    few shards, so this is only for comparison and guarantees nothing.
    """
    return 1 + math.sqrt(2 * math.log((1 if points is None else points) / risk))


RISK = 1e-6  # probability that an update retrains more shards than stated

_PRIVATE: tuple[Mechanism, ...] = ("exponential", "noisy_max")
_GROWTH = 2  # most times by which a service may outgrow the rows of the table
_ERRORS = 2.0  # standard errors by which answers must beat the most frequent label in accuracy
_STEPS = 200


@dataclass(frozen=True, eq=False)
class HeldOut:
    """The votes of models on shards for held-out points.

    Attributes
    ----------
    shards : int
    votes : ndarray of int64, shape (points, labels)
    truth : ndarray of int64, shape (points,)
    """

    shards: int
    votes: NDArray[np.int64]
    truth: NDArray[np.int64]

    def accuracy(self, mechanism: Mechanism, epsilon: float = 0.0) -> float:
        """Return the expected accuracy over the mechanism's randomness."""
        found = expected_chances(self.votes, mechanism, epsilon)
        return float(found[np.arange(len(self.truth)), self.truth].mean())


@dataclass(frozen=True)
class Offer:
    """Settings proved to keep the guarantee, and their accuracy.

    Attributes
    ----------
    settings : ServiceSettings
        With as many predictions as are safe, at least the requested number.
    asked : int
        The requested number of predictions.
    accuracy : float
        Expected on the held-out points.
    """

    settings: ServiceSettings
    asked: int
    accuracy: float


@dataclass(frozen=True)
class Trained:
    """The result for one number of shards.

    Attributes
    ----------
    shards : int
    majority : float
        Accuracy of the majority vote, which has no guarantee.
    retrained : int
        Most shards retrained by an update, except with probability `RISK`.
    offers : tuple of Offer
        The better mechanism for each number of predictions; none where no epsilon is safe.
    """

    shards: int
    majority: float
    retrained: int
    offers: tuple[Offer, ...]


@dataclass(frozen=True)
class Plan:
    """The settings that a table allows.

    Attributes
    ----------
    claim : Unlearning
        The claim that every offer keeps.
    rows, points, labels : int
        Rows trained on, points held out, labels.
    frequent : float
        Accuracy of always answering the most frequent label of the rows.
    useful : float
        Least expected accuracy of useful answers: half of what the best majority adds to
        `frequent`, and more than the random choice of held-out points explains; above 1 if no
        majority is better.
    trained : tuple of Trained
    recommended : Offer or None
        The useful offer with the most requested predictions, and of those the most accurate.
    needed : tuple of (int, int, float) or None
        Shards, predictions and the least alpha for which the fewest predictions become useful; None
        if there is none up to the largest epsilon.
    """

    claim: Unlearning
    rows: int
    points: int
    labels: int
    frequent: float
    useful: float
    trained: tuple[Trained, ...]
    recommended: Offer | None
    needed: tuple[int, int, float] | None


def votes_held_out(
    estimator: Any,
    rows: tuple[NDArray[np.float64], NDArray[np.int64]],
    held_out: tuple[NDArray[np.float64], NDArray[np.int64]],
    shards: int,
    *,
    seed: int = 0,
    on_model: Callable[[], None] | None = None,
) -> HeldOut:
    """Train shards once, as a service does, and collect their votes on held-out points.

    Parameters
    ----------
    estimator : object
        An unfitted scikit-learn classifier.
    rows, held_out : tuple of ndarray
        Features, shape (points, features), and labels from 0, shape (points,).
    shards : int
        Each contains a row with probability 1 / shards.
    seed : int
        Seed of the shards; a service draws a random one.
    on_model : callable or None
        Called whenever a shard is trained.

    Raises
    ------
    ShardedError
        If a model cannot be trained.
    """
    key = hashlib.sha256(b"plan %d %d" % (seed, shards)).digest()
    made = Shards.train(estimator, key, shards, 1 / shards, Rows.first(*rows), on_model)
    labels = 1 + max(int(codes.max()) for _, codes in (rows, held_out))
    return HeldOut(shards, made.votes(held_out[0], labels), held_out[1])


def plan(
    found: Sequence[HeldOut],
    codes: NDArray[np.int64],
    predictions: Sequence[int],
    claim: Unlearning,
) -> Plan:
    """Return the settings that keep a claim, with the accuracy of their answers.

    For each number of shards, number of predictions and mechanism, it finds the largest epsilon for
    which `guarantee` proves the claim; accuracy is the exact expectation over the draw of answers,
    given the votes.

    Parameters
    ----------
    found : sequence of HeldOut
        Votes on the same points, for several numbers of shards.
    codes : ndarray of int64
        Labels of the training rows.
    predictions : sequence of int
        Numbers between two full retrainings, each at least 1.
    claim : Unlearning

    Raises
    ------
    ShardedError
        If a number is out of range, or the claim allows no answer at all.
    """
    if not found or not predictions or min(predictions) < 1:
        raise ShardedError("expected a number of shards and at least 1 prediction")
    labels = max(2, found[0].votes.shape[1])
    rows = _GROWTH * (len(codes) + len(found[0].truth))
    truth = found[0].truth
    frequent = float((truth == np.bincount(codes).argmax()).mean())
    trained = tuple(
        Trained(
            each.shards,
            each.accuracy("majority"),
            retrained_at_most(each.shards, 1 / each.shards, RISK, rows),
            _offers(each, sorted(set(predictions)), rows, labels, claim),
        )
        for each in found
    )
    if not any(each.offers for each in trained):
        raise ShardedError(
            f"alpha = {claim.alpha:g}, beta = {claim.beta:g}, gamma = {claim.gamma:g} leave no "
            "room for any answer; use a larger alpha"
        )
    useful = _useful(frequent, max(each.majority for each in trained), len(truth))
    offers = [offer for each in trained for offer in each.offers if offer.accuracy >= useful]
    best = max(offers, key=lambda offer: (offer.asked, offer.accuracy), default=None)
    needed = None
    if best is None:
        needed = _least_useful(found, min(predictions), rows, labels, claim, useful)
    return Plan(claim, len(codes), len(truth), labels, frequent, useful, trained, best, needed)


def _useful(frequent: float, majority: float, points: int) -> float:
    error = _ERRORS * (frequent * (1 - frequent) / points) ** 0.5
    gain = max((majority - frequent) / 2, error)
    return frequent + gain if majority > frequent + error else 2.0


def _blank(shards: int, mechanism: Mechanism, rows: int, labels: int) -> ServiceSettings:
    """Return settings without an epsilon yet."""
    return ServiceSettings(
        shards=shards,
        mechanism=mechanism,
        rows=rows,
        epsilon=SHARPEST / shards / 2,
        predictions=1,
        labels=labels,
        on_exhausted="retrain",
    )


def _offers(
    held: HeldOut, predictions: Sequence[int], rows: int, labels: int, claim: Unlearning
) -> tuple[Offer, ...]:
    asked = (claim.alpha, claim.beta, claim.gamma)
    offers = []
    for count in predictions:
        best: Offer | None = None
        for mechanism in _PRIVATE:
            blank = _blank(held.shards, mechanism, rows, labels)
            epsilon = largest_epsilon(blank, count, *asked)
            if epsilon is None:
                continue
            accuracy = held.accuracy(mechanism, epsilon)
            if best is None or accuracy > best.accuracy:
                chosen = replace(blank, epsilon=epsilon)
                safe = max(count, safe_predictions(chosen, *asked))
                best = Offer(replace(chosen, predictions=safe), count, accuracy)
        if best is not None:
            offers.append(best)
    return tuple(offers)


def _least_useful(
    found: Sequence[HeldOut], count: int, rows: int, labels: int, claim: Unlearning, useful: float
) -> tuple[int, int, float] | None:
    """Return shards, predictions and the least alpha for useful answers, or None."""
    best: tuple[int, int, float] | None = None
    for held in found:
        for mechanism in _PRIVATE:
            blank = _blank(held.shards, mechanism, rows, labels)
            for epsilon in np.geomspace(1e-3, SHARPEST / 2, _STEPS) / held.shards:
                if held.accuracy(mechanism, float(epsilon)) < useful:
                    continue
                chosen = replace(blank, epsilon=float(epsilon), predictions=count)
                alpha = guarantee(chosen, count, claim.beta, claim.gamma).alpha
                if best is None or alpha < best[2]:
                    best = (held.shards, count, alpha)
                break
    return best
