"""Preprocessing as one affine map: that of scikit-learn on every row, or one line that cures."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer, make_column_transformer
from sklearn.decomposition import PCA
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    RobustScaler,
    StandardScaler,
)

from leaveout.errors import TrainingError
from leaveout.models.train import encode_rows
from leaveout.models.train.own.call import Unpacked, check_fit
from leaveout.models.train.own.convert import model_of
from leaveout.models.train.own.inputs import training_data
from leaveout.models.train.own.preprocessing import Probes

from support.depth import rounds

pytestmark = [
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]

FILLS = [
    SimpleImputer(),
    SimpleImputer(strategy="median", add_indicator=True),
    SimpleImputer(strategy="constant", fill_value=-3.5),
    SimpleImputer(strategy="most_frequent"),
    FeatureUnion([("gap", MissingIndicator(features="all")), ("value", SimpleImputer())]),
]
SCALES = [
    StandardScaler(),
    StandardScaler(with_mean=False),
    MinMaxScaler((-2, 1)),
    MaxAbsScaler(),
    RobustScaler(),
    "passthrough",
]
WORDS = [
    OneHotEncoder(handle_unknown="ignore"),
    OneHotEncoder(handle_unknown="ignore", drop="if_binary", sparse_output=False),
    OneHotEncoder(handle_unknown="infrequent_if_exist", max_categories=2),
    OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=9, encoded_missing_value=7),
    make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder(handle_unknown="ignore")),
]
LAST = ["passthrough", StandardScaler(with_mean=False), PCA(2, random_state=0)]


def draw_frame(rng, rows):
    """Return a frame of numbers, words, categories and truths, with gaps in some columns."""
    frame = {}
    for place in range(int(rng.integers(1, 4))):
        values = np.round(rng.normal(size=rows) * 10.0 ** rng.integers(-2, 6), 3)
        if rng.random() < 0.5:
            values[rng.random(rows) < 0.2] = np.nan
        frame[f"n{place}"] = values
    for place in range(int(rng.integers(1, 4))):
        words = rng.choice(["a", "b", "c", "1"], rows, p=[0.5, 0.3, 0.15, 0.05]).astype(object)
        if rng.random() < 0.5:
            words[rng.random(rows) < 0.2] = np.nan
        frame[f"w{place}"] = pd.Categorical(words) if rng.random() < 0.3 else words
    frame["truth"] = rng.random(rows) < 0.5
    order = rng.permutation([*frame]).tolist()
    return pd.DataFrame({name: frame[name] for name in order})


@settings(max_examples=rounds(150), deadline=None, derandomize=True, database=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_the_map_is_what_scikit_learn_computes_of_every_row(seed):
    rng = np.random.default_rng(seed)
    frame = draw_frame(rng, 40)

    def pick(options):
        found = options[int(rng.integers(len(options)))]
        return found if isinstance(found, str) else clone(found)

    parts = []
    for name in frame.columns:
        if name.startswith("n"):
            steps = [pick(FILLS), pick(SCALES)]
            if rng.random() < 0.3:  # a scaler passes gaps on
                steps = [pick(SCALES), pick(FILLS)]
            parts.append((name, make_pipeline(*steps), [name]))
        elif name.startswith("w"):
            parts.append((name, pick(WORDS), [name]))
    columns = ColumnTransformer(parts, remainder="passthrough", sparse_threshold=rng.random())
    pipeline = make_pipeline(columns, SimpleImputer(), pick(LAST) if rng.random() < 0.5 else None)
    y = np.arange(40) % 2
    data = training_data(frame, y, raw=True)
    chosen = np.sort(rng.permutation(40)[: int(rng.integers(25, 40))])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pipeline.fit(frame.iloc[chosen])
        weight, bias = Probes.of_frame(frame, data).fold([pipeline], "it")
        mixed = pd.DataFrame({name: frame[name].sample(60, replace=True, random_state=seed % 97 + k)
                              .array for k, name in enumerate(frame)})  # fmt: skip
        expected = pipeline.transform(mixed)
    expected = np.asarray(expected.toarray() if hasattr(expected, "toarray") else expected, float)
    features = encode_rows(data.encoding, mixed.to_dict("records")).astype(np.float64)
    found = features @ weight.T + bias
    # The features themselves are float32.
    size = np.abs(features) @ np.abs(weight).T + np.abs(bias)
    assert (np.abs(found - expected) <= 2.0**-23 * (size + 1e-30)).all()


def test_a_category_that_a_member_does_not_know_has_no_effect():
    frame = pd.DataFrame({"w": [*"abcabcab", "z"], "n": np.arange(9.0)})
    y = np.arange(9) % 2
    data = training_data(frame, y, raw=True)
    encoder = OneHotEncoder(handle_unknown="ignore").fit(frame[["w"]].iloc[:8])
    columns = make_column_transformer((encoder, ["w"])).fit(frame.iloc[:8])
    weight, bias = Probes.of_frame(frame, data).fold([columns], "it")
    assert data.encoding.columns[0].categories == ("a", "b", "c", "z")
    assert np.array_equal(weight, np.eye(3, 5))
    assert not bias.any()


FRAME = pd.DataFrame(
    {
        "age": [20.0, 31, np.nan, 44, 52, 61, 25, 38] * 4,
        "code": [0, 1, 2, 1] * 8,
        "ward": [*"abcc"] * 8,
    }
)
TARGET = (np.arange(32) // 3) % 2
KNOWN = OneHotEncoder(handle_unknown="ignore")
NUMBERS = make_pipeline(SimpleImputer(), StandardScaler())


def two(numbers=NUMBERS, words=KNOWN, code=None, last=None):
    parts = [(clone(numbers), ["age"]), (clone(words), ["ward"])]
    parts += [] if code is None else [(code, ["code"])]
    return make_pipeline(make_column_transformer(*parts), last or LogisticRegression())


REFUSED = {
    "numbers as categories": two(code=clone(KNOWN)),
    "zeros as gaps": two(code=SimpleImputer(missing_values=0)),
    "a function": two(code=FunctionTransformer(np.log1p)),
    "products": two(code=PolynomialFeatures()),
    "clipped": two(code=MinMaxScaler(clip=True)),
    "trees": two(last=HistGradientBoostingClassifier(max_iter=2)),
    "calibrated": two(last=CalibratedClassifierCV(LogisticRegression(), cv=2)),
    "words left": make_pipeline(SimpleImputer(strategy="most_frequent"), LogisticRegression()),
    "mixed": make_pipeline(
        two()[0], PCA(2), OrdinalEncoder(), LogisticRegression()
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_step_that_no_affine_map_expresses_is_refused_with_the_cure(name, snapshot):
    data = training_data(FRAME, TARGET, raw=True)
    probes = Probes.of_frame(FRAME, data)
    pipeline, frame = REFUSED[name], FRAME
    if name == "words left":
        pipeline.steps[-1][1].fit(FRAME[["code", "code", "code"]].to_numpy(), TARGET)
        pipeline.steps[0][1].fit(FRAME)
    else:
        pipeline.fit(frame, TARGET)
    with pytest.raises(TrainingError) as told:
        model_of(pipeline, data.X, 2, "it", probes)
    assert str(told.value) == snapshot


def test_gaps_and_words_that_a_member_cannot_read_are_refused(snapshot):
    data = training_data(FRAME, TARGET, raw=True)
    probes = Probes.of_frame(FRAME, data)
    known = FRAME[FRAME["ward"] != "a"].dropna()
    for pipeline in (two(words=OneHotEncoder()), two(numbers=StandardScaler())):
        pipeline.fit(known, TARGET[known.index])
        with pytest.raises(TrainingError) as told:
            model_of(pipeline, data.X, 2, "it", probes)
        assert str(told.value) == snapshot


@pytest.mark.parametrize(
    ("X", "settings"),
    [
        (FRAME.to_numpy(), {}),
        (FRAME, {"missing": "drop"}),
        (FRAME.assign(ward=["a", " a"] * 16), {}),
        (FRAME.assign(ward=pd.Series(["a", "b", None, np.nan] * 8, dtype=object)), {}),
    ],
)
def test_tables_that_scikit_learn_would_read_otherwise_are_refused(X, settings, snapshot):
    with pytest.raises(TrainingError) as told:
        Probes.of_frame(X, training_data(X, TARGET, raw=True, **settings))
    assert str(told.value) == snapshot


def test_a_default_is_no_seed():
    for fit, count in (
        (lambda X, y: None, 2),
        (lambda X, y, C=1.0: None, 2),
        (lambda X, y, *, C=1.0: None, 2),
        (lambda X, y, random_state=0: None, 3),
        (lambda X, y, seed: None, 3),
        (lambda X, y, *others: None, 3),
        (lambda X, y, seed, rows: None, 4),
    ):
        assert check_fit(fit) == count
        Unpacked(fit, count)(None, None, 0, None)
