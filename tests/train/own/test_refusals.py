"""Wrong calls of `leave_one_out`: one line each, that says where and what cures it."""

from __future__ import annotations

import sys
import threading
import time
import warnings

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, Perceptron
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, PolynomialFeatures

import leaveout
from leaveout.errors import TrainingError

X = np.random.default_rng(0).random((12, 3)).astype(np.float32)
Y = np.arange(12) % 3
TWO = np.arange(12) % 2


def linear(X, y, seed):
    return LogisticRegression(max_iter=5).fit(X, y)


def refused(tmp_path, fit=linear, X=X, y=Y, **settings):
    """Return the one line that is said."""
    out = settings.pop("out", tmp_path / "out")
    with pytest.raises(TrainingError) as caught, warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        leaveout.leave_one_out(fit, X, y, out=out, workers=1, **settings)
    said = str(caught.value)
    assert "\n" not in said
    assert not (tmp_path / "out").exists()
    return said


class Unfinished:
    """An estimator with weights of its choice."""

    def __init__(self, value):
        self.value = np.float64(value)

    def __call__(self, X, y, seed):
        found = linear(X, y, seed)
        found.coef_ = found.coef_.astype(np.float64) * self.value
        return found


def own_width(X, y, seed):
    return MLPClassifier((4 if len(X) == 12 else 5,), max_iter=1, random_state=0).fit(X, y)


def failing(X, y, seed):
    raise KeyError("dose")


def drops_a_label(X, y, seed):
    return linear(X[y != 2], y[y != 2], seed)


def draws(X, y, seed):
    found = linear(X, y, seed)
    found.coef_ = found.coef_ + np.random.default_rng().normal()
    return found


def by_the_clock(X, y, seed):
    return MLPClassifier((3,), max_iter=1, random_state=time.perf_counter_ns() % 2**31).fit(X, y)


def with_lock(lock):
    return lambda X, y, seed: linear(X, y, seed) if lock else None


def adding(*steps):
    return lambda X, y, seed: make_pipeline(*steps).fit(X, y)


NAN = np.where(X[4, 1] == X, np.nan, X)


@pytest.mark.parametrize(
    ("fit", "said"),
    [
        (None, "fit is of type NoneType, expected a function fit(X, y, seed)"),
        (LogisticRegression(), "fit is of type LogisticRegression, expected a function"),
        (lambda X, y: None, "cannot be called as fit(X, y, seed) or fit(X, y, seed, rows)"),
        (lambda X, y, seed: None, "fit returned None as the network on all rows: return the"),
        (lambda X, y, seed: {"w": 1}, "fit returned a dict as the network on all rows: return"),
        (lambda X, y, seed: b"onnx?", "not an ONNX model"),
        (lambda X, y, seed: "gone.onnx", "fit returned the path gone.onnx: no such file"),
        (lambda X, y, seed: LogisticRegression(), "LogisticRegression is not fitted: return est"),
        (failing, "fit failed for the network on all rows ("),
        (failing, "KeyError: 'dose'"),
        (lambda X, y, seed: exit("enough"), "SystemExit: enough"),
        (drops_a_label, "knows the labels [0, 1] of 0 to 2: fit it on the y it is given"),
        (draws, "two different networks from the same rows and seed (layers.0.weight: "),
        (by_the_clock, "draw all random numbers from seed, as in random_state=seed"),
        (Unfinished(np.nan), "'layers.0.weight' has weights that are not finite: training diver"),
        (Unfinished(1e60), "has weights that are not finite"),
        (adding(RandomForestClassifier(2)), "a fitted RandomForestClassifier is no network that"),
        (adding(MLPClassifier(activation="tanh", max_iter=1)), "take activation='relu'"),
        (adding(PolynomialFeatures(), Perceptron()), "the pipeline's step PolynomialFeatures is"),
        (adding(MinMaxScaler(clip=True), Perceptron()), "take clip=False"),
        (with_lock(threading.Lock()), "fit cannot be sent to another process (TypeError: cannot"),
    ],
)
@pytest.mark.usefixtures("here")
def test_a_training_that_is_none(tmp_path, fit, said):
    assert said in refused(tmp_path, fit)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"X": NAN}, "'X' row 4, column 1 is nan, expected a finite float32; fill it in"),
        ({"X": X[0]}, "'X' has shape (3,), expected (rows, features) with at least 2 rows"),
        ({"X": X[:0], "y": Y[:0]}, "'X' has shape (0, 3)"),
        ({"X": X[:, :0]}, "'X' is float32 of shape (12, 0)"),
        ({"X": X.astype(str)}, "expected numbers; give words as columns of a pandas DataFrame"),
        ({"X": X.astype(object)}, "'X' is an array of object"),
        ({"y": Y[:5]}, "'X' has 12 rows and 'y' 5; expected as many"),
        ({"y": Y[:, None]}, "y has shape (12, 1), expected (rows,)"),
        ({"y": Y * 0}, "every row has the label '0'; expected at least 2 labels"),
        ({"y": np.where(Y == 2, np.nan, Y)}, "row 2, column 'y': the label is missing"),
        ({"y": ["a", None] * 6}, "row 1, column 'y': the label is missing"),
        ({"y": [{}] * 12}, "holds a dict, expected a number or a word"),
        ({"y": np.array([*Y[:11], 7])}, "label '7' has one row, 11: without it no network can"),
        ({"seed": -1}, "seed=-1: expected a whole number from 0"),
        ({"seed": 0.5}, "seed=0.5: expected a whole number"),
        ({"members": 13}, "members=13: the data has 12 rows; leave out at most all"),
        ({"members": 0}, "members=0: expected a whole number of at least 1"),
        ({"members": 2.0}, "members=2.0: expected a whole number of at least 1"),
        ({"members": "3"}, "members='3': expected a whole number of at least 1"),
        ({"members": True}, "members=True: expected a whole number of at least 1"),
        ({"backend": "dask"}, "backend='dask': expected one of processes, ray"),
        ({"executor": "dask"}, "executor='dask': expected one of processes, ray"),
        ({"features": ["a", "b"]}, "features holds 2 names, X has 3 columns"),
        ({"features": ["a", "b", "a"]}, "features names two columns 'a'; rename one"),
        ({"units": {"dose": "mg"}}, "a unit is given for 'dose', which is no feature"),
        ({"one_hot": {"a": ["x0", "x9"]}}, "one_hot 'a' has 'x9', which is no feature (did you"),
        ({"one_hot": {"a": ["x0", "x2"]}}, "expected two or more beside each other, in the order"),
        ({"one_hot": {"a": ["x0"]}}, "expected two or more beside each other"),
        ({"one_hot": {"a": ["x0", "x1"]}}, "row 0 has not a single 1 in the features of one_hot"),
        ({"ids": "name"}, "ids='name' names a column, and an array has none"),
        ({"ids": ["P1"] * 12}, "ids name two rows 'P1'; names of rows must differ"),
        ({"ids": ["P1"]}, "ids has 1 names, X has 12 rows"),
    ],
)
@pytest.mark.usefixtures("here")
def test_data_and_settings_that_cannot_be_used(tmp_path, change, said):
    assert said in refused(tmp_path, **change)


