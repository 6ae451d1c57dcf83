"""Pipelines of scikit-learn as people write them: networks label rows as the pipelines do."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer, make_column_selector, make_column_transformer
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris, load_wine
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.impute import SimpleImputer
from sklearn.linear_model import (
    LogisticRegression,
    LogisticRegressionCV,
    Perceptron,
    RidgeClassifier,
    SGDClassifier,
)
from sklearn.model_selection import GridSearchCV
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import (
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    RobustScaler,
    StandardScaler,
)
from sklearn.svm import LinearSVC

from leaveout.models import load_family, load_network
from leaveout.models.train import encode_rows, encoding_of, leave_one_out

pytestmark = [
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]

ROWS = 300
MEMBERS = 3
GAPS = np.random.default_rng(5)
KNOWN = OneHotEncoder(handle_unknown="ignore")


def table(load, columns, rows=90):
    """Return rows of a real set with gaps, words, categories and truths, and their labels."""
    data = load(as_frame=True)
    chosen = np.random.default_rng(1).permutation(len(data.target))[:rows]
    frame = data.data.iloc[chosen, :columns].reset_index(drop=True)
    frame.columns = [f"c{place}" for place in range(columns)]
    target = data.target.iloc[chosen].to_numpy()
    label = target if len(set(target)) < 4 else np.digitize(target, [100, 180])
    first, second = frame["c0"], frame["c1"]
    frame["size"] = pd.cut(first, 4, labels=["tiny", "small", "big", "huge"]).astype(str)
    frame["code"] = pd.cut(second, 3, labels=[1, 2, 30])
    frame["high"] = second > second.median()
    # A category and the greatest number of the first row alone: its member knows neither.
    frame.loc[0, "size"] = "odd"
    frame.loc[0, "c0"] = 3 * first.max()
    frame.loc[GAPS.random(rows) < 0.1, "c1"] = np.nan
    frame.loc[1, "c2"] = np.nan
    frame.loc[GAPS.random(rows) < 0.1, "size"] = np.nan
    return frame, label


CANCER = table(load_breast_cancer, 8)
WINE = table(load_wine, 6)
IRIS = table(load_iris, 4)
SUGAR = table(load_diabetes, 5)
NUMBERS = make_column_selector(dtype_include=np.number)
OTHERS = make_column_selector(dtype_exclude=np.number)


def columns(*steps, **settings):
    return make_column_transformer(*steps, **settings)


PIPELINES = {
    "the user guide's": (
        CANCER,
        lambda: Pipeline(
            [
                (
                    "prep",
                    ColumnTransformer(
                        [
                            ("num", make_pipeline(SimpleImputer(), StandardScaler()), NUMBERS),
                            ("cat", KNOWN, OTHERS),
                        ]
                    ),
                ),
                ("clf", LogisticRegression(max_iter=200)),
            ]
        ),
    ),
    "a network": (
        WINE,
        lambda: make_pipeline(
            columns(
                (make_pipeline(SimpleImputer(strategy="median"), StandardScaler()), NUMBERS),
                (KNOWN, ["size", "code"]),
                ("passthrough", ["high"]),
            ),
            MLPClassifier((8, 5), max_iter=40, random_state=0),
        ),
    ),
    "gaps marked after scaling": (
        IRIS,
        lambda: make_pipeline(
            columns(
                (make_pipeline(RobustScaler(), SimpleImputer(add_indicator=True)), slice(0, 4)),
                (OneHotEncoder(handle_unknown="ignore", drop="first"), [4, 5]),
                remainder="passthrough",
            ),
            RidgeClassifier(),
        ),
    ),
    "rare words together": (
        SUGAR,
        lambda: make_pipeline(
            columns(
                (make_pipeline(SimpleImputer(strategy="constant", fill_value=7)), NUMBERS),
                (
                    OneHotEncoder(handle_unknown="infrequent_if_exist", min_frequency=9),
                    ["size", "code", "high"],
                ),
                sparse_threshold=1.0,
            ),
            MaxAbsScaler(),
            LogisticRegressionCV(Cs=3, cv=2, max_iter=100),
        ),
    ),
    "words in order, a mask": (
        CANCER,
        lambda: make_pipeline(
            columns(
                (
                    OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1),
                    [False] * 8 + [True] * 3,
                ),
                (SimpleImputer(strategy="most_frequent"), [True] * 8 + [False] * 3),
            ),
            SimpleImputer(),
            MinMaxScaler((-1, 1)),
            LinearSVC(random_state=0),
        ),
    ),
    "words filled": (
        WINE,
        lambda: make_pipeline(
            columns(
                (make_pipeline(SimpleImputer(strategy="most_frequent"), KNOWN), ["size", "code"]),
                (make_pipeline(StandardScaler(with_mean=False), SimpleImputer()), NUMBERS),
            ),
            SGDClassifier(random_state=0),
        ),
    ),
    "nested": (
        IRIS,
        lambda: Pipeline(
            [
                (
                    "first",
                    Pipeline(
                        [
                            (
                                "all",
                                columns(
                                    (KNOWN, OTHERS),
                                    (SimpleImputer(), ["c0", "c1", "c2"]),
                                    remainder="drop",
                                    sparse_threshold=0,
                                ),
                            ),
                            ("nothing", "passthrough"),
                        ]
                    ),
                ),
                ("last", make_pipeline(StandardScaler(with_std=False), Perceptron(random_state=0))),
            ]
        ),
    ),
    "components": (
        CANCER,
        lambda: make_pipeline(
            columns(
                (
                    make_pipeline(
                        SimpleImputer(), StandardScaler(), PCA(3, random_state=0), StandardScaler()
                    ),
                    NUMBERS,
                ),
                (KNOWN, ["size"]),
                remainder=MinMaxScaler(),
            ),
            LinearDiscriminantAnalysis(),
        ),
    ),
    "searched": (
        SUGAR,
        lambda: GridSearchCV(
            make_pipeline(
                columns(
                    (make_pipeline(SimpleImputer(), StandardScaler()), NUMBERS), (KNOWN, OTHERS)
                ),
                LogisticRegression(),
            ),
            {"logisticregression__C": [0.1, 1.0]},
            cv=2,
        ),
    ),
    "a union": (
        WINE,
        lambda: make_pipeline(
            columns(
                (
                    FeatureUnion(
                        [
                            ("mean", SimpleImputer()),
                            (
                                "scaled",
                                make_pipeline(SimpleImputer(strategy="median"), MinMaxScaler()),
                            ),
                        ]
                    ),
                    NUMBERS,
                ),
            ),
            StandardScaler(),
            LogisticRegression(),
        ),
    ),
    "numbers alone": (
        (IRIS[0][["c3", "high"]], IRIS[1]),
        lambda: LogisticRegression(),
    ),
    "data frames inside": (
        CANCER,
        lambda: make_pipeline(
            columns(
                (make_pipeline(SimpleImputer(), StandardScaler()), NUMBERS),
                (OneHotEncoder(handle_unknown="ignore", sparse_output=False), OTHERS),
                verbose_feature_names_out=False,
            ).set_output(transform="pandas"),
            MLPClassifier((6,), activation="identity", max_iter=50, random_state=1),
        ),
    ),
}


def random_rows(frame, count, rng):
    """Return rows whose cells are drawn column by column, numbers also between those known."""
    drawn = frame.iloc[rng.integers(len(frame), size=count)].reset_index(drop=True)
    for name in frame.columns:
        cells = frame[name].iloc[rng.integers(len(frame), size=count)].reset_index(drop=True)
        if cells.dtype == np.float64:
            between = rng.uniform(frame[name].min(), frame[name].max(), count)
            cells = cells.where(cells.isna() | (rng.random(count) < 0.5), between)
        drawn[name] = cells
    return drawn


def compare(pipeline, scores, rows):
    """Return how many labels differ, all of them ties within float32 rounding."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = pipeline.predict(rows)
    low, high = np.sort(scores.astype(np.float64), axis=1)[:, -2:].T
    differs = scores.argmax(axis=1) != expected
    assert (high - low <= 2.0**-17 * (1 + np.abs(scores).max(axis=1)))[differs].all()
    return int(differs.sum()), len(set(expected))


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("name", PIPELINES)
def test_networks_label_random_rows_as_their_own_fitted_pipelines(name, tmp_path):
    (frame, y), build = PIPELINES[name]
    codes = np.unique(y, return_inverse=True)[1]

    def fit(X, y):
        return build().fit(X, y)

    report = leave_one_out(fit, frame, y, out=tmp_path / "out", raw=True, members=MEMBERS)
    network = load_network(report.network)
    family = load_family(report.family, network)
    encoding = encoding_of(family.manifest)
    rows = random_rows(frame, ROWS, np.random.default_rng(9))
    points = encode_rows(encoding, rows.to_dict("records"))
    ties, labels = compare(fit(frame, codes), network.runner().scores(points), rows)
    assert labels > 1
    for member in range(MEMBERS):
        pipeline = fit(frame.drop(index=member), np.delete(codes, member))
        values = {key: stack[member] for key, stack in family.parameters.items()}
        ties += compare(pipeline, network.runner(values).scores(points), rows)[0]
    assert ties <= 1


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("form", ["a column", "a list", "an array"])
def test_all_rows_of_a_group_leave_a_pipeline_together(form, tmp_path):
    frame, y = CANCER
    codes = np.unique(y, return_inverse=True)[1]
    people = np.array([f"p{row // 3}" for row in range(len(frame))])

    def fit(X, y):
        return PIPELINES["the user guide's"][1]().fit(X, y)

    given, group = frame.assign(**{" who ": people}), "who"
    if form != "a column":
        given, group = frame, people if form == "an array" else people.tolist()
    report = leave_one_out(
        fit, given, y, out=tmp_path / "out", raw=True, group=group, members=2, units={"c0": "mm"}
    )
    network = load_network(report.network)
    family = load_family(report.family, network)
    encoding = encoding_of(family.manifest)
    points = encode_rows(encoding, frame.to_dict("records"))
    for member, person in enumerate(["p0", "p1"]):
        left = frame[people != person]
        pipeline = fit(left, codes[people != person])
        values = {key: stack[member] for key, stack in family.parameters.items()}
        assert compare(pipeline, network.runner(values).scores(points), frame)[0] == 0
