"""``--data``: what is said to owe nothing is asked of every member; of the rest it is said why."""

from __future__ import annotations

import msgspec
import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import leaveout
from leaveout.encoders import Box, Choices
from leaveout.models import (
    load_family,
    load_network,
)
from leaveout.models.replay import with_parameters
from leaveout.verifier.cli.app import run
from leaveout.verifier.points.answers import Answers, Known, State, states
from leaveout.verifier.points.given import DataError

from support.clinic import write_clinic
from support.depth import rounds
from support.files import BOUND, write_question
from support.snapshots import passages

LEAK = "confidence(N, x) > b => label(M, x) == label(N, x)"


def changes(folder, x):
    """Return the labels of N, and whether some member answers otherwise or ties, by onnxruntime."""
    network = load_network(folder / "full.onnx")
    family = load_family(folder / "family.npz", network)
    scores = np.stack([network.runner().scores(point[None])[0] for point in x])
    labels, changed = scores.argmax(axis=1), np.zeros(len(x), bool)
    for member in range(len(family)):
        own = {name: stack[0] for name, stack in family.take([member]).items()}
        for at, point in enumerate(x):
            other = network.runner(own).scores(point[None])[0]
            changed[at] |= not other[labels[at]] > np.delete(other, labels[at]).max()
    return labels, changed


def points(folder, count=150, seed=3, low=-0.2, high=1.2):
    width = load_network(folder / "full.onnx").inputs
    return np.random.default_rng(seed).uniform(low, high, (count, width)).astype(np.float32)


def inside(x, low=0.0, high=1.0):
    return ((x >= low) & (x <= high)).all(axis=1)


@pytest.mark.parametrize("seed", [4, 6, 8])
def test_no_member_answers_otherwise_where_nothing_is_owed(tmp_path, seed, snapshot):
    spec = write_question(tmp_path, seed=seed)
    x = points(tmp_path, seed=seed)
    report = leaveout.verify(spec, data=x)
    (found,) = report.answers
    labels, changed = changes(tmp_path, x)
    free = np.array([state == "owes nothing" for state in found.states])
    assert found.answers == tuple(labels)
    assert free.any()
    assert not changed[free].any()
    assert inside(x)[free].all()
    uppers = {each.label: each.upper for each in report.results}
    margin = np.array(found.confidences)
    above = np.array([m > uppers[c] for m, c in zip(margin, labels, strict=True)])
    assert np.array_equal(free, above & inside(x))
    outside = np.array([state == "outside" for state in found.states])
    assert np.array_equal(outside, ~inside(x))
    for each in found.labels:
        own = labels == each.label
        assert each.answers == own.sum()
        assert each.owe_nothing == (own & free).sum()
        assert each.not_above == (own & ~free & ~outside).sum()
        assert each.outside == (own & outside).sum()
    assert found.words == snapshot
    assert f"{free.sum():,}" in found.words


def test_what_is_counted_holds_under_any_deadline(tmp_path):
    spec = write_question(tmp_path)
    x = points(tmp_path)
    _, changed = changes(tmp_path, x)
    for time in (0.01, 0.3):
        (found,) = leaveout.verify(spec, data=x, time=time).answers
        free = np.array([state == "owes nothing" for state in found.states])
        assert not changed[free].any()


def test_sets_of_inputs_are_told_apart_and_one_bound_is_enough(tmp_path):
    text = BOUND.replace("find bound", "find half").replace("box(0, 1)", "box(0, 0.5)")
    more = (
        f"find one: least b per label such that forall x in box(0.5, 1), M in F: {LEAK}\n"
        "guarantee high: forall x in box(0, 1), M in F: confidence(N, x) > 0.9 => "
        "label(M, x) == label(N, x)\n"
    )
    spec = write_question(tmp_path, text=text + more)
    x = points(tmp_path, count=400)
    report = leaveout.verify(spec, data=x)
    (found,) = report.answers
    labels, changed = changes(tmp_path, x)
    free = np.zeros(len(x), bool)
    for result in report.results:
        own = (labels == result.label) | (result.label is None)
        box = inside(x, result.box.lower[0], result.box.upper[0])
        free |= own & box & (np.array(found.confidences) > result.upper)
    assert found.statements == ("half", "one", "high")
    assert [state == "owes nothing" for state in found.states] == free.tolist()
    assert free.any() and not changed[free].any()


