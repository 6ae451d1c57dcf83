"""What files say, as a query."""

import gzip
from fractions import Fraction

import numpy as np
import onnx
import pytest

from leaveout.encoders.query import Condition, Form
from leaveout.errors import ModelError, SpecError
from leaveout.models.onnx.file import network_from
from leaveout.specs.vnnlib import load_query, parse_problem, query_of
from leaveout.specs.vnnlib.formula import nearest_float32

from support import networks

HEAD = "".join(f"(declare-const {name} Real)" for name in ("X_0", "X_1", "Y_0", "Y_1"))
NEAREST = lambda number: float(np.float32(number))
BOX = "(assert (and (>= X_0 0) (<= X_0 1) (>= X_1 0) (<= X_1 1)))"


def read(text, *nets):
    problem = parse_problem(text)
    return query_of(problem, [nets[0]] * len(problem.networks) if len(nets) == 1 else nets).query


def test_bounds_are_the_box_and_the_rest_conditions(queries, network):
    query = read(queries["acas_1"], network)
    (box,) = query.points
    assert box.lower.tolist() == [NEAREST(0.6), -0.5, -0.5]
    assert box.upper.tolist() == [NEAREST(0.679857769), 0.5, NEAREST(-0.45)]
    assert query.reals
    ((condition,),) = query.cases
    assert condition.form.scores == ((0, 0, 1.0),)
    assert condition.form.constant == pytest.approx(-3.991125645861615)
    assert condition.form.numbers.constant == -Fraction("3.991125645861615")
    assert not condition.strict


def test_a_disjunction_of_boxes_is_their_hull_and_a_case_each(queries, network):
    query = read(queries["acas_6"], network)
    (box,) = query.points
    assert box.lower.tolist() == [NEAREST(-0.7), -0.5, 0.0]
    assert box.upper.tolist() == [NEAREST(0.7), 0.5, 0.25]
    assert len(query.cases) == 4
    right = Condition(Form(((0, 0, 1.0),), (), -0.25))
    left = Condition(Form(((0, 0, -1.0),), (), -0.25))
    assert [case[0] for case in query.cases] == [right, right, left, left]
    assert {len(case) for case in query.cases} == {2}


def test_strict_bounds_stay_conditions(narrow):
    query = read(HEAD + BOX + "(assert (> X_0 0.5))(assert (<= X_1 0.5))", narrow)
    (box,) = query.points
    assert box.lower.tolist() == [0.5, 0.0]
    assert box.upper.tolist() == [1.0, 0.5]
    assert query.cases == ((Condition(Form(((0, 0, 1.0),), (), -0.5), strict=True),),)


def test_unequal_is_two_cases_and_equal_two_conditions(narrow):
    query = read(HEAD + BOX + "(assert (!= Y_0 Y_1))(assert (= Y_0 (* 2 X_0)))", narrow)
    assert len(query.cases) == 2
    assert [[c.strict for c in case] for case in query.cases] == [[False, False, True]] * 2


@pytest.mark.parametrize(
    ("asserted", "cases"),
    [
        ("(assert (> 0 1))", ()),
        ("(assert (or (> 0 1) (and (<= 1 2) (>= 2 (- 2 1)))))", ((),)),
        ("(assert (and))", ((),)),
        ("(assert (or))", ()),
        ("(assert (>= X_0 2))", ()),
    ],
)
def test_constant_formulas_and_empty_boxes(asserted, cases, narrow):
    assert read(HEAD + BOX + asserted, narrow).cases == cases


def test_networks_that_read_equal_inputs_share_a_point(queries, network):
    query = read(queries["two"], network)
    assert [a.point for a in query.applications] == [0, 0, 1]
    assert [a.name for a in query.applications] == ["f", "g", "h"]
    # One of them is that of the third network, which is given.
    assert query.points[0].upper.tolist() == [1, 0.25, 1]
    assert query.points[1].lower.tolist() == [0, 0.25, 0.5]
    assert query.reals
    # What is left of the equalities: two conditions on Xh[1] and Xf[1], one on Xh[0] and Xf[0].
    # The network f and the network g are the same here, so that neither output is below the other.
    assert [len(case) for case in query.cases] == [5]


def test_float32_is_about_float32_and_can_be_asked_about_the_reals(queries, network):
    problem = parse_problem(queries["one"])
    assert not query_of(problem, [network]).query.reals
    assert query_of(problem, [network], reals=True).query.reals


