"""Two models of trees are one function, or an input shows that they are not."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction

import lightgbm
import numpy as np
import onnxmltools
import pytest
import xgboost
from onnxmltools.convert.common.data_types import FloatTensorType
from skl2onnx import to_onnx
from skl2onnx.common.data_types import FloatTensorType as SklearnFloats
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.ensemble import (
    GradientBoostingRegressor,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
)
from typer.testing import CliRunner

import leaveout
from leaveout.bab.forests import tree_comparison
from leaveout.errors import LeaveoutError, TreesError
from leaveout.kernel.trees import Ensemble
from leaveout.models.trees.assemble import Sets, Tree, assemble
from leaveout.models.trees.reading import of_model
from leaveout.verifier import compare as comparing
from leaveout.verifier.cli.app import app
from leaveout.verifier.compare import compare, read_box

from support.depth import rounds
from support.onnx_trees import one_question, run
from support.small_trees import FLAWS, all_cells, exact_gap, random_ensemble, spoil
from tree_inputs import hard_inputs

BATCHES = 20


def onnx_of(model, features):
    kind = [("x", FloatTensorType([None, features]))]
    if "xgb" in type(model).__module__:
        return onnxmltools.convert_xgboost(model, initial_types=kind, target_opset=15)
    if "lightgbm" in type(model).__module__:
        return onnxmltools.convert_lightgbm(model, initial_types=kind, target_opset=15)
    return to_onnx(model, initial_types=[("x", SklearnFloats([None, features]))])


@pytest.mark.parametrize("batch", range(BATCHES))
def test_every_answer_is_that_of_all_cells(monkeypatch, batch):
    monkeypatch.setattr(comparing, "_read", lambda each: each)
    monkeypatch.setattr(comparing, "replay", lambda *given: None)
    unknown = 0
    for seed in range(100 * batch, 100 * batch + rounds(100)):
        rng = np.random.default_rng(seed)
        scores, flaw = int(rng.choice((1, 1, 2, 3))), str(rng.choice(FLAWS))
        labels = ("a", "b", "c")[: max(2, scores)] if rng.random() < 0.5 else ()
        one = random_ensemble(
            rng, scores=scores, trees=int(rng.integers(1, 4)), depth=int(rng.integers(1, 4)),
            categories=bool(rng.integers(2)), labels=labels,
        )  # fmt: skip
        other = spoil(rng, one, flaw)
        inputs, missing = str(rng.choice(("float32", "float64"))), bool(rng.integers(2))
        tolerance = None if rng.random() < 0.7 else float(rng.choice((1e-6, 0.1, 0.5, 2.0)))
        found = compare(one, other, inputs=inputs, missing=missing, tolerance=tolerance)
        gap = exact_gap(
            one, other, all_cells(one, other, single=inputs == "float32", missing=missing)
        )
        assert found.difference >= gap.max()
        if found.verdict == "proved":
            assert gap.max() <= (1e-3 if tolerance is None else tolerance)
        elif found.verdict == "refuted":
            point = np.array([found.example.input])
            assert exact_gap(one, other, point)[0] > (
                1e-5 if tolerance is None else tolerance - 1e-6
            )
            assert missing or not np.isnan(point).any()
            short = point.astype(np.float32)
            assert inputs == "float64" or np.array_equal(point, short, equal_nan=True)
        else:
            unknown += 1
    assert unknown <= 1


@pytest.mark.parametrize("batch", range(4))
def test_a_tolerance_that_is_the_largest_difference_is_decided(monkeypatch, batch):
    monkeypatch.setattr(comparing, "_read", lambda each: each)
    monkeypatch.setattr(comparing, "replay", lambda *given: None)
    for seed in range(25 * batch, 25 * batch + rounds(25)):
        rng = np.random.default_rng(seed)
        one = random_ensemble(rng, trees=int(rng.integers(1, 4)), depth=2)
        one = replace(one, ordered=True, single=bool(rng.integers(2)))
        other = spoil(rng, one, str(rng.choice(("leaf", "up", "missing", "swap", "base"))))
        cells = all_cells(one, other, single=True)
        scores = (map(Fraction, each.scores(cells)[:, 0].tolist()) for each in (one, other))
        exact = max(abs(a - b) for a, b in zip(*scores))
        largest = float(exact)
        if largest < exact:  # the difference of two float64 scores can itself be rounded
            largest = float(np.nextafter(largest, np.inf))
        found = compare(one, other, inputs="float32", tolerance=largest)
        assert found.verdict == "proved"
        assert found.difference <= largest
        if largest == exact > 0:
            below = float(np.nextafter(largest, 0.0))
            assert compare(one, other, inputs="float32", tolerance=below).verdict == "refuted"


def chain(depth, *, changed=-1):
    """Return one tree of two features that is a path of questions; one leaf may have 0.25 more."""
    size = 2 * depth + 1
    at, leaf = np.arange(size), np.arange(size) % 2 == 1
    leaf[-1] = True
    values = np.random.default_rng(0).normal(size=size) + 0.25 * (at == changed)
    tree = Tree(
        np.where(leaf, -1, at // 2 % 2), np.where(leaf, 0.0, -1.0 * at), np.zeros(size, bool),
        np.full(size, -1), np.where(leaf, 0, at + 2), np.where(leaf, 0, at + 1), values,
    )  # fmt: skip
    return Ensemble(assemble([tree], Sets(), 1, 2), np.zeros(1), (), 2)


def test_trees_of_a_thousand_levels_are_compared(monkeypatch):
    monkeypatch.setattr(comparing, "_read", lambda each: each)
    monkeypatch.setattr(comparing, "replay", lambda *given: None)
    one, other = chain(1000), chain(1000, changed=1501)
    assert compare(one, chain(1000)).verdict == "proved"
    found = compare(one, other)
    assert found.verdict == "refuted"
    assert found.example.difference == pytest.approx(0.25)
    assert compare(one, other, tolerance=0.3).verdict == "proved"


def test_a_bound_holds_where_pairs_of_trees_have_no_room(monkeypatch):
    monkeypatch.setattr(comparing, "_read", lambda each: each)
    monkeypatch.setattr(comparing, "replay", lambda *given: None)
    monkeypatch.setattr(tree_comparison, "_MOST_NODES", 0)
    monkeypatch.setattr(tree_comparison, "_ROOM", 1)
    for seed in range(rounds(60)):
        rng = np.random.default_rng(seed)
        one, other = (random_ensemble(rng, trees=3, depth=3) for _ in range(2))
        tolerance = None if seed % 2 else 1.0
        found = compare(one, other, inputs="float32", tolerance=tolerance)
        gap = exact_gap(one, other, all_cells(one, other, single=True)).max()
        assert found.difference >= gap
        assert found.verdict == "refuted" or (tolerance is not None and gap <= tolerance)


@pytest.mark.parametrize("tolerance", [None, 1.0])
@pytest.mark.parametrize("factor", [0.6, -1.0])
def test_sums_that_overflow_prove_nothing(monkeypatch, tolerance, factor):
    monkeypatch.setattr(comparing, "_read", lambda each: each)
    monkeypatch.setattr(comparing, "replay", lambda *given: None)
    one = random_ensemble(np.random.default_rng(0), trees=1, depth=2)
    huge = replace(one.nodes, values=np.full_like(one.nodes.values, 1.5e308))
    one = replace(one, nodes=huge)
    other = replace(one, nodes=replace(huge, values=huge.values * factor))
    with np.errstate(over="ignore", invalid="ignore"):
        found = compare(one, other, tolerance=tolerance)
    assert found.verdict != "proved"
    assert found.difference == np.inf


def test_a_column_without_values_has_none_in_the_example(files):
    one, other = files(one=one_question(0.5), other=one_question(0.75))
    rows = np.array([[0.6, np.nan], [0.7, np.nan]])
    found = compare(one, other, rows)
    assert np.isnan(found.example.input[1])
    assert 0.5 < found.example.input[0] <= 0.75


def test_an_export_of_xgboost_is_the_model(tmp_path):
    X, y = load_breast_cancer(return_X_y=True)
    model = xgboost.XGBClassifier(n_estimators=8).fit(X, y)
    exported = onnx_of(model, X.shape[1])
    model.save_model(tmp_path / "m.json")
    (tmp_path / "m.onnx").write_bytes(exported.SerializeToString())
    for one, other in ((model, exported), (tmp_path / "m.json", tmp_path / "m.onnx")):
        found = leaveout.compare(one, other)
        assert found.equal
        assert found.example is None
        assert found.wider is None
        assert 0 < found.difference < 1e-4


@pytest.mark.parametrize("missing", [False, True])
def test_what_is_proved_holds_on_many_inputs(missing):
    """Inputs at and beside every threshold, in both libraries."""
    X, y = load_breast_cancer(return_X_y=True)
    if missing:
        model = xgboost.XGBClassifier(n_estimators=10).fit(X, y)
    else:
        model = RandomForestClassifier(10, random_state=0).fit(X, y)
    exported = onnx_of(model, X.shape[1])
    found = compare(model, exported, missing=missing)
    assert found.equal
    points = hard_inputs(of_model(exported), np.random.default_rng(0), 20_000, missing=missing)
    points = points.astype(np.float32)
    labels, values = run(exported.SerializeToString(), points)
    values = (
        np.array([list(each.values()) for each in values]) if isinstance(values, list) else values
    )
    own = model.predict_proba(points)
    assert np.abs(own - values).max() <= found.difference
    near = np.abs(own[:, 0] - 0.5) <= found.difference
    assert ((model.predict(points) == labels) | near).all()


def test_the_range_of_rows_holds_their_rounded_values(files):
    one, other = files(one=one_question(0.1, double=True), other=one_question(0.1))
    assert float(np.float32(0.1)) > 0.1
    rows = np.array([[0.1, 0.0], [0.0, np.nan]])
    found = compare(one, other, rows, inputs="float32")
    assert found.equal is False
    assert found.rows.differ == 1
    assert compare(one, other, np.array([[0.05, np.nan], [0.0, np.nan]])).equal


def check_example(found, one, other, point_of=np.float32):
    """Replay an example in both libraries here, independently of the program."""
    assert found.equal is False
    point = np.array([found.example.input]).astype(point_of)
    mine = np.asarray(one(point.astype(np.float64)), float).ravel()
    others = np.asarray(other(point), float).ravel()
    assert np.abs(mine - others).max() > 1e-3
    assert len(found.example.replays) == 2
    assert all(each.expected and not each.refusal for each in found.example.replays)


def test_histogram_boosting_loses_its_float64_thresholds():
    """Its regressor's thresholds are rounded to float32 by skl2onnx."""
    X, y = load_diabetes(return_X_y=True)
    X = X.astype(np.float32).astype(np.float64)
    model = HistGradientBoostingRegressor(max_iter=20).fit(X, y)
    exported = onnx_of(model, X.shape[1])
    found = compare(model, exported)
    data = exported.SerializeToString()
    check_example(found, model.predict, lambda point: run(data, point)[0])
    assert "rounded to float32" in found.example.reason


