"""A service forgets exactly, keeps its numbers, comes back as it was, and says what is wrong."""

from __future__ import annotations

import random
import re
import sys

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from leaveout.errors import ShardedError
from leaveout.models.sharded import ExhaustedError, ShardedClassifier, Shards, classifier
from leaveout.models.sharded.shards import epoch_key, memberships, training_seed

from support.crashes import contents, ends, holding


def from_scratch(shards: Shards) -> Shards:
    return Shards.train(shards.estimator, shards.key, shards.count, shards.inclusion, shards.rows)


@pytest.mark.parametrize(
    "estimator",
    [
        DecisionTreeClassifier(max_features=1),
        RandomForestClassifier(n_estimators=3),
        make_pipeline(StandardScaler(), LogisticRegression()),
        GaussianNB(),
    ],
)
def test_after_any_updates_the_models_are_those_of_training_from_scratch(service, estimator, table):
    rng = np.random.default_rng(0)
    made = service(estimator=estimator)
    for _ in range(6):
        before = made._shards
        chosen = rng.choice(made.ids_, int(rng.integers(1, 6)), replace=False)
        touched = before.held[np.isin(before.rows.ids, chosen)].any(axis=0)
        made.delete(chosen)
        assert made.retrained_shards == touched.sum()
        for shard in np.flatnonzero(~touched):
            assert made._shards.models[shard] is before.models[shard]
        assert not np.isin(chosen, made.ids_).any()
        made.add(table[0][:2] + rng.normal(), table[1][:2])
        scratch = from_scratch(made._shards)
        assert np.array_equal(scratch.held, made._shards.held)
        assert scratch.digest() == made._shards.digest()
        assert np.array_equal(scratch.codes(table[0] + 0.1), made._shards.codes(table[0] + 0.1))


def test_numbers_never_shift(service, table):
    made = service()
    made.delete([0, 119])
    assert made.add(table[0][:1], table[1][:1]).tolist() == [120]
    made.delete([120])
    assert made.add(table[0][:2], table[1][:2]).tolist() == [121, 122]
    assert made.ids_.tolist() == [*range(1, 119), 121, 122]


def test_memberships_are_independent_with_the_given_probability():
    held = memberships(epoch_key(b"a", 0), np.arange(20_000), 11, 0.3)
    assert np.allclose(held.mean(axis=0), 0.3, atol=0.02)
    assert np.allclose(np.corrcoef(held.T), np.eye(11), atol=0.03)
    again = memberships(epoch_key(b"a", 0), np.arange(5, 9), 11, 0.3)
    assert np.array_equal(again, held[5:9])
    other = memberships(epoch_key(b"a", 1), np.arange(20_000), 11, 0.3)
    assert np.corrcoef(held.ravel(), other.ravel())[0, 1] == pytest.approx(0, abs=0.02)
    assert memberships(epoch_key(b"a", 0), np.arange(4), 3, 1.0).all()


def test_secrets_and_training_seeds_differ():
    assert epoch_key(None, 0) != epoch_key(None, 0)
    assert len({training_seed(epoch_key(b"a", 0), shard) for shard in range(100)}) == 100


def test_a_shard_without_points_votes_the_first_label_and_one_of_one_label_that(service):
    made = service(shards=3)
    ids, codes = made.ids_, made._shards.rows.codes
    made.delete(ids[codes == 0])
    assert set(made._shards.models) == {1}
    made.delete(made.ids_)
    assert set(made._shards.models) == {0}
    assert made.predict(np.zeros((2, 3))).tolist()[0] in ("ill", "well")


def test_a_plain_majority_answers_what_most_shards_vote(service, table):
    made = service(mechanism="majority")
    votes = made._shards.votes(table[0], 2)
    assert np.array_equal(made.predict(table[0]), made.classes_[votes.argmax(axis=1)])
    assert made.score(*table) > 0.7
    assert made.predictions_left() is None