@pytest.mark.usefixtures("here")
def test_measurements_are_no_labels(tmp_path):
    rng = np.random.default_rng(0)
    said = refused(tmp_path, X=rng.random((40, 2)), y=rng.random(40))
    assert "column 'y': 40 different labels" in said
    assert "look like measurements; expected a few classes" in said


@pytest.mark.usefixtures("here")
def test_a_folder_that_cannot_be_one(tmp_path):
    (tmp_path / "file").write_text("mine")
    assert "is a file; choose another folder" in refused(tmp_path, out=tmp_path / "file")
    assert "cannot be written" in refused(tmp_path, out=tmp_path / "file" / "below")


@pytest.mark.usefixtures("here")
def test_a_member_of_another_architecture_is_named(tmp_path):
    said = refused(tmp_path, own_width)
    assert said.startswith("the member without row 0 has not the architecture of the network on")
    assert "'layers.0.weight' has shape (5, 3), expected (4, 3)" in said


@pytest.mark.usefixtures("here")
def test_without_ray_one_line_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    said = refused(tmp_path, backend="ray")
    assert said == "backend='ray' needs ray: pip install 'leaveout[ray]'"


def frame(**columns):
    pandas = pytest.importorskip("pandas")
    return pandas.DataFrame({"dose": X[:, 0], "ward": ["a", "b"] * 6, **columns})


@pytest.mark.parametrize(
    ("columns", "settings", "said"),
    [
        ({"when": [[1]] * 12}, {}, "row 0, column 'when': holds a list, expected a number or a w"),
        ({"dose": [*X[:11, 0], np.nan]}, {}, "row 11, column 'dose': the value is missing; fill"),
        ({"dose": [None, *X[1:, 0]]}, {}, "row 0, column 'dose': the value is missing"),
        ({"ward": ["a", "b"] * 5 + ["a", None]}, {}, "row 11, column 'ward': the value is missing"),
        ({" dose ": X[:, 1]}, {}, "two columns are named 'dose'; rename one"),
        ({"": X[:, 1]}, {}, "column 2 has no name"),
        ({}, {"features": ["a", "b"]}, "features are the columns of the data frame"),
        ({}, {"one_hot": {"ward": ["a", "b"]}}, "one_hot is of arrays: leave the column of words"),
        ({}, {"ids": "patient"}, "ids='patient' is no column of X"),
        ({}, {"ids": "ward"}, "row 2, column 'ward': 'a' names the row of row 0 too"),
        ({}, {"units": {"doze": "mg"}}, "a unit is given for 'doze', which is no column of featu"),
    ],
)
@pytest.mark.usefixtures("here")
def test_data_frames_that_cannot_be_used(tmp_path, columns, settings, said):
    assert said in refused(tmp_path, X=frame(**columns), **settings)


@pytest.mark.usefixtures("here")
def test_rows_and_labels_in_another_order(tmp_path):
    pandas = pytest.importorskip("pandas")
    said = refused(tmp_path, X=frame(), y=pandas.Series(Y)[::-1])
    assert "X and y have different indexes, and rows go by position" in said


