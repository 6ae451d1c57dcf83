"""The example plug-in installs beside leaveout and passes the kit, leaveout untouched."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from support import children
from support.snapshots import passages

EXAMPLE = Path(__file__).parents[2] / "examples" / "plugin_solver"

CODE = """
from leaveout.solvers import SolverProcess, describe, find_solver
from leaveout.solvers.conformance import CASES, check


solver = find_solver("scipy")
failed = [result for result in check(solver) if not result.passed]
assert not failed, failed
with SolverProcess("scipy") as process:
    assert process.solve(CASES[0].problem).status == "optimal"
print([row.distribution for row in describe() if row.name == "scipy"])
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Path:
    if children.run([sys.executable, "-m", "pip", "--version"]).returncode:
        pytest.skip("pip, which installs the plug-in, is not here")
    # pip leaves build files in the source folder.
    source = tmp_path_factory.mktemp("source") / "plugin_solver"
    shutil.copytree(EXAMPLE, source, ignore=shutil.ignore_patterns("build", "*.egg-info"))
    target = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-build-isolation"]
    command += ["--no-deps", "--no-index", "--target", str(target), str(source)]
    children.run(command, check=True)
    return target


def test_an_installed_plugin_is_found_and_conforms(installed):
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    done = children.run([sys.executable, "-c", CODE], env=environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "['leaveout-scipy-milp']"


def test_a_plugin_switched_off_is_unknown(installed, snapshot):
    environment = {**os.environ, "PYTHONPATH": str(installed), "LEAVEOUT_PLUGINS": "off"}
    code = "from leaveout.solvers import find_solver; find_solver('scipy')"
    done = children.run([sys.executable, "-c", code], env=environment)
    assert passages(done.stderr, "'scipy'") == snapshot
