"""Wrong calls of `leave_one_out`: one line each, that says where and what cures it."""

from __future__ import annotations

import re
import sys
import threading
import time
import warnings

import numpy as np
import pytest
from sklearn.compose import ColumnTransformer
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
    "fit",
    [
        None,
        LogisticRegression(),
        lambda X: None,
        lambda X, y, seed: None,
        lambda X, y, seed: {"w": 1},
        lambda X, y, seed: b"onnx?",
        lambda X, y, seed: "gone.onnx",
        lambda X, y, seed: LogisticRegression(),
        failing,
        failing,
        lambda X, y, seed: exit("enough"),
        drops_a_label,
        draws,
        by_the_clock,
        Unfinished(np.nan),
        Unfinished(1e60),
        adding(RandomForestClassifier(2)),
        adding(PolynomialFeatures(), Perceptron()),
        adding(MinMaxScaler(clip=True), Perceptron()),
        with_lock(threading.Lock()),
    ],
)
@pytest.mark.usefixtures("here")
def test_a_training_that_is_none(tmp_path, fit, snapshot):
    # Two networks drawn at random differ in no fixed place, by no fixed numbers.
    said = re.sub(r"\(layers\.[\w.]+: \S+ and \S+\)", "(where)", refused(tmp_path, fit))
    assert said == snapshot


@pytest.mark.parametrize(
    "change",
    [
        {"X": NAN},
        {"X": X[0]},
        {"X": X[:0], "y": Y[:0]},
        {"X": X[:, :0]},
        {"X": X.astype(str)},
        {"X": X.astype(object)},
        {"y": Y[:5]},
        {"y": Y[:, None]},
        {"y": Y * 0},
        {"y": np.where(Y == 2, np.nan, Y)},
        {"y": ["a", None] * 6},
        {"y": [{}] * 12},
        {"y": np.array([*Y[:11], 7])},
        {"seed": -1},
        {"seed": 0.5},
        {"members": 13},
        {"members": 0},
        {"members": 2.0},
        {"members": "3"},
        {"members": True},
        {"backend": "dask"},
        {"executor": "dask"},
        {"features": ["a", "b"]},
        {"features": ["a", "b", "a"]},
        {"units": {"dose": "mg"}},
        {"one_hot": {"a": ["x0", "x9"]}},
        {"one_hot": {"a": ["x0", "x2"]}},
        {"one_hot": {"a": ["x0"]}},
        {"one_hot": {"a": ["x0", "x1"]}},
        {"ids": "name"},
        {"ids": ["P1"] * 12},
        {"ids": ["P1"]},
    ],
)
@pytest.mark.usefixtures("here")
def test_data_and_settings_that_cannot_be_used(tmp_path, change, snapshot):
    assert refused(tmp_path, **change) == snapshot


@pytest.mark.usefixtures("here")
def test_measurements_are_no_labels(tmp_path, snapshot):
    rng = np.random.default_rng(0)
    said = refused(tmp_path, X=rng.random((40, 2)), y=rng.random(40))
    assert said == snapshot


@pytest.mark.usefixtures("here")
def test_a_folder_that_cannot_be_one(tmp_path, snapshot):
    (tmp_path / "file").write_text("mine")
    assert refused(tmp_path, out=tmp_path / "file") == snapshot
    assert refused(tmp_path, out=tmp_path / "file" / "below") == snapshot


@pytest.mark.usefixtures("here")
def test_a_member_of_another_architecture_is_named(tmp_path, snapshot):
    said = refused(tmp_path, own_width)
    assert said == snapshot


@pytest.mark.usefixtures("here")
def test_without_ray_one_line_says_what_to_install(tmp_path, monkeypatch, snapshot):
    monkeypatch.setitem(sys.modules, "ray", None)
    said = refused(tmp_path, backend="ray")
    assert said == snapshot


def frame(**columns):
    pandas = pytest.importorskip("pandas")
    return pandas.DataFrame({"dose": X[:, 0], "ward": ["a", "b"] * 6, **columns})


@pytest.mark.parametrize(
    ("columns", "settings"),
    [
        ({"when": [[1]] * 12}, {}),
        ({"dose": [*X[:11, 0], np.nan]}, {}),
        ({"dose": [None, *X[1:, 0]]}, {}),
        ({"ward": ["a", "b"] * 5 + ["a", None]}, {}),
        ({" dose ": X[:, 1]}, {}),
        ({"": X[:, 1]}, {}),
        ({}, {"features": ["a", "b"]}),
        ({}, {"one_hot": {"ward": ["a", "b"]}}),
        ({}, {"ids": "patient"}),
        ({}, {"ids": "ward"}),
        ({}, {"units": {"doze": "mg"}}),
    ],
)
@pytest.mark.usefixtures("here")
def test_data_frames_that_cannot_be_used(tmp_path, columns, settings, snapshot):
    assert refused(tmp_path, X=frame(**columns), **settings) == snapshot


@pytest.mark.usefixtures("here")
def test_rows_and_labels_in_another_order(tmp_path, snapshot):
    pandas = pytest.importorskip("pandas")
    said = refused(tmp_path, X=frame(), y=pandas.Series(Y)[::-1])
    assert said == snapshot


