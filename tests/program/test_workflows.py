"""What workflows and forms name is here: targets, scripts, files, extras; actions are pinned."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
import yaml

from leaveout.version import VERSION

ROOT = Path(__file__).parents[2]
FORGE = ROOT / ".github"
WORKFLOWS = sorted((FORGE / "workflows").glob("*.yml"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
MAKEFILE = (ROOT / "Makefile").read_text()


def read(path):
    return yaml.safe_load(path.read_text())


def steps(path):
    return [step for job in read(path)["jobs"].values() for step in job["steps"]]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_what_a_workflow_runs_exists(path):
    lines = [step["run"] for step in steps(path) if "run" in step]
    assert lines
    for line in lines:
        for target in re.findall(r"\bmake ([a-z]+)", line):
            assert re.search(rf"^{target}:", MAKEFILE, re.M), line
        for name in re.findall(r"(?:\.ci/[\w./]+|\S+\.txt)", line):
            assert (ROOT / name).is_file(), line
        for variable in re.findall(r"\b([A-Z]+)=", line):
            assert re.search(rf"^{variable} \?=", MAKEFILE, re.M), line


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_job_may_only_read_unless_it_says_more_and_its_actions_are_pinned(path):
    assert read(path)["permissions"] == {"contents": "read"}
    for step in steps(path):
        if "uses" in step:
            assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", step["uses"])
    text = path.read_text()
    assert len(re.findall("uses:", text)) == len(
        re.findall(r"@[0-9a-f]{40} # v[\d.]+$", text, re.M)
    )


def test_every_python_that_is_promised_is_tested():
    tested = read(FORGE / "workflows" / "tests.yml")["jobs"]
    named = {
        each.rpartition(" ")[2]
        for each in PROJECT["classifiers"]
        if re.fullmatch(r"Programming Language :: Python :: 3\.\d+", each)
    }
    for job in tested.values():
        assert set(job["strategy"]["matrix"]["python"]) == named
    assert PROJECT["requires-python"] == f">={min(named, key=lambda name: int(name[2:]))}"


def test_all_that_make_installs_are_extras():
    extras = re.search(r"^EXTRAS := (\S+)$", MAKEFILE, re.M).group(1).split(",")
    installed = {
        name for group in re.findall(r"-e '\.\[([a-z,]+)\]'", MAKEFILE) for name in group.split(",")
    }
    assert {*extras, *installed} <= set(PROJECT["optional-dependencies"])


def test_a_form_asks_for_what_a_mistake_is_found_with():
    asked = {each["id"]: each for each in read(FORGE / "ISSUE_TEMPLATE" / "wrong.yml")["body"]}
    assert {"version", "command", "spec", "seen", "expected", "files"} == set(asked)
    for name in ("version", "command", "seen"):
        assert asked[name]["validations"] == {"required": True}


def test_hashed_versions_are_the_pinned_ones():
    pins = dict(
        line.lower().replace("_", "-").split("==")
        for line in (ROOT / "constraints.txt").read_text().splitlines()
        if "==" in line
    )
    hashed = (ROOT / "constraints-hashed.txt").read_text()
    found = dict(re.findall(r"^([\w.-]+)==(\S+) \\$", hashed, re.M))
    assert {name: pins.get(name) for name in found} == found
    needed = [re.match(r"[\w-]+", each).group() for each in PROJECT["dependencies"]]
    assert set(needed) <= set(found)
    assert "://" not in hashed


def test_one_version_is_named_everywhere():
    citation = read(ROOT / "CITATION.cff")
    checker = tomllib.loads((ROOT / "kernel" / "pyproject.toml").read_text())["project"]
    assert {citation["version"], checker["version"], VERSION} == {PROJECT["version"]}
    assert citation["license"] == checker["license"] == PROJECT["license"]
    assert (ROOT / "kernel" / "LICENSE").read_text() == (ROOT / "LICENSE").read_text()
