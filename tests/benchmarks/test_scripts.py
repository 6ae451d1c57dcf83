"""Every benchmark starts, and what can run small runs small."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"
SCRIPTS = sorted(
    path.name for path in FOLDER.glob("*.py") if '__name__ == "__main__"' in path.read_text()
)
SMALL = {
    "attention.py": [
        *("--members", "2", "--time", "2", "--epochs", "1", "--only", "mixture", "--check"),
    ],
    "adaptive.py": ["--rows", "24", "--trials", "2", "--epochs", "1"],
    "campaign.py": ["--cases", "4", "--workers", "1", "--only", "ends", "--minutes", "1"],
    "digits_cnn.py": ["--members", "1", "--time", "1"],
    "exports.py": ["--seeds", "1", "--rounds", "2", "--sets", "1"],
    "forget.py": ["--cases", "6"],
    "forest_guard.py": [
        *("--set", "synthetic-10k", "--train", "120", "--rows", "20", "--trees", "2"),
        *("--depth", "3", "--points", "10", "--deleted", "1", "--changes", "1"),
    ],
    "guard_faults.py": ["--step", "16381", "--requests", "600", "--wait", "1"],
    "hinges.py": ["--decisions", "200", "--members", "30"],
    "linear_models.py": ["--small", "--time", "5", "--check", "40", "--rows", "3000"],
    "membership.py": ["--rows", "40", "--only", "forest"],
    "moons.py": [
        *("--members", "8", "--rows", "10", "--test", "10", "--edits", "2", "--time", "5"),
    ],
    "overruns.py": ["--cases", "2"],
    "pace.py": [
        *(str(FOLDER.parent / "examples/breast_cancer/breast_cancer.spec"), "--time", "5"),
    ],
    "scale_needs.py": [],
    "scale_simulation.py": ["--networks", "320", "--rounds", "1", "--many", "4"],
    "scale_training.py": ['{"hidden": [4], "rows": 64, "batch": 32, "stack": 2}'],
    "seeds.py": ["--small", "--only", "dpa,adaptive"],
    "smooth_errors.py": ["--stride", "3000017", "--only", "Tanh", "--alone"],
    "smooth_families.py": ["--members", "2", "--time", "2", "--only", "tanh", "--check"],
    "smooth_pairs.py": ["--time", "1", "--only", "tanh"],
    "stable_boosting.py": ["--small"],
    "tree_claims.py": ["--trees", "5", "--depth", "3", "--rows", "1", "--time", "2"],
    "tree_families.py": [
        *("--rows", "200", "--members", "4", "--trees", "3", "--leaves", "4", "--time", "5"),
    ],
    "tree_readers.py": ["--rows", "2000", "--trees", "4"],
    "unlearning_paper.py": [],
}
"""Options of those that need no data that are not here, and seconds alone."""

ASKED = {"forest_driver.py"}
"""Started by another script, which says what to time: none has options of its own."""


def run(script, options, folder):
    command = [sys.executable, str(FOLDER / script), *options]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600)


@pytest.mark.parametrize("script", sorted(SMALL))
def test_it_runs_small(script, tmp_path):
    found = run(script, SMALL[script], tmp_path)
    assert found.returncode == 0, found.stderr[-2000:]
    assert found.stdout.strip()


@pytest.mark.parametrize("script", sorted(set(SCRIPTS) - set(SMALL) - ASKED))
def test_it_starts(script, tmp_path):
    found = run(script, ["--help"], tmp_path)
    assert found.returncode == 0, found.stderr[-2000:]
    assert script in found.stdout


def test_what_is_listed_is_there():
    assert SMALL.keys() | ASKED <= set(SCRIPTS)
