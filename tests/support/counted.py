"""Votes and their radii from arrays alone, by the kernel's schemes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from leaveout.kernel import schemes
from leaveout.kernel.counting import counts_of
from leaveout.models.votes import Ballots, Origin
from leaveout.solvers import find_solver
from leaveout.verifier.values.votes import Vote


@dataclass
class Tally:
    """Votes and what they answer."""

    votes: np.ndarray
    labels: int

    @property
    def predictions(self):
        return schemes.answers_of(counts_of(self.votes, self.labels))


def tally(votes, labels):
    return Tally(np.ascontiguousarray(votes, np.int32), labels)


def plurality_radii(tallied):
    return schemes.label_radii(tallied.votes, tallied.labels).min(axis=1)


def finite_published(votes, labels, offsets):
    """Return what Wang, Levine and Feizi publish."""
    offsets = tuple(np.array(offsets).tolist())
    return schemes.label_radii(np.array(votes, np.int32), labels, offsets).min(axis=1)


def vote_of_arrays(kind, votes, labels, truth=None, *, solver=None, published=False, **given):
    """Return ballots counted by a scheme; offsets and families are of their origin."""
    origin = {name: given.pop(name) for name in ("offsets", "families") if name in given}
    origin = {name: tuple(np.array(each).tolist()) for name, each in origin.items()}
    votes = np.ascontiguousarray(votes, np.int32)
    truth = np.zeros(len(votes), np.int32) if truth is None else np.array(truth, np.int32)
    held = Ballots(votes, truth, labels, origin=Origin(**origin), **given)
    return Vote(kind, held, solver or find_solver("highs"), published)


def finite_exact(votes, labels, offsets, **given):
    """Return bounds of what answers of Finite Aggregation survive."""
    solver = given.pop("solver", None)
    vote = vote_of_arrays("finite_aggregation", votes, labels, offsets=offsets, solver=solver)
    radii = vote.radii(**given)
    return radii.lower, radii.upper


def stake_of(votes, truth, labels, budget, offsets=(), sizes=()):
    """Return what attacks on a plurality's correct answers demand."""
    right = tally(votes, labels).predictions == truth
    budget = min(budget, max(sizes, default=votes.shape[1]))
    return schemes.counted_stake(votes, labels, right, budget, tuple(offsets) or (0,), sizes)


def passing_stake(ballot, labels, label, budget, offsets):
    """Return what lets one label pass a plurality's answer at one point."""
    counts = counts_of(ballot[None], labels)
    answers, one = schemes.answers_of(counts), np.zeros(1, np.int64)
    gains = schemes.passing_gains(ballot[None], answers, label).T.astype(np.uint8)
    needs = schemes.gaps_of(counts, answers)[:, label] + 1
    return schemes.unit_stake(gains, needs, one, one, budget, offsets)


def recounted(ballot, labels, attack):
    """Return the answer by a plain count after an attack."""
    changed = np.array(ballot)
    changed[list(attack.members)] = attack.votes
    return int(np.bincount(changed, minlength=labels).argmax())