def test_lightgbm_changes_on_times_of_day():
    """Sines and cosines of times, a label that is on for an hour of a day."""
    hours = np.arange(0, 24 * 14, 1 / 12)
    X = np.stack([f(2 * np.pi * hours / period) for period in (24, 168)
                  for f in (np.sin, np.cos)], axis=1)  # fmt: skip
    y = ((hours % 24 // 1 == 8) & (hours // 24 % 7 < 5)).astype(float)
    model = lightgbm.LGBMRegressor(n_estimators=30, verbose=-1, n_jobs=1).fit(X, y)
    data = onnx_of(model, 4).SerializeToString()
    found = compare(model, onnx_of(model, 4))
    check_example(found, model.predict, lambda point: run(data, point)[0])


def test_a_classifier_of_lightgbm_answers_otherwise():
    """Whole numbers beside fractions, as in a table of counts and rates."""
    rng = np.random.default_rng(0)
    X = np.where(rng.random((600, 6)) < 0.5, rng.integers(0, 9, (600, 6)), rng.random((600, 6)))
    y = (X[:, 0] + X[:, 1] * X[:, 2] > 4).astype(int)
    model = lightgbm.LGBMClassifier(n_estimators=30, verbose=-1, n_jobs=1).fit(X, y)
    data = onnx_of(model, 6).SerializeToString()
    found = compare(model, onnx_of(model, 6))
    assert found.example.answers[0] != found.example.answers[1]
    point = np.array([found.example.input])
    assert model.predict(point)[0] != run(data, point)[0][0]


def test_only_missing_values_differ():
    """A forest sends missing values the way most rows went; its export sends all right."""
    X, y = load_breast_cancer(return_X_y=True)
    model = RandomForestClassifier(5, random_state=0).fit(X, y)
    found = compare(model, onnx_of(model, X.shape[1]))
    assert found.equal is False
    assert np.isnan(found.example.input).any()
    assert "missing" in found.example.reason
    assert any(each.startswith("without missing values: proved") for each in found.notes)
    assert compare(model, onnx_of(model, X.shape[1]), missing=False).equal
    rows = compare(model, onnx_of(model, X.shape[1]), X)
    assert rows.equal
    assert (rows.rows.rows, rows.rows.answers_differ) == (len(X), 0)


def test_a_library_that_refuses_missing_values_has_none():
    X, y = load_diabetes(return_X_y=True)
    model = GradientBoostingRegressor(n_estimators=5).fit(X, y)
    found = compare(model, onnx_of(model, X.shape[1]))
    assert found.equal
    assert "sklearn refuses missing values" in found.notes[0]


def test_a_link_that_is_lost_is_a_difference():
    X, y = load_diabetes(return_X_y=True)
    model = HistGradientBoostingRegressor(loss="poisson", max_iter=2).fit(np.round(X, 1), y)
    found = compare(model, onnx_of(model, X.shape[1]), missing=False)
    assert found.equal is False
    assert "exp" in str(found)


def test_two_labels_as_two_scores_are_lost_by_onnxruntime():
    X, y = load_breast_cancer(return_X_y=True)
    model = xgboost.XGBClassifier(n_estimators=4, objective="multi:softprob", num_class=2)
    found = compare(model.fit(X, y), onnx_of(model, X.shape[1]))
    assert found.equal is False
    assert found.example.answers[0] != found.example.answers[1]


@pytest.fixture
def files(tmp_path):
    def write(**models):
        paths = [tmp_path / f"{name}.onnx" for name in models]
        for path, data in zip(paths, models.values()):
            path.write_bytes(data)
        return paths

    return write


def test_float64_inputs_are_another_question(files):
    below = float(np.nextafter(np.float32(0.1), np.float32(0)))
    one, other = files(one=one_question(0.1, double=True), other=one_question(below))
    found = compare(one, other)
    assert found.equal
    assert found.wider.equal is False
    point = np.array([found.wider.example.input])
    assert run(one.read_bytes(), point)[0] != run(other.read_bytes(), point)[0]
    assert compare(one, other, inputs="float32").wider is None
    assert compare(one, other, inputs="float64").equal is False
    assert "float64" in str(found)


def test_less_became_at_most(files):
    one, other = files(one=one_question(0.5, "LT"), other=one_question(0.5))
    found = compare(one, other)
    assert found.example.input[0] == 0.5
    assert "< in one model is <= in the other" in found.example.reason
    assert compare(one, other, box={0: (0.6, 1.0)}).equal
    assert compare(one, other, box={0: (0.0, 0.5)}).equal is False


def test_where_two_models_part_is_said(files):
    one, *others = files(
        one=one_question(0.5),
        base=one_question(0.5, base_values=[0.25]),
        leaf=one_question(0.5, leaves=(1.0, 2.5)),
        missing=one_question(0.5, missing=1),
    )
    reasons = [compare(one, each).example.reason for each in others]
    assert "base values are 0 and 0.25" in reasons[0]
    assert "leaves that both reach have other values" in reasons[1]
    assert "a missing feature 0 goes left" in reasons[2]


def test_tolerances(files):
    one, other = files(one=one_question(0.5), other=one_question(0.5, leaves=(1.0, 2.25)))
    assert compare(one, other, tolerance=0.3).verdict == "proved"
    assert compare(one, other, tolerance=0.2).verdict == "refuted"
    assert compare(one, other, tolerance=0.25).verdict == "unknown"
    assert compare(one, other, tolerance=0.0, box={"0": (-1, 0)}).verdict == "unknown"


def command(*given):
    return CliRunner().invoke(app, ["compare", *map(str, given)])


def test_the_command(files, tmp_path):
    one, same, other = files(
        one=one_question(0.5), same=one_question(0.5), other=one_question(0.75)
    )
    found = command(one, same)
    assert found.exit_code == 0
    assert found.output.startswith("proved    equal for every float32 input\n")
    target = tmp_path / "answer.json"
    found = command(one, other, "--json", target)
    assert found.exit_code == 1
    assert "tree 0, node 0: feature 0 is compared with 0.5 and 0.75" in found.output
    assert "onnxruntime" in found.output
    answer = json.loads(target.read_bytes())
    assert answer["verdict"] == "refuted"
    assert 0.5 < answer["example"]["input"][0] <= 0.75
    assert json.loads(command(one, other, "--json", "-").output) == answer
    assert "name another file" in str(command(one, other, "--json", one).exception)
    table = tmp_path / "rows.csv"
    table.write_text("id,a,b\nx,0.1,1\ny,0.2,\n")
    assert command(one, other, "--data", table, "--drop", "id").exit_code == 0
    assert command(one, other, "--data", table, "--drop", "id", "--box", "0 in 0..1").exit_code == 1
    assert command(one, other, "--box", "0 in 0..0.5").exit_code == 0
    assert command(one, same, "--tolerance", 0).exit_code == 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--box", "age"], "expected FEATURE in LEAST..GREATEST"),
        (["--box", "age in 1..2"], "no feature 'age'"),
        (["--box", "0 in 2..1"], "the least value is above"),
        (["--data", "rows.csv"], "'x' is not a number"),
        (["--data", "rows.csv", "--drop", "id"], "shape (1, 1)"),
        (["--data", "rows.csv", "--no-missing"], "tell which values can be missing"),
        (["--data", "none.csv"], "no such file"),
    ],
)
def test_wrong_options_are_refused(files, tmp_path, monkeypatch, options, message):
    (one,) = files(one=one_question(0.5))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.csv").write_text("id,a\nx,0.1\n")
    error = command(one, one, *options).exception
    assert isinstance(error, LeaveoutError)
    assert message in str(error)


