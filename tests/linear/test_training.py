"""A model of a table is the minimum that its settings state, and says how near it is to it."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize

from leaveout.errors import LeaveoutError, LinearError, TrainingError
from leaveout.models.linear.file import load_linear
from leaveout.models.linear.fit import objective
from leaveout.models.linear.from_sklearn import gradient_norm
from leaveout.models.linear.training import train_linear
from leaveout.models.reading import Reading
from leaveout.verifier.cli import run

from support import networks
from support.depth import rounds
from support.linear_tables import opened, table, trained, write

KINDS = ("logistic", "softmax", "svm", "ridge", "poisson", "gamma")


@st.composite
def fits(draw):
    kind = draw(st.sampled_from(KINDS))
    labels = draw(st.integers(2, 3))
    rows = table(draw(st.integers(0, 10**6)), draw(st.integers(12, 30)), labels)
    options = {
        "kind": kind,
        "penalty": draw(st.sampled_from([0.01, 1.0, 30.0])),
        draw(st.sampled_from(["bins", "splines"])): draw(st.sampled_from([0, 2, 4])),
        "weights": draw(st.sampled_from(["", "counts"])),
        "label": "ill" if kind in KINDS[:3] else "cost",
    }
    return rows, options


def total(model, coefficients):
    """Return what a model minimises, at coefficients."""
    value, first = 0.0, 0
    for problem in model.problems:
        theta = coefficients[first : first + problem.outputs]
        first += problem.outputs
        scores = problem.rows(0, len(problem.target)) @ theta.T
        value += objective(problem, scores, 0, len(problem.target))
        value += float((theta**2 @ problem.penalty).sum()) / 2
    return value


@given(fits())
@settings(max_examples=rounds(40), deadline=None)
def test_a_model_is_the_minimum(drawn):
    rows, options = drawn
    with tempfile.TemporaryDirectory() as name:
        folder = opened(trained(Path(name), rows, **options))
    model, rng = folder.model, np.random.default_rng(0)
    assert gradient_norm(model) < 1e-8
    least = total(model, model.coefficients)
    for size in (1e-3, 0.1, 1.0):
        other = model.coefficients + size * rng.normal(size=model.coefficients.shape)
        assert total(model, other) >= least - 1e-9 * abs(least)
    found = optimize.minimize(
        lambda flat: total(model, flat.reshape(model.coefficients.shape)),
        np.zeros(model.coefficients.size),
        options={"gtol": 1e-7},
    )
    assert found.fun >= least - 1e-6
    assert abs(found.fun - least) < 1e-3 * (1 + abs(least))


@given(fits(), st.sampled_from([1e-9, 1e-6, 1e-3]), st.integers(0, 99))
@settings(max_examples=rounds(40), deadline=None)
def test_no_model_is_farther_from_the_minimum_than_is_proved(drawn, size, seed):
    rows, options = drawn
    with tempfile.TemporaryDirectory() as name:
        least = opened(trained(Path(name), rows, **options))
    rng = np.random.default_rng(seed)
    moved = least.model.coefficients + size * rng.normal(size=least.model.coefficients.shape)
    away = replace(least, model=replace(least.model, coefficients=moved))
    try:
        coefficients, scores = away.distances()
    except LinearError:
        # So far away nothing need be proved.
        assert size > 1e-4
        return
    apart = np.linalg.norm(moved - least.model.coefficients)
    assert least.distances()[0] < 1e-8
    assert apart <= coefficients + least.distances()[0]
    points = rng.uniform(0, 1, (200, least.model.inputs))
    words = least.model.inputs - 2
    points[:, 2:] = np.eye(words)[rng.integers(0, words, 200)]
    between = np.abs(away.model.scores(points) - least.model.scores(points)).max()
    assert between <= scores + least.distances()[1] + 1e-12


def test_numbers_are_scaled_and_words_are_one_hot(tmp_path):
    rows = table(3, 30)
    folder = opened(trained(tmp_path, rows))
    ages, doses = (np.array([float(row[name]) for row in rows]) for name in ("age", "dose"))
    expected = [(each - each.min()) / np.ptp(each) for each in (ages, doses)]
    expected += [[float(row["ward"] == word) for row in rows] for word in "abc"]
    assert np.array_equal(folder.model.X, np.transpose(expected))
    assert np.array_equal(folder.columns.encode(rows), folder.model.X)
    assert folder.model.labels == ("n", "y")
    assert folder.model.y.tolist() == ["ny".index(row["ill"]) for row in rows]
    assert [folder.columns.name_of(at) for at in folder.model.names.tolist()] == [
        row["person"] for row in rows
    ]
    assert folder.model.penalty.tolist() == [1.0] * 5 + [0.0]


def test_the_kind_follows_the_labels(tmp_path):
    two, three = (trained(tmp_path, table(3, 30, n), f"of {n}") for n in (2, 3))
    assert opened(two).model.kind == "logistic"
    assert opened(three).model.kind == "softmax"
    rest = opened(trained(tmp_path, table(3, 30, 3), "rest", kind="logistic"))
    assert rest.model.outputs == 3 == len(rest.model.problems)


def test_the_same_table_gives_the_same_model(tmp_path):
    one, other = (trained(tmp_path, table(1, 30), name, splines=3) for name in ("one", "other"))
    for name in ("linear.npz", "linear.json", "linear.spec"):
        assert (one / name).read_bytes() == (other / name).read_bytes()
    assert (one / "receipts.jsonl").read_bytes() != (other / "receipts.jsonl").read_bytes()


def test_a_weight_of_two_is_a_row_that_is_there_twice(tmp_path):
    rows = table(5, 25)
    for row in rows:
        row["counts"] = str(1 + int(row["person"][2:]) % 2)
    twice = [row for row in rows for _ in range(int(row["counts"]))]
    weighted = opened(trained(tmp_path, rows, "weighted", weights="counts"))
    copied = opened(
        trained(tmp_path, twice, "copied", identity=None, reading=Reading(drop=("person",)))
    )
    assert np.allclose(weighted.model.coefficients, copied.model.coefficients, atol=1e-9)
    assert "counts" not in weighted.columns.features


@given(st.lists(st.integers(-3, 30), min_size=6, max_size=60), st.integers(2, 8))
@settings(max_examples=rounds(60), deadline=None)
def test_bins_have_rows_and_splines_are_shares(numbers, count):
    numbers += [0, 1, 2, 3]
    rows = [
        {"person": f"P-{at}", "age": str(each), "ill": "ny"[at % 2], "cost": str(at % 7)}
        for at, each in enumerate(numbers)
    ]
    with tempfile.TemporaryDirectory() as name:
        bins = opened(trained(Path(name), rows, "bins", bins=count)).model
        splines = opened(trained(Path(name), rows, "splines", splines=count)).model
        spare = opened(
            trained(Path(name), rows, "spare", splines=2, penalty=0, kind="ridge", label="cost")
        ).model
    design = bins.design(bins.X)[:, :-1]
    assert set(np.unique(design)) == {0.0, 1.0}
    assert (design.sum(axis=0) > 0).all() and (design.sum(axis=1) == 1).all()
    distinct = len(set(numbers))
    assert design.shape[1] <= count
    assert design.shape[1] == distinct or distinct > count
    # No value lies on an edge, where rounding would decide.
    assert not np.isin(bins.X[:, 0], bins.design.columns[0].knots).any()
    assert np.allclose(splines.design(splines.X)[:, :-1].sum(axis=1), 1)
    assert np.linalg.matrix_rank(spare.design(spare.X)) == spare.design.width


def test_accuracy_is_that_of_a_model_without_the_rows_it_is_tested_on(tmp_path):
    rows = table(4, 60)
    for at, row in enumerate(rows):
        row["person"] = f"P-{at // 2}"
    options = {"identity": None, "reading": Reading(group="person"), "test_share": 0.25}
    folder = trained(tmp_path, rows, **options)
    report = train_linear(
        tmp_path / "t.csv", tmp_path / "again", label="ill", **{**options, "identity": None}
    )
    model = opened(folder).model
    assert (len(report.family), report.folder.group) == (30, "person")
    assert report.tested.held_out and len(report.tested.y) == 2 * round(0.25 * 30)
    assert 0.4 < report.tested.quality.accuracy <= 1
    assert report.without_bound == 0 and report.folder.receipts.last.coefficients < 1e-9
    assert model.groups is not None and model.groups.cells.tolist() == [
        row["person"] for row in rows
    ]


def test_numbers_are_predicted_with_their_mean_error(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3))
    y = np.exp(X @ [0.3, 0.2, 0.1]) + rng.uniform(0, 0.1, 80)
    np.savez(tmp_path / "d.npz", X_train=X[:60], y_train=y[:60], X_test=X[60:], y_test=y[60:])
    for kind in ("ridge", "poisson", "gamma"):
        report = train_linear(tmp_path / "d.npz", tmp_path / kind, kind=kind, penalty=0.1)
        model = load_linear(tmp_path / kind / "linear.npz")
        found = model.scores(X[60:])[:, 0]
        found = found if kind == "ridge" else np.exp(found)
        error, of_mean = report.tested.errors
        assert error == pytest.approx(np.abs(found - y[60:]).mean())
        assert of_mean == pytest.approx(np.abs(y[:60].mean() - y[60:]).mean())
        assert error < of_mean
        assert report.tested.quality is None and not report.tested.held_out
        spec = (tmp_path / kind / "linear.spec").read_text()
        assert "find d: least d such that" in spec
        assert f"box({X[:60].min(axis=0).tolist()}" in spec


def test_rows_with_gaps_keep_their_numbers(tmp_path):
    rows = table(2, 20)
    rows[4]["dose"] = rows[11]["ill"] = ""
    reading = Reading(missing=("drop",), drop=("person",))
    folder = opened(trained(tmp_path, rows, identity=None, reading=reading, weights="counts"))
    assert folder.model.names.tolist() == [at for at in range(20) if at not in (4, 11)]
    assert folder.model.next_name == 20
    assert folder.model.weights.tolist() == [1 + at % 3 for at in range(20) if at not in (4, 11)]


def test_the_specification_is_about_what_a_record_can_be(tmp_path):
    folder = trained(tmp_path, table(3, 30))
    text = (folder / "linear.spec").read_text()
    assert 'let L = linear("linear.npz")\nlet F = leave_one_out(L)' in text
    assert "let X0 = box(0, 1)\nlet X = one_hot(X0, at = [2, 3, 4])" in text
    assert "confidence(L, x) > b => label(M, x) == label(L, x)" in text
    region = opened(folder).region()
    # A slope on one ward alone counts once, on all of them never.
    slopes = np.array([[1.0, 2.0, 5.0, 7.0, -1.0, 0.0], [0.0, 0.0, 1.0, 1.0, 1.0, 0.0]])
    assert region.largest(slopes).tolist() == [10.0, 1.0]


def test_a_frozen_network_may_stand_before_the_model(tmp_path):
    rows = table(3, 40)
    network = networks.dense(np.random.default_rng(0), (5, 6, 4))
    onnx.save(network, tmp_path / "b.onnx")
    folder = trained(tmp_path, rows, features=tmp_path / "b.onnx", bins=3)
    held = opened(folder)
    assert held.model.inputs == 4 and held.columns.width is None
    assert (folder / "features.onnx").read_bytes() == (tmp_path / "b.onnx").read_bytes()
    plain = opened(trained(tmp_path, rows, "plain"))
    import onnxruntime

    session = onnxruntime.InferenceSession(network.SerializeToString())
    (name,) = (each.name for each in session.get_inputs())
    expected = session.run(None, {name: plain.model.X.astype(np.float32)})[0]
    assert np.allclose(held.model.X, expected, atol=1e-5)
    assert "one_hot" not in held.spec()
    (folder / "features.onnx").write_bytes(b"other")
    with pytest.raises(LinearError, match="not the network"):
        opened(folder)


WRONG = {
    "kind": {"kind": "lasso"},
    "penalty": {"penalty": -1},
    "bins and splines": {"bins": 3, "splines": 3},
    "one bin": {"bins": 1},
    "share": {"test_share": 1},
    "no label": {"label": None},
    "weight": {"weights": "mass"},
    "weight is label": {"weights": "ill"},
    "words as numbers": {"kind": "ridge"},
    "network": {"features": "none.onnx"},
    "dependent": {"penalty": 0},
}


@pytest.mark.parametrize("name", WRONG)
def test_what_cannot_be_fitted_is_refused_with_the_cure(tmp_path, name, snapshot, monkeypatch):
    monkeypatch.chdir(tmp_path)
    options = {"label": "ill", "identity": "person", **WRONG[name]}
    write(tmp_path, [{k: v for k, v in row.items() if k != "cost"} for row in table(1, 20)])
    with pytest.raises((LinearError, TrainingError)) as told:
        train_linear("t.csv", tmp_path / "clinic", **options)
    assert str(told.value) == snapshot
    assert not (tmp_path / "clinic").exists()


def test_separable_rows_need_a_penalty(tmp_path):
    rows = [{"x": str(at), "ill": "ny"[at > 5]} for at in range(12)]
    write(tmp_path, rows)
    with pytest.raises(LinearError, match="set a penalty"):
        train_linear(tmp_path / "t.csv", tmp_path / "a", label="ill", penalty=0)
    assert train_linear(tmp_path / "t.csv", tmp_path / "a", label="ill").tested.held_out


@pytest.mark.parametrize(("kind", "cost"), [("poisson", "-1"), ("gamma", "0")])
def test_numbers_that_a_kind_is_not_for_are_refused(tmp_path, kind, cost, snapshot):
    rows = table(1, 20)
    rows[3]["cost"] = cost
    with pytest.raises(LinearError) as told:
        trained(tmp_path, rows, kind=kind, label="cost")
    assert str(told.value) == snapshot


def test_no_model_is_trained_over_another(tmp_path, snapshot):
    folder = trained(tmp_path, table(1, 20))
    for name in ("linear.npz", "forest.npz", "full.onnx"):
        (folder / "linear.npz").rename(folder / name)
        with pytest.raises(LeaveoutError) as told:
            trained(tmp_path, table(1, 20))
        assert str(told.value) == snapshot
        (folder / name).rename(folder / "linear.npz")


def test_the_command_says_what_was_fitted(tmp_path, capsys, snapshot):
    rows = table(7, 60)
    write(tmp_path, [{k: v for k, v in row.items() if k != "cost"} for row in rows])
    words = ["--label", "ill", "--group", "person", "--weight", "counts", "--bins", "4"]
    words += ["--penalty", "0.5", "--kind", "svm", "--sep", ",", "-o", str(tmp_path / "clinic")]
    assert run(["linear", "train", str(tmp_path / "t.csv"), *words]) == 0
    text = capsys.readouterr().out
    model = opened(tmp_path / "clinic").model
    assert (model.kind, model.penalty[0], len(model.unit_names)) == ("svm", 0.5, 60)
    names = [line.split("  ")[0] for line in text.splitlines()]
    assert names == snapshot
    assert "groups          60, by 'person'" in text


def test_a_column_of_many_words_is_told_before_the_fit(tmp_path):
    path = tmp_path / "rows.csv"
    rows = (f"c{row // 2},{row % 7},{'ab'[row % 3 == 0]}\n" for row in range(1004))
    path.write_text(f"customer,size,good\n{''.join(rows)}")

    class StopError(Exception):
        """Ends the training before its fit."""

    def warn(warnings):
        raise StopError(*warnings)

    with pytest.raises(StopError) as told:
        train_linear(path, tmp_path / "out", label="good", warn=warn)
    assert told.value.args == (
        "column 'customer' has 502 words, each of which becomes a feature; --drop it, or use "
        "--group or --id if it names people or rows",
    )


@pytest.mark.parametrize("mode", ["mark", "drop"])
def test_a_table_without_rows_is_not_a_column_that_is_empty(tmp_path, mode):
    path = tmp_path / "rows.csv"
    for rows in ("", ",1,x\n2,,y\n" * (mode == "drop")):
        path.write_text(f"a,b,good\n{rows}")
        with pytest.raises(TrainingError, match="0 rows below the header"):
            train_linear(path, tmp_path / "out", label="good", reading=Reading(missing=(mode,)))


def test_groups_that_differ_in_case_alone_are_noted(tmp_path):
    path = tmp_path / "rows.csv"
    people = ("P1", "p1", "P2", " P2 ")
    rows = (f"{people[row % 4]},{row % 7},{'ab'[row % 3 == 0]}\n" for row in range(40))
    path.write_text(f"who,size,good\n{''.join(rows)}")
    report = train_linear(path, tmp_path / "out", label="good", reading=Reading(group="who"))
    assert len(report.family) == 3
    assert report.warnings[0] == "column 'who': 'P1' and 'p1' are two groups, not one"