def test_coefficients_that_are_no_float64_are_scaled_to_whole_numbers(narrow):
    query = read(HEAD + BOX + "(assert (<= (* 0.1 Y_0) (- (* 0.3 Y_1) 0.05)))", narrow)
    assert query.cases == ((Condition(Form((), ((0, 0, -2.0), (0, 1, 6.0)), -1.0)),),) or (
        query.cases == ((Condition(Form((), ((0, 0, -1.0), (0, 1, 3.0)), -0.5)),),)
    )


def test_what_cannot_be_scaled_is_relaxed_by_what_the_score_can_reach(narrow):
    text = "0.1234567890123456789012345"
    query = read(HEAD + BOX + f"(assert (>= (* {text} Y_0) 0.5))", narrow)
    ((condition,),) = query.cases
    ((_, _, coefficient),) = condition.form.scores
    assert coefficient == float(text)
    slack = Fraction(condition.form.constant) + Fraction(1, 2)
    largest = max(
        abs(float(narrow.stack.scores(np.asarray([[a, b]]))[0, 0, 0]))
        for a in (0.0, 1.0)
        for b in (0.0, 1.0)
    )
    assert abs(Fraction(coefficient) - Fraction(text)) * Fraction(largest) <= slack < 1e-13


def test_a_number_beside_an_input_is_the_nearest_float32(narrow):
    asserted = "(assert (and (>= X_0 0.1) (< X_0 0.7) (<= (- X_1) (- 0 0.1)) (not (> X_1 0.9))))"
    query = read(HEAD + BOX + asserted, narrow)
    (box,) = query.points
    assert box.lower.tolist() == [NEAREST(0.1), NEAREST(0.1)]
    assert box.upper.tolist() == [NEAREST(0.7), NEAREST(0.9)]
    assert query.cases == ((Condition(Form(((0, 0, -1.0),), (), NEAREST(0.7)), strict=True),),)


@pytest.mark.parametrize("number", ["0.50000000000000000000000000000001", "(+ 0.5 1e-32)", "0.5"])
def test_what_is_nearest_to_one_number_is_that_number(number, narrow):
    asserted = f"(assert (and (>= X_0 {number}) (<= X_0 {number})))"
    (box,) = read(HEAD + BOX + asserted, narrow).points
    assert box.lower[0] == box.upper[0] == 0.5


def test_between_two_float32_numbers_the_even_one_is_read():
    step = Fraction(1, 2**23)
    assert nearest_float32(1 + step / 2) == 1
    assert nearest_float32(1 + 3 * step / 2) == 1 + 2 * step
    assert nearest_float32(1 + step / 2 + Fraction(1, 10**40)) == 1 + step
    assert nearest_float32(-1 - step / 2) == -1
    assert nearest_float32(Fraction(10) ** 39) == Fraction(10) ** 39


def test_outputs_and_sums_are_compared_with_numbers_as_written(narrow):
    asserted = "(assert (and (>= Y_0 0.1) (<= (+ X_0 X_1) 0.7) (>= (* 3 X_1) 0.1)))"
    query = read(HEAD + BOX + asserted, narrow)
    (case,) = query.cases
    numbers = [condition.form.numbers for condition in case]
    found = [each.constant / (each.scores or each.features)[0][2] for each in numbers]
    assert found == [Fraction(-1, 10), Fraction(-7, 10), Fraction(-1, 30)]


def test_other_bounds_are_rounded_outwards(narrow):
    query = read(HEAD + BOX + "(assert (>= (* 3 X_1) 1))", narrow)
    (box,) = query.points
    assert Fraction(box.lower[1]) <= Fraction(1, 3) < Fraction(np.nextafter(box.lower[1], 1))


def test_files_packed_or_not(tmp_path, queries, network):
    onnx.save(network.model, tmp_path / "net.onnx")
    (tmp_path / "net.onnx.gz").write_bytes(gzip.compress((tmp_path / "net.onnx").read_bytes()))
    (tmp_path / "q.vnnlib").write_text("\ufeff" + queries["acas_1"].replace("\n", "\r\n"))
    (tmp_path / "q.vnnlib.gz").write_bytes(gzip.compress(queries["acas_1"].encode()))
    plain = load_query(tmp_path / "q.vnnlib", [tmp_path / "net.onnx"]).query
    packed = load_query(tmp_path / "q.vnnlib.gz", [str(tmp_path / "net.onnx.gz")]).query
    assert plain.cases == packed.cases
    assert plain.points[0].lower.tolist() == packed.points[0].lower.tolist()


