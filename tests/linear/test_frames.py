"""Pipelines over data frames with words and gaps: read as they answer, kept with their columns."""

from __future__ import annotations

import json
import tempfile
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.decomposition import PCA
from sklearn.feature_selection import VarianceThreshold
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge, SGDClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    SplineTransformer,
    StandardScaler,
    TargetEncoder,
)

from leaveout.errors import LinearError, TrainingError
from leaveout.models.linear.family import bound_members
from leaveout.models.linear.fit import coefficients_of, with_rows
from leaveout.models.linear.folder import LinearFolder
from leaveout.models.linear.from_sklearn import from_sklearn, gradient_norm
from leaveout.verifier.cli import run

from support.depth import rounds

pandas = pytest.importorskip("pandas")

LOGISTIC = LogisticRegression(solver="newton-cholesky", C=0.7, tol=1e-12, max_iter=10_000)
WORDS = ["city", "job", "grade"]
IGNORE = OneHotEncoder(handle_unknown="ignore")


def drawn(seed=0, rows=80):
    """Return rows of every kind of column, and two labels."""
    rng = np.random.default_rng(seed)
    frame = pandas.DataFrame(
        {
            "name": [f"person {row}" for row in range(rows)],
            "age": rng.integers(18, 80, rows),
            "city": rng.choice(["rome", "oslo", "bern", "lima"], rows, p=[0.6, 0.2, 0.1, 0.1]),
            "pay": np.where(rng.random(rows) < 0.3, np.nan, rng.exponential(1000.0, rows)),
            "owns": rng.random(rows) < 0.5,
            "job": rng.choice(np.array(["cook", "smith", None], object), rows),
            "grade": pandas.Categorical(rng.choice([3, 1, 2], rows)),
            "height": np.where(rng.random(rows) < 0.1, np.nan, rng.normal(170, 10, rows)),
        }
    )
    lean = (
        frame["age"] / 20 + (frame["city"] == "oslo") * 2 + frame["owns"] - rng.normal(3, 1, rows)
    )
    return frame, pandas.Series(np.where(lean > 0, "yes", "no"), name="buys")


def others(frame, count, seed=1, unknown=True):
    """Return random rows: numbers of all sizes, every word, gaps where there were some."""
    rng = np.random.default_rng(seed)
    found = {}
    for name, column in frame.items():
        cells = [*column.unique()]
        if column.dtype.kind == "f":
            cells = np.append(rng.normal(column.mean(), 3 * column.std(), count - 1), np.nan)
        elif column.dtype.kind == "i":
            cells = rng.integers(-100, 200, count)
        elif unknown and name in ("city", "job"):
            cells = [*cells, "unheard of", "somewhere else"]
        found[name] = pandas.Series([cells[at] for at in rng.integers(0, len(cells), count)])
    return pandas.DataFrame(found)


