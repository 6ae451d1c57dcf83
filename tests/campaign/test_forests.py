"""The campaign against forests sees trees that remember, and arrays that change."""

from __future__ import annotations

import pytest

from leaveout.models.forest import DareForestClassifier

from attacks.forests import Forests
from attacks.kind import generator, sort_of
from attacks.workers import judged

PLAIN = {"layout": "C", "frozen": False, "type": "float64", "damage": None}


def wrongs(count, **changes):
    kind = Forests()
    made = (kind.make(generator(0, "forests", number)) for number in range(count))
    found = [judged(kind, case | changes).wrong for case in made]
    return [wrong for wrong in found if wrong is not None]


def test_forests_are_those_trained_on_what_is_left():
    assert wrongs(60, **PLAIN) == []


def test_a_forest_that_does_not_forget_is_seen(monkeypatch):
    whole = DareForestClassifier.retrain
    monkeypatch.setattr(
        DareForestClassifier, "retrain", lambda self, rows=(): whole(self, self.rows_[:1])
    )
    assert "retraining" in map(sort_of, wrongs(20, **PLAIN))


def test_an_array_that_changes_is_seen(monkeypatch):
    whole = DareForestClassifier.fit

    def fit(self, X, y):
        found = whole(self, X, y)
        X[0, 0] += 1
        return found

    monkeypatch.setattr(DareForestClassifier, "fit", fit)
    assert "caller" in map(sort_of, wrongs(20, **PLAIN))


@pytest.mark.parametrize("name", ["same_function", "caches_sound"])
def test_a_decider_that_errs_is_seen(monkeypatch, name):
    import leaveout.verifier.values.subjects.forest as deciders
    from leaveout.specs.deciders import Decided

    other = {"same_function": "proved", "caches_sound": "refuted"}[name]
    monkeypatch.setattr(deciders, name, lambda given: Decided(other, witness="somewhere"))
    assert "claims" in map(sort_of, wrongs(150, **PLAIN, claims=True, sides=[0.0, 4.0]))
