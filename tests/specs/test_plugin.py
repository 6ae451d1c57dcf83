"""The example plug-in installs beside leaveout; a specification uses it, leaveout untouched."""

from __future__ import annotations

import json
import os
import shutil
import sys
from html import unescape
from pathlib import Path

import pytest

from support import children
from support.snapshots import passages

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "plugin_function"

CODE = """
import json, sys
from pathlib import Path
from leaveout.specs import load
from leaveout.specs import check
from leaveout.verifier.options import VerifyOptions
from leaveout.verifier.resolve_names import Resolver
from leaveout.verifier.tasks import Context
from leaveout.verifier.time_sharing import Clock
from leaveout.verifier.values.decider import Values, is_value_claim


path = Path(sys.argv[1])
checked = check(load(path))
values = Values(Context(checked, Resolver(checked, path.parent), path.parent, VerifyOptions()))
assert all(is_value_claim(statement, checked) for statement in checked.statements)
jobs = [values.load(statement) for statement in checked.statements]
results = [values.decide(job, Clock(None, 0.0, 1))[0] for job in jobs]
print(json.dumps([[r.name, r.verdict, r.lower, r.upper, r.reason] for r in results]))
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Path:
    if children.run([sys.executable, "-m", "pip", "--version"]).returncode:
        pytest.skip("pip, which installs the plug-in, is not here")
    # pip leaves build files in the source folder.
    source = tmp_path_factory.mktemp("source") / "plugin_function"
    shutil.copytree(EXAMPLE, source, ignore=shutil.ignore_patterns("build", "*.egg-info"))
    target = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-build-isolation"]
    command += ["--no-deps", "--no-index", "--target", str(target), str(source)]
    children.run(command, check=True)
    return target


def run(installed, *command, **more):
    path = os.pathsep.join([str(installed), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path.rstrip(os.pathsep), **more}
    return children.run([sys.executable, *command], env=environment)


def test_an_installed_function_is_decided(installed):
    done = run(installed, "-c", CODE, str(EXAMPLE / "weights.spec"))
    assert done.returncode == 0, done.stderr
    found = {name: rest for name, *rest in json.loads(done.stdout)}
    verdicts = {name: verdict for name, (verdict, *_) in found.items()}
    assert verdicts == {
        "dense": "proved",
        "alike": "proved",
        "gentle": "proved",
        "flat": "refuted",
        "steepness": "unknown",
    }
    _, lower, upper, reason = found["steepness"]
    assert 1 < lower < upper < 100
    assert reason.startswith("numerical: ")


def test_an_installed_function_is_listed_coloured_and_offered(installed, snapshot):
    described = run(installed, "-m", "leaveout", "functions", "sparsity")
    assert described.stdout == snapshot
    grammar = json.loads(run(installed, "-m", "leaveout", "functions", "--grammar").stdout)
    assert any("|sparsity|" in each.get("match", "") for each in grammar["patterns"])
    offered = run(installed, "-c", "from leaveout import specs; print('sparsity' in dir(specs))")
    assert offered.stdout == "True\n"


def test_a_page_says_an_installed_function_in_its_words(installed, tmp_path, snapshot):
    results, page = tmp_path / "r.json", tmp_path / "r.html"
    spec = str(EXAMPLE / "weights.spec")
    decided = run(installed, "-m", "leaveout", "verify", spec, "--json", str(results))
    assert decided.returncode == 1, decided.stderr
    shown = run(installed, "-m", "leaveout", "report", str(results), "-o", str(page))
    assert shown.returncode == 0, shown.stderr
    text = unescape(page.read_text("utf-8"))
    said = ("the share of N's parameters", "the steepest slope of N", "a network's parameters that")
    assert passages(text, *said) == snapshot


def test_its_own_tests_pass(installed):
    folder = str(EXAMPLE / "tests")
    command = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", folder, folder]
    done = run(installed, *command)
    assert done.returncode == 0, done.stdout


def test_without_the_plug_in_the_function_is_unknown(installed, snapshot):
    done = run(installed, "-c", CODE, str(EXAMPLE / "weights.spec"), LEAVEOUT_PLUGINS="off")
    assert "weights.spec:5:19: " in done.stderr
    assert passages(done.stderr, ("weights.spec", "'sparsity'")) == snapshot
