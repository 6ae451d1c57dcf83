"""Trees from a fifth of the rows, a convex head on the others: every claim is of the others."""

from __future__ import annotations

import lightgbm
import numpy as np
import pytest

from leaveout.errors import LinearError
from leaveout.kernel.trees import first_leaves
from leaveout.models.linear.family import bound_members, centre
from leaveout.models.linear.folder import delete_rows
from leaveout.models.linear.training import train_linear
from leaveout.models.reading import Reading
from leaveout.models.trees.reading import trees_of
from leaveout.verifier.cli import run
from leaveout.verifier.guard.linear import LinearSubject

from support.linear_tables import opened, table, trained, write


def stable(tmp_path, rows, name="clinic", **options):
    return trained(tmp_path, rows, name, trees=6, penalty=3.0, **options)


def test_columns_are_leaves_and_score_of_trees_that_other_rows_chose(tmp_path):
    rows = table(5, 300)
    folder = opened(stable(tmp_path, rows))
    assert folder.model.names.tolist() == [at for at in range(300) if at % 5]
    content = (tmp_path / "clinic" / "features.trees").read_bytes()
    trees = trees_of(content, "t")
    assert trees.trees == 6
    plain = opened(trained(tmp_path, rows, "plain")).model.X
    booster = lightgbm.Booster(model_str=content.decode())
    kept = plain[folder.model.names]
    leaves, X = booster.predict(kept, pred_leaf=True), folder.model.X
    first = first_leaves(trees.nodes.roots, trees.nodes.feature)
    assert X.shape == (240, first[-1] + 1) and np.all(X[:, :-1].sum(axis=1) == 6)
    for k in range(6):
        own = X[:, first[k] : first[k + 1]]
        # The same rows share a leaf, whatever its number.
        same = leaves[:, k, None] == leaves[None, :, k]
        assert np.array_equal(same, own @ own.T == 1)
    assert np.allclose(X[:, -1], booster.predict(kept, raw_score=True), atol=1e-12)


def test_absence_of_a_head_row_changes_no_tree_and_its_member_is_the_refit(tmp_path):
    rows = table(6, 150)
    family = bound_members(opened(stable(tmp_path, rows)).model)
    part, held = family.parts[0], family.model.names.tolist()
    for row in (1, 42, 149):
        # As the last one, so that no other row gets another number.
        moved = [dict(each) for each in rows]
        moved[row]["ill"] = "y" if rows[row]["ill"] == "n" else "n"
        changed = opened(stable(tmp_path, moved, f"m{row}"))
        assert changed.network == opened(tmp_path / "clinic").network
        delete_rows(tmp_path / f"m{row}", [f"P-{row}"])
        without = opened(tmp_path / f"m{row}").model.coefficients
        unit = held.index(row)
        apart = np.linalg.solve(part.at.R, (without - centre(family, unit)).ravel())
        assert np.linalg.norm(apart) <= part.members.radius[unit] + 1e-9


def test_the_guard_knows_every_head_row(tmp_path):
    rows = table(7, 200)
    folder = stable(tmp_path, rows)
    guard, members = LinearSubject(folder), []
    model = opened(folder).model
    for row in model.names.tolist():
        copy = f"c{row}"
        trained_copy = tmp_path / copy
        trained_copy.mkdir()
        for file in folder.iterdir():
            (trained_copy / file.name).write_bytes(file.read_bytes())
        delete_rows(trained_copy, [f"P-{row}"])
        members.append(opened(trained_copy).model)
    X = guard.encode([{k: row[k] for k in ("age", "dose", "ward")} for row in rows[:60]])
    own = model.answers(X)
    changed = np.any([each.answers(X) != own for each in members], axis=0)
    found = np.array([each.leak for each in guard.leaks.find_all(X)])
    assert changed.any() and not changed.all()
    assert np.all(found >= changed) and (found != changed).mean() < 0.2


def test_groups_choose_trees_whole(tmp_path):
    rows = table(8, 200)
    for at, row in enumerate(rows):
        row["house"] = f"h{at // 3}"
    kept = [{k: v for k, v in row.items() if k not in ("cost", "counts")} for row in rows]
    path = write(tmp_path, kept)
    train_linear(
        path, tmp_path / "g", label="ill", reading=Reading(group="house", drop=("person",)),
        trees=4, penalty=3.0, test_share=0,
    )  # fmt: skip
    names = opened(tmp_path / "g").model.names
    assert names.tolist() == [at for at in range(200) if (at // 3 * 3) % 5]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"trees": -1}, "at least 1"),
        ({"trees": 3, "bins": 4}, "--bins"),
        ({"trees": 3, "features": "t.txt"}, "--features"),
        ({"trees": 3, "kind": "ridge", "label": "cost"}, "--kind"),
    ],
)
def test_what_trees_do_not_go_with_is_refused(tmp_path, options, told):
    with pytest.raises(LinearError, match=told):
        trained(tmp_path, table(1, 60), **options)


def test_a_label_without_a_row_that_chooses_is_named(tmp_path):
    rows = table(2, 40)
    for at, row in enumerate(rows):
        row["ill"] = "ny"[at % 5 == 1]
    with pytest.raises(LinearError, match="no row with the label 'y' chooses the trees"):
        stable(tmp_path, rows)


def test_trees_of_a_file_and_a_damaged_one(tmp_path):
    rows = table(9, 200)
    first = stable(tmp_path, rows)
    (tmp_path / "t.txt").write_bytes((first / "features.trees").read_bytes())
    again = opened(trained(tmp_path, rows, "again", features=tmp_path / "t.txt", penalty=3.0))
    assert len(again.model.X) == 200
    assert np.array_equal(again.model.X[again.model.names % 5 > 0], opened(first).model.X)
    (first / "features.trees").write_bytes(b"tree\nother")
    with pytest.raises(LinearError, match="not the trees"):
        opened(first)


def test_the_command(tmp_path, capsys):
    path = write(tmp_path, [{k: row[k] for k in ("age", "dose", "ill")} for row in table(3, 120)])
    out = tmp_path / "m"
    words = ["linear", "train", str(path), "--label", "ill", "-o", str(out), "--trees", "5"]
    assert run([*words, "--penalty", "10", "--test-share", "0.2"]) == 0
    assert "96" in capsys.readouterr().out
    assert run(["forget", str(out), "7", "--check"]) == 0
    assert "training on the remaining rows agrees" in capsys.readouterr().out
    assert run(["forget", str(out), "5"]) != 0
