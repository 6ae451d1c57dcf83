"""Scores that other programs saved by torch become ballots by the lines that the page shows."""

from __future__ import annotations

import pickle
import re
from pathlib import Path

import numpy as np
import pytest

from leaveout.errors import BallotError
from leaveout.kernel.schemes import run_off_answers
from leaveout.models.votes import read_ballots

torch = pytest.importorskip("torch")

PAGE = Path(__file__).parents[2] / "docs" / "poisoning.md"
POINTS, MEMBERS, LABELS = 30, 7, 4


def converted(folder, monkeypatch, saved):
    """Save, run the lines of the page, and read what they wrote."""
    (lines,) = (
        block
        for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)
        if "torch.load" in block
    )
    torch.save(saved, folder / "evaluation.pth")
    monkeypatch.chdir(folder)
    exec(compile(lines, str(PAGE), "exec", dont_inherit=True), {"__name__": "page"})
    return read_ballots(folder / "ballots.npz")


def drawn(kind):
    """Draw scores, many of which tie, and true labels."""
    rng = np.random.default_rng(0)
    scores = rng.integers(-3, 3, (POINTS, MEMBERS, LABELS)).astype(np.float64)
    return torch.from_numpy(scores).to(kind), torch.from_numpy(rng.integers(0, LABELS, POINTS))


@pytest.mark.parametrize("kind", [torch.float16, torch.float32, torch.float64])
@pytest.mark.parametrize("labels", [torch.int64, torch.uint8, torch.float32])
def test_votes_are_the_highest_scores_the_smaller_label_on_a_tie(
    tmp_path, monkeypatch, kind, labels
):
    scores, truth = drawn(kind)
    # As some programs leave them: part of a graph, and another order in memory.
    scores = scores.transpose(0, 1).contiguous().transpose(0, 1).requires_grad_()
    read = converted(tmp_path, monkeypatch, {"scores": scores, "labels": truth.to(labels)})
    for point in range(POINTS):
        for part in range(MEMBERS):
            row = scores[point, part].tolist()
            assert read.votes[point, part] == row.index(max(row))
    assert read.truth.tolist() == truth.tolist()
    assert read.labels == LABELS
    held = read.scores_of("a run-off")
    assert np.array_equal(held, scores.detach().double().numpy())
    assert len(run_off_answers(read.votes, held, LABELS)) == POINTS


def test_scores_that_are_no_numbers_leave_ballots_without_run_offs(tmp_path, monkeypatch, snapshot):
    scores, truth = drawn(torch.float32)
    scores[4, 2] = torch.nan
    read = converted(tmp_path, monkeypatch, {"scores": scores, "labels": truth})
    assert (read.points, read.parts) == (POINTS, MEMBERS)
    with pytest.raises(BallotError) as told:
        read.scores_of("a run-off")
    assert str(told.value) == snapshot


class Code:
    """What runs a program when it is unpickled."""

    def __reduce__(self):
        return Path.touch, (Path("was_run"),)


def test_a_file_that_holds_code_is_not_run(tmp_path, monkeypatch):
    with pytest.raises(pickle.UnpicklingError):
        converted(tmp_path, monkeypatch, {"scores": Code(), "labels": torch.zeros(1)})
    assert not (tmp_path / "was_run").exists()
