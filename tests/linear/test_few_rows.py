"""What any few rows can change: bounds next to all choices, witnesses, certificates, forgeries."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace

import numpy as np
import pytest

from leaveout import verify
from leaveout.errors import LeaveoutError
from leaveout.kernel.budget import Change, check_change
from leaveout.kernel.design import Design, Region
from leaveout.kernel.model import Groups, LinearModel
from leaveout.kernel.numbers import Rejected
from leaveout.models.linear.family import bound_members
from leaveout.models.linear.file import save_linear
from leaveout.models.linear.fit import coefficients_of
from leaveout.verifier.certify.check import check
from leaveout.verifier.cli import run
from leaveout.verifier.report import write_json

SPEC = """let L = linear("linear.npz")
let X = box(0, 1)
let out = leave_out(L, rows = 2)
let flipped = relabel(L, rows = 1)
let added = add_one(L, within = X)
find two: least b per label such that
    forall x in X, M in out: confidence(L, x) > b => label(M, x) == label(L, x)
find flips: least b such that
    forall x in X, M in flipped: confidence(L, x) > b => label(M, x) == label(L, x)
find more: least b such that
    forall x in X, M in added: confidence(L, x) > b => label(M, x) == label(L, x)
find apart: least d such that forall x in X, M in out: difference(L, M, x) <= d
guarantee far: forall x in X, M in out: confidence(L, x) > 9 => label(M, x) == label(L, x)
guarantee near: forall x in X, M in out: confidence(L, x) > 0.0001 => label(M, x) == label(L, x)
"""


def make(seed=0, kind="logistic", rows=30, groups=None):
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(rows, 2))
    y = (X @ [3.0, -2.0] + rng.normal(size=rows) > 0.5).astype(float)
    model = LinearModel(
        kind, Design.plain(2), np.zeros((1, 3)), X, y, np.ones(rows), np.full(3, 2.0),
        ("no", "yes"), groups=groups,
    )  # fmt: skip
    return fitted(model)


def fitted(model):
    return replace(model, coefficients=coefficients_of(model.problems))


def verified(folder, model, spec=SPEC, **given):
    save_linear(folder / "linear.npz", model)
    (folder / "a.spec").write_text(spec)
    return {(r.name, r.label): r for r in verify(folder / "a.spec", **given).results}


def worst(model, others, points):
    """Return the largest confidence by label of an answer that changes, and the largest change."""
    own = model.raw_scores(points)[:, 0]
    found, apart = [0.0, 0.0], 0.0
    for other in others:
        theirs = other.raw_scores(points)[:, 0]
        apart = max(apart, float(np.abs(own - theirs).max()))
        for label, sign in ((0, -1.0), (1, 1.0)):
            leaking = (sign * own > 0) & (sign * theirs <= 0)
            found[label] = max([found[label], *(sign * own[leaking])])
    return found, apart


@pytest.mark.parametrize("kind", ["logistic", "ridge"])
def test_bounds_hold_for_all_choices_of_rows(tmp_path, kind):
    model = make(3, kind)
    results = verified(tmp_path, model)
    grid = np.linspace(0, 1, 60)
    points = np.array(list(itertools.product(grid, grid)))
    pairs = itertools.combinations(range(len(model.X)), 2)
    others = [
        fitted(replace(model, weights=np.where(np.isin(np.arange(30), pair), 0.0, 1.0)))
        for pair in pairs
    ]
    found, apart = worst(model, others, points)
    for label in (0, 1):
        assert found[label] <= results["two", label].upper
        # The grid may miss the worst input by a little, the greedy choice of rows by more.
        assert results["two", label].lower <= found[label] * 1.2 + 0.05
        assert results["two", label].lower > 0
    assert apart <= results["apart", None].upper
    flips = [
        fitted(replace(model, y=np.where(np.arange(30) == row, 1 - model.y, model.y)))
        for row in range(30)
    ]
    found, _ = worst(model, flips, points)
    assert max(found) <= results["flips", None].upper
    more = [
        fitted(
            replace(
                model, X=np.r_[model.X, [x]], y=np.r_[model.y, y], weights=np.ones(31),
                names=np.arange(31), next_name=31,
            )
        )
        for x in points[::37]
        for y in (0.0, 1.0)
    ]  # fmt: skip
    found, _ = worst(model, more, points)
    assert max(found) <= results["more", None].upper
    assert results["far", None].verdict == "proved"
    refuted = results["near", None]
    assert refuted.verdict == "refuted"
    rows = refuted.example.facts["rows"]
    assert len(rows) == 2
    other = fitted(replace(model, weights=np.where(np.isin(np.arange(30), rows), 0.0, 1.0)))
    x = np.array([refuted.example.points["x"]])
    assert model.answers(x) != other.answers(x)


def test_persons_leave_together(tmp_path):
    cells = np.array([f"p{row // 3}" for row in range(30)])
    model = make(5, groups=Groups("person", cells))
    spec = SPEC.replace("let flipped = relabel(L, rows = 1)\n", "").split("find flips")[0]
    results = verified(tmp_path, model, spec)
    points = np.random.default_rng(0).uniform(size=(4000, 2))
    others = [
        fitted(replace(model, weights=np.where(np.isin(model.units, pair), 0.0, 1.0)))
        for pair in itertools.combinations(range(10), 2)
    ]
    found, _ = worst(model, others, points)
    for label in (0, 1):
        assert found[label] <= results["two", label].upper


def forged(folder, change):
    """Write a changed certificate."""
    with np.load(folder / "a.cert") as archive:
        arrays = dict(archive)
    manifest = json.loads(arrays.pop("manifest").tobytes())
    change(manifest["linear"]["results"])
    text = np.frombuffer(json.dumps(manifest).encode(), np.uint8)
    with (folder / "b.cert").open("wb") as stream:
        np.savez(stream, manifest=text, **arrays)
    return folder / "b.cert"


def test_certificates_prove_them_again_and_nothing_false(tmp_path):
    results = verified(tmp_path, make(), certificate=tmp_path / "a.cert")
    found = check(tmp_path / "a.cert")
    assert {(each.name, each.label) for each in found} >= {("two", 0), ("two", 1), ("apart", None)}
    for each in found:
        if (each.name, each.label) in results:
            assert each.upper <= results[each.name, each.label].upper

    def set_all(**values):
        def change(claims):
            for claim in claims:
                if claim["kind"] == "leave_out":
                    claim.update(values)

        return change

    lower = 0.9 * min(results["two", label].upper for label in (0, 1))
    for values in (
        {"count": 3}, {"count": 0}, {"count": -1}, {"upper": lower}, {"upper": -1.0},
        {"kind": "relabel"}, {"kind": "add_one"}, {"kind": "leaks"}, {"label": 5},
    ):  # fmt: skip
        with pytest.raises(LeaveoutError):
            check(forged(tmp_path, set_all(**values)))


@pytest.mark.parametrize(
    ("old", "new", "wrong"),
    [
        ("rows = 2", "rows = 1.5", "whole number"),
        ("rows = 2", "rows = 0", "rows"),
        ("rows = 2", "rows = 30", "from 1 to 29"),
        ("difference(L, M, x) <= d", "score(L, x) >= d => score(M, x) >= 0", "leave_one_out only"),
    ],
)
def test_what_cannot_be_asked_is_refused(tmp_path, old, new, wrong):
    with pytest.raises(LeaveoutError, match=wrong):
        verified(tmp_path, make(), SPEC.replace(old, new))


def test_labels_of_other_kinds_are_not_flipped(tmp_path):
    with pytest.raises(LeaveoutError, match="two labels, logistic or ridge"):
        verified(tmp_path, make(kind="svm"))


def test_pages_say_which_rows_change(tmp_path):
    save_linear(tmp_path / "linear.npz", make())
    (tmp_path / "a.spec").write_text(SPEC)
    report = verify(tmp_path / "a.spec")
    write_json(report, tmp_path / "r.json")
    assert run(["report", str(tmp_path / "r.json"), "-o", str(tmp_path / "r.md")]) == 0
    text = (tmp_path / "r.md").read_text()
    for words in (
        "any 2 of the 30 training records, or fewer, are left out of training",
        "any one of the 30 training records is given the other label before training",
        "one more record, of any label, is added to the training records",
    ):
        assert words in text
    assert "any one of the 30 training records is left out" not in text


@pytest.mark.parametrize("labels", [(), ("a", "b", "c")])
def test_the_kernel_flips_labels_of_two_alone(labels):
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(30, 2))
    y = rng.integers(0, 3, 30).astype(float) if labels else rng.choice([-1.0, 1.0], 30)
    model = fitted(
        LinearModel(
            "ridge", Design.plain(2), np.zeros((len(labels) or 1, 3)), X, y, np.ones(30),
            np.ones(3), labels,
        )
    )  # fmt: skip
    family = bound_members(model)
    region = Region.of(model.design, np.zeros(2), np.ones(2))
    check_change(family, region, Change("leave_out", 1), None, 1e6)
    with pytest.raises(Rejected):
        check_change(family, region, Change("relabel", 1), None, 1e6)