def test_at_the_bound_something_may_be_owed():
    box = Box(np.zeros(1), np.ones(1))
    x = np.array([[0.5], [0.5], [0.5], [1.5], [0.5]], np.float32)
    bound = 0.25
    confidences = np.array([bound, np.nextafter(bound, 1), 0.0, 1.0, np.nan])
    answers = Answers(np.zeros(5, np.int64), confidences)
    found = states(answers, x, [Known(0, bound, box)])
    assert found.tolist() == [
        State.NOT_ABOVE,
        State.OWES_NOTHING,
        State.NOT_ABOVE,
        State.OUTSIDE,
        State.NOT_ABOVE,
    ]
    assert (states(answers, x, [Known(1, 0.0, box)]) == State.OUTSIDE).all()
    unknown = states(answers, x, [Known(None, None, box)])
    assert unknown.tolist() == [State.UNKNOWN] * 3 + [State.OUTSIDE, State.UNKNOWN]


@settings(max_examples=rounds(60))
@given(st.data())
def test_states_are_those_of_the_best_result_point_by_point(data):
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    x = rng.choice([0.0, 0.25, 0.5, 1.0], (12, 2)).astype(np.float32)
    answers = Answers(rng.integers(0, 2, 12), rng.choice([0.0, 0.5, 1.0], 12))
    known = []
    for _ in range(rng.integers(1, 4)):
        low, high = np.sort(rng.choice([0.0, 0.25, 0.5, 1.0], (2, 2)), axis=0)
        choices = ()
        if rng.random() < 0.5:
            low[0], high[0] = 0.0, 1.0
            choices = (Choices(np.array([0]), np.array([[0.0], [0.5]])),)
        label = [None, 0, 1][rng.integers(3)]
        upper = [None, 0.0, 0.5, 1.0][rng.integers(4)]
        known.append(Known(label, upper, Box(low, high, choices)))
    found = states(answers, x, known)
    for at, point in enumerate(x):
        best = State.OUTSIDE
        for each in known:
            if each.label not in (None, answers.labels[at]):
                continue
            if not all(a <= v <= b for a, v, b in zip(each.box.lower, point, each.box.upper)):
                continue
            if each.box.choices and point[0] not in (0.0, 0.5):
                continue
            if each.upper is None:
                best = max(best, State.UNKNOWN)
            elif answers.confidences[at] > each.upper:
                best = State.OWES_NOTHING
            else:
                best = max(best, State.NOT_ABOVE)
        assert found[at] == best


SHAPES = {
    "one guarantee": "guarantee g: forall x in X, M in F: confidence(N, x) > 0.4 => SAME",
    "a low one": "guarantee g: forall x in X, M in F: confidence(N, x) > 0.01 => SAME",
    "without a premise": "guarantee g: forall x in X, M in F: SAME",
    "of one label": "guarantee g: forall x in X, M in F: confidence(N, x, 1) > 0.4 => SAME",
    "not per label": f"find b: least b such that forall x in X, M in F: {LEAK}",
    "at least": "guarantee g: forall x in X, M in F: confidence(N, x) >= 0.4 => SAME",
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("engine", "seed"), [("native", 8), ("native", 5), ("lucid", 8)])
def test_every_shape_of_a_statement_about_leaks_counts_soundly(tmp_path, shape, engine, seed):
    claim = SHAPES[shape].replace("SAME", "label(M, x) == label(N, x)")
    spec = write_question(tmp_path, seed, BOUND[: BOUND.index("find")] + claim + "\n")
    x = points(tmp_path, 80)
    report = leaveout.verify(spec, data=x, engine=engine, time=10)
    (found,) = report.answers
    _, changed = changes(tmp_path, x)
    free = np.array([state == "owes nothing" for state in found.states])
    assert not changed[free].any()
    for at, state in enumerate(found.states):
        for result in report.results:
            if result.label in (None, found.answers[at]) and inside(x)[at]:
                assert (state == "owes nothing") == (found.confidences[at] > result.upper)


