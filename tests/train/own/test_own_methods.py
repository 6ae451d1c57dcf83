"""What scikit-learn would not compute is refused, whatever the rows show."""

import numpy as np
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, RobustScaler, StandardScaler
from sklearn.svm import LinearSVC

import leaveout
from leaveout.errors import TrainingError

pytestmark = pytest.mark.usefixtures("here")

pd = pytest.importorskip("pandas")
RNG = np.random.default_rng(0)
FRAME = pd.DataFrame({"doses": RNG.choice([0, 4], 40), "age": RNG.normal(50, 10, 40)})
GAP = pd.DataFrame({"a": np.concatenate((RNG.uniform(-2, -1, 20), RNG.uniform(1, 2, 20)))})
Y = np.arange(40) // 20
MIXED = np.arange(40) % 2


def refusal(tmp_path, fit, frame, y, raw=True):
    with pytest.raises(TrainingError) as raised:
        leaveout.leave_one_out(fit, frame, y, out=tmp_path / "f", raw=raw, members=2, workers=1)
    return str(raised.value)


def step(values):
    return (np.asarray(values) >= 4).astype(float).reshape(-1, 1)


@pytest.mark.parametrize("column", ["doses", ["doses"]])
def test_a_function_on_one_column_however_it_is_named(tmp_path, column):
    def fit(X, y):
        parts = [("d", FunctionTransformer(step), column), ("a", StandardScaler(), ["age"])]
        return make_pipeline(ColumnTransformer(parts), LogisticRegression()).fit(X, y)

    assert "FunctionTransformer is not supported" in refusal(tmp_path, fit, FRAME, MIXED)


class Eager(LogisticRegression):
    """Answers 1 sooner than scikit-learn."""

    def predict(self, X):
        return (self.predict_proba(X)[:, 1] > 0.2).astype(int)


class EagerPipeline(Pipeline):
    """Likewise."""

    def predict(self, X):
        return (self.predict_proba(X)[:, 1] > 0.2).astype(int)


class EagerSearch(GridSearchCV):
    """Likewise."""

    def predict(self, X):
        return (self.predict_proba(X)[:, 1] > 0.2).astype(int)


def patched():
    last = LogisticRegression()
    last.predict = lambda X: np.zeros(len(X), int)
    return last


@pytest.mark.parametrize(
    "model",
    [
        lambda: make_pipeline(StandardScaler(), Eager()),
        lambda: EagerPipeline([("s", StandardScaler()), ("c", LogisticRegression())]),
        lambda: EagerSearch(LogisticRegression(), {"C": [1.0]}, cv=2),
        lambda: make_pipeline(StandardScaler(), patched()),
    ],
)
def test_a_predict_of_its_own_that_no_row_shows(tmp_path, model):
    assert "a predict of its own" in refusal(
        tmp_path, lambda X, y: model().fit(X, y), GAP, Y
    )  # fmt: skip


def test_a_transform_of_its_own(tmp_path):
    def fit(X, y):
        scaler = StandardScaler().fit(X)
        scaler.transform = lambda X: np.asarray(X) ** 3
        return Pipeline([("s", scaler), ("c", LogisticRegression().fit(scaler.transform(X), y))])

    assert "a transform of its own" in refusal(tmp_path, fit, FRAME[["doses"]], MIXED)


def test_a_stand_in_for_a_gap_that_leaves_float32_nothing_else(tmp_path):
    frame = pd.DataFrame({"a": RNG.normal(50, 10, 60)})
    y = (frame["a"] > 50).to_numpy().astype(int)
    frame.loc[7, "a"] = -2147483648.0
    said = refusal(
        tmp_path, lambda X, y: make_pipeline(RobustScaler(), LinearSVC()).fit(X, y), frame, y
    )
    assert "stand-ins for gaps" in said
