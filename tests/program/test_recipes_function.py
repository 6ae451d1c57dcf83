"""The recipe for a function of the language, followed word for word in a copy of the project."""

from __future__ import annotations

import json
import os
import shutil
import sys

import numpy as np
import pytest
from docs.pages import ROOT, blocks

from leaveout.models.votes import Ballots, write_ballots

from support import children
from support.snapshots import passages

ROOMS = ("bab", "encoders", "models", "kernel", "solvers", "specs", "verifier", "src", "editors")
PAGE = "CONTRIBUTING.md"


def code(start):
    """Return the block of the recipe that starts so."""
    (found,) = (block.text for block in blocks(PAGE) if block.text.startswith(start))
    return found


@pytest.fixture
def copy(tmp_path):
    """Return a copy of the project with what the recipe adds."""
    for room in ROOMS:
        shutil.copytree(ROOT / room, tmp_path / room, symlinks=True)
    table = tmp_path / "specs" / "table" / "votes.py"
    before, end, after = table.read_text().rpartition("\n)\n")
    assert after == ""
    table.write_text(f"{before}\n{code('Function(').rstrip()},{end}")
    deciders = tmp_path / "verifier" / "values" / "subjects" / "votes.py"
    deciders.write_text(f"{deciders.read_text()}\n\n{code('def unanimous(')}")
    return tmp_path


def test_a_declaration_and_a_decider_are_a_function(copy, snapshot):
    def run(*command):
        environment = {**os.environ, "PYTHONPATH": str(copy / "src"), "LEAVEOUT_PLUGINS": "off"}
        return children.run([sys.executable, *command], cwd=copy, env=environment)

    votes = np.array([[0, 0], [1, 1], [1, 0], [1, 1]], np.int32)
    write_ballots(Ballots(votes, votes[:, 0], 2), copy / "ballots.npz")
    (copy / "agreed.spec").write_text(code('let V = ballots("ballots.npz")\nguarantee agreed'))

    decided = run("-m", "leaveout", "verify", "agreed.spec", "--json", "result.json")
    assert decided.returncode == 0, decided.stderr
    (result,) = json.loads((copy / "result.json").read_text())["results"]
    assert (result["verdict"], result["lower"], result["upper"]) == ("proved", 0.75, 0.75)

    shown = run("-m", "leaveout", "report", "result.json")
    assert shown.returncode == 0, shown.stderr
    said = "the share of test points on which all base classifiers of V agree"
    assert passages((copy / "report.html").read_text(), (said, "0.6")) == snapshot

    described = run("-m", "leaveout", "functions", "unanimous")
    assert described.stdout == snapshot
    written = run("editors/refresh.py")
    assert written.returncode == 0, written.stderr
    assert "|unanimous" in (copy / "editors" / "leaveout.tmLanguage.json").read_text()
