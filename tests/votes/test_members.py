"""Members: what they are trained on, how they score, how they are written, what is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

from leaveout.errors import TrainingError
from leaveout.models.votes import (
    PartRecipe,
    hold_election,
    make_learner,
    partition,
    read_ballots,
    samples_from_arrays,
)
from leaveout.models.votes.learners import Learner
from leaveout.models.votes.member import label_scores
from leaveout.partition_options import SURVIVORS

from support.counted import tally
from support.parts import LINEAR, TREE, cancer


def plurality(ballots):
    return tally(ballots.votes, ballots.labels).predictions


# Members


def test_a_member_is_the_classifier_fitted_on_its_sorted_rows_with_its_own_seed():
    X, y, X_test, y_test = cancer(seed=6)
    samples = samples_from_arrays(X, y, X_test, y_test)
    election = hold_election(samples, PartRecipe(parts=4, seed=40))
    for part in range(4):
        rows = np.flatnonzero(election.partition.base == part)
        rows = rows[np.lexsort((y[rows], *X[rows].T[::-1]))]
        forest = RandomForestClassifier(n_estimators=10, random_state=40 + part)
        expected = forest.fit(X[rows], y[rows]).predict_proba(X_test).astype(np.float32)
        assert np.array_equal(election.ballots.scores[:, part], expected)


def test_scaling_is_folded_into_a_network():
    pytest.importorskip("torch")
    from leaveout.models.train import Recipe
    from leaveout.models.train.export import scores
    from leaveout.models.votes.member import train_network

    X, y, X_test, _ = cancer(rows=80)
    shift, factor = X.mean(axis=0), 1 / X.std(axis=0)
    recipe = Recipe(layers=(6,), epochs=5, batch=16)
    folded = train_network(recipe, X, y, 2, scale=True)
    plain = train_network(recipe, (X - shift) * factor, y, 2, scale=False)
    expected = scores(plain.SerializeToString(), ((X_test - shift) * factor).astype(np.float32))
    found = scores(folded.SerializeToString(), X_test.astype(np.float32))
    assert np.allclose(found, expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("DecisionTreeClassifier", {}),
        ("LogisticRegression", {"max_iter": 50}),
        ("LinearSVC", {}),
        ("GaussianNB", {}),
        ("NearestCentroid", {}),
        ("SVC", {}),
        ("RidgeClassifier", {}),
        ("MLPClassifier", {"max_iter": 20}),
        ("HistGradientBoostingClassifier", {"max_iter": 3, "min_samples_leaf": 2}),
    ],
)
def test_votes_are_the_highest_scores_and_absent_labels_are_never_voted(name, settings):
    X, y = load_iris(return_X_y=True)
    samples = samples_from_arrays(X[::2], y[::2], X[1::2], y[1::2], labels=list("0123"))
    recipe = PartRecipe(parts=3, learner=make_learner(name, settings), scale=True)
    ballots = hold_election(samples, recipe).ballots
    assert np.array_equal(ballots.scores.argmax(axis=2), ballots.votes)
    assert (ballots.scores[:, :, 3] < ballots.scores[:, :, :3].min(axis=2)).all()
    assert (ballots.votes == ballots.truth[:, None]).mean() > 0.6
    without = hold_election(
        samples, PartRecipe(parts=3, learner=recipe.learner, scale=True, scores=False)
    )
    assert without.ballots.scores is None
    assert np.array_equal(without.ballots.votes, ballots.votes)


def test_absent_labels_score_below_others_however_large_these_are():
    class Fixed:
        classes_ = np.array([1, 2])

        def __init__(self, size):
            self.size = size

        def decision_function(self, X):
            return np.repeat(self.size, len(X))

    for size in (0.0, 1e-30, 3e9, -3e9, 1e30):
        scores = label_scores(Fixed(size), np.zeros((2, 1)), 4)
        assert (scores[:, [0, 3]] < scores[:, [1, 2]].min(axis=1, keepdims=True)).all()
        assert scores.argmax(axis=1).tolist() == [2 if size > 0 else 1] * 2


def test_parts_without_rows_or_with_one_label_vote_as_documented(snapshot):
    X = np.arange(6.0)[:, None]
    y = np.array([2, 2, 2, 1, 1, 1])
    samples = samples_from_arrays(X, y, X, y, labels=list("012"))
    election = hold_election(samples, PartRecipe(parts=20, learner=TREE), onnx=True)
    for part, rows in enumerate(election.partition.rows(samples.y)):
        present = set(y[rows].tolist())
        if len(present) < 2:
            assert set(election.ballots.votes[:, part]) == (present or {0})
    notes = " ".join(election.ballots.origin.notes)
    constant = [set(votes) for votes in election.ballots.votes.T]
    sizes = election.ballots.origin.sizes
    single = [
        label for label, size in zip(constant, sizes, strict=True) if size and len(label) == 1
    ]
    assert notes == snapshot
    assert f"{sizes.count(0)}" in notes
    counts = ", ".join(f"'{c}' ({single.count({c})})" for c in (1, 2))
    assert f"{len(single)}" in notes
    assert f"{counts}" in notes
    assert f"{20 - sizes.count(0)}" in notes
    assert 0 in sizes


# SS-DPA bases


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("LabelSpreading", {"kernel": "knn", "n_neighbors": 5}),
        ("SelfTrainingClassifier", {"estimator": "LogisticRegression"}),
    ],
)
def test_semi_supervised_members_read_all_samples_and_the_labels_of_their_part(name, settings):
    X, y, X_test, y_test = cancer(rows=200)
    learner = make_learner(name, settings)
    recipe = PartRecipe(method="ss_dpa", parts=5, learner=learner, features=("StandardScaler",))
    before = hold_election(samples_from_arrays(X, y, X_test, y_test), recipe)
    assert (plurality(before.ballots) == y_test).mean() > 0.8
    poisoned = y.copy()
    poisoned[3] = 1 - y[3]
    after = hold_election(samples_from_arrays(X, poisoned, X_test, y_test), recipe)
    others = np.arange(5) != before.partition.base[3]
    assert np.array_equal(before.ballots.scores[:, others], after.ballots.scores[:, others])


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("LabelSpreading", {"gamma": 5}),
        ("SelfTrainingClassifier", {"estimator": "GaussianNB"}),
    ],
)
def test_a_semi_supervised_member_reads_samples_of_other_parts(name, settings):
    X, y, X_test, y_test = cancer(rows=200)
    X, X_test = X / X.max(axis=0), X_test / X.max(axis=0)
    recipe = PartRecipe(method="ss_dpa", parts=5, learner=make_learner(name, settings))
    before = hold_election(samples_from_arrays(X, y, X_test, y_test), recipe)
    # Its first value, which the samples are sorted by, stays: so do all parts.
    moved = X.copy()
    moved[7, 1:] = X[150, 1:]
    after = hold_election(samples_from_arrays(moved, y, X_test, y_test), recipe)
    assert np.array_equal(before.partition.base, after.partition.base)
    others = np.arange(5) != before.partition.base[7]
    assert not np.array_equal(before.ballots.scores[:, others], after.ballots.scores[:, others])


# Models


@pytest.mark.parametrize(
    ("learner", "scale"),
    [
        (LINEAR, True),
        (make_learner("LinearSVC"), False),
        (make_learner("MLPClassifier", {"hidden_layer_sizes": (9, 5), "max_iter": 30}), True),
        (make_learner("MLPClassifier", {"activation": "tanh", "max_iter": 30}), False),
    ],
)
def test_models_written_plainly_vote_as_counted(tmp_path, learner, scale, snapshot):
    onnx = pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    X, y = load_iris(return_X_y=True)
    data = tmp_path / "iris.npz"
    np.savez(data, X_train=X[::2], y_train=y[::2], X_test=X[1::2], y_test=y[1::2])
    recipe = PartRecipe(parts=4, learner=learner, scale=scale)
    partition(data, tmp_path / "out", recipe=recipe, workers=1)
    ballots = read_ballots(tmp_path / "out" / "ballots.npz")
    differing = 0
    for part in range(4):
        path = tmp_path / "out" / "models" / f"part_{part:04}.onnx"
        kinds = {node.op_type for node in onnx.load(path).graph.node}
        assert kinds <= {"Gemm", "Relu", "Tanh"}
        session = runtime.InferenceSession(path.read_bytes(), providers=["CPUExecutionProvider"])
        (scores,) = session.run(None, {"x": X[1::2].astype(np.float32)})
        differing += int((scores.argmax(axis=1) != ballots.votes[:, part]).sum())
    assert differing <= 3
    (note,) = [note for note in ballots.origin.notes if "exported to ONNX" in note]
    assert note.startswith("4 members")
    assert note == snapshot
    assert f"{differing}" in note


def test_a_forest_is_written_by_skl2onnx_or_the_manifest_says_why_not(tmp_path, snapshot):
    data = tmp_path / "cancer.npz"
    names = ("X_train", "y_train", "X_test", "y_test")
    np.savez(data, **dict(zip(names, cancer())))
    partition(data, tmp_path / "out", recipe=PartRecipe(parts=4), workers=1)
    notes = " ".join(read_ballots(tmp_path / "out" / "ballots.npz").origin.notes)
    try:
        import skl2onnx
    except ImportError:
        assert "4 members are not exported to ONNX: skl2onnx is not installed" in notes
    else:
        assert skl2onnx.__version__
        assert notes == snapshot
        assert len(list((tmp_path / "out" / "models").iterdir())) == 4


def test_what_skl2onnx_cannot_convert_is_named(snapshot):
    samples = samples_from_arrays(*cancer())
    recipe = PartRecipe(parts=3, learner=make_learner("NearestCentroid"))
    notes = " ".join(hold_election(samples, recipe, onnx=True).ballots.origin.notes)
    assert notes == snapshot


def test_no_folder_of_models_is_made_or_named_where_none_could_be_written(tmp_path):
    data, out = tmp_path / "cancer.npz", tmp_path / "out"
    np.savez(data, **dict(zip(("X_train", "y_train", "X_test", "y_test"), cancer())))
    recipe = PartRecipe(parts=3, learner=make_learner("NearestCentroid"))
    report = partition(data, out, recipe=recipe, workers=1, onnx=True)
    assert set(report.files) == set(out.iterdir())
    assert {path.name for path in report.files} == {"ballots.npz", "parts.csv", "poisoning.spec"}


# Settings and data that cannot be used


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("DecisionTree", {}),
        ("PCA", {}),
        ("DecisionTreeClassifier", {"max_dept": 3}),
        ("DecisionTreeClassifier", {"max_depth": "deep"}),
        ("DecisionTreeClassifier", {"random_state": 3}),
        ("RandomForestClassifier", {"n_jobs": 4}),
        ("VotingClassifier", {}),
        ("SelfTrainingClassifier", {}),
        ("SelfTrainingClassifier", {"estimator": "Logistic"}),
        ("torch", {"depth": 3}),
        ("torch", {"layers": "9,x"}),
    ],
)
def test_learners_that_do_not_exist_are_one_error(name, settings, snapshot):
    with pytest.raises(TrainingError) as caught:
        make_learner(name, settings)
    assert str(caught.value) == snapshot
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "settings",
    [
        {"parts": 1},
        {"method": "bagging"},
        {"spread": 3},
        {"seed": -1},
        {"seed": 2**32 - 10},
        {"features": ("PCA",)},
        {"merge_duplicates": True},
        {"hash_key": "x" * 65},
        {"learner": make_learner("LabelSpreading")},
        {"method": "ss_dpa", "hash_reads_label": True},
        {"parts": 200_000},
    ],
)
def test_recipes_that_would_certify_nothing_are_refused(settings, snapshot):
    with pytest.raises(TrainingError) as told:
        PartRecipe(**settings)
    assert str(told.value) == snapshot


@pytest.mark.parametrize("name", ["SelectKBest", "LinearDiscriminantAnalysis", "TSNE", "Nonsense"])
def test_features_that_read_labels_or_fit_no_new_row_are_refused(name):
    samples = samples_from_arrays(*cancer(rows=60))
    recipe = PartRecipe(method="ss_dpa", parts=3, features=(name,), learner=TREE)
    with pytest.raises(TrainingError, match=f"--features {name}: "):
        hold_election(samples, recipe)


def test_a_part_on_which_the_learner_fails_is_named(snapshot):
    samples = samples_from_arrays(*cancer(rows=60))
    learner = make_learner("KNeighborsClassifier", {"n_neighbors": 50})
    with pytest.raises(TrainingError) as told:
        hold_election(samples, PartRecipe(parts=4, learner=learner))
    assert str(told.value) == snapshot
    with pytest.raises(TrainingError) as told:
        hold_election(samples, PartRecipe(parts=4, learner=learner), workers=2)
    assert str(told.value) == snapshot


def test_the_undefended_model_is_the_classifier_fitted_on_all_sorted_rows():
    X, y, X_test, y_test = cancer(seed=6)
    labels = ["0", "1"]
    samples = samples_from_arrays(X, y, X_test, y_test, labels=labels)
    order = np.lexsort((y, *X.T[::-1]))
    forest = RandomForestClassifier(n_estimators=10, random_state=40).fit(X[order], y[order])
    expected = int((forest.predict(X_test) == y_test).sum())
    for method, spread in (("dpa", 1), ("finite_aggregation", 3), ("ss_dpa", 1)):
        recipe = PartRecipe(parts=4, seed=40, method=method, spread=spread)
        election = hold_election(samples, recipe, undefended=True)
        assert election.ballots.origin.undefended_right == expected
        assert election.ballots.parts == 4 * spread
    plain = hold_election(samples, PartRecipe(parts=4, seed=40))
    assert plain.ballots.origin.undefended_right is None
    # A row of no label is in no member, nor in this one.
    more = samples_from_arrays(
        np.vstack([X, X[:9] + 1]), np.append(y, [5] * 9), X_test, y_test, labels=labels
    )
    assert hold_election(more, recipe, undefended=True).ballots.origin.undefended_right == expected


class Timid(DecisionTreeClassifier):
    """A tree that takes no more than fifty rows."""

    def fit(self, X, y, sample_weight=None):
        if len(X) > 50:
            raise ValueError("too many rows")
        return super().fit(X, y, sample_weight)


def test_an_undefended_model_that_fails_is_told_and_stops_nothing(monkeypatch, snapshot):
    recipe = PartRecipe(parts=4, learner=Learner("Timid", prototype=Timid()))
    election = hold_election(samples_from_arrays(*cancer(rows=60)), recipe, undefended=True)
    assert election.ballots.origin.undefended_right is None
    said = "all rows (60 rows, 2 labels): Timid training or prediction fails: too many rows"
    assert election.undefended_failed == said
    monkeypatch.setitem(SURVIVORS, "tree", replace(SURVIVORS["tree"], most_rows=50))
    recipe = PartRecipe(parts=4, learner=make_learner("tree"))
    election = hold_election(samples_from_arrays(*cancer(rows=60)), recipe, undefended=True)
    assert election.undefended_failed == snapshot
    assert not election.findings.failed