def test_models_that_do_not_fit_are_refused(files):
    (one,) = files(one=one_question(0.5))
    X, y = load_diabetes(return_X_y=True)
    wide = GradientBoostingRegressor(n_estimators=1).fit(X, y)
    with pytest.raises(TreesError, match="reads 2 features and the second 10"):
        compare(one, wide)
    with pytest.raises(TreesError, match="expected float32 or float64"):
        compare(one, one, inputs="int")
    assert read_box("a in -1..2.5, b in 0..1e3") == {"a": (-1.0, 2.5), "b": (0.0, 1000.0)}


def test_without_time_nothing_is_claimed():
    X, y = load_diabetes(return_X_y=True)
    model = HistGradientBoostingRegressor(max_iter=5).fit(X, y)
    changed = HistGradientBoostingRegressor(max_iter=5, random_state=1).fit(X[:, ::-1], y)
    for other in (onnx_of(model, X.shape[1]), changed):
        found = compare(model, other, seconds=0.0, tolerance=1e-9)
        assert found.verdict != "proved"
        assert found.difference > 1e-9


@pytest.mark.parametrize("zipmap", [True, False])
def test_probabilities_times_one_are_read(tmp_path, zipmap):
    """Onnxmltools writes that product in place of a ZipMap."""
    X = np.random.default_rng(0).integers(0, 9, (80, 2)).astype(float)
    model = lightgbm.LGBMClassifier(n_estimators=3, n_jobs=1, verbose=-1).fit(X, (X[:, 0] > 4) * 1)
    kind = [("x", FloatTensorType([None, 2]))]
    exported = onnxmltools.convert_lightgbm(
        model, initial_types=kind, target_opset=15, zipmap=zipmap
    )
    assert any(node.op_type == "Mul" for node in exported.graph.node) != zipmap
    assert compare(model, exported, missing=False).equal
