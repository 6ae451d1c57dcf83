"""What is said of a forest's rows, held against every deletion made, in every cell of inputs."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leaveout import verify
from leaveout.models.forest import DareForestClassifier
from leaveout.models.forest.scored import ScoredForest
from leaveout.verifier.cli.app import run
from leaveout.verifier.report import Report
from leaveout.verifier.row_records import RowsError

from support.forest_families import member_by_deleting

_SPEC = (
    'let T = forest("t.npz")\nlet F = leave_one_out(T)\nlet X = box(0, 3)\n'
    "find bound: least b per label such that\n"
    "    forall x in X, M in F: confidence(T, x) > b => label(M, x) == label(T, x)\n"
)


def _case(folder, seed, labels=2):
    """Return a small forest over whole numbers from 0 to 3, and inputs in each of its cells."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 4, (14, 2)).astype(float)
    y = np.concatenate((np.arange(labels), rng.integers(0, labels, 14 - labels)))
    forest = DareForestClassifier(3, max_depth=3, random_state=seed % 97).fit(X, y)
    forest = forest.unlearn([int(rng.integers(14))])
    forest.save(folder / "t.npz")
    (folder / "a.spec").write_text(_SPEC)
    # Thresholds lie between whole numbers, so the quarters meet every cell.
    grid = np.stack(np.meshgrid(*[np.arange(-1, 4.01, 0.25)] * 2), axis=-1).reshape(-1, 2)
    return forest, np.ascontiguousarray(grid)


def _own(forest, x):
    scores = ScoredForest.of(forest.ensemble()).probabilities(x)
    labels = scores.argmax(axis=1)
    rest = scores.copy()
    rest[np.arange(len(x)), labels] = -np.inf
    return labels, scores.max(axis=1) - rest.max(axis=1)


@settings(max_examples=10)
@given(seed=st.integers(0, 2**20), labels=st.integers(2, 3))
def test_bounds_leaks_and_changes_are_those_of_deletions(tmp_path_factory, seed, labels):
    folder = tmp_path_factory.mktemp("forest")
    forest, x = _case(folder, seed, labels)
    report = verify(folder / "a.spec")
    own, confidences = _own(forest, x)
    inside = ((x >= 0) & (x <= 3)).all(axis=1)
    found = {each.row: each for each in report.rows(x)}
    assert sorted(found) == forest.rows_.tolist()
    for row in forest.rows_.tolist():
        answers = member_by_deleting(forest, row).probabilities(x).argmax(axis=1)
        changed = answers != own
        assert found[row].points.changed == tuple(np.flatnonzero(changed).tolist())
        for each in found[row].labels:
            here = changed & inside & (own == each.label)
            # Even an answer at a tie may change; -1 where none does.
            worst = confidences[here].max(initial=-1.0)
            assert worst <= each.bound
            # The points meet every cell, so no leak is worse than theirs.
            leak = -1.0 if each.leak is None else each.leak
            assert leak == pytest.approx(worst, abs=1e-12)
            if each.leak is not None:
                at = np.asarray(each.x)[None]
                label, confidence = _own(forest, at)
                assert (label[0], confidence[0]) == (each.label, each.leak)
                other = member_by_deleting(forest, row).probabilities(at).argmax()
                assert other == each.member_label != each.label
        bounds = {each.label: each.bound for each in found[row].labels}
        above = np.array([c > bounds[k] for c, k in zip(confidences, own, strict=True)])
        assert found[row].points.not_excluded == (~(inside & above)).sum()
    for result in report.results:
        worst = [
            each.bound for row in report.rows() for each in row.labels if each.label == result.label
        ]
        assert max(worst) <= result.upper
        assert max(0.0, *worst) == pytest.approx(result.upper, rel=2e-3)


def test_files_tables_and_other_forests(tmp_path, capsys, snapshot):
    forest, x = _case(tmp_path, 5)
    path = tmp_path / "r.json"
    path.write_bytes(verify(tmp_path / "a.spec").to_json())
    report = msgspec.json.decode(path.read_bytes(), type=Report)
    np.savez(tmp_path / "x.npz", X=x)
    found = report.rows(x)
    from_file = report.rows(tmp_path / "x.npz")
    changed = [each.points.changed for each in found]
    assert changed == [each.points.changed for each in from_file]
    (tmp_path / "x.csv").write_text("0,1\n" + "".join(f"{a},{b}\n" for a, b in x.tolist()))
    assert changed == [each.points.changed for each in report.rows(tmp_path / "x.csv")]
    assert run(["rows", str(path), "--data", str(tmp_path / "x.npz")]) == 0
    assert "changes" in capsys.readouterr().out
    assert run(["rows", str(path), "--time", "1"]) == 2
    assert capsys.readouterr().err == snapshot
    with pytest.raises(RowsError) as told:
        report.rows(x[:, :1])
    assert str(told.value) == snapshot
    forest.unlearn([int(forest.rows_[0])]).save(tmp_path / "t.npz")
    with pytest.raises(RowsError) as told:
        report.rows(x)
    assert str(told.value) == snapshot


def test_two_forests_have_no_rows(tmp_path, snapshot):
    forest, _ = _case(tmp_path, 5)
    forest.unlearn([int(forest.rows_[0])]).save(tmp_path / "u.npz")
    (tmp_path / "b.spec").write_text(
        'let T = forest("t.npz")\nlet U = forest("u.npz")\n'
        "guarantee same: forall x in box(0, 3): confidence(T, x) > 0.9 => "
        "label(U, x) == label(T, x)\n"
    )
    with pytest.raises(RowsError) as told:
        verify(tmp_path / "b.spec").rows()
    assert str(told.value) == snapshot
