"""A family of one's own training: brute force over its members, its files, what it warns of."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.datasets import load_wine
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import MinMaxScaler

import leaveout
from leaveout.errors import TrainingError
from leaveout.models import load_family, load_network
from leaveout.models.train import Recipe, Rows, TrainingWarning, encoding_of, leave_one_out
from leaveout.models.train.data import read_data
from leaveout.models.train.encoding import nearest_record
from leaveout.models.train.own.inputs import training_data

RNG = np.random.default_rng(3)
X = np.round(RNG.random((40, 3)) * [1, 9, 50]).astype(np.float64)
X[:, 0] += RNG.random(40)
Y = np.array(["low", "mid", "top"])[(X[:, 0] > 0.7).astype(int) + (X[:, 2] > 25)]
NAMES = ["dose", "visits", "age"]


def linear(X, y, seed):
    return LogisticRegression(C=0.1).fit(X, y)


def contents(directory):
    return {path.name: path.read_bytes() for path in sorted(directory.iterdir())}


@pytest.mark.usefixtures("here")
def test_each_member_is_what_training_without_its_row_gives(tmp_path):
    seen = []
    report = leave_one_out(
        linear, X, Y, out=tmp_path / "out", members=np.int64(40), on_progress=seen.append
    )
    network = load_network(report.network)
    family = load_family(report.family, network)
    codes = np.unique(Y, return_inverse=True)[1]
    rows = X.astype(np.float32)
    assert family.removed.tolist() == list(range(40))
    expected = linear(rows, codes, 0).coef_.astype(np.float32)
    assert np.array_equal(network.parameters["layers.0.weight"], expected)
    for row, weight in enumerate(family.parameters["layers.0.weight"]):
        alone = linear(np.delete(rows, row, axis=0), np.delete(codes, row), 0)
        assert np.array_equal(weight, alone.coef_.astype(np.float32))
    work = [each.work for each in seen]
    assert work[:2] == [0, 1]
    assert work == sorted(work)
    assert (seen[-1].finished, seen[-1].work, seen[-1].networks) == (41, 41, 41)
    assert report.train_accuracy == np.mean(linear(rows, codes, 0).predict(rows) == codes)


@pytest.mark.usefixtures("here")
def test_the_manifest_and_the_specification_use_names_ranges_and_whole_numbers(tmp_path):
    out = tmp_path / "out"
    ids = [f"P-{row}" for row in range(40)]
    report = leave_one_out(
        linear, X, Y, out=out, members=4, features=NAMES, units={"dose": "mg"}, ids=ids
    )
    assert repr(report).startswith("<4 of 40 rows left out, 3 features, 3 labels, train accuracy")
    assert sorted(path.name for path in out.iterdir()) == ["family.npz", "full.onnx", "idp.spec"]
    manifest = load_family(report.family, load_network(report.network)).manifest
    facts = manifest.data
    assert (facts.features, facts.labels) == (tuple(NAMES), ("low", "mid", "top"))
    assert (facts.ids, facts.units) == (tuple(ids), {"dose": "mg"})
    assert facts.minimum == tuple(X.astype(np.float32).min(axis=0).tolist())
    assert [column.whole for column in encoding_of(manifest).columns] == [False, True, True]
    lines = report.spec.read_text().splitlines()
    low, high = (X.astype(np.float32)[:, 0].min(), X.astype(np.float32)[:, 0].max())
    top = [int(X[:, column].max()) for column in (1, 2)]
    assert lines[3] == (
        f"let X0 = box([{float(low)!r}, 0, {int(X[:, 2].min())}], "
        f"[{float(high)!r}, {top[0]}, {top[1]}])"
    )
    assert lines[4] == f"let X1 = integers(X0, at = 1)  # visits: 0 to {top[0]}"
    assert lines[5].startswith("let X = integers(X1, at = 2)  # age: ")


@pytest.mark.usefixtures("here")
def test_a_witness_of_an_array_is_a_possible_row(tmp_path):
    report = leave_one_out(linear, X, Y, out=tmp_path / "out", features=NAMES)
    result = leaveout.verify(report.spec, time=60)
    encoding = encoding_of(load_family(report.family, load_network(report.network)).manifest)
    found = [each.witness for each in result.results if each.witness is not None]
    assert found
    for witness in found:
        assert nearest_record(encoding, witness.x)[1] == {}
        visits, age = witness.x[1:]
        assert (visits, age) == (round(visits), round(age))
        assert f"visits = {visits:.0f}, age = {age:.0f}" in witness.words


@pytest.fixture
def frame():
    pandas = pytest.importorskip("pandas")
    ward = np.array(["north", "south", "west"])[np.arange(40) % 3]
    names = [f"P-{row}" for row in range(40)]
    return pandas.DataFrame(
        {"patient": names, "dose": X[:, 0], "ward": ward, "visits": X[:, 1].astype(int)}
    )


def test_a_data_frame_is_encoded_as_its_csv_is(tmp_path, frame):
    table = frame.assign(outcome=Y)
    table.to_csv(tmp_path / "table.csv", index=False)
    expected = read_data(tmp_path / "table.csv", "outcome", "patient", {"dose": "mg"})
    found = training_data(frame, table["outcome"], ids="patient", units={"dose": "mg"})
    assert np.array_equal(found.X, expected.X)
    assert found.encoding == expected.encoding
    assert found.facts() == expected.facts()
    beside = training_data(frame.drop(columns="patient"), Y, ids=frame["patient"])
    assert beside.facts().ids == expected.facts().ids


@pytest.mark.usefixtures("here")
def test_a_witness_over_words_is_a_possible_record(tmp_path, frame):
    report = leave_one_out(linear, frame, Y, out=tmp_path / "out", ids="patient")
    text = report.spec.read_text()
    assert "one_hot(X0, at = [1, 2, 3])  # ward" in text
    assert "box(0, 1)\n\n" not in text
    result = leaveout.verify(report.spec, time=60)
    encoding = encoding_of(load_family(report.family, load_network(report.network)).manifest)
    found = [each.witness for each in result.results if each.witness is not None]
    assert found
    for witness in found:
        assert nearest_record(encoding, witness.x)[1] == {}
        assert sorted(witness.x[1:4]) == [0, 0, 1]
        assert "ward = " in witness.words


@pytest.mark.usefixtures("here")
def test_an_array_that_was_encoded_before_has_its_words_back(tmp_path, snapshot):
    ward = np.eye(3)[np.arange(40) % 3]
    names = ["dose", "ward_north", "ward_south", "ward_west", "visits"]
    report = leave_one_out(
        linear,
        np.column_stack([X[:, 0], ward, X[:, 1]]),
        Y,
        out=tmp_path / "out",
        features=names,
        one_hot={"ward": names[1:4]},
    )
    assert "one_hot(X0, at = [1, 2, 3])  # ward" in report.spec.read_text()
    encoding = encoding_of(load_family(report.family, load_network(report.network)).manifest)
    assert encoding.columns[1].categories == ("north", "south", "west")
    result = leaveout.verify(report.spec, time=60)
    found = [each.witness for each in result.results if each.witness is not None]
    assert found
    assert all(nearest_record(encoding, each.x)[1] == {} for each in found)
    with pytest.raises(TrainingError) as told:
        training_data(
            np.column_stack([ward, 1 - ward[:, 2]]),
            Y,
            features=["a", "b", "ward_west", "not"],
            one_hot={"ward": ["a", "b", "ward_west"], "other": ["ward_west", "not"]},
        )
    assert str(told.value) == snapshot


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        ([3, 1, 3, 1, 2, 2], ("1", "2", "3")),
        ([10, 9, 10, 9, 9, 10], ("9", "10")),
        ([1.0, 0.0, 1.0, 0.0, 0.0, 1.0], ("0", "1")),
        ([True, False, True, False, True, True], ("False", "True")),
        (["b", "a", "b", "a", "a", "a"], ("a", "b")),
        (np.array(["b", "a", "b", "a", "a", "a"], dtype=object), ("a", "b")),
        ([0.5, 1.5, 0.5, 1.5, 1.5, 0.5], ("0.5", "1.5")),
    ],
)
def test_labels_of_any_kind_are_sorted_and_numbered(labels, names):
    data = training_data(X[:6], labels)
    assert data.labels == names
    assert [names[code] for code in data.y] == [
        str(int(label)) if isinstance(label, float) and label.is_integer() else str(label)
        for label in labels
    ]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.usefixtures("here")
def test_members_whose_rows_come_in_another_order_are_warned_of(tmp_path):
    X, y = load_wine(return_X_y=True)
    X = MinMaxScaler().fit_transform(X)

    def shuffled(X, y, seed):
        return MLPClassifier((8,), batch_size=16, max_iter=25, random_state=seed).fit(X, y)

    with pytest.warns(TrainingWarning, match="times as far .* as from their neighbours.*rows.batc"):
        report = leave_one_out(shuffled, X, y, out=tmp_path / "a", members=8)
    assert any("number of rows seems to change the order" in each for each in report.warnings)
    with warnings.catch_warnings():
        warnings.simplefilter("error", TrainingWarning)
        assert leave_one_out(linear, X, y, out=tmp_path / "b", members=8).warnings == ()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.usefixtures("here")
def test_members_as_far_away_as_by_another_seed_are_warned_of(tmp_path):
    X, y = load_wine(return_X_y=True)

    def chaotic(X, y, seed):
        return SGDClassifier(random_state=seed, max_iter=20).fit(X, y)

    with pytest.warns(TrainingWarning, match="as far as changing the seed"):
        leave_one_out(chaotic, X, y, out=tmp_path / "out", members=8)


@pytest.mark.usefixtures("here")
def test_what_fit_does_to_rows_alone_is_warned_of(tmp_path):
    def upside_down(X, y, seed):
        return LogisticRegression().fit(-X, y)

    with pytest.warns(TrainingWarning) as told:
        leave_one_out(upside_down, X, Y, out=tmp_path / "out", members=2)
    assert any("belongs in the network" in str(each.message) for each in told)


@pytest.mark.usefixtures("here")
def test_each_call_begins_alike_and_spoils_nothing(tmp_path):
    import random

    state = {"calls": 0}

    def fit(X, y, seed):
        state["calls"] += 1
        drawn = np.random.rand() + random.random() + state["calls"]  # noqa: NPY002
        X *= 2
        y[:] = np.arange(len(y)) % 3
        found = LogisticRegression().fit(X, y)
        found.intercept_ = found.intercept_ * 0 + drawn
        return found

    with pytest.warns(TrainingWarning):
        report = leave_one_out(fit, X, Y, out=tmp_path / "out", members=5)
    shifts = load_family(report.family, load_network(report.network)).parameters["layers.0.bias"]
    assert (shifts == shifts[0, 0]).all()
    assert state["calls"] == 0


@pytest.mark.usefixtures("here")
def test_rows_are_given_to_who_asks(tmp_path):
    def named(X, y, seed, rows):
        assert isinstance(rows, Rows)
        assert len(rows.numbers) == len(X)
        return linear(X, y, seed)

    def fourth(X, y, seed, which):
        return named(X, y, seed, which)

    def optional(X, y, seed, cost=0.1):
        assert cost == 0.1
        return linear(X, y, seed)

    found = []
    for index, fit in enumerate((named, fourth, optional, linear)):
        out = tmp_path / str(index)
        leave_one_out(fit, X, Y, out=out, members=2)
        found.append(contents(out))
    assert all(each == found[0] for each in found)


@pytest.mark.usefixtures("here")
def test_another_run_in_the_same_folder_is_refused(tmp_path, snapshot):
    out = tmp_path / "out"
    leave_one_out(linear, X, Y, out=out, members=4)
    before = contents(out)
    assert leave_one_out(linear, X, Y, out=out, members=4).complete_before
    changes = [
        (lambda X, y, seed: LogisticRegression(C=0.2).fit(X, y), {}),
        (linear, {"seed": 1}),
        (linear, {"features": NAMES}),
        (linear, {"members": 3}),
    ]
    for fit, settings in changes:
        with pytest.raises(TrainingError) as caught:
            leave_one_out(fit, X, Y, out=out, **{"members": 4, **settings})
        assert str(caught.value) == snapshot
    with pytest.raises(TrainingError) as told:
        leave_one_out(linear, X[::-1], Y, out=out, members=4)
    assert str(told.value) == snapshot
    assert contents(out) == before


@pytest.mark.usefixtures("here")
def test_more_members_later_give_the_bytes_of_one_run(tmp_path):
    short, long = tmp_path / "short", tmp_path / "long"
    leave_one_out(linear, X, Y, out=short, members=4)
    seen = []
    leave_one_out(linear, X, Y, out=short, members=9, on_progress=seen.append)
    leave_one_out(linear, X, Y, out=long, members=9)
    assert list(dict.fromkeys(each.finished for each in seen)) == [0, 5, 6, 7, 8, 9, 10]
    assert [each.work for each in seen] == sorted(each.work for each in seen)
    assert contents(short) == contents(long)


def test_training_of_ones_own_can_be_the_commands(tmp_path, torch, here):
    from leaveout.models.train.architecture import layers_of
    from leaveout.models.train.draws import initial_weights
    from leaveout.models.train.stacked import NOTHING, Stack

    recipe = Recipe(layers=(6,), epochs=4, batch=9, optimizer="adam", learning_rate=0.02)
    layers = layers_of(recipe, 3, 3)

    def fit(X, y, seed, rows):
        nn = torch.nn
        module = nn.Sequential(nn.Linear(3, 6), nn.ReLU(), nn.Linear(6, 3))
        for place, start in zip((0, 2), initial_weights(layers, seed)):
            module[place].weight.data = torch.tensor(start[:, :-1])
            module[place].bias.data = torch.tensor(start[:, -1])
        inputs, truth = torch.tensor(X), torch.tensor(y)
        optimizer = torch.optim.Adam(module.parameters(), lr=0.02, weight_decay=1e-5)
        batches = rows.batches(9, seed)
        for _ in range(4):
            for batch in batches:
                optimizer.zero_grad()
                nn.functional.cross_entropy(module(inputs[batch]), truth[batch]).backward()
                optimizer.step()
        return module

    scaled = (X / X.max(axis=0)).astype(np.float32)
    codes = np.unique(Y, return_inverse=True)[1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TrainingWarning)
        report = leave_one_out(fit, scaled, codes, out=tmp_path / "out", members=3)
    stack = Stack(layers, recipe, scaled, codes, np.array([NOTHING, 0, 1, 2]))
    stack.train()
    network = load_network(report.network)
    family = load_family(report.family, network)
    for place, flat in enumerate(stack.parameters()):
        values = network.parameters if not place else family.take([place - 1])
        found = np.concatenate([value.ravel() for value in values.values()])
        np.testing.assert_allclose(found, flat, atol=2e-5, rtol=1e-5)
