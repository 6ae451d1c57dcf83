"""What votes do label by label is on the terminal, on the page, and in the plain sentences."""

from __future__ import annotations

import io

import numpy as np
import pytest
from rich.console import Console

from leaveout.models.votes import Ballots, Origin, write_ballots
from leaveout.verifier.cli.output import print_parts
from leaveout.verifier.cli.result_table import result_parts
from leaveout.verifier.page import Page, document, load
from leaveout.verifier.page.markdown import markdown
from leaveout.verifier.report import write_json
from leaveout.verifier.run import verify

from support.snapshots import passages


def told(folder, claims, votes, truth, labels, width=120, **origin):
    """Return what the terminal, the page and the Markdown summary say of claims."""
    write_ballots(Ballots(votes, truth, labels, origin=Origin(**origin)), folder / "b.npz")
    text = "\n".join(f"guarantee g{at}: {claim}" for at, claim in enumerate(claims))
    (folder / "a.spec").write_text(f'let V = ballots("b.npz")\n{text}\n')
    report = verify(folder / "a.spec")
    console = Console(file=io.StringIO(), width=width)
    print_parts(result_parts(report), console)
    write_json(report, folder / "r.json")
    page = Page(load([str(folder / "r.json")]))
    return console.file.getvalue(), document(page), markdown(page)


def rare():
    """Nine in ten answered right, as a vote is that knows one label alone."""
    truth = np.array([0] * 90 + [1] * 10, np.int32)
    votes = np.zeros((100, 9), np.int32)
    votes[90:92, :7] = 1
    votes[92, :5] = 1
    return votes, truth, 2


def test_a_rare_label_is_told_everywhere(tmp_path, snapshot):
    claim = "certified_accuracy(dpa(V), edits = 2) >= 0.8"
    terminal, page, summary = told(
        tmp_path, [claim], *rare(), label_names=("no", "yes"), undefended_right=97
    )
    rows = [line.split() for line in terminal.splitlines()]
    assert ["0", "(no)", "90", "100", "%", "100", "%"] in rows
    assert ["1", "(yes)", "10", "30", "%", "20", "%"] in rows
    assert passages(terminal, "100") == snapshot
    assert "warning" not in terminal
    for text in (page.replace("\u00a0", " "), summary):
        assert passages(text, "‘yes’") == snapshot
    assert passages(page, "<h2>", "<h3>", "<caption>") == snapshot


def test_what_is_no_better_than_one_answer_is_warned_of(tmp_path, snapshot):
    claims = [f"certified_accuracy(dpa(V), edits = {edits}) >= 0.5" for edits in (4, 0)]
    terminal, page, summary = told(tmp_path, claims, *rare())
    assert terminal.count("warning: ") == 1
    # The folder's own number may be 90.
    terminal, summary = (text.replace(str(tmp_path), "TMP") for text in (terminal, summary))
    assert passages(terminal, "90") == snapshot
    assert passages(page, "g0") == snapshot
    assert passages(summary, "90") == snapshot


@pytest.mark.parametrize(("worst", "table"), [(0, True), (9, False)])
def test_of_many_labels_the_worst_are_told(tmp_path, worst, table, snapshot):
    labels, each = 12, 10
    truth = np.repeat(np.arange(labels), each).astype(np.int32)
    votes = np.repeat(truth[:, None], 5, axis=1)
    votes[worst + 1 : each] = 1
    terminal, page, _ = told(
        tmp_path, ["certified_accuracy(dpa(V), edits = 1) >= 0"], votes, truth, labels
    )
    if table:
        assert passages(terminal, "7") == snapshot
    else:
        assert terminal == snapshot
    assert passages(page, "2") == snapshot


def test_what_is_claimed_of_one_label_or_one_answer_is_said_in_words(tmp_path, snapshot):
    claims = [
        'certified_accuracy(dpa(V), edits = 2, label = "yes") >= 0.1',
        "collective_accuracy(dpa(V), edits = 2, label = 1) >= 0.1",
        'median_radius(dpa(V), label = "no") >= 1',
        "targeted_robustness(dpa(V), to = 1, edits = 2, label = 0) >= 0.9",
        'forall p in test_points(V): radius(dpa(V), p, to = "yes") >= -1',
    ]
    _, page, summary = told(tmp_path, claims, *rare(), label_names=("no", "yes"))
    assert passages(summary, "‘yes’", "‘no’") == snapshot
    assert passages(page, '"yes"', "dpa(V)") == snapshot


def test_a_long_name_leaves_room_for_its_figures(tmp_path):
    claims = [f"certified_accuracy(dpa(V), edits = {edits}) >= 0.8" for edits in (1, 2, 3, 4)]
    long = "no, and " * 12
    terminal, _, _ = told(tmp_path, claims, *rare(), width=80, label_names=(long, "yes"))
    rows = [line.split() for line in terminal.splitlines()]
    assert ["1", "(yes)", "10", "30", "%", *("20", "%") * 2, *("0", "%") * 2] in rows
    assert any(row[:2] == ["0", "(no,"] and row[-2:] == ["100", "%"] for row in rows)