NUMBERS = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())
PLAIN = ("numbers", NUMBERS, ["age", "pay", "height"])
PIPELINES = {
    "common": ColumnTransformer(
        [PLAIN, ("words", IGNORE, WORDS), ("rest", "passthrough", ["owns"])]
    ),
    "indicators": ColumnTransformer(
        [("n", make_pipeline(SimpleImputer(add_indicator=True), StandardScaler()),
          ["height", "age", "pay"]),
         ("m", MissingIndicator(), ["pay", "job"]),
         ("w", OneHotEncoder(drop="first", handle_unknown="ignore"), WORDS)]
    ),
    "scaled before they are filled": ColumnTransformer(
        [("n", make_pipeline(MinMaxScaler(), SimpleImputer(strategy="constant", fill_value=-1)),
          ["pay", "age"])],
    ),
    "words filled": ColumnTransformer(
        [("w", make_pipeline(SimpleImputer(strategy="most_frequent"), IGNORE), ["job", "city"]),
         ("v", make_pipeline(SimpleImputer(strategy="constant", fill_value="none"),
                             OneHotEncoder(handle_unknown="ignore", drop="if_binary")), ["job"]),
         ("all", make_pipeline(SimpleImputer(strategy="most_frequent"),
                               ColumnTransformer([("n", "passthrough", [0]), ("w", IGNORE, [1])])),
          ["pay", "city"])],
    ),
    "rare words": ColumnTransformer(
        [("w", OneHotEncoder(min_frequency=20, handle_unknown="infrequent_if_exist"), WORDS),
         ("few", OneHotEncoder(max_categories=2, handle_unknown="ignore"), ["city"]), PLAIN],
    ),
    "ordinal": ColumnTransformer(
        [("w", OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-7,
                              encoded_missing_value=9), ["job", "city", "grade", "owns"]), PLAIN],
    ),
    "splines and bins": ColumnTransformer(
        [("s", make_pipeline(SimpleImputer(), SplineTransformer(4)), ["pay", "age"]),
         ("b", make_pipeline(SimpleImputer(),
                             KBinsDiscretizer(3, encode="onehot-dense",
                                              quantile_method="averaged_inverted_cdf")),
          ["height"]), ("w", IGNORE, ["city"])],
    ),
    "components": make_pipeline(
        ColumnTransformer([PLAIN, ("w", IGNORE, ["city"])], sparse_threshold=0), PCA(4),
        VarianceThreshold(),
    ),
    "by kind": ColumnTransformer(
        [("n", make_pipeline(FunctionTransformer(), NUMBERS),
          make_column_selector(dtype_include="number")),
         ("w", IGNORE, ["grade", "owns"])],
    ),
    "numbers in words": ColumnTransformer([("n", MinMaxScaler((1, 2)), ["grade", "owns", "age"])]),
    "words left by the first step": make_pipeline(
        ColumnTransformer([("n", NUMBERS, ["age", "pay"]), ("w", "passthrough", ["city", "job"])]),
        ColumnTransformer([("w", IGNORE, [2, 3]), ("n", "passthrough", [0, 1])]),
    ),
}  # fmt: skip


