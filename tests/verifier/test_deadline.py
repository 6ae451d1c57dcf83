"""A deadline, however early, leaves sound and finite bounds of claims with many cases."""

from __future__ import annotations

import math
from time import perf_counter

import numpy as np
import onnx
import pytest

import leaveout.verifier.points.query as queries
from leaveout.bab import NativeOptions
from leaveout.bab.joint_claim import FormErrors
from leaveout.bab.native.claims import Propagation
from leaveout.encoders import Box
from leaveout.encoders.query import Application, Case, Condition, Form, Query
from leaveout.models import load_network
from leaveout.verifier import time_sharing as sharing
from leaveout.verifier.run import verify

from support import networks
from support.claims import asked, maximise
from support.files import BOUND, write_question

HEAD = BOUND[: BOUND.index("find")]
FINDS = {
    "drift": "find d: least d such that forall x in X, M in F: difference(N, M, x) <= d",
    "lowest": "find d: greatest d such that forall x in X: score(N, x, 0) >= d",
    "sure": "find d: least d such that forall x in X: label(N, x) == 1 => confidence(N, x) <= d",
}


@pytest.mark.parametrize("claim", FINDS)
def test_a_find_out_of_time_has_two_finite_sides_around_the_answer(tmp_path, claim):
    spec = write_question(tmp_path, text=HEAD + FINDS[claim] + "\n")
    (early,) = verify(spec, time=1e-6).results
    (full,) = verify(spec).results
    assert early.lower is not None and early.upper is not None
    assert early.lower <= full.upper and full.lower <= early.upper
    assert early.example is not None
    assert early.verdict == "unknown" and early.reason.startswith("time: ")


def test_a_guarantee_that_propagation_proves_needs_no_time(tmp_path):
    text = HEAD + "guarantee g: forall x in X: score(N, x, 0) <= 1e6\n"
    (result,) = verify(write_question(tmp_path, text=text), time=1e-6).results
    assert result.verdict == "proved"


def test_where_no_point_counts_the_reason_says_which_side_has_no_bound(tmp_path):
    claim = "forall x in X: feature(x, 0) > 2 => score(N, x, 0) <= d"
    text = HEAD + f"find d: least d such that {claim}\n"
    (result,) = verify(write_question(tmp_path, text=text), time=1e-6).results
    assert result.lower is None
    assert result.verdict == "proved" or "no bound" in result.reason


@pytest.mark.parametrize("seed", range(8))
def test_what_propagation_says_of_a_case_is_above_every_sample(tmp_path, seed):
    rng = np.random.default_rng(seed)
    onnx.save(networks.dense(rng, (3, 6, 3), 1.0), tmp_path / "n.onnx")
    network = load_network(tmp_path / "n.onnx")
    box = Box(-rng.random(3), rng.random(3))
    query = Query((box,), (Application(network, 0),), ())
    form = Form(
        tuple((0, i, float(rng.normal())) for i in range(3)),
        tuple((0, j, float(rng.normal())) for j in range(3)),
        float(rng.normal()),
    )
    points = box.sample(rng, 500).astype(np.float32)
    scores = network.runner().scores(points).astype(np.float64)
    values = [form.value([x], [s]) for x, s in zip(points.astype(np.float64), scores, strict=True)]
    bounds = Propagation(query, FormErrors(query))
    assert max(values) <= bounds.upper(Case((), (form,))) < math.inf
    never = Condition(Form((), (), -1.0))
    assert bounds.upper(Case((never,), (form,))) == -math.inf
    assert bounds.upper(Case((never, Condition(form)))) == pytest.approx(-1.0)
    searched = maximise(asked(query, (), (form,)), NativeOptions(None))
    assert searched.lower <= bounds.upper(Case((), (form,)))


def test_every_case_of_a_query_is_bounded_when_the_time_is_over(tmp_path):
    onnx.save(networks.dense(np.random.default_rng(0), (3, 6, 2), 1.0), tmp_path / "n.onnx")
    network = load_network(tmp_path / "n.onnx")
    box = Box(np.zeros(3), np.ones(3))
    far = [Condition(Form((), ((0, 0, 1.0),), -1e6 - i)) for i in range(50)]
    query = Query((box,), (Application(network, 0),), tuple((each,) for each in far))
    assert queries.decide(query, seconds=0.0).verdict == "proved"
    near = (Condition(Form((), ((0, 0, 1.0),), 1.0)),)
    open_one = Query((box,), (Application(network, 0),), (*query.cases, near))
    decided = queries.decide(open_one, seconds=0.0)
    assert decided.verdict == "refuted"


@pytest.mark.parametrize("claim", [BOUND[BOUND.index("find") :], FINDS["drift"] + "\n"])
def test_a_reason_tells_that_starting_and_loading_took_the_time(tmp_path, claim, snapshot):
    spec = write_question(tmp_path, text=HEAD + claim)
    results = verify(spec, time=10.0, begun=perf_counter() - 1000.0).results
    for result in results:
        assert result.reason.startswith("time: ")
        assert "10 s, 1e+03 s" in result.reason
        assert result.reason == snapshot


@pytest.mark.parametrize(
    ("loading", "reason", "put"),
    [
        (0.8, "time: no time", True),
        (0.8, "time", True),
        (0.8, "time: interrupted", False),
        (0.8, "numerical: rounding", False),
        (0.8, None, False),
        (0.3, "time: no time", False),
    ],
)
def test_only_what_loading_kept_from_being_searched_is_put_down_to_it(
    monkeypatch, loading, reason, put, snapshot
):
    monkeypatch.setattr(sharing.time, "perf_counter", lambda: 50.0 + loading)
    told = sharing.Clock(1.0, 50.0, 1).explain_reason(reason)
    assert ("1 s, 0.8 s" in (told or "")) is put
    assert (told if put else "") == snapshot
    assert put or told == reason
    assert sharing.Clock(None, 50.0, 1).explain_reason(reason) == reason
