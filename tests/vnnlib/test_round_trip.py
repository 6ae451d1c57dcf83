"""A query that is written and read back is the same query."""

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leaveout.encoders import Box
from leaveout.encoders.box import Choices
from leaveout.encoders.query import Application, Condition, Form, Query
from leaveout.errors import SpecError
from leaveout.models.onnx.file import network_from
from leaveout.specs.vnnlib import format_query, load_query, parse_problem, query_of, save_query

from support import networks
from support.depth import rounds

NETWORKS = [
    network_from(networks.dense(np.random.default_rng(0), (2, 3, 3)), "a"),
    network_from(networks.dense(np.random.default_rng(1), (2, 3, 2)), "b"),
    network_from(networks.convolution_1d(np.random.default_rng(2)), "c"),
]
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
BOUNDS = st.floats(-(2.0**127), 2.0**127)
COEFFICIENTS = FLOATS.filter(lambda value: value != 0)


@st.composite
def queries(draw):
    nets = draw(st.lists(st.sampled_from(NETWORKS), min_size=1, max_size=3))
    points: list[int] = []  # of widths
    applications = []
    names = draw(
        st.sampled_from([("", "", ""), ("f", "g", "h"), ("or", "g", "h"), ("X0", "not", "Y1")])
    )
    for net, name in zip(nets, names):
        # A network that is read twice at one point is one application, to who reads it back.
        used = {a.point for a in applications if a.network is net}
        same = [i for i, width in enumerate(points) if width == net.inputs and i not in used]
        if same and draw(st.booleans()):
            point = draw(st.sampled_from(same))
        else:
            point = len(points)
            points.append(net.inputs)
        applications.append(Application(net, point, name))
    boxes = []
    for width in points:
        ends = np.asarray(draw(st.lists(BOUNDS, min_size=2 * width, max_size=2 * width)))
        ends = np.sort(ends.reshape(2, width), axis=0) + 0.0
        boxes.append(Box(ends[0], ends[1]))
    features = [(p, i) for p, width in enumerate(points) for i in range(width)]
    scores = [(a, j) for a, net in enumerate(nets) for j in range(net.labels)]

    def terms(places):
        chosen = sorted(draw(st.sets(st.sampled_from(places), max_size=3)))
        return tuple((*spot, draw(COEFFICIENTS)) for spot in chosen)

    def condition():
        form = Form(terms(features), terms(scores), draw(FLOATS) + 0.0)
        return Condition(form, draw(st.booleans()))

    cases = []
    for _ in range(draw(st.integers(0, 3))):
        found = [condition() for _ in range(draw(st.integers(0, 3)))]
        cases.append(tuple(c for c in found if c.form.features or c.form.scores))
    return Query(tuple(boxes), tuple(applications), tuple(cases), reals=draw(st.booleans()))


@settings(max_examples=rounds(300), deadline=None)
@given(queries())
def test_read_back_it_is_the_same(query):
    text = format_query(query)
    nets = [a.network for a in query.applications]
    again = query_of(parse_problem(text), nets).query
    kept = list(again.cases)
    for case in query.cases:
        if kept and case == kept[0]:
            kept.pop(0)
        else:
            # No input meets it.
            assert any(not condition.form.scores for condition in case)
    assert not kept
    assert [(a.network, a.point) for a in again.applications] == [
        (a.network, a.point) for a in query.applications
    ]
    if query.applications[0].name == "f":
        assert [a.name for a in again.applications] == [a.name for a in query.applications]
    assert again.reals == query.reals
    for ours, theirs in zip(again.points, query.points, strict=True):
        assert ours.lower.tolist() == theirs.lower.tolist()
        assert ours.upper.tolist() == theirs.upper.tolist()
    if again.cases == query.cases:
        assert format_query(again) == text
    once_more = query_of(parse_problem(format_query(again)), nets).query
    assert once_more.cases == again.cases


@pytest.mark.parametrize("name", ["acas_1", "acas_2", "acas_6", "smt", "one", "two"])
def test_files_read_and_written(name, queries, network):
    problem = parse_problem(queries[name])
    nets = [network] * len(problem.networks)
    query = query_of(problem, nets).query
    again = query_of(parse_problem(format_query(query)), nets).query
    assert again.cases == query.cases
    assert [box.lower.tolist() for box in again.points] == [
        box.lower.tolist() for box in query.points
    ]


def test_to_a_file(tmp_path, snapshot):
    import onnx

    onnx.save(NETWORKS[0].model, tmp_path / "a.onnx")
    query = Query(
        (Box(np.zeros(2), np.full(2, 0.1)),),
        (Application(NETWORKS[0], 0),),
        ((Condition(Form((), ((0, 1, 1.0),), -0.1)),),),
    )
    save_query(tmp_path / "q.vnnlib", query)
    again = load_query(tmp_path / "q.vnnlib", [tmp_path / "a.onnx"]).query
    assert again.cases == query.cases
    with pytest.raises(SpecError) as told:
        save_query(tmp_path / "no" / "q.vnnlib", query)
    assert str(told.value) == snapshot


def test_what_the_format_cannot_say_is_refused(snapshot):
    box = Box(np.zeros(2), np.ones(2))
    query = Query((box,), (Application(NETWORKS[0], 0),), ((),))
    listed = Box(box.lower, box.upper, (Choices(np.asarray([0]), np.asarray([[0.0], [1.0]])),))
    endless = Condition(Form((), ((0, 0, np.inf),), 0.0))
    for changed in [
        replace(query, points=(listed,)),
        replace(query, worst=Form()),
        replace(query, points=(box, box)),
        replace(query, cases=((endless,),)),
    ]:
        with pytest.raises(SpecError) as told:
            format_query(changed)
        assert str(told.value) == snapshot


@pytest.mark.parametrize("cases", [(), ((),), ((Condition(Form((), (), 1.0)),), ())])
def test_the_standards_parser_takes_what_is_written(cases):
    vnnlib = pytest.importorskip("vnnlib")
    box = Box(np.full(2, -0.1), np.full(2, 1e-300))
    nets = (Application(NETWORKS[0], 0, "f"), Application(NETWORKS[0], 0, "g"))
    whole = Condition(Form(((0, 1, 0.1),), ((0, 1, -3e10), (1, 0, 1.0)), -0.1), strict=True)
    for query in (
        Query((box,), nets, cases),
        Query((box,), nets, (*cases, (whole, whole)), reals=True),
    ):
        text = format_query(query)
        vnnlib.parse_query_string(text)
        # Numbers get their type from what they are compared with.
        for line in re.findall(r"\([<>=!]+ .*", text):
            assert re.search(r"[XY]\d\[", line), line