def fitted(name, last=LOGISTIC, seed=0):
    frame, y = drawn(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return make_pipeline(clone(PIPELINES[name]), clone(last)).fit(frame, y), frame, y


def scores(own, frame):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = own.decision_function(frame) if hasattr(own, "classes_") else own.predict(frame)
    return np.asarray(found, np.float64).reshape(len(frame), -1)


def encoded(folder, frame):
    return folder.columns.encode(frame.to_dict("records"))


@pytest.mark.parametrize("name", PIPELINES)
def test_every_row_scores_as_the_pipeline_scores_it(name, tmp_path):
    own, frame, y = fitted(name)
    model = from_sklearn(own, frame, y, directory=tmp_path / "own")
    folder = LinearFolder.read(tmp_path / "own")
    assert folder.model.digest == model.digest
    assert encoded(folder, frame).tolist() == model.X.tolist()
    wanted = name != "numbers in words"
    points = others(frame, 10_000, unknown=wanted)
    theirs = scores(own, points)
    found = model.raw_scores(encoded(folder, points))
    assert np.abs(found - theirs).max() <= 1e-12 * (1 + np.abs(theirs).max())
    clear = np.abs(theirs[:, 0]) > 1e-9
    labels = np.array(model.labels)[model.answers(encoded(folder, points))]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert (labels == own.predict(points))[clear].all()


@pytest.mark.parametrize("name", PIPELINES)
def test_members_are_refits_with_the_preprocessing_kept(name):
    own, frame, y = fitted(name, seed=3)
    model = from_sklearn(own, frame, y)
    assert gradient_norm(model) < 1e-6
    table = own[:-1].transform(frame)
    table = table.toarray() if hasattr(table, "toarray") else table
    family = bound_members(model)
    assert np.isfinite(family.parts[0].members.radius).all()
    for unit in (0, 13, 50):
        kept = np.arange(len(frame)) != unit
        again = clone(LOGISTIC).fit(table[kept], y[kept])
        exact = coefficients_of(with_rows(model, np.flatnonzero(kept)).problems)
        member = replace(model, coefficients=exact).raw_scores(model.X)[:, 0]
        assert np.abs(member - again.decision_function(table)).max() < 1e-6


def test_numbers_and_three_labels_are_predicted():
    frame, _ = drawn(4)
    for last, y in (
        (Ridge(alpha=2.0, solver="cholesky"), frame["age"] ** 1.5),
        (PoissonRegressor(alpha=0.01, solver="newton-cholesky", tol=1e-12), frame["age"] // 20),
        (LOGISTIC, frame["city"].replace("lima", "bern")),
    ):
        own = make_pipeline(PIPELINES["common"], clone(last)).fit(frame, y)
        model = from_sklearn(own, frame, y)
        found = model.raw_scores(model.X)
        theirs = scores(own, frame)
        theirs = np.log(theirs) if model.kind == "poisson" else theirs
        assert np.abs(found - theirs).max() <= 1e-12 * (1 + np.abs(theirs).max())


CELLS = st.fixed_dictionaries(
    {
        "a": st.one_of(st.none(), st.integers(-3, 3), st.floats(-1e6, 1e6)),
        "b": st.sampled_from(["x", "y", "z", None]),
        "c": st.booleans(),
        "d": st.sampled_from(["u", "v"]),
    }
)


@settings(max_examples=rounds(60), deadline=None)
@given(st.lists(CELLS, min_size=4, max_size=12), st.lists(CELLS, min_size=1, max_size=9))
def test_small_tables_are_read_as_they_are_fitted(rows, points):
    frame = pandas.DataFrame(rows).astype({"a": float, "b": object})
    assume(frame["a"].notna().any() and frame["b"].notna().any())
    y = np.arange(len(frame)) % 2
    steps = ColumnTransformer(
        [("n", make_pipeline(SimpleImputer(), StandardScaler()), ["a"]),
         ("w", OneHotEncoder(handle_unknown="ignore"), ["b", "d"]), ("c", "passthrough", ["c"])]
    )  # fmt: skip
    own = make_pipeline(steps, LOGISTIC).fit(frame, y)
    with tempfile.TemporaryDirectory() as folder:
        from_sklearn(own, frame, y, directory=folder)
        read = LinearFolder.read(Path(folder))
    for point in [*rows, *points]:
        try:
            x = read.columns.encode([point])
        except TrainingError:
            # A gap where no row has one, or the other truth value.
            lacking = any(point[name] is None and frame[name].notna().all() for name in ("a", "b"))
            assert lacking or point["c"] not in set(frame["c"])
            continue
        # pandas reads a gap as NaN among words, but as None alone, which encoders distinguish.
        one = pandas.DataFrame([*rows, point]).astype({"a": float, "b": object})[-1:]
        theirs = own.decision_function(one)[0]
        assert abs(read.model.raw_scores(x)[0, 0] - theirs) <= 1e-12 * (1 + abs(theirs)), point


def test_commands_speak_of_the_columns(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    own, frame, y = fitted("common", seed=6)
    from_sklearn(own, frame, y, directory="own")
    assert run(["verify", "own/linear.spec", "--json", "result.json"]) == 0
    told = capsys.readouterr().out
    assert "city = " in told
    assert "pay missing = " in told
    results = json.loads((tmp_path / "result.json").read_text())["results"]
    points = others(frame, 300, unknown=True)
    for name in ("age", "pay", "height"):
        points[name] = points[name].clip(frame[name].min(), frame[name].max())
    folder = LinearFolder.read(tmp_path / "own")
    X, model = encoded(folder, points), folder.model
    confidence, answers = np.abs(model.raw_scores(X)[:, 0]), model.answers(X)
    for unit in range(len(frame)):
        kept = np.flatnonzero(np.arange(len(frame)) != unit)
        member = replace(model, coefficients=coefficients_of(with_rows(model, kept).problems))
        changed = member.answers(X) != answers
        for label, each in enumerate(results):
            here = changed & (answers == label)
            assert not here.any() or confidence[here].max() <= each["upper"]
    assert run(["rows", "result.json"]) == 0
    points.to_csv("new.csv", index=False)
    assert run(["guard", "own", "--epsilon", "700", "new.csv"]) == 0
    assert capsys.readouterr().out.split()[-300:] == [model.labels[each] for each in answers]
    assert run(["forget", "own", "5", "17", "--check"]) == 0
    more = others(frame, 9, seed=8).assign(buys="yes")
    more.to_csv("more.csv", index=False)
    assert run(["linear", "add", "own", "more.csv"]) == 0
    after = LinearFolder.read(tmp_path / "own")
    assert len(after.model.X) == 87
    assert after.columns.encoding.fills == folder.columns.encoding.fills
    kept = np.delete(np.arange(80), [5, 17])
    table = own[:-1].transform(pandas.concat([frame.iloc[kept], more], ignore_index=True))
    again = clone(LOGISTIC).fit(table, [*y[kept], *more["buys"]])
    found = after.model.raw_scores(encoded(after, points))[:, 0]
    assert np.abs(found - again.decision_function(own[:-1].transform(points))).max() < 1e-6


def test_what_no_step_reads_is_not_kept(tmp_path):
    own, frame, y = fitted("common")
    from_sklearn(own, frame, y, directory=tmp_path / "own")
    text = (tmp_path / "own" / "linear.json").read_text()
    assert "name" not in json.loads(text)["columns"]["encoding"]["columns"][0]["name"]
    assert "person" not in text
    # Nor does it depend on where the columns stand.
    moved = frame[[*frame.columns[::-1]]].assign(more=1)
    assert from_sklearn(own, moved, y).digest == from_sklearn(own, frame, y).digest


def test_words_are_new_only_where_the_encoder_takes_them(tmp_path):
    frame, y = drawn()
    steps = ColumnTransformer(
        [("strict", OneHotEncoder(), ["city"]), ("free", IGNORE, ["job"]),
         ("known", OneHotEncoder(categories=[["bern", "lima", "oslo", "paris", "rome"]],
                                 handle_unknown="ignore"), ["city"]),
         ("number", OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=np.nan),
          ["city"])]
    )  # fmt: skip
    own = make_pipeline(steps, LOGISTIC).fit(frame, y)
    from_sklearn(own, frame, y, directory=tmp_path / "own")
    columns = LinearFolder.read(tmp_path / "own").columns
    row = {"city": "rome", "job": "never heard"}
    assert columns.encode([row]).tolist() == [[0, 0, 0, 1, 0, 0, 0, 1]]
    # Of "paris" there is a coefficient, but no row.
    for city in ("paris", "unheard of"):
        with pytest.raises(TrainingError, match="not a category"):
            columns.encode([{**row, "city": city}])
    with pytest.raises(TrainingError, match="missing"):
        columns.encode([{**row, "city": None}])


def test_arrays_and_searches_have_folders_too(tmp_path):
    frame, y = drawn()
    X = frame[["age"]].to_numpy(np.float64)
    from_sklearn(clone(LOGISTIC).fit(X, y), X, y, directory=tmp_path / "array")
    assert run(["verify", str(tmp_path / "array" / "linear.spec")]) == 0
    steps = make_pipeline(PIPELINES["common"], LOGISTIC)
    search = GridSearchCV(steps, {"logisticregression__C": [0.1, 1.0]}).fit(frame, y)
    model = from_sklearn(search, frame, y)
    assert np.allclose(model.raw_scores(model.X)[:, 0], search.decision_function(frame), rtol=1e-12)
    with pytest.raises(LinearError, match="already contains"):
        from_sklearn(search, frame, y, directory=tmp_path / "array")


def test_an_estimator_far_from_the_minimum_has_a_folder_of_the_minimum(tmp_path):
    frame, y = drawn(0, 300)
    last = SGDClassifier(loss="log_loss", random_state=0)
    own = make_pipeline(PIPELINES["common"], last).fit(frame, y)
    with pytest.warns(UserWarning, match="gradient"):
        with pytest.raises(LinearError, match="served='minimum'"):
            from_sklearn(own, frame, y, directory=tmp_path / "own")
        assert not (tmp_path / "own").exists()
        from_sklearn(own, frame, y, served="minimum", directory=tmp_path / "own")
    assert LinearFolder.read(tmp_path / "own").distances()[0] < 1e-8


def test_balanced_labels_are_told_and_added_rows_have_weights(tmp_path):
    frame, y = drawn()
    own = make_pipeline(PIPELINES["common"], clone(LOGISTIC).set_params(class_weight="balanced"))
    with pytest.warns(UserWarning, match="balanced"):
        from_sklearn(own.fit(frame, y), frame, y, directory=tmp_path / "own")
    frame.assign(buys=y).to_csv(tmp_path / "more.csv", index=False)
    assert run(["linear", "add", str(tmp_path / "own"), str(tmp_path / "more.csv")]) == 2
    frame.assign(buys=y, weight=2).to_csv(tmp_path / "more.csv", index=False)
    assert run(["linear", "add", str(tmp_path / "own"), str(tmp_path / "more.csv")]) == 0
    assert set(LinearFolder.read(tmp_path / "own").model.weights[80:]) == {2.0}


def steps_of(*parts):
    return lambda frame: (frame, ColumnTransformer(list(parts)))


REFUSED = {
    "labels of others": steps_of(("t", TargetEncoder(), ["city"])),
    "words and numbers": steps_of(("w", IGNORE, ["city", "age"])),
    "ordinal numbers": steps_of(("w", OrdinalEncoder(), ["age"])),
    "gaps that are words": steps_of(("w", IGNORE, ["pay"])),
    "two fills": steps_of(
        ("a", SimpleImputer(), ["pay"]), ("b", SimpleImputer(strategy="median"), ["pay"])
    ),
    "numbers for gaps": steps_of(("a", SimpleImputer(missing_values=20), ["age"])),
    "words pass a mix": lambda frame: (
        frame,
        make_pipeline(
            ColumnTransformer(
                [
                    ("o", OrdinalEncoder(), ["city"]),
                    ("w", "passthrough", ["owns"]),
                    ("v", "passthrough", ["job"]),
                ]
            ),
            ColumnTransformer([("o", "passthrough", [0, 1]), ("v", IGNORE, [2])]),
        ),
    ),
    "forms of a word": lambda frame: (
        frame.assign(city=frame["city"] + [" ", *[""] * (len(frame) - 1)]),
        ColumnTransformer([("w", IGNORE, ["city"])]),
    ),
    "names": steps_of(("w", IGNORE, ["name"])),
    "dates": lambda frame: (
        frame.assign(day=pandas.Timestamp("2020-01-01")),
        ColumnTransformer([("d", OneHotEncoder(), ["day"])]),
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_read_is_refused_with_the_cure(name, snapshot):
    frame, y = drawn()
    frame, steps = REFUSED[name](frame)
    own = make_pipeline(steps, LOGISTIC).fit(frame, y)
    with pytest.raises(LinearError) as told:
        from_sklearn(own, frame, y)
    assert str(told.value) == snapshot


def test_other_frames_are_refused():
    own, frame, y = fitted("common")
    with pytest.raises(LinearError, match="no column 'city'"):
        from_sklearn(own, frame.drop(columns="city"), y)
    with pytest.warns(UserWarning, match="gradient"):
        from_sklearn(own, frame.assign(city=frame["city"][::-1].to_numpy()), y)