@pytest.mark.usefixtures("here")
def test_an_empty_data_frame(tmp_path, snapshot):
    pandas = pytest.importorskip("pandas")
    assert refused(tmp_path, X=pandas.DataFrame()) == snapshot
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
        (nn.Linear(3, 2), "scores of shape (2, 2) for 2 rows; expected (2, 3)"),
        (nn.Linear(4, 3), "the module fails on rows of 3 features: RuntimeError"),
        (Tuple(3, 3), "the module returns a tuple; expected one tensor of scores"),
        (Noisy(3, 3), "the module returns different scores each time"),
        (Beside(3, 3), "a row's scores depend on the other rows in its batch"),
        (Deciding(3, 3), "a row's scores depend on the other rows in its batch"),
        (Flat(3, 3), "expected (2, 3)"),
        (diverged, "'weight' has weights that are not finite: training diverged"),
        (nn.Sequential(nn.Linear(3, 3), nn.Softsign()), "divides data by data"),
        (nn.Linear, "fit returned a type"),
    ]


@pytest.mark.usefixtures("here")
def test_modules_that_cannot_be_read(tmp_path, torch):
    for module, said in modules(torch):
        torch.manual_seed(0)
        assert said in refused(tmp_path, lambda X, y, seed, module=module: module)


@pytest.mark.usefixtures("here")
def test_a_constant_that_changes_with_the_rows_is_no_parameter(tmp_path, torch, snapshot):
    class Centred(torch.nn.Linear):
        centre: float = 0.0

        def forward(self, x):
            return super().forward(x - self.centre)

    def fit(X, y, seed):
        module = Centred(3, 3)
        module.centre = float(X.mean())
        return module

    said = refused(tmp_path, fit)
    assert said == snapshot


@pytest.mark.usefixtures("here")
def test_what_one_training_leaves_behind_is_no_matter_of_the_next(tmp_path, monkeypatch, snapshot):
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
        with pytest.raises(TrainingError) as told:
            leaveout.leave_one_out(keeps_state.fit, X, Y, out=tmp_path / "out", workers=workers)
        assert str(told.value) == snapshot


class Cautious(LogisticRegression):
    """Labels rows by a threshold of its own."""

    def predict(self, X):
        return (self.decision_function(X) > 10).astype(int)


@pytest.mark.usefixtures("here")
def test_an_estimator_with_labels_of_its_own(tmp_path, snapshot):
    said = refused(tmp_path, lambda X, y, seed: Cautious(C=100).fit(X, y), y=(X[:, 0] > 0.5) * 1)
    assert said == snapshot


@pytest.mark.usefixtures("here")
def test_one_number_that_is_cut_off(tmp_path, torch, snapshot):
    module = torch.nn.Sequential(torch.nn.Linear(3, 1), torch.nn.Hardsigmoid())
    said = refused(tmp_path, lambda X, y, seed: module, y=TWO)
    assert said == snapshot


@pytest.mark.usefixtures("here")
def test_a_module_that_decides_by_the_data_late(tmp_path, torch):
    class Branching(torch.nn.Linear):
        def forward(self, x):
            return super().forward(x) * (-1 if x.max() > 5 else 1)

    rows = np.concatenate([np.tile(X, (10, 1)), [[9, 9, 9]]]).astype(np.float32)
    said = refused(tmp_path, lambda X, y, seed: Branching(3, 3), X=rows, y=np.arange(121) % 3)
    assert (
        "computes different scores from the model itself" in said
        or "other rows in its batch" in said
    )


@pytest.mark.usefixtures("here")
def test_cures_are_arguments_of_python_and_not_options(tmp_path):
    pandas = pytest.importorskip("pandas")
    ages = np.arange(24.0)
    names = pandas.DataFrame({"full name": [f"A{at}" for at in range(24)], "age": ages})
    y = np.arange(24) % 2
    said = refused(tmp_path, X=names, y=y)
    assert "pass X.drop(columns='full name') or ids='full name'" in said
    gaps = pandas.DataFrame({"age": ages, "dose": [None, *ages[1:]]})
    said = refused(tmp_path, X=gaps, y=y)
    assert "pass missing='drop' or missing='mark', fill it in, or drop the column" in said
    assert "--" not in said
    with pytest.warns(leaveout.models.train.TrainingWarning, match="drop such columns"):
        leaveout.leave_one_out(
            linear, names.assign(**{"full name": 1}), y, out=tmp_path / "out", members=1, workers=1
        )


@pytest.mark.usefixtures("here")
def test_words_that_fit_cannot_read_have_a_cure(tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"ward": ["a", "b"] * 6, "age": np.arange(12.0)})
    assert "return a pipeline that encodes them" in refused(tmp_path, X=frame, raw=True)

    def by_name(X, y, seed):
        scaler = ColumnTransformer([("n", MinMaxScaler(), ["age"])])
        return make_pipeline(scaler, LogisticRegression()).fit(X, y)

    assert "raw=True passes the data frame to fit as it is" in refused(tmp_path, by_name, X=frame)
