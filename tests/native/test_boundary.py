"""Claims that hold with equality: settled, or given up soon, and never for what they are not."""

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from leaveout.bab.joint_claim import join_claim
from leaveout.bab.native.claims import Claims
from leaveout.bab.native.options import NativeOptions
from leaveout.encoders import Box
from leaveout.encoders.query import Application, Case, Condition, ExactForm, Form, Query
from leaveout.models.onnx.file import network_from
from leaveout.verifier import verify
from leaveout.verifier.points.query import decide

from support import networks

IDENTITY = networks.model(
    [helper.make_node("Gemm", ["x", "W"], ["y"])],
    {"W": np.eye(2, dtype=np.float32)}, ["n", 2], ["n", 2],
)  # fmt: skip
SUM = networks.model(
    [helper.make_node("Gemm", ["x", "W"], ["y"])],
    {"W": np.array([[0.1, 1], [0.7, 0]], np.float32)}, ["n", 2], ["n", 2],
)  # fmt: skip


def verified(folder: Path, claim: str, models=(IDENTITY,), inputs="box(0, 1)", **options):
    lets = ""
    for letter, model in zip("NM", models):
        onnx.save(model, folder / f"{letter}.onnx")
        lets += f'let {letter} = network("{letter}.onnx")\n'
    (folder / "q.spec").write_text(f"{lets}guarantee g: forall x in {inputs}: {claim}\n")
    (found,) = verify(folder / "q.spec", **options).results
    return found


@pytest.mark.parametrize(
    "claim", ["score(N, x, 0) <= 1", "score(N, x, 1) >= 0", "score(N, x, 0) - score(N, x, 1) <= 1"]
)
def test_a_claim_that_is_met_at_an_end_is_proved(tmp_path, claim):
    assert verified(tmp_path, claim).verdict == "proved"


def test_a_claim_that_fails_at_an_end_alone_is_refuted(tmp_path):
    assert verified(tmp_path, "score(N, x, 0) < 1").verdict == "refuted"


def test_what_only_rounding_keeps_open_ends_without_a_limit_and_names_the_tie(tmp_path):
    found = verified(tmp_path, "score(N, x, 0) <= 0.1 * feature(x, 0) + feature(x, 1)", (SUM,))
    assert found.verdict in {"unknown", "refuted"}
    found = verified(tmp_path, "score(N, x, 1) <= feature(x, 0)", (SUM,))
    assert found.verdict == "unknown"
    assert found.reason.startswith("numerical")
    assert any("equality" in line for line in found.advice)


def test_a_network_and_its_copy_are_one(tmp_path):
    claims = [
        "label(M, x) == label(N, x)",
        "difference(N, M, x) <= 0",
        "confidence(N, x) > 0.1 => label(M, x) == label(N, x)",
    ]
    for claim in claims:
        assert verified(tmp_path, claim, (SUM, SUM)).verdict == "proved"
        assert verified(tmp_path, claim, (SUM, IDENTITY)).verdict == "refuted"


def test_a_copy_with_another_last_bit_is_another_network(tmp_path):
    other = onnx.ModelProto()
    other.CopyFrom(SUM)
    weights = onnx.numpy_helper.to_array(SUM.graph.initializer[0]).copy()
    weights[1, 0] = np.nextafter(weights[1, 0], np.float32(1))
    other.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(weights, "W"))
    assert verified(tmp_path, "difference(N, M, x) <= 0", (SUM, other)).verdict == "refuted"


def query_about(form, strict, *, reals=True, model=IDENTITY):
    network = network_from(model, "n")
    box = Box(np.zeros(2), np.ones(2))
    cases = ((Condition(form, strict),),)
    return Query((box,), (Application(network, 0),), cases, reals=reals)


def test_nothing_is_settled_for_want_of_float32_numbers():
    # 0.1 is no float32 number: what is said of it is said of those beside it.
    box = Box(np.full(2, 0.1), np.full(2, 0.1))
    for number, proved in ((0.1000000001, False), (0.0999, True)):
        query = query_about(Form((), ((0, 0, -1.0),), number), True, reals=False)
        found = decide(replace(query, points=(box,)), seconds=20)
        assert (found.verdict == "proved") == proved


@pytest.mark.parametrize("reals", [True, False])
def test_rounded_numbers_settle_nothing_by_equality(reals):
    form = Form((), ((0, 0, 1.0),), -1.0)
    assert decide(query_about(form, True, reals=reals), seconds=20).verdict == "proved"
    rounded = Form((), ((0, 0, 1.0),), -1.0, rounded=True)
    assert decide(query_about(rounded, True, reals=reals), seconds=20).verdict == "unknown"


@pytest.mark.parametrize("reals", [True, False])
def test_exact_numbers_decide_and_not_their_nearest_float64(reals):
    hair = Fraction(1, 2**80)
    for constant, verdict in ((-1 - hair, "proved"), (Fraction(-1), "refuted")):
        exact = ExactForm((), ((0, 0, Fraction(1)),), constant)
        form = Form((), ((0, 0, 1.0),), -1.0, exact=exact)
        assert decide(query_about(form, False, reals=reals), seconds=20).verdict == verdict


def test_only_conditions_that_are_asked_for_are_settled():
    query = query_about(Form((), ((0, 0, 1.0),), -1.0), True)
    case = Case(query.cases[0], (Form((), ((0, 1, 1.0),)),))
    boundary = Claims(join_claim(query, [case])).prepare(NativeOptions()).boundary
    assert boundary.noise == 0.0
    decided = Claims(join_claim(query, [Case(query.cases[0])])).prepare(NativeOptions()).boundary
    assert decided.noise > 0.0


def test_what_was_settled_is_in_no_certificate_and_that_is_said(tmp_path):
    target = tmp_path / "c.npz"
    onnx.save(IDENTITY, tmp_path / "N.onnx")
    text = 'let N = network("N.onnx")\nguarantee g: forall x in box(0, 1): score(N, x, 0) <= 1\n'
    (tmp_path / "q.spec").write_text(text)
    report = verify(tmp_path / "q.spec", certificate=target)
    assert report.results[0].verdict == "proved"
    assert any("settled" in note for note in report.notes)
    assert not target.exists()
