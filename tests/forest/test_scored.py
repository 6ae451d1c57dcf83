"""A forest's plain answers are those of the forest, float for float."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from leaveout.models.forest import DareForestClassifier
from leaveout.models.forest.scored import ScoredForest

from support.depth import rounds


@settings(max_examples=rounds(40), deadline=None)
@given(seed=st.integers(0, 2**32), labels=st.integers(1, 4), trees=st.integers(1, 7))
def test_probabilities_are_those_of_an_exact_forest(seed: int, labels: int, trees: int) -> None:
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 5, (30, 3)) / 3
    y = rng.integers(0, labels, 30)
    forest = DareForestClassifier(trees, max_depth=5, k=3, random_state=seed).fit(X, y)
    scored = ScoredForest.of(forest.ensemble())
    cuts = np.concatenate([tree.threshold for tree in scored.trees])
    near = rng.choice(
        np.concatenate((cuts, np.nextafter(cuts, 9), np.nextafter(cuts, -9))), (200, 3)
    )
    assert np.array_equal(scored.probabilities(near), forest.predict_proba(near))
    assert np.array_equal(scored.classes, forest.classes_)
    assert not scored.rounds_inputs