def test_records_without_a_member_are_said(tmp_path, snapshot):
    spec = write_question(tmp_path, rows=2800)
    family = load_family(tmp_path / "family.npz", load_network(tmp_path / "full.onnx"))
    (found,) = leaveout.verify(spec, data=points(tmp_path, 5)).answers
    assert found.rows == 2800
    assert found.words == snapshot
    assert f"{len(family)}" in found.words


def test_two_questions_are_answered_one_by_one(tmp_path):
    text = (
        BOUND
        + 'let K = network("second.onnx")\n'
        + f"find second: least b per label such that forall x in X, M in F: "
        f"{LEAK.replace('(N', '(K')}\n"
    )
    spec = write_question(tmp_path, text=text)
    full = load_network(tmp_path / "full.onnx")
    turned = {name: 0.9 * value for name, value in full.parameters.items()}
    onnx.save(with_parameters(full.model, turned), tmp_path / "second.onnx")
    report = leaveout.verify(spec, data=points(tmp_path, 40))
    assert [each.statements for each in report.answers] == [("bound",), ("second",)]
    assert [each.words.partition(":")[0] for each in report.answers] == ["full.onnx", "second.onnx"]


@pytest.fixture(scope="module")
def clinic(tmp_path_factory):
    folder = tmp_path_factory.mktemp("clinic")
    write_clinic(folder)
    return folder


TABLE = "name,ward,age\nAda,a,30\nBob,b,40.5\nCid,c,95\n"


def clinic_answers(clinic, tmp_path, text):
    (tmp_path / "rows.csv").write_text(text)
    return leaveout.verify(clinic / "idp.spec", data=tmp_path / "rows.csv").answers[0]


def test_a_table_is_read_in_its_units_and_so_is_what_lies_outside(clinic, tmp_path, snapshot):
    found = clinic_answers(clinic, tmp_path, TABLE)
    assert found.data == "rows.csv"
    assert found.states[2] == "outside"
    assert found.outside == snapshot
    assert "line 4: age = 95 years" in found.outside[0] and "80 years" in found.outside[0]
    assert " ".join(each.words for each in found.labels) == snapshot


def test_a_data_frame_an_array_and_files_give_the_same(clinic, tmp_path):
    pandas = pytest.importorskip("pandas")
    table = clinic_answers(clinic, tmp_path, TABLE)
    frame = pandas.read_csv(tmp_path / "rows.csv")
    x = np.array([[1 / 6, 1, 0, 0], [20.5 / 60, 0, 1, 0], [1.25, 0, 0, 1]])
    np.savez(tmp_path / "rows.npz", X=x)
    for data in (frame, x, x.tolist(), tmp_path / "rows.npz", str(tmp_path / "rows.csv")):
        (found,) = leaveout.verify(clinic / "idp.spec", data=data).answers
        assert found.answers == table.answers
        assert found.confidences == table.confidences
        assert found.states == table.states


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ward,age\n",
        "ward,age\na,nan\n",
        "ward,age\na,\n",
        "ward,age\nz,30\n",
        "ward,aged\na,30\n",
        "ward,age,age\na,1,2\n",
        "ward,age\na\n",
        "PK\x03\x04",
    ],
)
def test_tables_that_do_not_fit_are_refused_in_a_line_before_the_search(
    clinic, tmp_path, capsys, text, snapshot
):
    (tmp_path / "rows.csv").write_text(text)
    words = ["verify", str(clinic / "idp.spec"), "--data", str(tmp_path / "rows.csv")]
    assert run(words) == 2
    out, err = capsys.readouterr()
    assert err == snapshot
    assert f"--data {tmp_path / 'rows.csv'}" in err
    assert err.count("\n") == 1
    assert out == ""


@pytest.mark.parametrize(
    "data",
    [
        np.ma.masked_array(np.zeros((2, 4)), True),
        [[1.0], [1.0, 2.0]],
        np.zeros((2, 3)),
        np.zeros((0, 4)),
        np.full((2, 4), np.nan),
        "gone.csv",
        3,
    ],
)
def test_what_is_no_points_is_refused(clinic, data, snapshot):
    with pytest.raises(DataError) as caught:
        leaveout.verify(clinic / "idp.spec", data=data)
    assert str(caught.value) == snapshot
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "content"), [("r.xlsx", b"PK\x03\x04z"), ("r.npy", b"\x93NUMPY"), ("r.json", b"{}\n")]
)
def test_files_of_other_kinds_are_told_what_is_expected(clinic, tmp_path, name, content, snapshot):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError) as told:
        leaveout.verify(clinic / "idp.spec", data=tmp_path / name)
    assert str(told.value) == snapshot


