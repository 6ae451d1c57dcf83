"""Input sets of a specification: what each function lists, and verdicts over exactly that."""

from __future__ import annotations

import itertools
import json
import math
import re
import tempfile
from fractions import Fraction
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import leaveout
from leaveout.errors import SpecError
from leaveout.models import confidence, load_family_file, load_network
from leaveout.specs import Call, Let, ListOf, Name, Number, Option, Spec, check, parse
from leaveout.verifier.cli.result_table import _scope
from leaveout.verifier.points.inputs import InputReader
from leaveout.verifier.resolve_names import Resolver

from support.files import BOUND, write_question

CLAIM = 'let N = network("n") guarantee g: forall x in X: label(N, x) == 1'
ANY = "let X = box(-1, 1)\n"


def read(text, folder, dimension=4):
    """Return the set X of a specification, and the notes."""
    checked = check(parse(f"{text}\n{CLAIM}", "patient.spec"))
    reader = InputReader(Resolver(checked, folder), dimension)
    return reader.read(Name("X")), reader.notes


def tables(text, folder, dimension=4):
    box, notes = read(text, folder, dimension)
    assert not notes
    return [(each.columns.tolist(), each.values.tolist()) for each in box.choices]


def test_a_grid_lists_values_of_each_feature(tmp_path):
    found = tables("let X = grid(box(0, 1), at = [3, 1], values = [1, 0, 1 / 4])", tmp_path)
    assert found == [([3], [[0], [0.25], [1]]), ([1], [[0], [0.25], [1]])]


def test_a_grid_of_rows_lists_what_features_take_together(tmp_path):
    text = "let a = [1, 0] let X = grid(box(0, 1), at = [3, 1], values = [a, [0.1, 0.6], a])"
    low, high = float(np.float32(0.1)), float(np.float32(0.6))
    assert tables(text, tmp_path) == [([3, 1], [[low, high], [1, 0]])]


def test_refinements_compose_in_any_order(tmp_path):
    text = (
        "let Y = grid(box(0, 1), at = 3, values = [0, 1])\n"
        "let Z = one_hot(Y, at = [0, 1])\n"
        "let X = integers(Z, at = 2)\n"
    )
    box, _ = read(text, tmp_path)
    assert box.discrete.tolist() == [0, 1, 2, 3]
    assert [each.columns.tolist() for each in box.choices] == [[3], [0, 1], [2]]


@settings(deadline=None)
@given(st.integers(-50, 50), st.integers(1, 80), st.integers(-50, 50))
def test_integers_are_scaled_as_data_is(low, count, zero):
    high, one = low + count, zero + 100
    data = (np.arange(low, high + 1) - zero) / (one - zero)
    text = (
        f"let X = integers(box(-9, 9), at = 1, lower = {low}, upper = {high}, zero = {zero}, "
        f"one = {one})"
    )
    (table,) = read(text, None)[0].choices
    assert table.values[:, 0].astype(np.float32).tolist() == data.astype(np.float32).tolist()


def test_without_bounds_integers_are_all_that_the_box_holds(tmp_path):
    assert tables("let X = integers(box(-1.5, 2), at = 1)", tmp_path) == [
        ([1], [[-1], [0], [1], [2]])
    ]
    text = "let X = integers(box(0.29, 0.31), at = 1, one = 100)"
    values = np.asarray([0.29, 0.3, 0.31], np.float32).astype(float)
    assert tables(text, tmp_path) == [([1], [[v] for v in values])]


def test_one_hot_groups_have_one_1_or_what_is_added(tmp_path):
    assert tables("let X = one_hot(box(0, 1), at = [1, 3])", tmp_path) == [
        ([1, 3], [[0, 1], [1, 0]])
    ]
    for also in ("[0, 0]", "[[0, 0], [0, 1]]"):
        found = tables(f"let X = one_hot(box(0, 1), at = [1, 3], also = {also})", tmp_path)
        assert found == [([1, 3], [[0, 0], [0, 1], [1, 0]])]


@pytest.mark.parametrize("points", [1, 2, 3, 4, 7, 12, 24, 31])
def test_a_circle_goes_all_the_way_round_as_numpy_computes_it(points, tmp_path):
    angles = 2 * np.pi * np.arange(points) / points
    rows = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
    box, _ = read(f"let X = circle(box(-1, 1), at = [0, 2], points = {points})", tmp_path)
    (table,) = box.choices
    assert table.values.tolist() == np.unique(rows.astype(float), axis=0).tolist()
    assert len(table) == points


