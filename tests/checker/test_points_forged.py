"""Falsified certificates of claims over points: none is accepted that claims what is false."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from leaveout.errors import LeaveoutError
from leaveout.verifier.certify import trees
from leaveout.verifier.certify.check import check

from support.certificates import Content
from support.depth import STRIDE, enough
from support.point_claims import KINDS
from support.point_forgeries import broken, changed
from support.points import worst_of, write_kind


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
def test_what_is_broken_is_rejected(tmp_path, kind, monkeypatch):
    # What a certificate does not prove by itself is not proved by splitting either.
    monkeypatch.setattr(trees, "SPLITS", 0)
    # One whose claim rests on multipliers, not on regions that hold no listed row.
    path = write_kind(tmp_path, kind, 2 if kind == "single" else 1)
    content, count, missed = Content.of(path), 0, []
    for what, change in [*broken(content)][::STRIDE]:
        false = copied(content)
        change(false)
        count += 1
        if not refused(false, tmp_path / "false.cert"):
            missed.append(what)
    assert not missed
    assert count >= enough(100)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_false_is_rejected(tmp_path, kind):
    path = write_kind(tmp_path, kind)
    content, false_ones, missed = Content.of(path), 0, []
    reals = content.manifest["claims"][0]["reals"]
    for what, change in [*changed(content, tmp_path, 3)][::STRIDE]:
        false = copied(content)
        change(false)
        (claim,) = false.manifest["claims"]
        worst = worst_of(claim, tmp_path, count=4000)
        is_false = worst > claim["upper"] + (1e-4 if reals else 0.0)
        false_ones += is_false
        if not refused(false, tmp_path / "false.cert") and is_false:
            missed.append(what)
    assert not missed
    assert false_ones >= max(1, enough(3))


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
        for upper in (-1e9, -1e300):
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