def test_columns_that_are_not_read_may_hold_anything(clinic):
    pandas = pytest.importorskip("pandas")
    good = pandas.DataFrame({"ward": ["a", "b"], "age": [30, 40.5]})
    more = good.assign(seen=pandas.to_datetime(["2020-01-01", None]), note=[[1], None])
    first, second = (leaveout.verify(clinic / "idp.spec", data=each) for each in (good, more))
    assert first.answers[0].confidences == second.answers[0].confidences


def test_an_array_in_the_units_of_the_table_is_told_what_arrays_hold(clinic, snapshot):
    raw = np.array([[30.0, 1, 0, 0], [40.5, 0, 1, 0]])
    (found,) = leaveout.verify(clinic / "idp.spec", data=raw).answers
    assert set(found.states) == {"outside"}
    assert found.outside[-1] == snapshot


def test_frames_that_do_not_fit_are_refused_by_row_and_column(clinic, snapshot):
    pandas = pytest.importorskip("pandas")
    good = pandas.DataFrame({"ward": ["a", "b"], "age": [30, 40]})
    twice = pandas.concat([good, good[["age"]]], axis=1)
    for frame in (
        good.assign(age=[1.0, np.nan]),
        good.assign(age=[1, None]),
        good.assign(ward=["a", "q"]),
        good.drop(columns="age"),
        good[:0],
        twice,
        good.assign(age=[[1], [2]]),
    ):
        with pytest.raises(DataError) as caught:
            leaveout.verify(clinic / "idp.spec", data=frame)
        assert str(caught.value) == snapshot


def test_without_a_bound_of_leaks_there_is_nothing_to_count(clinic, tmp_path, capsys, snapshot):
    spec = write_question(
        tmp_path,
        text='let N = network("full.onnx")\n'
        "find s: greatest s such that forall x in box(0, 1): score(N, x, 0) >= s\n",
    )
    np.savez(tmp_path / "rows.npz", X=points(tmp_path, 3))
    assert run(["verify", str(spec), "--data", str(tmp_path / "rows.npz")]) == 2
    err = capsys.readouterr().err
    assert err == snapshot
    assert run(["verify", str(spec), "--dry-run", "--data", "rows.npz"]) == 2
    assert capsys.readouterr().err == snapshot


def test_a_label_that_no_statement_is_about_is_said(tmp_path, snapshot):
    one = BOUND.replace(" per label", "").replace("confidence(N, x)", "confidence(N, x, 0)")
    spec = write_question(tmp_path, text=one)
    x = points(tmp_path, 60, low=0.0, high=1.0)
    (found,) = leaveout.verify(spec, data=x).answers
    labels, changed = changes(tmp_path, x)
    assert 1 in labels
    other = found.labels[1]
    assert other.outside == other.answers
    assert other.words == snapshot
    free = np.array([state == "owes nothing" for state in found.states])
    assert not changed[free].any()
    assert not free[labels == 1].any()


def test_the_last_lines_are_about_the_rows_and_the_results_hold_them(
    clinic, tmp_path, capsys, snapshot
):
    (tmp_path / "rows.csv").write_text(TABLE)
    out = tmp_path / "r.json"
    words = ["verify", str(clinic / "idp.spec"), "--data", str(tmp_path / "rows.csv")]
    assert run([*words, "--json", str(out)]) in (0, 3)
    shown = capsys.readouterr().out.rstrip().splitlines()
    assert shown[-1] == snapshot
    report = msgspec.json.decode(out.read_bytes(), type=leaveout.Report)
    (found,) = report.answers
    assert found.words in shown
    assert all(f"  {each.words}" in shown for each in found.labels if each.words)
    assert found.states[2] == "outside"
    page = tmp_path / "r.html"
    assert run(["report", str(out), "-o", str(page)]) == 0
    text = page.read_text()
    assert passages(text, ("2", "rows.csv")) == snapshot
    assert f"{found.words}" in text
    assert f"<li>{found.outside[0]}</li>" in text
