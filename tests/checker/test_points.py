"""Claims over points: what the engine proves is accepted, and what is accepted is true."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leaveout.bab.native.branching import Brancher
from leaveout.bab.native.nodes import Split
from leaveout.encoders import Box
from leaveout.encoders.query import Case, Form
from leaveout.errors import RejectedError
from leaveout.verifier.certify.check import check
from leaveout.verifier.cli.app import run

from support.certificates import Content
from support.depth import IS_DEEP, rounds
from support.point_claims import KINDS, random_asked
from support.points import worst_of, write_asked, write_kind
from support.snapshots import passages

WRITTEN = Path(__file__).parent / "written"


@pytest.mark.parametrize("kind", KINDS)
def test_certificates_are_accepted_and_true(tmp_path, kind):
    splits: set[int] = set()
    for seed in range(6 if IS_DEEP else 3):
        path = write_kind(tmp_path / str(seed), kind, seed)
        (found,) = check(path)
        content = Content.of(path)
        (claim,) = content.manifest["claims"]
        room = 1e-4 if claim["reals"] else 0.0
        assert worst_of(claim, path.parent, seed) <= found.upper + room
        assert found.label is None and found.leaves >= len(claim["cases"])
        splits |= set(content.arrays["tree0.kind"].tolist())
        lines = list(found.subject.lines())
        assert "n.onnx" in "".join(lines) and len(lines) > 2
    assert splits > {0} or not IS_DEEP


@settings(max_examples=rounds(40), deadline=None)
@given(seed=st.integers(0, 2**32 - 1), ties=st.booleans(), below=st.sampled_from([0, 1e-3, 0.3]))
def test_whatever_is_accepted_is_true(tmp_path_factory, seed, ties, below):
    folder = tmp_path_factory.mktemp("random")
    real = Brancher.choose

    def choose(self, node, target):
        split = real(self, node, target)
        free = np.flatnonzero(node.phase == 0)
        if ties and self.ties and not node.plain and len(free) and node.ident % 3:
            return [Split("phase", int(free[node.ident % len(free)]))]
        return split

    with mock.patch.object(Brancher, "choose", choose):
        path = write_asked(folder, random_asked(folder, seed), nodes=60)
    if path is None:
        return
    content = Content.of(path)
    (claim,) = content.manifest["claims"]
    worst = worst_of(claim, folder, seed % 7, count=5000)
    room = 1e-4 * (1.0 + abs(worst)) if claim["reals"] and worst > -np.inf else 0.0
    assert worst <= claim["upper"] + room
    claim["upper"] -= below
    content.save(path)
    try:
        check(path)
    except RejectedError:
        # What was proved is accepted; what is below it may be.
        assert below
    else:
        assert worst <= claim["upper"] + room


def test_ties_are_refused_where_several_forms_rest_on_the_difference(tmp_path, snapshot):
    """The engine does not tie there; one that did would be wrong."""
    goals = (
        Form((), ((0, 0, 1.0), (1, 0, -1.0)), 0.0),
        Form(((0, 0, 0.1),), ((0, 1, 0.7), (1, 1, -0.7)), 0.0),
    )
    real = Brancher.choose

    def choose(self, node, target):
        split = real(self, node, target)
        free = np.flatnonzero(node.phase == 0)
        return [Split("phase", int(free[0]))] if len(free) else split

    kinds = np.zeros(0)
    for seed in range(20):
        two = KINDS["equivalence"](tmp_path, np.random.default_rng(seed))
        two = replace(two, cases=(Case((), goals),), decides=False)
        with mock.patch.object(Brancher, "choose", choose):
            path = write_asked(tmp_path, two, nodes=30)
        kinds = Content.of(path).arrays["tree0.kind"]
        if 3 in kinds:
            break
    assert 3 in kinds
    with pytest.raises(RejectedError) as told:
        check(path)
    assert str(told.value) == snapshot


def test_a_file_of_format_1_is_accepted_as_ever():
    """Written by a version that knew leaks alone."""
    assert Content.of(WRITTEN / "proof.cert").manifest["format"] == 1
    found = check(WRITTEN / "proof.cert")
    assert [each.label for each in found] == [0, 1]
    assert [f"{each.upper:.6g}" for each in found] == ["0.428895", "1.00436e-07"]


def test_a_file_of_format_1_claims_nothing_over_points(tmp_path):
    path = write_kind(tmp_path, "single")
    content = Content.of(path)
    content.manifest["format"] = 1
    content.save(path)
    assert run(["check", str(path)]) == 2


def test_one_file_holds_leaks_and_points(tmp_path):
    path = write_kind(tmp_path, "fairness")
    content, leaks = Content.of(path), Content.of(WRITTEN / "proof.cert")
    for name in ("full.onnx", "family.npz"):
        (tmp_path / name).write_bytes((WRITTEN / name).read_bytes())
    content.manifest["claims"][0]["tree"] = "own"
    moved = {name.replace("tree0.", "own."): array for name, array in content.arrays.items()}
    content.manifest |= {key: leaks.manifest[key] for key in ("questions", "results")}
    content.arrays = {**leaks.arrays, **moved}
    content.save(path)
    assert [each.label for each in check(path)] == [0, 1, None]


def test_networks_may_lie_elsewhere_if_they_are_the_same(tmp_path):
    path = write_kind(tmp_path / "here", "equivalence")
    files = [tmp_path / "one.onnx", tmp_path / "two.onnx"]
    for name, file in zip("nm", files, strict=True):
        (tmp_path / "here" / f"{name}.onnx").rename(file)
    for order in (files, files[::-1]):
        assert check(path, network=order)
        options = [text for file in order for text in ("--network", str(file))]
        assert run(["check", str(path), *options]) == 0
    assert run(["check", str(path), "--network", str(files[0])]) == 1
    assert run(["check", str(path)]) == 2


SPEC = """\
let N = network("n.onnx")
let M = network("m.onnx")
let X = box(0, 1)
guarantee sure: forall x in X: score(N, x, 0) <= 1e6
find most: least b such that forall x in X: difference(N, M, x) <= b
guarantee false: forall x in X: score(N, x, 0) <= -1e6
"""


def test_statements_over_points_are_in_the_certificate(tmp_path, capsys, snapshot):
    KINDS["equivalence"](tmp_path, np.random.default_rng(1))
    (tmp_path / "test.spec").write_text(SPEC)
    target = tmp_path / "c.cert"
    found = tmp_path / "found.json"
    arguments = ["verify", str(tmp_path / "test.spec"), "--certificate", str(target)]
    # The time of a command counts from the start of its process, here of all tests.
    assert run([*arguments, "--time", "36000", "--json", str(found)]) == 1
    assert "certificate" not in capsys.readouterr().out
    most = json.loads(found.read_text())["results"][1]
    assert most["upper"] - most["lower"] < 1e-3, most["reason"]
    assert run(["check", str(target)]) == 0
    out = capsys.readouterr().out
    assert out.count("accepted") == 2
    assert "N(x)[0] - 1000000 > 0" in out and "N0(x)[0] - N1(x)[0]" in out
    assert "false" not in out
    assert passages(out, "1000000", "N0(x)[0] - N1(x)[0]") == snapshot


QUERY = """\
(declare-const X_0 Real)
(declare-const X_1 Real)
(declare-const Y_0 Real)
(declare-const Y_1 Real)
(assert (>= X_0 0.0))
(assert (<= X_0 1.0))
(assert (>= X_1 0.0))
(assert (<= X_1 1.0))
(assert (or (and (>= Y_0 {most})) (and (<= Y_1 (- {most})))))
"""


@pytest.mark.parametrize(("most", "status"), [(60.0, 0), (-60.0, 1)])
def test_a_query_that_has_no_counter_example_is_proved(tmp_path, capsys, most, status, snapshot):
    KINDS["equivalence"](tmp_path, np.random.default_rng(1))
    (tmp_path / "q.vnnlib").write_text(QUERY.format(most=most).replace("(- -60.0)", "60.0"))
    target = tmp_path / "q.cert"
    arguments = ["vnnlib", str(tmp_path / "q.vnnlib"), "--network", str(tmp_path / "n.onnx")]
    assert run([*arguments, "--certificate", str(target)]) == status
    assert target.exists() == (status == 0)
    capsys.readouterr()
    if status == 0:
        assert run(["check", str(target)]) == 0
        assert capsys.readouterr().out == snapshot


def test_words_name_what_they_leave_out(tmp_path, snapshot):
    path = write_kind(tmp_path, "robustness")
    content = Content.of(path)
    claim = content.manifest["claims"][0]
    (claim["cases"][1]["conditions"]).extend(
        {"features": [[0, i % 3, 1.0]], "scores": [], "constant": 2.0 + i, "strict": False}
        for i in range(20)
    )
    grown = np.zeros((len(content.arrays["tree0.ident"]), 21))
    grown[:, :1] = content.arrays["tree0.errors"]
    content.arrays["tree0.errors"] = grown
    content.arrays["tree0.share"] = np.pad(content.arrays["tree0.share"], ((0, 0), (0, 20)))
    content.save(path)
    text = "\n".join(check(path)[0].subject.lines())
    assert text == snapshot


def test_cases_of_very_different_size_are_proved_together(tmp_path):
    """Room for rounding is that of each case: the smaller one is decided by less."""
    two = KINDS["robustness"](tmp_path, np.random.default_rng(2))
    network = two.query.applications[0].network
    box = Box(two.query.points[0].lower, two.query.points[0].upper)
    least = float(network.runner().scores(box.sample(np.random.default_rng(0), 2000)).min())
    small = Form(((0, 0, 1e-9),), (), -1e-9 * float(box.upper[0]) - 1e-9)
    large = Form((), ((0, 0, -1.0),), least - 40.0)
    cases = (Case((), (small,)), Case((), (large,)))
    path = write_asked(tmp_path, replace(two, cases=cases, decides=True))
    assert path is not None and check(path)[0].upper < 0.0
