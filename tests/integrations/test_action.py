"""The GitHub action: its file is one, and its shell lines do what they say of whatever is given."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import typer
import yaml

from leaveout.verifier.cli.app import app

FOLDER = Path(__file__).parents[2] / "examples" / "github_action"
ACTION = yaml.safe_load((FOLDER / "action.yml").read_text())
STEPS = ACTION["runs"]["steps"]
(VERIFY,) = [step for step in STEPS if step.get("id") == "verify"]
OPTIONS = {
    name for each in typer.main.get_command(app).commands["verify"].params for name in each.opts
}

RECORDS = """#!/bin/sh
printf '%s\\n' "$@" > "$RECORDED"
echo 'bound  all  verdict'
exit "$WILL_EXIT"
"""
LETS = """\
let N = network("{0}/full.onnx")
let F = family("{0}/family.npz")
guarantee quiet: forall x in box(0, 1), M in F: confidence(N, x) > {1} => label(M, x) == label(N, x)
"""


def test_the_action_has_what_github_asks_for():
    assert ACTION["runs"]["using"] == "composite"
    assert ACTION["name"] and ACTION["description"]
    for step in STEPS:
        assert ("run" in step) != ("uses" in step)
        if "run" in step:
            assert step["shell"] == "bash"
            # What users give is never text of a script.
            assert "${{" not in step["run"]
    said = (FOLDER / "README.md").read_text()
    assert all(f"| `{name}` |" in said for name in ACTION["inputs"])
    used = {
        word for step in STEPS for word in str(step.get("env", "")).split() if "inputs." in word
    }
    assert {
        name for name in ACTION["inputs"] if any(f"inputs.{name}" in word for word in used)
    } == (set(ACTION["inputs"]) - {"python-version"})
    workflow = yaml.safe_load((FOLDER / "workflow.yml").read_text())
    (job,) = workflow["jobs"].values()
    (step,) = [each for each in job["steps"] if "leaveout" in each["uses"]]
    assert set(step["with"]) <= set(ACTION["inputs"])
    assert workflow["permissions"]["security-events"] == "write"


def run_step(folder, program, **given):
    """Run the lines of the step in bash as a runner does; return the process and its files."""
    folder.mkdir(exist_ok=True)
    (folder / "bin").mkdir()
    script = folder / "bin" / "leaveout"
    script.write_text(program)
    script.chmod(0o755)
    files = {name: folder / name for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY", "RECORDED")}
    environment = {
        **os.environ,
        **{name: str(path) for name, path in files.items()},
        "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
        "SPEC": "a.spec",
        "SECONDS_GIVEN": "",
        "DATA": "",
        "EVIDENCE": "proof",
        **given,
    }
    bash = [shutil.which("bash"), "--noprofile", "--norc", "-eo", "pipefail", "-c", VERIFY["run"]]
    done = subprocess.run(bash, cwd=folder, env=environment, capture_output=True, text=True)
    return done, {name: path.read_text() for name, path in files.items() if path.exists()}


@pytest.mark.parametrize("status", [0, 1, 2, 3])
def test_the_status_is_handed_on_and_no_witness_is_in_the_log(tmp_path, status, snapshot):
    done, files = run_step(tmp_path, RECORDS, WILL_EXIT=str(status))
    assert done.returncode == 0, done.stderr
    assert files["GITHUB_OUTPUT"] == f"status={status}\n"
    assert files["GITHUB_STEP_SUMMARY"].startswith("### leaveout: a.spec\n")
    assert files["GITHUB_STEP_SUMMARY"] == snapshot
    assert done.stdout == f"leaveout ended with status {status}\n"
    assert files["RECORDED"].split() == ["verify", "a.spec", "--evidence", "proof"]


def test_what_is_given_reaches_the_program_as_it_is(tmp_path):
    spec, data = "my models/$(touch hurt) `touch hurt`.spec", 'a "b".csv'
    done, files = run_step(
        tmp_path, RECORDS, WILL_EXIT="0", SPEC=spec, DATA=data, SECONDS_GIVEN="60"
    )
    assert done.returncode == 0
    assert files["RECORDED"].splitlines() == [
        "verify", spec, "--time", "60", "--data", data, "--evidence", "proof",
    ]  # fmt: skip
    assert not (tmp_path / "hurt").exists()


@pytest.mark.parametrize(("bound", "status"), [(0.8, 0), (0.1, 1)])
def test_with_the_program_itself(tmp_path, bound, status):
    family = FOLDER.parent / "breast_cancer" / "family"
    (tmp_path / "a.spec").write_text(LETS.format(family, bound))
    program = f'#!/bin/sh\nexec {sys.executable} -m leaveout "$@"\n'
    done, files = run_step(tmp_path, program)
    assert done.returncode == 0, done.stderr
    assert files["GITHUB_OUTPUT"] == f"status={status}\n"
    sarif = json.loads((tmp_path / "proof" / "result.sarif").read_text())
    assert len(sarif["runs"][0]["results"]) == status
    summary = (tmp_path / "proof" / "summary.md").read_text()
    assert files["GITHUB_STEP_SUMMARY"] == f"### leaveout: a.spec\n\n{summary}"


def test_every_option_that_the_step_uses_is_one_of_the_program():
    used = {word for word in VERIFY["run"].replace("(", " ").split() if word.startswith("--")}
    assert used == {"--time", "--data", "--evidence"}
    assert used <= OPTIONS