def test_files_are_given_by_order_or_by_name(tmp_path, queries, network, snapshot):
    other = networks.dense(np.random.default_rng(5), (3, 4, 3))
    onnx.save(network.model, tmp_path / "a.onnx")
    onnx.save(other, tmp_path / "b.onnx")
    (tmp_path / "q.vnnlib").write_text(queries["two"])
    a, b = str(tmp_path / "a.onnx"), str(tmp_path / "b.onnx")
    for given in ([a, b], [f"g={b}", f"f={a}"], [f"g={b}", a], [a, b, a], [f"h={a}", a, b]):
        query = load_query(tmp_path / "q.vnnlib", given).query
        assert [each.network.source for each in query.applications] == [a, b, a], given
    for given in ([a], [a, b, a, b], [f"k={a}", a, b], [f"f={a}", f"f={a}", b]):
        with pytest.raises(SpecError):
            load_query(tmp_path / "q.vnnlib", given)
    with pytest.raises(SpecError) as told:
        load_query(tmp_path / "q.vnnlib", [a, b, b])
    assert str(told.value) == snapshot


def test_a_network_is_held_against_its_declaration(queries, network, narrow, snapshot):
    problem = parse_problem(queries["two"])
    wider = networks.dense(np.random.default_rng(5), (3, 5, 3))
    with pytest.raises(SpecError) as told:
        query_of(problem, [network, network_from(wider, "wide"), network])
    assert str(told.value) == snapshot
    with pytest.raises(SpecError) as told:
        query_of(problem, [narrow, network, network])
    assert str(told.value) == snapshot
    renamed = onnx.ModelProto()
    renamed.CopyFrom(network.model)
    for item in renamed.graph.initializer:
        item.name += "_again"
    for node in renamed.graph.node:
        for i in range(1, len(node.input)):
            node.input[i] += "_again"
    again = network_from(renamed, "again")
    assert len(query_of(problem, [network, again, again]).query.applications) == 3


def test_a_final_softmax_is_refused(narrow):
    model = networks.matmul_add_softmax(np.random.default_rng(0))
    text = HEAD + "(declare-const X_2 Real)(declare-const Y_2 Real)" + BOX
    with pytest.raises(ModelError, match="Softmax"):
        read(text + "(assert (and (>= X_2 0) (<= X_2 1)))", network_from(model, "soft.onnx"))


def test_images_are_flattened_row_by_row():
    net = network_from(networks.convolution_2d(np.random.default_rng(0)), "image")
    lines = [
        "(vnnlib-version <2.0>)(declare-network f (declare-input X real [1,2,4,4])"
        "(declare-output Y real [1,3]))"
    ]
    for i, (c, a, b) in enumerate(np.ndindex(2, 4, 4)):
        lines.append(f"(assert (and (>= X[0,{c},{a},{b}] {i}.0) (<= X[0,{c},{a},{b}] {i}.5)))")
    (box,) = read("\n".join(lines), net).points
    assert box.lower.tolist() == list(range(32))


@pytest.mark.parametrize(
    ("linked", "points"),
    [
        ("(assert (== A[0] X[0])) (assert (and (>= X[1] A[1]) (<= X[1] A[1])))", [0, 0]),
        ("(assert (== A[0] X[0])) (assert (>= X[1] A[1]))", [0, 1]),
        ("(assert (== A[0] X[0])) (assert (> X[1] A[1])) (assert (<= X[1] A[1]))", [0, 1]),
        ("(assert (== A[0] X[0])) (assert (== A[0] X[1]))", [0, 1]),
        ("(assert (== A[0] X[0])) (assert (== A[1] (* 2.0 X[1])))", [0, 1]),
        ("(assert (== A[0] X[0])) (assert (== A[1] (+ 0.5 X[1])))", [0, 1]),
        ("(assert (== A[0] X[0])) (assert (or (== A[1] X[1])))", [0, 1]),
    ],
)
def test_only_equal_inputs_are_one_point(linked, points, narrow):
    text = (
        "(vnnlib-version <2.0>)"
        "(declare-network f (declare-input X real [2])(declare-output Y real [2]))"
        "(declare-network g (declare-input A real [2])(declare-output B real [2]))"
    )
    for name in ("X[0]", "X[1]", "A[0]", "A[1]"):
        text += f"(assert (and (>= {name} 0.0) (<= {name} 1.0)))"
    assert [a.point for a in read(text + linked, narrow).applications] == points