def test_a_loaded_service_is_the_one_that_was_saved(service, table, tmp_path):
    made = service()
    answers = made.predict(table[0][:5])
    made.delete([3, 4])
    again = ShardedClassifier.load(made.folder, DecisionTreeClassifier())
    assert again._shards.digest() == made._shards.digest()
    assert again.classes_.tolist() == made.classes_.tolist()
    assert again.predictions_left() == made.predictions_left() == 15
    made.predict(table[0][:5])
    assert again.predictions_left() == 10
    before = made.predict(table[0][:5])
    assert np.array_equal(again.predict(table[0][:5]), before)
    assert len(answers) == 5
    assert again.add(table[0][:1], table[1][:1]).tolist() == [120]
    assert made.delete([120]) is None


def test_a_deleted_point_is_in_no_file(service):
    made = service()
    point = made._shards.rows.features[7].tobytes()
    files = lambda: b"".join(path.read_bytes() for path in made.folder.iterdir())
    assert point in files()
    killed = made.folder / ".leaveout-a1b2c3d4.partial"  # as a process leaves that is killed
    killed.write_bytes((made.folder / "state.npz").read_bytes())
    made.delete([7])
    assert point not in files()
    assert (made.folder / "ledger.sqlite").stat().st_mode & 0o077 == 0


def test_other_models_are_not_taken_for_the_saved_ones(service, snapshot):
    made = service()
    with pytest.raises(ShardedError) as told:
        ShardedClassifier.load(made.folder, DecisionTreeClassifier(max_depth=1))
    assert str(told.value) == snapshot


