"""A plain install has neither scikit-learn nor networkx: what needs them names the extra."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TABLE = ROOT / "examples" / "breast_cancer" / "patients.csv"
NETWORK = ROOT / "examples" / "breast_cancer" / "family" / "full.onnx"
WITHOUT = """\
import json, sys
sys.modules.update(dict.fromkeys(["sklearn", "networkx"]))
"""
LABELLED = [str(TABLE), "--label", "diagnosis", "-o", "made"]


def python(code, folder, *arguments):
    return subprocess.run(
        [sys.executable, "-c", WITHOUT + code, *arguments],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("words", "extra"),
    [
        (["forest", "train", *LABELLED], "forests"),
        (["partition", *LABELLED], "forests"),
        (["trees", "train", *LABELLED, "--workers", "1"], "forests"),
        (["show", str(NETWORK)], "graphs"),
    ],
)
def test_a_command_that_needs_an_extra_names_it_in_one_line(words, extra, tmp_path):
    code = "from leaveout.verifier.cli import run; sys.exit(run(json.loads(sys.argv[1])))"
    done = python(code, tmp_path, json.dumps(words))
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.endswith(f"pip install 'leaveout[{extra}]'")
    assert list(tmp_path.iterdir()) == []
    known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert extra in known["optional-dependencies"]


def test_in_python_it_is_an_import_error_that_names_the_extra(tmp_path):
    code = """\
try:
    from leaveout.models.forest import DareForestClassifier
except ImportError as error:
    print(error)
"""
    assert "leaveout[forests]" in python(code, tmp_path).stdout


def test_everything_that_decides_networks_and_linear_models_imports_without_them(tmp_path):
    code = """\
import importlib, pkgutil, leaveout
from leaveout.errors import ExtraError
apart = []
for each in pkgutil.walk_packages(leaveout.__path__, "leaveout."):
    if not each.name.endswith("__main__"):
        try:
            importlib.import_module(each.name)
        except ExtraError:
            apart.append(each.name.removeprefix("leaveout."))
print(*apart)
"""
    done = python(code, tmp_path)
    assert done.returncode == 0, done.stderr
    assert set(done.stdout.split()) == {
        "models.forest.classifier",
        "models.forest.folders",
        "models.forest.reading",
        "models.onnx.network_graph",
        "models.scikit",
        "models.sharded.classifier",
        "models.train.estimator",
        "verifier.guard.classifier",
        "verifier.points.forest_leaks",
        "verifier.values.subjects.forest",
    }
