"""The packages under ``examples`` that bring leaveout to other programs install and pass."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from pathlib import Path

import pytest

from leaveout.kept_code import cache_folder

from support import children

EXAMPLES = Path(__file__).parents[2] / "examples"


def installed(name, folder):
    """Install a package into a folder, where its entry points are found; return the folder."""
    if children.run([sys.executable, "-m", "pip", "--version"]).returncode:
        pytest.skip("pip, which installs the package, is not here")
    # pip leaves build files in the source folder.
    source, target = folder / name, folder / "site"
    shutil.copytree(EXAMPLES / name, source, ignore=shutil.ignore_patterns("build", "*.egg-info"))
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-build-isolation"]
    command += ["--no-deps", "--no-index", "--target", str(target), str(source)]
    children.run(command, check=True)
    return target


def passes(name, folder):
    before = os.environ.get("PYTHONPATH", "")
    path = os.pathsep.join(filter(None, [str(installed(name, folder)), before]))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    command += ["--import-mode=importlib", str(EXAMPLES / name / "tests")]
    # The plugin's tests have a home of their own, where nothing is compiled.
    compiled = {"NUMBA_CACHE_DIR": str(cache_folder().parent), "MLFLOW_DISABLE_TELEMETRY": "true"}
    environment = {**os.environ, "PYTHONPATH": path, **compiled}
    done = children.run(command, env=environment, cwd=folder)
    assert done.returncode == 0, done.stdout


def test_the_plugin_of_pytest(tmp_path):
    passes("pytest_plugin", tmp_path)


@pytest.mark.skipif(importlib.util.find_spec("mlflow") is None, reason="MLflow is not installed")
def test_the_evaluator_of_mlflow(tmp_path):
    passes("mlflow_evaluator", tmp_path)


@pytest.mark.skipif(importlib.util.find_spec("sacroml") is None, reason="no SACRO-ML here")
def test_the_attack_for_sacro_ml(tmp_path):
    passes("sacro_ml", tmp_path)