def test_damage_is_found(service, tmp_path, snapshot):
    made = service()
    state = made.folder / "state.npz"
    whole = state.read_bytes()
    for place in (len(whole) // 3, len(whole) // 2):
        state.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(ShardedError) as told:
            ShardedClassifier.load(made.folder, DecisionTreeClassifier())
        assert str(told.value) == snapshot
    state.write_bytes(whole)
    (made.folder / "ledger.sqlite").write_bytes(b"no database" * 100)
    with pytest.raises(ShardedError, match="ledger"):
        ShardedClassifier.load(made.folder, DecisionTreeClassifier())
    with pytest.raises(ShardedError, match="ledger"):
        ShardedClassifier.load(tmp_path / "nowhere", DecisionTreeClassifier())


def test_an_older_copy_of_the_points_is_refused(service, snapshot):
    made = service()
    old = (made.folder / "state.npz").read_bytes()
    made.delete([1])
    made.delete([2])
    (made.folder / "state.npz").write_bytes(old)
    with pytest.raises(ShardedError) as told:
        ShardedClassifier.load(made.folder, DecisionTreeClassifier())
    assert str(told.value) == snapshot


def test_a_change_that_was_written_but_not_acknowledged_is_taken_over(service, monkeypatch):
    made = service()
    write = classifier.write_state

    def interrupted(*given):
        write(*given)
        raise KeyboardInterrupt

    monkeypatch.setattr(classifier, "write_state", interrupted)
    with pytest.raises(KeyboardInterrupt):
        made.delete([1])
    monkeypatch.undo()
    again = ShardedClassifier.load(made.folder, DecisionTreeClassifier())
    assert 1 not in again.ids_
    assert again._ledger.position().version == 2
    ShardedClassifier.load(made.folder, DecisionTreeClassifier())


@pytest.mark.skipif(sys.platform != "linux", reason="calls are told apart by /proc")
def test_wherever_a_deletion_is_ended_it_is_whole_or_undone(service):
    made = service()
    folder, point = made.folder, made._shards.rows.features[7].tobytes()
    before, found = contents(folder), []
    assert holding(folder, [point])
    assert {each.stat().st_mode & 0o777 for each in folder.iterdir()} == {0o600}

    def loaded():
        return ShardedClassifier.load(folder, DecisionTreeClassifier())

    for number in ends(before, folder, lambda: loaded().delete([7]), all_of_them=True):
        again = loaded()
        found.append(7 not in again.ids_)
        if not found[-1]:
            again.delete([7])
        assert not holding(folder, [point]), number
        assert set(contents(folder)) == set(before)
    assert found == sorted(found)
    assert set(found) == {False, True}


def refused(action):
    with pytest.raises(ShardedError) as caught:
        action()
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 2
    return str(caught.value)


def test_bad_input_gives_one_clear_error_and_changes_nothing(
    service, table, settings, tmp_path, snapshot
):
    made = service()
    digest = made._shards.digest()
    X, y = table
    hole = X[:3].copy()
    hole[1, 2] = np.nan
    assert refused(lambda: made.predict(hole)) == snapshot
    assert refused(lambda: made.add(hole, y[:3])) == snapshot
    assert refused(lambda: made.predict(X[:, :2])) == snapshot
    assert refused(lambda: made.predict(X[0])) == snapshot
    assert refused(lambda: made.predict([["a", "b", "c"]])) == snapshot
    assert refused(lambda: made.add(X[:3], y[:2])) == snapshot
    assert refused(lambda: made.add(X[:1], ["dead"])) == snapshot
    assert refused(lambda: made.add(X[:1], [0])) == snapshot
    assert refused(lambda: made.add(np.zeros((81, 3)), y[:81])) == snapshot
    assert refused(lambda: made.delete([5, 400])) == snapshot
    assert refused(lambda: made.delete([-1])) == snapshot
    assert refused(lambda: made.delete([5, 5])) == snapshot
    assert refused(lambda: made.delete([1.5])) == snapshot
    assert made._shards.digest() == digest
    made.delete([5])
    assert refused(lambda: made.delete([4, 5])) == snapshot
    assert 4 in made.ids_
    assert made.predictions_left() == 20
    fresh = ShardedClassifier(GaussianNB(), settings(), tmp_path / "fresh")
    assert refused(lambda: fresh.predict(X)) == snapshot
    assert refused(lambda: fresh.fit(X, np.linspace(0, 1, 120))) == snapshot
    assert refused(lambda: fresh.fit(X[:0], y[:0])) == snapshot
    few = ShardedClassifier(GaussianNB(), settings(labels=2), tmp_path / "few")
    assert refused(lambda: few.fit(X, np.arange(120) % 3)) == snapshot
    other = ShardedClassifier(GaussianNB(), settings(epsilon=0.1), made.folder)
    assert refused(lambda: other.fit(X, y)) == snapshot
    wide = ShardedClassifier(KNeighborsClassifier(100), settings(), tmp_path / "wide")
    # How many points a shard has is drawn anew.
    assert re.sub(r"\b\d\d\b", "SOME", refused(lambda: wide.fit(X, y))) == snapshot


def test_a_refit_in_another_process_is_followed_with_its_labels(service, table, snapshot):
    made = service(epsilon=9.0, predictions=3, on_exhausted="retrain")
    other = ShardedClassifier.load(made.folder, DecisionTreeClassifier())
    other.fit(table[0], np.where(table[1] == "ill", "cat", "dog"))
    answers = made.predict(table[0][:7])
    assert set(answers) == {"cat", "dog"}
    assert made.add(table[0][:1], ["cat"]).tolist() == [120]
    assert refused(lambda: made.add(table[0][:1], ["ill"])) == snapshot
    assert len(made.predict(np.zeros((0, 3)))) == 0


def test_the_constructor_is_scikit_learns(service):
    made = service()
    copy = clone(made)
    assert not hasattr(copy, "classes_")
    assert copy.get_params()["settings"] == made.settings


def test_labels_may_be_numbers(tmp_path, settings, table):
    X, y = table
    made = ShardedClassifier(GaussianNB(), settings(epsilon=9.0), tmp_path, chance=random.Random(0))
    made.fit(X, np.where(y == "ill", 7, 3))
    assert set(made.predict(X[:20]).tolist()) == {3, 7}
    with pytest.raises(ExhaustedError):
        made.predict(X[20:21])
