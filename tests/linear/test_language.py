"""What specifications may say of linear models, and what is said of the rest."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from leaveout import verify
from leaveout.errors import LeaveoutError
from leaveout.models.linear.file import save_linear
from leaveout.specs import check, parse
from leaveout.specs.types import FORESTS, LINEAR, LINEARS

from support.linear_models import drawn_model

LETS = 'let L = linear("linear.npz")\nlet F = leave_one_out(L)\nlet X = box(0, 1)\n'


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("linear")
    save_linear(folder / "linear.npz", drawn_model(5, plain=True))
    save_linear(folder / "other.npz", drawn_model(6, plain=True))
    save_linear(folder / "amounts.npz", drawn_model(5, "regression", plain=True))
    save_linear(folder / "three.npz", drawn_model(5, "softmax", plain=True))
    return folder


def test_leave_one_out_is_a_family_of_what_it_is_given():
    text = LETS + 'let T = forest("t.npz")\nlet G = leave_one_out(T)\nguarantee g: 1 < 2'
    checked = check(parse(text, "a.spec"))
    kinds = {name: checked.type_of(let.value) for name, let in checked.lets.items()}
    assert (kinds["L"], kinds["F"], kinds["G"]) == (LINEAR, LINEARS, FORESTS)


LEAK = "forall x in X, M in F: confidence(L, x) > {} => label(M, x) == label(L, x)"
NEAR = "forall x in X, M in F: difference(L, M, x) {} {}"
KEPT = "forall x in X, M in F: score(L, x) {} {} => score(M, x) {} {}"


@pytest.mark.parametrize(
    "text",
    [
        "find b: least b per label such that " + LEAK.format("b"),
        "find b: least b such that " + LEAK.format("b"),
        "guarantee g: " + LEAK.format(5),
        "guarantee g: forall x in X, M in F: label(M, x) == label(L, x)",
        "guarantee g: forall x in X, M in F: confidence(L, x, 1) >= 5 => label(M, x) == 1",
        "find d: least d such that " + NEAR.format("<=", "d"),
        "guarantee g: " + NEAR.format("<", 7),
        "guarantee g: forall x in X, M in F: 7 >= difference(M, L, x)",
        "find b: least b such that " + KEPT.format(">=", "b", ">=", 0),
        "find b: greatest b such that " + KEPT.format("<", "b", "<", 0),
        "guarantee g: " + KEPT.format(">", 5, ">", 0),
        "guarantee g: forall x in X, M in F: score(L, x, 1) >= 5 => 0 <= score(M, x, 1)",
    ],
)
def test_what_is_decided(folder, text):
    (folder / "a.spec").write_text(LETS + text)
    assert {each.engine for each in verify(folder / "a.spec").results} == {"linear"}


REFUSED = [
    # A name is a line of the language; the models are those of the folder.
    ("guarantee g: forall x in X, M in F: score(M, x) >= 0", "one claim about members alone"),
    ("guarantee g: " + KEPT.format(">=", 0, "<=", 0), "different sides"),
    ("guarantee g: forall x in X, M in F: score(M, x) >= 0 => score(L, x) >= 0", "roles"),
    ("find b: greatest b such that " + KEPT.format(">=", "b", ">=", 0), "the other direction"),
    ("guarantee g: " + NEAR.format(">=", 0), "at least a difference"),
    ("guarantee g: forall x in X: difference(L, L, x) <= 0", "no member"),
    ("guarantee g: forall x in X: label(L, x) == 1", "no member"),
    ("guarantee g: forall x in X, M in F: score(L, x, 0) >= 0 => score(M, x, 0) >= 0", "label 0"),
    ("guarantee g: forall x in X, M in F: score(L, x, 7) >= 0 => score(M, x, 7) >= 0", "output 7"),
    (
        "let c = 0.5\nguarantee g: forall x in X, M in F: "
        "score(L, x, c) >= 0 => score(M, x, c) >= 0",
        "half an output",
    ),
    ("guarantee g: forall x in X, M in F: confidence(L, x, 2) > 0 => label(M, x) == 2", "label 2"),
    (
        'let Q = linear("other.npz")\n'
        "guarantee g: forall x in X: confidence(L, x) > 0 => label(Q, x) == label(L, x)",
        "a pair",
    ),
    (
        'let G = leave_one_out(linear("other.npz"))\n'
        "guarantee g: forall x in X, M in G: confidence(L, x) > 0 => label(M, x) == label(L, x)",
        "the family of another",
    ),
    (
        'let R = linear("amounts.npz")\nlet G = leave_one_out(R)\n'
        "guarantee g: forall x in X, M in G: confidence(R, x) > 0 => label(M, x) == label(R, x)",
        "a regression",
    ),
    (
        'let R = linear("three.npz")\nlet G = leave_one_out(R)\n'
        "guarantee g: forall x in X, M in G: score(R, x) > 0 => score(M, x) > 0",
        "three scores",
    ),
    ("guarantee g: forall M in F but 0.1: label(M, x) == 1 with confidence 0.9", "a sample"),
    ('guarantee g: forall x in X: difference(L, network("n.onnx"), x) <= 1', "two kinds"),
]


@pytest.mark.parametrize(("text", "why"), REFUSED, ids=[why for _, why in REFUSED])
def test_what_is_refused(folder, text, why, snapshot):
    (folder / "a.spec").write_text(LETS + text)
    with pytest.raises(LeaveoutError) as told:
        verify(folder / "a.spec")
    assert str(told.value).replace(str(folder), "TMP") == snapshot


def test_files_that_hold_no_linear_model_are_refused(folder, tmp_path, snapshot):
    (tmp_path / "a.spec").write_text(LETS + "guarantee g: " + LEAK.format(1))
    for content in (b"", b"PK\3\4 no archive", None):
        if content is None:
            np.savez(tmp_path / "linear.npz", X=np.zeros(3))
        else:
            (tmp_path / "linear.npz").write_bytes(content)
        with pytest.raises(LeaveoutError) as told:
            verify(tmp_path / "a.spec")
        assert str(told.value).replace(str(tmp_path), "TMP") == snapshot


def test_nothing_is_proved_of_coefficients_far_from_the_minimum(tmp_path):
    (tmp_path / "a.spec").write_text(LETS + "guarantee g: " + LEAK.format(1))
    far = drawn_model(5, plain=True)
    save_linear(tmp_path / "linear.npz", replace(far, coefficients=far.coefficients + 1e9))
    (result,) = verify(tmp_path / "a.spec").results
    assert result.verdict == "unknown"


def test_scores_of_softmax_with_a_tolerance_are_refused(folder):
    save_linear(
        folder / "loose.npz", replace(drawn_model(5, "softmax", plain=True), tolerance=1e-6)
    )
    for claim in (
        NEAR.format("<=", "1"),
        NEAR.format("<=", "1").replace("in F", "in leave_out(L, rows = 2)"),
    ):
        (folder / "a.spec").write_text(
            LETS.replace("linear.npz", "loose.npz") + f"guarantee g: {claim}"
        )
        with pytest.raises(LeaveoutError, match="only differences of softmax's scores"):
            verify(folder / "a.spec")