@pytest.mark.usefixtures("here")
def test_an_empty_data_frame(tmp_path):
    pandas = pytest.importorskip("pandas")
    assert "X has no columns" in refused(tmp_path, X=pandas.DataFrame())
    assert "0 rows" in refused(tmp_path, X=frame().iloc[:0], y=[])


def modules(torch):
    """Return modules, and what is said of them."""
    nn = torch.nn

    class Tuple(nn.Linear):
        def forward(self, x):
            return super().forward(x), x

    class Noisy(nn.Linear):
        def forward(self, x):
            return super().forward(x) + torch.rand(1)

    class Flat(nn.Linear):
        def forward(self, x):
            return super().forward(x)[:, 0]

    class Beside(nn.Linear):
        def forward(self, x):
            return super().forward(x - x.mean(dim=0))

    class Deciding(nn.Linear):
        def forward(self, x):
            return super().forward(x) * (1 if x[0, 0] > x[0, 1] else -1)

    diverged = nn.Linear(3, 3)
    diverged.weight.data[1, 2] = float("nan")
    dropout = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5), nn.Linear(4, 3))
    return [
        (dropout, "Dropout '1' is in training mode: call module.eval() before"),
        (nn.Linear(3, 3, device="meta"), "'weight' is on the device meta: return module.cpu()"),
        (nn.Linear(3, 3).double(), "'weight' is torch.float64: return module.float()"),
        (nn.Linear(3, 2), "scores of shape (2, 2) for 2 rows, expected (2, 3)"),
        (nn.Linear(4, 3), "the module does not run on rows of 3 features: RuntimeError"),
        (Tuple(3, 3), "the module returns a tuple, expected one tensor of scores"),
        (Noisy(3, 3), "the module gives other scores each time"),
        (Beside(3, 3), "a row's scores depend on the rows beside it"),
        (Deciding(3, 3), "a row's scores depend on the rows beside it"),
        (Flat(3, 3), "expected (2, 3)"),
        (diverged, "'weight' has weights that are not finite: training diverged"),
        (nn.Sequential(nn.Linear(3, 3), nn.Tanh()), "Tanh"),
        (nn.Linear, "fit returned a type"),
    ]


@pytest.mark.usefixtures("here")
def test_modules_that_cannot_be_read(tmp_path, torch):
    for module, said in modules(torch):
        torch.manual_seed(0)
        assert said in refused(tmp_path, lambda X, y, seed, module=module: module)


@pytest.mark.usefixtures("here")
def test_a_constant_that_changes_with_the_rows_is_no_parameter(tmp_path, torch):
    class Centred(torch.nn.Linear):
        centre: float = 0.0

        def forward(self, x):
            return super().forward(x - self.centre)

    def fit(X, y, seed):
        module = Centred(3, 3)
        module.centre = float(X.mean())
        return module

    said = refused(tmp_path, fit)
    assert "the member without row 0 has not the architecture of the network on all rows" in said


@pytest.mark.usefixtures("here")
def test_what_one_training_leaves_behind_is_no_matter_of_the_next(tmp_path, monkeypatch):
    module = tmp_path / "keeps_state.py"
    module.write_text(
        "import numpy as np\n"
        "from sklearn.linear_model import LogisticRegression\n"
        "rng = np.random.default_rng(0)\n"
        "def fit(X, y, seed):\n"
        "    moved = X + rng.normal(size=X.shape).astype(np.float32)\n"
        "    return LogisticRegression(max_iter=50).fit(moved, y)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    import keeps_state

    for workers in (1, 2):
        with pytest.raises(TrainingError, match="two different networks from the same rows"):
            leaveout.leave_one_out(keeps_state.fit, X, Y, out=tmp_path / "out", workers=workers)


class Cautious(LogisticRegression):
    """Labels rows by a threshold of its own."""

    def predict(self, X):
        return (self.decision_function(X) > 10).astype(int)


@pytest.mark.usefixtures("here")
def test_an_estimator_with_labels_of_its_own(tmp_path):
    said = refused(tmp_path, lambda X, y, seed: Cautious(C=100).fit(X, y), y=(X[:, 0] > 0.5) * 1)
    assert "Cautious labels row" in said


@pytest.mark.usefixtures("here")
def test_one_number_that_is_cut_off(tmp_path, torch):
    module = torch.nn.Sequential(torch.nn.Linear(3, 1), torch.nn.Hardsigmoid())
    said = refused(tmp_path, lambda X, y, seed: module, y=TWO)
    assert "ends in one number that is cut off" in said


@pytest.mark.usefixtures("here")
def test_a_module_that_decides_by_the_data_late(tmp_path, torch):
    class Branching(torch.nn.Linear):
        def forward(self, x):
            return super().forward(x) * (-1 if x.max() > 5 else 1)

    rows = np.concatenate([np.tile(X, (10, 1)), [[9, 9, 9]]]).astype(np.float32)
    said = refused(tmp_path, lambda X, y, seed: Branching(3, 3), X=rows, y=np.arange(121) % 3)
    assert "gives other scores than the model itself" in said or "rows beside it" in said
