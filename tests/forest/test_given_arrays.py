"""Arrays and tables that are given to a forest are neither changed nor kept."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from leaveout.models.forest import DareForestClassifier, ForestError

from support.depth import rounds

ZEROS = np.array([[-0.0, 2.0, 0.5], [1.0, -0.0, 0.25], [-0.0, 1.0, -0.0], [1.0, 3.0, 0.75]] * 6)
LABELS = np.array([0, 1, 1, 0] * 6)


def bits(X):
    return np.asarray(X).tobytes(order="A")


def arranged(X, kind):
    """The same values as they may be given."""
    if kind == "frame":
        return pd.DataFrame(X, columns=["a", "b", "c"])
    if kind == "slice":
        return np.repeat(X, 2, axis=0)[::2]
    dtype = np.float32 if kind.startswith("single") else np.float64
    return np.array(X, dtype=dtype, order="F" if kind.endswith("F") else "C")


@pytest.mark.parametrize("locked", [False, True], ids=["writable", "read-only"])
@pytest.mark.parametrize("kind", ["C", "F", "single C", "single F", "slice", "frame"])
def test_everything_takes_an_array_and_leaves_it_alone(kind, locked):
    X, y, rows = arranged(ZEROS, kind), LABELS.copy(), np.array([1, 5])
    if locked:
        for each in (y, rows, *([] if kind == "frame" else [X])):
            each.flags.writeable = False
    before = bits(X), bits(y), bits(rows)
    plain = DareForestClassifier(3, random_state=1).fit(ZEROS.copy(), LABELS)
    forest = DareForestClassifier(3, random_state=1).fit(X, y)
    assert forest == plain
    assert np.array_equal(forest.predict_proba(X), plain.predict_proba(arranged(ZEROS, kind)))
    assert forest.unlearn(rows) == forest.retrain(rows)
    assert np.array_equal(forest.delete(rows).add(X, y), np.arange(24, 48))
    assert forest == forest.retrain()
    assert (bits(X), bits(y), bits(rows)) == before


@settings(max_examples=rounds(40), deadline=None)
@given(
    arrays.arrays(np.float64, (12, 2), elements=st.sampled_from([-0.0, 0.0, 1.0, -1.5, 2.5])),
    st.sampled_from("CF"),
    st.integers(0, 5),
)
def test_what_becomes_of_an_array_afterwards_changes_no_forest(X, order, seed):
    X, y = np.array(X, order=order), np.arange(12) % 3
    forest = DareForestClassifier(2, random_state=seed).fit(X, y)
    before, given_bits = forest.ensemble(), bits(X)
    more = X[:2].copy(order="F")
    forest.add(more, y[:2])
    forest.delete([12, 13])
    assert bits(X) == given_bits
    X += 7.0
    more += 7.0
    y[:] = 0
    assert np.array_equal(forest.ensemble().X, before.X)
    assert forest == forest.retrain()


def test_a_fit_that_is_refused_leaves_the_forest_as_it_was(snapshot):
    forest = DareForestClassifier(3, random_state=1).fit(arranged(ZEROS, "frame"), LABELS)
    answers = forest.predict(ZEROS[:, ::-1])
    forest.criterion = "none"
    with pytest.raises(ForestError, match="criterion"):
        forest.fit(ZEROS[:, :1], LABELS)
    assert (forest.n_features_in_, list(forest.feature_names_in_)) == (3, ["a", "b", "c"])
    assert np.array_equal(forest.predict(ZEROS[:, ::-1]), answers)
    with pytest.raises(ValueError) as told:
        forest.predict(ZEROS[:, :1])
    assert str(told.value) == snapshot
    with pytest.raises(ForestError) as told:
        forest.state_.shares(ZEROS[:, :1])
    assert str(told.value) == snapshot


SHUFFLED = pd.DataFrame(ZEROS, columns=["a", "b", "c"]).sample(frac=1.0, random_state=3)
MASK = SHUFFLED.index == 17


@pytest.mark.parametrize(
    "rows",
    [
        SHUFFLED.index[MASK],
        pd.Series([3, 4]),
        pd.RangeIndex(2),
        SHUFFLED[MASK],
        MASK,
        MASK.tolist(),
    ],
    ids=["index", "series", "range", "frame", "mask", "list"],
)
@pytest.mark.parametrize("does", ["delete", "unlearn", "retrain"])
def test_rows_are_not_named_by_the_index_of_a_table_or_a_mask(does, rows, snapshot):
    forest = DareForestClassifier(2, random_state=1).fit(SHUFFLED.to_numpy(), LABELS)
    before = forest.ensemble()
    with pytest.raises(ForestError) as told:
        getattr(forest, does)(rows)
    assert str(told.value) == snapshot
    assert len(str(told.value).splitlines()) == 1
    assert np.array_equal(forest.rows_, before.names)
    place = int(np.flatnonzero(MASK)[0])
    assert place != 17
    assert np.array_equal(forest.delete(np.flatnonzero(MASK)).rows_, np.delete(range(24), place))


@pytest.mark.parametrize(
    ("index", "told"),
    [
        (range(24), 0),
        (np.arange(24), 0),
        (SHUFFLED.index, 1),
        (range(1, 25), 1),
        ([f"p{i}" for i in range(24)], 1),
        (pd.MultiIndex.from_product([range(6), range(4)]), 1),
    ],
    ids=["range", "numbers", "shuffled", "from one", "text", "levels"],
)
def test_a_table_with_an_index_of_its_own_is_fitted_with_one_warning(index, told, snapshot):
    frame = pd.DataFrame(ZEROS, columns=["a", "b", "c"], index=index)
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        forest = DareForestClassifier(2, random_state=1).fit(frame, LABELS)
    assert [each.category for each in heard] == [UserWarning] * told
    assert [str(each.message) for each in heard] == snapshot
    assert all(each.filename == __file__ for each in heard)
    assert np.array_equal(forest.rows_, np.arange(24))