def test_an_arc_has_both_ends_and_may_be_moved(tmp_path):
    text = (
        "let X = circle(box(0, 1), at = [0, 2], points = 3, arc = 1 / 4, start = 1 / 8, "
        "radius = 0.5, centre = [0.5, 0.25], also = [0, 0])"
    )
    box, _ = read(text, tmp_path)
    (table,) = box.choices
    root = math.sqrt(0.125)
    expected = [[0, 0], [0.5 - root, 0.25 + root], [0.5, 0.75], [0.5 + root, 0.25 + root]]
    np.testing.assert_allclose(table.values, expected, atol=1e-7)


def test_values_can_be_those_of_the_data(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.choice(np.cos(np.arange(5)), (50, 4)).astype(np.float32)
    np.savez(tmp_path / "data.npz", X_train=X, y_train=np.arange(50) % 2)
    text = ANY.replace("X", "Y") + 'let X = grid(Y, at = [0, 2], values = "data.npz")'
    box, _ = read(text, tmp_path)
    (table,) = box.choices
    assert table.values.tolist() == np.unique(X[:, [0, 2]].astype(float), axis=0).tolist()
    assert box.contains(X.astype(float)).all()


def test_listed_values_outside_the_box_are_left_out_and_that_is_said(tmp_path, snapshot):
    box, notes = read("let X = circle(box(0, 1), at = [0, 2], points = 8)", tmp_path)
    assert notes == snapshot
    assert len(box.choices[0]) == 3


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("grid(box(0, 1), at = 4, values = [0])", 30),
        ("grid(box(0, 1), at = [1, 9], values = [0])", 30),
        ("integers(box(0, 1), at = 7)", 34),
        ("grid(one_hot(box(0, 1), at = [1, 2]), at = 2, values = [0])", 52),
        ("one_hot(grid(box(0, 1), at = 2, values = [0]), at = [1, 2])", 61),
        ("grid(box(0, 1), at = 2, values = [2, 3])", 9),
        ("integers(box(0.1, 0.9), at = 2)", 38),
        ('grid(box(0, 1), at = 2, values = "no.npz")', 42),
        ("integers(box(0, 1), at = 0.5)", 34),
        ("integers(box(0, 1), at = 2, zero = -1e308, one = 1e308)", 34),
        ("integers(box(0, 1), at = 2, one = 1e8)", 34),
        ("integers(box(0, 1), at = 2, one = 0)", 43),
        ("circle(box(-1, 1), at = [0, 1], points = 1, arc = 0.5)", 50),
        ("circle(box(-1, 1), at = [0, 1], points = 4, radius = -1)", 62),
        ("circle(box(-1, 1), at = [0, 1], points = 4, centre = [1, 2, 3])", 62),
        ("grid(box(0, 1), at = 0, values = [1 / 0])", 43),
    ],
)
def test_errors_point_at_what_is_wrong(text, place, tmp_path, snapshot):
    with pytest.raises(SpecError) as caught:
        read(f"let X = {text}", tmp_path)
    assert str(caught.value) == snapshot
    first = str(caught.value).splitlines()[0]
    assert re.match(r"patient\.spec:1:\d+: ", first), first
    assert first.startswith(f"patient.spec:1:{place}: "), first


def test_a_file_of_another_width_is_refused(tmp_path, snapshot):
    np.savez(tmp_path / "data.npz", X=np.eye(3), y=np.asarray([0, 1, 1]))
    with pytest.raises(SpecError) as told:
        read('let X = grid(box(0, 1), at = 0, values = "data.npz")', tmp_path)
    assert str(told.value) == snapshot


def test_a_feature_may_each_be_refined_by_a_let_of_its_own(tmp_path):
    lets = ["let X0 = box(0, 1)"]
    lets += [f"let X{i + 1} = grid(X{i}, at = {i}, values = [0, 1])" for i in range(1500)]
    box, _ = read("\n".join([*lets, "let X = X1500"]), tmp_path, 1500)
    assert len(box.choices) == 1500


def test_sets_can_be_built_in_python():
    values = ListOf((Number(0), Number(0.5)))
    grid = Call(
        "grid",
        (Call("box", (Number(0), Number(1))),),
        (Option("at", Number(3)), Option("values", values)),
    )
    statements = (Let("X", grid), *parse(CLAIM).statements)
    assert str(grid) == "grid(box(0, 1), at = 3, values = [0, 0.5])"
    assert check(Spec(statements)).lets["X"].value == grid


ADULT = Path(__file__).parents[3] / "shared" / "data" / "adult_lucid21.npz"

DECLARED = Path(__file__).parents[2] / "docs" / "adult.spec"


