"""Rows, labels, columns and units by name, wherever a leak or counter-example is shown."""

from __future__ import annotations

import re

import pytest

import leaveout
from leaveout.verifier.cli.app import run
from leaveout.verifier.page import Page, document, load
from leaveout.verifier.report import write_json

from support.clinic import NAMES, write_clinic
from support.snapshots import passages


@pytest.fixture(scope="module")
def shaky(tmp_path_factory):
    """Return a folder with a family that leaks, and its results."""
    folder = tmp_path_factory.mktemp("shaky")
    spec = write_clinic(folder, spread=0.4)
    with spec.open("a") as file:
        file.write(
            "\nguarantee same: forall x in X, M in F: score(M, x, 0) - score(N, x, 0) <= 0.001\n"
        )
    write_json(leaveout.verify(spec), folder / "r.json")
    return folder


def leak(folder):
    (run,) = load([str(folder / "r.json")])
    return next(each for each in run.report.results if each.witness is not None)


def test_a_witness_is_told_by_the_names_of_the_data(shaky, snapshot):
    result = leak(shaky)
    witness = result.witness
    name = NAMES[witness.removed]
    assert witness.removed_id == name
    assert witness.words == snapshot
    assert f"{name}" in witness.words
    assert f"{witness.removed}" in witness.words
    assert f"from {result.label_name!r}" in witness.words or "becomes a tie" in witness.words
    assert "age = " in witness.words and " years" in witness.words and "ward = " in witness.words
    assert result.label_text == f"{result.label} ({('no', 'yes')[result.label]})"


def test_the_table_names_labels(shaky, capsys, snapshot):
    run(["verify", str(shaky / "idp.spec")])
    out = capsys.readouterr().out
    assert "0 (no)" in out and "1 (yes)" in out
    assert out == snapshot


def test_a_counter_example_is_told_by_the_names_of_the_data(shaky, snapshot):
    (run,) = load([str(shaky / "r.json")])
    example = next(each.example for each in run.report.results if each.example is not None)
    row = example.removed["M"]
    assert example.removed_ids == {"M": NAMES[row]}
    assert example.words == snapshot
    assert f"{NAMES[row]}" in example.words
    assert f"{row}" in example.words
    assert "(no) with scores" in example.words or "(yes) with scores" in example.words


def test_the_page_names_features_and_labels_of_a_counter_example(shaky):
    text = document(Page(load([str(shaky / "r.json")])))
    own = text[text.index('id="statement-1-2"') :].partition("</article>")[0]
    assert "0 (age)</th>" in own and "3 (ward=c)</th>" in own
    assert re.search(r"<td[^>]*>label \d \((no|yes)\)</td>", own)
    assert "0 (no)" in text[text.index('id="groups"') :]


def test_the_page_has_the_names_too(shaky, snapshot):
    text = document(Page(load([str(shaky / "r.json")])))
    witness = leak(shaky).witness
    name = f"{NAMES[witness.removed]} (row {witness.removed})"
    assert passages(text, name) == snapshot
    assert " years</td>" in text
    assert "0 (no)" in text and "1 (yes)" in text
    tree = next(each for run in load([str(shaky / "r.json")]) for each in run.report.results)
    for groups in tree.groups:
        for group in groups.groups:
            assert group.ids == tuple(NAMES[row] for row in group.rows)
