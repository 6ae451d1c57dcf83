"""The page on what a forest owes to a row can be followed, and shows what comes out."""

from __future__ import annotations

import re
import shlex
import shutil

import numpy as np
import pytest
from docs.pages import ROOT, blocks, text_of
from docs.running import different, steps

from leaveout.models.forest import DareForestClassifier
from leaveout.models.forest.folders.training import read_forest_data
from leaveout.verifier.cli import run

PAGE = "docs/forest-rows.md"
PATIENTS = ROOT / "examples" / "breast_cancer" / "patients.csv"


def test_the_page_can_be_followed(tmp_path, monkeypatch, capsys):
    shutil.copy(PATIENTS, tmp_path)
    monkeypatch.chdir(tmp_path)
    shown = 0
    for block in blocks(PAGE):
        if block.kind != "console":
            continue
        for command, expected in steps(block.text):
            program, *words = shlex.split(command)
            assert program == "leaveout"
            assert run(words) == 0, command
            told = capsys.readouterr()
            if expected:
                shown += 1
                assert different(expected, told.err + told.out) is None, f"{block}: {command}"
    assert shown > 4
    noised, patients = re.search(r"Of (\d+) answers (\d+) rest", text_of(PAGE)).group(2, 1)
    assert int(patients) == len(PATIENTS.read_text().splitlines()) - 1
    assert f"noised inputs  {noised}" in text_of(PAGE)


def test_a_deep_forest_says_near_a_row_what_that_row_says():
    """What the page says of deep trees: all of them answer as one patient's record does."""
    data = read_forest_data(PATIENTS, "diagnosis")
    deep = DareForestClassifier(50, max_depth=10, random_state=0).fit(data.X, data.y)
    row = next(
        row
        for row in range(len(data.X))
        if deep.predict_proba(data.X[[row]]).max() == 1
        and deep.unlearn([row]).predict(data.X[[row]]) != data.y[row]
    )
    assert deep.predict(data.X[[row]]) == data.y[row]
    shallow = DareForestClassifier(50, max_depth=3, random_state=0).fit(data.X, data.y)
    assert shallow.predict_proba(data.X[[row]]).max() < 1


def test_the_table_is_of_forests_that_the_script_looks_at():
    import forest_rows

    shown = re.findall(r"^\| (\d+) \| (\d+) \| ([\d.]+) \| [\d.]+%", text_of(PAGE), re.MULTILINE)
    assert len(shown) > 5
    assert {tuple(map(float, each)) for each in shown} <= set(forest_rows.FORESTS)


@pytest.mark.parametrize(("trees", "depth", "share"), [(50, 1, 1), (50, 10, 0.1)])
def test_a_line_of_the_table_is_what_the_script_prints(trees, depth, share):
    import forest_rows

    found = forest_rows.look(PATIENTS, "diagnosis", trees, depth, share, 60)
    start = f"| {trees} | {depth} | {share} |"
    line = next(each for each in text_of(PAGE).splitlines() if each.startswith(start))[len(start) :]
    accuracy, *bounds, above, changed = (cell.strip() for cell in line.strip("|").split("|"))
    assert accuracy == f"{found.report.test_accuracy:.2%}"
    assert np.allclose([float(bound) for bound in bounds], [b for _, b in found.bounds], atol=0.006)
    assert above == f"{found.above} of {found.report.rows}"
    assert changed == f"{found.changed}"
