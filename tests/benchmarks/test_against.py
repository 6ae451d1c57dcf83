"""Bounds beside those of an older commit: checkouts, searches in them, ratios."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys

import pytest

import idp_against
import idp_checkout
from idp_checkout import ROOT, Checkout, CheckoutError, Found, Search
from support import children

EXAMPLE = ROOT / "examples" / "breast_cancer" / "family"
NEW = Found("here", 1500, 0.5, 0.75, 4.0, 6.0, 300, True, None, False)
OLD = Found("there", 1500, 0.25, 1.0, 8.0, 8.0, 600, True, None, False)


def in_git():
    done = subprocess.run(["git", "-C", str(ROOT), "rev-parse", "HEAD"], capture_output=True)
    return done.returncode == 0


needs_git = pytest.mark.skipif(not in_git(), reason="not a git repository")


def test_ratios_are_new_over_old():
    pair = idp_against.Pair("adult/2x50", 1, NEW, OLD)
    assert idp_against.ratios(pair) == {
        "lower": 2.0, "upper": 0.75, "gap": 0.375, "seconds": 0.5, "cpu": 0.75, "nodes": 0.5,
    }  # fmt: skip
    lines = idp_against.shown(pair, "abc1234").splitlines()
    assert lines[0].split() == [
        "adult", "2x50", "1,500", "1", "this", "tree", "0.50000", "0.75000", "1.500", "4.0", "6.0",
        "300",
    ]  # fmt: skip
    assert lines[1].split() == ["abc1234", "0.25000", "1.00000", "4.000", "8.0", "8.0", "600"]
    assert lines[2].split() == ["new/old", "2.000", "0.750", "0.375", "0.500", "0.750", "0.500"]
    assert len({len(line) for line in (*lines, idp_against.HEAD)}) == 1


def test_means_are_over_what_both_closed():
    slow = dataclasses.replace(NEW, closed=False, seconds=100.0, upper=1.0)
    none = dataclasses.replace(NEW, lower=0.0)
    pairs = [
        idp_against.Pair("adult/2x50", 0, NEW, OLD),
        idp_against.Pair("adult/2x50", 1, slow, OLD),
        idp_against.Pair("credit/2x50", 0, dataclasses.replace(NEW, interrupted=True), OLD),
    ]
    said = idp_against.summary(pairs)
    assert "upper 0.866 over 2" in said and "seconds 0.500 over 1" in said
    bare = idp_against.Pair("adult/2x50", 0, none, none)
    assert idp_against.ratios(bare)["gap"] is None
    assert "gap - over 0" in idp_against.summary([bare])


def test_an_unknown_commit_is_one_line():
    done = children.run([sys.executable, ROOT / "benchmarks" / "idp.py", "--against", "no such"])
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1 and "no commit 'no such'" in done.stderr


@needs_git
def test_a_checkout_has_every_room(tmp_path):
    checkout = idp_checkout.unpack("HEAD", tmp_path)
    assert len(checkout.name) == 7
    assert (tmp_path / "src" / "leaveout" / "bab" / "native" / "search.py").is_file()
    assert (tmp_path / "benchmarks" / "traces.py").is_file()


def test_a_search_in_this_tree_is_of_this_tree():
    asked = Search(EXAMPLE, 0, 20, 5.0, 0, "cpu")
    found = idp_checkout.search(idp_checkout.here(), asked)
    assert found.members == 20 and 0 <= found.lower <= found.upper
    assert found.cpu > 0 and not found.interrupted


def test_a_search_that_fails_says_why(tmp_path):
    asked = Search(tmp_path / "none", 0, 20, 5.0, 0, "cpu")
    with pytest.raises(CheckoutError, match=r"this tree: .*full\.onnx"):
        idp_checkout.search(idp_checkout.here(), asked)


def test_results_of_another_tree_are_refused(tmp_path):
    line = json.dumps(dataclasses.asdict(dataclasses.replace(NEW, source=str(ROOT / "src"))))
    assert idp_checkout.parsed(idp_checkout.here(), f"said before\n{line}\n").nodes == 300
    with pytest.raises(CheckoutError, match="was searched with instead"):
        idp_checkout.parsed(Checkout("old", tmp_path), line)
    with pytest.raises(CheckoutError, match="is no result"):
        idp_checkout.parsed(Checkout("old", tmp_path), "")
