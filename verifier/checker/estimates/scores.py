"""Recomputed attacks of an audit: scores that are higher for likely training rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leaveout.verifier.checker.estimates.file import Floats, Seen
from leaveout.verifier.checker.estimates.training import train_line

_LEAST_PROBABILITY = 1e-7
_FOLDS = 5
_MOST_ROWS = 20_000
_SEED = 0
"""Of the rows learned from where there are more; nobody can try another."""


@dataclass(frozen=True, eq=False)
class Scores:
    """The scores of one attack."""

    attack: str
    unlearned: Floats  # shape (rows,)
    retrained: Floats  # shape (rows,)


def scores(seen: Seen) -> tuple[Scores, ...]:
    """Return the scores of every attack that the file allows.

    Of an attack that is trained each row of the trials that count is scored by what was learned
    from the others alone.
    """
    label, before = seen.label, seen.original
    arms = (seen.unlearned, seen.retrained)
    found = [
        Scores("loss", *(_loss(arm, label) for arm in arms)),
        Scores("margin", *(_margin(arm, label) for arm in arms)),
        Scores("confidence", *(arm.max(axis=1) for arm in arms)),
        Scores("label only", *((arm.argmax(axis=1) == label).astype(np.float64) for arm in arms)),
    ]
    if before is not None:
        original = _loss(before, label)
        found += [
            Scores("change of loss", *(_loss(arm, label) - original for arm in arms)),
            Scores("closeness", *(-np.abs(arm - before).sum(axis=1) for arm in arms)),
        ]
    for told in (False, True):
        for both in (False, True):
            if (told or seen.has_unseen_rows) and (not both or before is not None):
                found.append(_trained_scores(seen, told, both))
    return tuple(found)


def _trained_scores(seen: Seen, told: bool, both: bool) -> Scores:
    """Return the scores of trained attacks, on membership or, if ``told``, on arms."""
    tables = [_features(seen, arm, both) for arm in (seen.unlearned, seen.retrained)]
    found = [np.zeros(len(seen.trial)) for _ in tables]
    places = np.flatnonzero(~seen.estimates)
    folds = np.array_split(places, min(_FOLDS, len(places)))
    for scored in (*folds, np.flatnonzero(seen.estimates)):
        learned = np.isin(seen.place, np.setdiff1d(places, scored))
        rows = np.flatnonzero(learned & seen.forgotten if told else learned)
        if len(rows) > _MOST_ROWS:
            rows = np.random.default_rng(_SEED).permutation(rows)[:_MOST_ROWS]
        apart = np.repeat([True, False], len(rows)) if told else np.tile(seen.forgotten[rows], 2)
        line = train_line(np.concatenate([table[rows] for table in tables]), apart)
        own = np.isin(seen.place, scored)
        for table, values in zip(tables, found, strict=True):
            values[own] = line.scores(table[own])
    name = f"{'told the arms' if told else 'membership'}, {'both models' if both else 'one model'}"
    return Scores(name, *found)


def _features(seen: Seen, after: Floats, both: bool) -> Floats:
    columns = _columns(after, seen.label)
    if both:
        assert seen.original is not None
        before = _columns(seen.original, seen.label)
        apart = np.abs(after - seen.original).sum(axis=1, keepdims=True)
        columns = np.hstack([columns, before, columns - before, apart])
    return columns


def _columns(posteriors: Floats, label: NDArray[np.int64]) -> Floats:
    odds = _margin(posteriors, label)
    return np.column_stack(
        [
            _loss(posteriors, label),
            odds,
            np.tanh(odds),
            np.abs(odds),
            posteriors.max(axis=1),
            odds > 0,
        ]
    )


def _loss(posteriors: Floats, label: NDArray[np.int64]) -> Floats:
    own = posteriors[np.arange(len(label)), label]
    return np.asarray(np.log(np.maximum(own, _LEAST_PROBABILITY)))


def _margin(posteriors: Floats, label: NDArray[np.int64]) -> Floats:
    others = posteriors.copy()
    others[np.arange(len(label)), label] = 0
    best = np.log(np.maximum(others.max(axis=1), _LEAST_PROBABILITY))
    return np.asarray(_loss(posteriors, label) - best)