@pytest.mark.skipif(not ADULT.exists(), reason=f"{ADULT} is not there")
def test_the_documented_declaration_of_adult_is_right_to_the_last_bit(tmp_path):
    box, notes = read(DECLARED.read_text("utf-8"), tmp_path, 21)
    with np.load(ADULT) as data:
        rows = np.concatenate([data["X_train"], data["X_test"]]).astype(np.float64)
    assert not notes
    assert box.contains(rows).all()
    assert np.setdiff1d(np.arange(21), box.discrete).tolist() == [3, 16, 17]
    (tmp_path / "adult.npz").symlink_to(ADULT)
    pair = 'let X = grid(box(0, 1), at = [19, 20], values = "adult.npz")'
    taken, _ = read(pair, tmp_path, 21)
    assert len(taken.choices[0]) == 42
    assert taken.contains(rows).all()


DISCRETE = BOUND.replace(
    "let X = box(0, 1)\n",
    "let Y = grid(box(0, 1), at = 1, values = [0, 0.1, 0.35, 0.8, 1])\n"
    "let X = circle(Y, at = [2, 0], points = 9, arc = 1 / 4, also = [0, 0])\n",
)


def test_the_bound_over_a_discrete_set_is_that_of_every_point(tmp_path, snapshot):
    spec = write_question(tmp_path, text=DISCRETE)
    report = leaveout.verify(spec, workers=1)
    schema = Path(leaveout.verifier.__file__).parent / "report.schema.json"
    jsonschema.validate(json.loads(report.to_json()), json.loads(schema.read_text()))
    network = load_network(tmp_path / "full.onnx")
    family = load_family_file(tmp_path / "family.npz")
    box = report.results[0].box
    assert [each.columns for each in box.choices] == [(1,), (2, 0)]
    points = []
    for row in itertools.product(*(each.values for each in box.choices)):
        point = np.zeros(3)
        for each, values in zip(box.choices, row):
            point[list(each.columns)] = values
        points.append(point)
    x = np.asarray(points, np.float32)
    own = network.runner().scores(x).astype(float)
    runners = [
        network.runner({k: v[i] for k, v in family.parameters.items()}) for i in range(len(family))
    ]
    others = [runner.scores(x).astype(float) for runner in runners]
    for result in report.results:
        f = confidence(own, result.label)
        leak = np.any([confidence(o, result.label) <= 0 for o in others], axis=0) & (f > 0)
        best = float(f[leak].max(initial=0.0))
        assert result.lower <= best <= result.upper
        assert result.verdict == "proved"
        assert result.upper <= best * 1.01 + 1e-3
        if result.witness is not None:
            assert result.lower == pytest.approx(best, abs=1e-6)
            assert list(result.witness.x) in x.astype(float).tolist()
    assert _scope(report)[0] == snapshot


def test_data_that_takes_other_values_is_reported(tmp_path, snapshot):
    (note,) = leaveout.verify(write_question(tmp_path, text=DISCRETE), workers=1, time=1).notes
    assert note == snapshot
    other = DISCRETE.replace("[0, 0.1", "[0.05, 0.1")
    report = leaveout.verify(write_question(tmp_path, text=other), workers=1, time=1)
    (note,) = report.notes
    assert note == snapshot
    between = DISCRETE.replace("let X = circle(Y", "let X = grid(Y, at = 0, values = [-1, 0.5, 2]")
    between = re.sub(r"values = \[-1.*", "values = [-1, 0.5, 2])", between)
    between = between.replace("box(0, 1)", "box(-1, 2)")
    (note,) = leaveout.verify(write_question(tmp_path, text=between), workers=1, time=1).notes
    assert note == snapshot


@given(st.floats(-9, 9), st.floats(0, 9) | st.sampled_from([0.0, 0.1, 5e-324]))
def test_around_holds_exactly_the_numbers_that_near(centre, radius):
    with tempfile.TemporaryDirectory() as folder:
        checked = check(parse(f"let X = around([{centre!r}], {radius!r})\n{CLAIM}", "a.spec"))
        box = InputReader(Resolver(checked, Path(folder)), 1, "forest").read(Name("X"))
    for end, out in ((float(box.lower[0]), -math.inf), (float(box.upper[0]), math.inf)):
        assert abs(Fraction(end) - Fraction(centre)) <= Fraction(radius)
        assert abs(Fraction(math.nextafter(end, out)) - Fraction(centre)) > Fraction(radius)


@pytest.mark.parametrize("text", ["box([0.1, 0], [0.1, 1])", "around([0.1, 0.5], radius = 0)"])
def test_a_feature_fixed_at_no_float32_is_fixed_at_what_a_network_reads(tmp_path, text, snapshot):
    box, notes = read(f"let X = {text}", tmp_path, 2)
    point = box.sample(np.random.default_rng(0), 1)[0]
    point[0] = np.float32(0.1)
    assert box.contains(point[None]).all()
    assert len(notes) == 1 and "0.10000000149011612" in notes[0]
    assert notes == snapshot
