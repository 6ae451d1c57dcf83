"""The recipe for a learner whose members survive changes, followed in a copy of the project."""

from __future__ import annotations

import os
import shutil
import sys
from itertools import combinations

import numpy as np
import pytest
from docs.pages import ROOT, blocks

from support import children

ROOMS = ("bab", "encoders", "models", "kernel", "solvers", "specs", "verifier", "src")


def code(start):
    """Return the block of the recipe that starts so."""
    (found,) = (
        block.text for block in blocks("CONTRIBUTING.md") if block.text.lstrip().startswith(start)
    )
    return found


@pytest.fixture
def copy(tmp_path):
    """Return a copy of the project with what the recipe adds."""
    for room in ROOMS:
        shutil.copytree(ROOT / room, tmp_path / room, symlinks=True)
    options = tmp_path / "src" / "leaveout" / "partition_options.py"
    options.write_text(put(options, '    "nearest": Survivor(\n', code('"majority": Survivor')))
    folder = tmp_path / "models" / "votes" / "survival"
    (folder / "majority.py").write_text(MAJORITY)
    names = folder / "__init__.py"
    imported = "from leaveout.models.votes.survival.majority import Majority\n"
    names.write_text(put(names, "from leaveout.models.votes.survival.nearest", imported))
    (line,) = (each for each in names.read_text().splitlines(True) if each.startswith("_LEARNERS"))
    names.write_text(names.read_text().replace(line, code("_LEARNERS").lstrip()))
    return tmp_path


MAJORITY = code("from dataclasses import dataclass\nfrom typing import ClassVar")


def put(path, place, added):
    """Return a file's text with lines added before a place that it has once."""
    text = path.read_text()
    assert text.count(place) == 1
    return text.replace(place, f"{added.rstrip()}\n{place}")


def test_a_declaration_and_a_file_are_a_learner(copy, tmp_path):
    def run(*command):
        environment = {**os.environ, "PYTHONPATH": str(copy / "src"), "LEAVEOUT_PLUGINS": "off"}
        return children.run([sys.executable, "-m", "leaveout", *command], cwd=copy, env=environment)

    rng = np.random.default_rng(0)
    y = (rng.random(60) < 0.7).astype(int)
    np.savez(copy / "d.npz", X_train=rng.random((60, 2)), y_train=y, X_test=rng.random((4, 2)),
             y_test=[1, 1, 1, 0])  # fmt: skip
    words = ["--learner", "majority", "--survive", "removals", "--parts", "3", "--workers", "1"]
    trained = run("partition", "d.npz", *words, "-o", "out")
    assert trained.returncode == 0, trained.stderr
    decided = run("verify", "out/poisoning.spec", "--certificate", "c")
    assert decided.returncode == 0, decided.stderr
    checked = run("check", "c")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    refused = run("partition", "d.npz", *words[:3], "relabels", "-o", "other")
    assert "of the learner majority only removals are counted" in refused.stderr
    shown = run("partition", "--help").stdout.replace("│", " ")
    assert "majority: the most frequent label" in " ".join(shown.split())


def test_its_thresholds_are_those_of_every_set_of_removals():
    """The recipe's own test: train again after every removal of some rows."""
    from leaveout.models.votes.survival.learner import Part

    room = {}
    exec(MAJORITY, room)
    learner = room["Majority"]()
    rng = np.random.default_rng(1)
    for _ in range(60):
        y = rng.integers(0, 3, rng.integers(0, 7)).astype(np.int32)
        part = Part(np.zeros((len(y), 1)), y, np.zeros((1, 1)), 3)
        truth = {int(learner.scores(part)[0].argmax()): 0}
        for count in range(1, len(y) + 1):
            for out in combinations(range(len(y)), count):
                left = np.delete(y, out)
                after = Part(np.zeros((len(left), 1)), left, part.tests, 3)
                truth.setdefault(int(learner.scores(after)[0].argmax()), count)
        found = learner.thresholds(part, "removals", None)[0].tolist()
        assert found == [truth.get(label, -1) for label in range(3)]
