"""Statements over tree ensembles, from their text to the verdict, on models seen at a glance."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from leaveout import verify
from leaveout.encoders.box import Box, Choices
from leaveout.encoders.query import Case, Condition, Form, Query
from leaveout.errors import SpecError
from leaveout.kernel.boxes import Inputs
from leaveout.kernel.numbers import Rejected
from leaveout.kernel.points import Case as KernelCase
from leaveout.kernel.points import Form as KernelForm
from leaveout.kernel.tree_forms import TreePoints
from leaveout.kernel.trees import Ensemble
from leaveout.models.trees.assemble import Sets, Tree, assemble
from leaveout.models.trees.files import write_trees
from leaveout.models.trees.model import TreeModel
from leaveout.verifier.certify.check import check
from leaveout.verifier.points.job import Asked, TreesAt
from leaveout.verifier.points.tree_claims import TreeQuestion


def step(left, right, *, asks=0, labels=()):
    """Return one question: a feature is at most 0.5 or above or missing; there are two features."""
    tree = Tree(
        np.array([asks, -1, -1]), np.array([0.5, 0.0, 0.0]), np.zeros(3, bool),
        np.full(3, -1), np.array([1, 0, 0]), np.array([2, 0, 0]), np.array([0.0, left, right]),
    )  # fmt: skip
    return Ensemble(assemble([tree], Sets(), 1, 2), np.zeros(1), labels, 2)


@pytest.fixture
def ask(tmp_path):
    def decide(ensemble, text):
        write_trees(ensemble, tmp_path / "trees.npz")
        spec = tmp_path / "s.spec"
        spec.write_text('let T = trees("trees.npz")\n' + text)
        (result,) = verify(spec).results
        return result

    return decide


def test_a_refuted_statement_about_a_regression_says_what_it_returns(ask):
    result = ask(step(0.0, 1.0), "let X = box(0, 1)\nguarantee g: forall x in X: score(T, x) < 1")
    assert result.verdict == "refuted"
    assert "T(x) returns (1)" in result.example.words


def test_numbers_that_are_rounded_alike_are_not_equal(ask):
    above = math.nextafter(0.3, 1.0)  # 0.1 + 0.2 as float64 adds; more than their exact sum
    text = (
        "let X = box(0, 1)\nguarantee g: forall x in X, y in X: same_except(x, y, at = 1) and "
        f"score(T, x) - 0.1 > 0.2 => score(T, y) > {above!r}"
    )
    assert ask(step(0.0, above), text).verdict != "proved"


def test_coefficients_that_are_rounded_alike_are_not_equal(ask):
    above = math.nextafter(0.3, 1.0)
    text = (
        "let X = box(0, 1)\nguarantee g: forall x in X, y in X: same_except(x, y, at = 1) => "
        f"0.1 * score(T, x) + 0.2 * score(T, x) <= {above!r} * score(T, y)"
    )
    assert ask(step(0.0, -1.0), text).verdict != "proved"


def test_values_listed_within_another_set_hold_around_a_centre(ask):
    text = (
        "let X = around([1.5, 1.5], 1.2, within = integers(box(0, 3), at = [0, 1]))\n"
        "guarantee g: forall x in X: score(T, x) > 5 or feature(x, 0) != 1.25"
    )
    assert ask(step(0.0, 1.0), text).verdict != "refuted"


def test_points_of_disjoint_sets_may_both_miss_a_value(ask):
    text = (
        "let X = missing(box([0, 0], [1, 0]), at = 0)\n"
        "let Y = missing(box([2, 0], [3, 0]), at = 0)\n"
        "guarantee g: forall x in X, y in Y: same_except(x, y, at = 1) => "
        "score(T, x) + score(T, y) < 1.5"
    )
    with pytest.raises(SpecError, match="give them one set"):
        ask(step(0.0, 1.0), text)


def test_an_example_beside_a_missing_value_takes_listed_values():
    box = Box(np.zeros(2), np.full(2, 3.0), (Choices(np.array([1]), np.array([[0.0], [1.0]])),))
    case = Case((Condition(Form((), ((0, 0, 1.0),), 0.0)),), ())
    trees = (TreesAt(TreeModel(Path("one"), step(0.0, 1.0)), 0, "T(x)"),)
    asked = Asked(Query((box,), (), ()), (case,), None, trees=trees)
    question = TreeQuestion.of(asked, case, [np.array([True, False])])
    assert question.replay([np.array([np.nan, 1.0])]) is not None
    assert question.replay([np.array([np.nan, 0.5])]) is None


def test_a_statement_that_its_text_refutes_has_an_example(ask):
    labelled = step(-1.0, 1.0, labels=("a", "b"))
    result = ask(labelled, "let X = box(0, 1)\nguarantee g: forall x in X: score(T, x, 0) > 0")
    assert result.verdict == "refuted"
    assert set(result.example.points) == {"x"}


def test_conditions_hold_beside_a_feature_that_is_only_missing(ask):
    text = (
        "let X = missing(box(0, 0.5), at = 1)\n"
        "guarantee g: forall x in X: feature(x, 0) >= 0.25 => score(T, x) < 1"
    )
    result = ask(step(0.0, 1.0, asks=1), text)
    assert result.verdict == "refuted"
    assert (result.example.points["x"][1]) is None


def test_a_least_bound_that_no_point_needs_is_certified(tmp_path):
    write_trees(step(-1.0, 1.0, labels=("a", "b")), tmp_path / "trees.npz")
    (tmp_path / "s.spec").write_text(
        'let T = trees("trees.npz")\nlet X = box(0, 0.5)\n'
        "find b: least d such that forall x in X: label(T, x) == 1 => score(T, x) <= d\n"
    )
    (result,) = verify(tmp_path / "s.spec", certificate=tmp_path / "c.npz").results
    assert result.verdict == "proved"
    assert result.upper is None
    (claim,) = check(tmp_path / "c.npz")
    assert claim.upper == -1e290


@pytest.mark.parametrize("what", ["features", "scores"])
def test_the_kernel_refuses_positions_that_repeat(what):
    terms = ((0, 0, 1e17), (0, 0, 1.0), (0, 0, -1e17))  # 0 in float64
    form = KernelForm(**{"features": (), "scores": (), what: terms}, constant=-0.5, strict=True)
    claim = TreePoints(
        ((step(0.0, 1.0), 0),), (Inputs(np.zeros(2), np.ones(2)),), ((),),
        (KernelCase((form,), (), (), (), False, ()),), -1.0, True,
    )  # fmt: skip
    proof = {
        "size": np.ones(1, np.int64), "asked": np.full((1, 2), -1, np.int32),
        "factor": np.full((1, 1), 1e6), "order": np.full((1, 2), -1, np.int32),
        "pairs": np.zeros((0, 2), np.int32),
    }  # fmt: skip
    with pytest.raises(Rejected, match="twice in one form"):
        claim.check(proof)


@pytest.mark.parametrize(
    ("left", "claim", "upper"),
    [
        # A score of exactly 0 is answered with the first label.
        (0.0, "find b: least d such that forall x in X: confidence(T, x) > d => "
         "label(S, x) == label(T, x)", None),
        (0.0, "guarantee b: forall x in X: label(S, x) == label(T, x)", None),
        (0.0, "find b: least d such that forall x in X: score(S, x) - score(T, x) <= d", 1.0),
        (-1.0, "find b: least d such that forall x in X: difference(T, S, x) <= d", 0.0),
        (-0.75, "guarantee b: forall x in X: difference(T, S, x) <= 0.25", None),
    ],
)  # fmt: skip
def test_exact_ties_are_decided_and_certified(tmp_path, left, claim, upper):
    for name, least in (("one", -1.0), ("other", left)):
        write_trees(step(least, 1.0, labels=("a", "b")), tmp_path / f"{name}.npz")
    (tmp_path / "s.spec").write_text(
        f'let T = trees("one.npz")\nlet S = trees("other.npz")\nlet X = box(0, 1)\n{claim}\n'
    )
    (result,) = verify(tmp_path / "s.spec", certificate=tmp_path / "c.npz").results
    (checked,) = check(tmp_path / "c.npz")
    assert result.verdict == "proved"
    if upper is None:
        assert result.upper is None
    else:
        assert result.upper == pytest.approx(upper, abs=1e-12)
        assert checked.upper == pytest.approx(upper, abs=1e-8)


def test_a_difference_of_two_models_is_certified(tmp_path):
    """Its first case is about the first label, whose score is constant."""
    for name, right in (("one", 1.0), ("other", 2.0)):
        write_trees(step(-1.0, right, labels=("a", "b")), tmp_path / f"{name}.npz")
    (tmp_path / "s.spec").write_text(
        'let T = trees("one.npz")\nlet S = trees("other.npz")\nlet X = box(0, 1)\n'
        "find b: least d such that forall x in X: difference(T, S, x) <= d\n"
    )
    (result,) = verify(tmp_path / "s.spec", certificate=tmp_path / "c.npz").results
    assert result.upper == pytest.approx(1.0)
    (claim,) = check(tmp_path / "c.npz")
    assert claim.upper == pytest.approx(1.0)
