"""Falsified certificates of claims over points: none is accepted that claims what is false."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import onnx
import pytest

from leaveout.encoders.query import Application, Case, Form
from leaveout.errors import LeaveoutError
from leaveout.models import load_network
from leaveout.models.replay import with_parameters
from leaveout.verifier.checker import check

from support.certificates import Content
from support.point_claims import KINDS
from support.point_forgeries import broken, changed
from support.points import worst_of, write_asked, write_kind


def refused(content, path) -> bool:
    content.save(path)
    try:
        check(path)
    except LeaveoutError as error:
        assert "\n" not in str(error)
        return True
    return False


def copied(content):
    return Content(copy.deepcopy(content.manifest), dict(content.arrays))


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_broken_is_rejected(tmp_path, kind):
    # One whose claim rests on multipliers, not on regions that hold no listed row.
    path = write_kind(tmp_path, kind, 2 if kind == "single" else 1)
    content, count, missed = Content.of(path), 0, []
    for what, change in broken(content):
        false = copied(content)
        change(false)
        count += 1
        if not refused(false, tmp_path / "false.cert"):
            missed.append(what)
    assert not missed
    assert count >= 100


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_false_is_rejected(tmp_path, kind):
    path = write_kind(tmp_path, kind)
    content, false_ones, missed = Content.of(path), 0, []
    reals = content.manifest["claims"][0]["reals"]
    for what, change in changed(content, tmp_path, 3):
        false = copied(content)
        change(false)
        (claim,) = false.manifest["claims"]
        worst = worst_of(claim, tmp_path, count=4000)
        is_false = worst > claim["upper"] + (1e-4 if reals else 0.0)
        false_ones += is_false
        if not refused(false, tmp_path / "false.cert") and is_false:
            missed.append(what)
    assert not missed
    assert false_ones >= 3


@pytest.mark.parametrize("kind", KINDS)
def test_a_tree_without_proofs_proves_nothing(tmp_path, kind):
    """Made from the inside: every root, or both of its halves, is said to be empty."""
    path = write_kind(tmp_path, kind)
    content = Content.of(path)
    (claim,) = content.manifest["claims"]
    cases, rows = len(claim["cases"]), content.arrays["tree0.errors"].shape[1]
    hidden = content.hidden
    families = [e["family"] for e in claim["applications"] if e["family"] and e["member"] is None]
    members = families[0]["members"] if families else 1
    for halves in (False, True):
        for upper in (-1e9, -1e300, -1e-9):
            count = cases * (3 if halves else 1)
            of = np.arange(count)
            root = of < cases
            whole = np.zeros(count, np.int64)
            arrays = {
                "ident": of,
                "parent": np.where(root, -1, of % cases),
                "kind": np.where(root, 0, 1).astype(np.int8),
                "index": np.where(root, of, 0),
                "side": np.where(root, 0, of // cases - 1),
                "point": np.where(root, 0.0, 0.1),
                "target": whole + upper,
                "errors": np.full((count, rows), 1e280),
                "claim": whole + upper,
                "proof": whole - 1,
                "group": np.where(root, of, -1),
                "members": np.tile(np.arange(members), cases),
                "offsets": members * np.arange(cases + 1),
                "cz": np.zeros((0, hidden), np.float32),
                "cd": np.zeros((0, hidden), np.float32),
                "share": np.zeros((0, rows)),
            }
            false = Content(
                copy.deepcopy(content.manifest),
                {f"tree0.{name}": array for name, array in arrays.items()},
            )
            false.manifest["claims"][0]["upper"] = upper
            assert refused(false, tmp_path / "false.cert"), (halves, upper)


def test_errors_of_small_regions_are_accepted_and_no_smaller_ones(tmp_path):
    """Networks that hardly differ: what float32 evaluation may change is most of the bound."""
    two = KINDS["equivalence"](tmp_path, np.random.default_rng(5))
    first, second = (load_network(file) for file in (each.network for each in two.sources))
    rng = np.random.default_rng(1)
    nearly = {
        name: (value * (1 + 1e-5 * rng.normal(size=value.shape))).astype(np.float32)
        for name, value in first.parameters.items()
    }
    onnx.save(with_parameters(second.model, nearly), two.sources[1].network)
    applied = (two.query.applications[0], Application(load_network(two.sources[1].network), 0))
    query = replace(two.query, applications=applied)
    goal = Form((), ((0, 0, 1.0), (1, 0, -1.0)), 0.0)
    two = replace(two, query=query, cases=(Case((), (goal,)),), decides=False)
    path = write_asked(tmp_path, two, gap=1e-4)
    assert path is not None
    check(path)
    content = Content.of(path)
    errors, parent = content.arrays["tree0.errors"], content.arrays["tree0.parent"]
    smaller = np.flatnonzero(
        (parent >= 0) & (errors[:, 0] < errors[np.maximum(parent, 0), 0]) & (errors[:, 0] > 0)
    )
    assert len(smaller)
    for node in smaller[:: max(1, len(smaller) // 8)]:
        false = copied(content)
        # All below has the error of the node, or one of its own.
        lowered = errors.copy()
        lowered[node] *= 0.999
        false.arrays["tree0.errors"] = lowered
        assert refused(false, tmp_path / "false.cert")
