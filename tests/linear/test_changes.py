"""After any change a folder is that of the rows it holds, to a proved distance, or as it was."""

from __future__ import annotations

import hashlib
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leaveout.errors import LinearError, TrainingError
from leaveout.files import COMMIT, settle
from leaveout.kernel.receipts import salt_digest
from leaveout.models.linear.family import bound_members, centre
from leaveout.models.linear.fit import coefficients_of
from leaveout.models.linear.folder import LinearFolder, add_rows, delete_rows
from leaveout.models.reading import Reading
from leaveout.models.train.folder import REQUEST
from leaveout.models.train.receipts import RECEIPTS, SALT
from leaveout.verifier.cli import run

from support.crashes import contents, ends, holding, lost, recorded, restored
from support.depth import rounds
from support.linear_tables import opened, table, trained, write

KINDS = {"logistic": "ill", "softmax": "ill", "svm": "ill", "ridge": "cost", "gamma": "cost"}
FILES = {"linear.npz", "linear.json", "linear.spec"}


def columns_of(rows, label, more=()):
    """Return rows as a further table: what the model reads of them."""
    kept = {"person", "age", "dose", "ward", label, *more}
    return [{name: cell for name, cell in row.items() if name in kept} for row in rows]


@given(st.integers(0, 10**6), st.sampled_from(sorted(KINDS)), st.data())
@settings(max_examples=rounds(30), deadline=None)
def test_a_changed_model_is_the_minimum_of_its_rows(seed, kind, data):
    rows = table(seed, 24, 2)
    label = KINDS[kind]
    gone = data.draw(st.lists(st.integers(0, 23), min_size=1, max_size=12, unique=True))
    shape = data.draw(st.sampled_from([{}, {"bins": 3}, {"splines": 3}]))
    with tempfile.TemporaryDirectory() as name:
        folder = trained(Path(name), rows, kind=kind, label=label, weights="counts", **shape)
        first = opened(folder)
        half, kept = len(gone) // 2, [at for at in range(24) if at not in gone]
        if label == "ill" and len({rows[at]["ill"] for at in kept}) < 2:
            with pytest.raises(LinearError, match="no row with the label"):
                delete_rows(folder, [f"P-{at}" for at in gone])
            return
        for part in filter(None, (gone[:half], gone[half:])):
            done = delete_rows(folder, [f"P-{at}" for at in part], check=True)
        left = opened(folder)
        assert left.model.names.tolist() == kept
        assert set(left.columns.ids) == set(kept)
        # The encoding of the first fit, whatever rows are left.
        assert left.columns.encoding == first.columns.encoding
        assert np.array_equal(left.model.X, first.model.X[kept])
        anew = coefficients_of(left.model.problems)
        apart = np.linalg.norm(anew - left.model.coefficients)
        assert apart <= 2 * done.receipt.coefficients < 1e-6
        assert done.receipt.left == len(kept) == done.left
        again = columns_of([rows[at] for at in gone], label, ["counts"])
        added = add_rows(folder, write(Path(name), again, "again.csv"))
        whole = opened(folder)
        assert added.rows == tuple(f"P-{at}" for at in gone)
        assert whole.model.names.tolist() == [*kept, *range(24, 24 + len(gone))]
        order = [*kept, *gone]
        assert np.array_equal(whole.model.X, first.model.X[order])
        assert np.array_equal(whole.model.y, first.model.y[order])
        assert np.array_equal(whole.model.weights, first.model.weights[order])
        # To the proved distances the first model, though its rows have another order.
        apart = np.linalg.norm(whole.model.coefficients - first.model.coefficients)
        assert apart <= added.receipt.coefficients + first.receipts.last.coefficients


def test_a_deletion_gives_the_member_without_the_row(tmp_path):
    rows = table(8, 30)
    folder = trained(tmp_path, rows)
    family = bound_members(opened(folder).model)
    delete_rows(folder, ["P-7"])
    apart = (opened(folder).model.coefficients - centre(family, 7)).reshape(-1)
    (part,) = family.parts
    far = np.linalg.norm(np.linalg.solve(part.at.R, apart))
    assert far <= part.members.radius[7] + 1e-9


def test_a_stream_of_deletions_does_not_drift(tmp_path):
    folder, distances = trained(tmp_path, table(2, 80)), []
    for at in range(40):
        distances.append(delete_rows(folder, [f"P-{2 * at}"]).receipt.coefficients)
    assert max(distances) < 1e-11
    model = opened(folder).model
    assert np.linalg.norm(model.coefficients - coefficients_of(model.problems)) < 1e-11


def test_groups_leave_together(tmp_path):
    rows = table(4, 30)
    for at, row in enumerate(rows):
        row["person"] = f"P-{at // 3}"
    folder = trained(tmp_path, rows, identity=None, reading=Reading(group="person"))
    assert delete_rows(folder, ["P-2", "P-5"]).left == 24
    held = opened(folder)
    assert held.model.names.tolist() == [at for at in range(30) if at // 3 not in (2, 5)]
    assert set(held.model.groups.cells) == {f"P-{at}" for at in range(10)} - {"P-2", "P-5"}
    added = add_rows(folder, write(tmp_path, columns_of(rows[:1], "ill"), "more.csv"))
    assert added.rows == ("P-0",)
    model = opened(folder).model
    assert model.units[-1] == 0 and len(model.unit_names) == 8


NAME, DOSE = "Quirinus Zampano", "1.0318421"


def person(rows):
    return [*rows, {**rows[0], "person": NAME, "dose": DOSE}]


def test_nothing_of_a_deleted_row_is_left(tmp_path):
    rows = table(6, 20)
    folder = trained(tmp_path, person(rows))
    scaled = float(opened(folder).model.X[-1, 1])
    remains = (NAME.encode(), DOSE.encode(), np.float64(scaled).tobytes())
    assert holding(folder, remains) == {"linear.npz", "linear.json"}
    before = opened(folder).model.digest
    delete_rows(folder, [NAME])
    assert holding(folder, remains) == set()
    # Nor can the digest of the model before be told from what the folder holds.
    after = opened(folder)
    text = "".join(map(str, contents(folder).values()))
    assert before not in text
    assert salt_digest(after.receipts.salt, before) not in text
    assert hashlib.sha256(before.encode()).hexdigest() not in text


def test_receipts_follow_one_another(tmp_path, snapshot):
    folder, done = trained(tmp_path, table(3, 30)), []
    for rows in (["P-1"], ["P-4", "P-9"]):
        done.append(delete_rows(folder, rows))
    more = columns_of(table(3, 30)[4:5], "ill")
    done.append(add_rows(folder, write(tmp_path, more, "more.csv")))
    lines = opened(folder).receipts.lines
    assert [(each.receipt.action, each.receipt.rows, each.receipt.left) for each in lines] == [
        ("train", 30, 30), ("forget", 1, 29), ("forget", 2, 27), ("add", 1, 28)
    ]  # fmt: skip
    assert [each.receipt for each in done] == [each.receipt for each in lines[1:]]
    assert lines[1].receipt.removes("P-1", done[0].openings["P-1"])
    assert not lines[2].receipt.removes("P-1", done[0].openings["P-1"])
    assert len({*done[1].openings.values()}) == 2
    # An earlier file is of another model, and a folder goes on without receipts.
    text = (folder / RECEIPTS).read_bytes()
    (folder / RECEIPTS).write_bytes(text[: text.rindex(b"{")])
    for action in (lambda: opened(folder), lambda: delete_rows(folder, ["P-2"])):
        with pytest.raises(LinearError) as told:
            action()
        assert str(told.value) == snapshot
    (folder / RECEIPTS).unlink()
    with pytest.raises(LinearError, match=r"receipts.jsonl: no such file; put back"):
        opened(folder)
    (folder / SALT).unlink()
    started = delete_rows(folder, ["P-2"]).receipt
    assert (started.number, started.before, started.previous) == (1, "", "")
    (folder / SALT).unlink()
    with pytest.raises(LinearError, match=r"receipts.salt: no such file; put back"):
        opened(folder)


def test_a_scale_that_no_row_left_spans_is_named(tmp_path, capsys):
    rows = table(3, 30)
    oldest = max(range(30), key=lambda at: float(rows[at]["dose"]))
    folder = trained(tmp_path, rows)
    assert opened(folder).scales_left() == ()
    assert run(["forget", str(folder), f"P-{oldest}"]) == 0
    assert opened(folder).scales_left() == ("dose",)
    assert "note: column 'dose' keeps a scale" in capsys.readouterr().err


@pytest.mark.parametrize("rows", [["P-99"], [], ["P-1", "P-1"], [f"P-{at}" for at in range(19)]])
def test_rows_that_cannot_be_deleted_leave_the_folder_as_it_was(tmp_path, rows, snapshot):
    folder = trained(tmp_path, table(3, 20), kind="ridge", label="cost")
    before = contents(folder)
    with pytest.raises(LinearError) as told:
        delete_rows(folder, rows)
    assert str(told.value) == snapshot
    assert contents(folder) == before


@pytest.mark.parametrize(
    "change",
    [{"ill": "x"}, {"ward": "d"}, {"person": "P-1"}, {"counts": "-1"}, {"counts": "many"},
     {"age": "old"}],
)  # fmt: skip
def test_rows_that_cannot_be_added_leave_the_folder_as_it_was(tmp_path, change, snapshot):
    rows = table(3, 20)
    folder = trained(tmp_path, rows, weights="counts")
    before = contents(folder)
    new = columns_of([{**rows[0], "person": "new", **change}], "ill", ["counts"])
    with pytest.raises((LinearError, TrainingError)) as told:
        add_rows(folder, write(tmp_path, new, "more.csv"))
    assert str(told.value) == snapshot
    assert contents(folder) == before


def test_arrays_lose_rows_by_number(tmp_path, capsys, snapshot):
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "d.npz", X=rng.normal(size=(30, 3)), y=rng.integers(0, 2, 30))
    where = str(tmp_path / "m")
    assert run(["linear", "train", str(tmp_path / "d.npz"), "-o", where]) == 0
    assert run(["forget", where, "3", "29", "--check"]) == 0
    assert "training on the remaining rows agrees" in capsys.readouterr().out
    assert opened(tmp_path / "m").model.names.tolist() == [*range(3), *range(4, 29)]
    assert opened(tmp_path / "m").model.next_name == 30
    assert run(["linear", "add", where, str(tmp_path / "d.npz")]) == 2
    assert capsys.readouterr().err == snapshot


def test_a_fit_that_is_not_the_minimum_fails_the_check(tmp_path):
    folder = opened(trained(tmp_path, table(3, 20)))
    moved = replace(
        folder, model=replace(folder.model, coefficients=folder.model.coefficients + 1e-6)
    )
    assert folder.check() >= 0
    # Its own distance covers it; one that is claimed to be less would not.
    assert moved.check() >= 0
    object.__setattr__(moved, "distances", lambda: (1e-8, 1e-8))
    with pytest.raises(LinearError):
        LinearFolder.check(moved)


pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="calls are told apart by /proc")


def but_receipt(held):
    """Return what does not depend on the time and on chance."""
    return {name: text for name, text in held.items() if name in FILES}


def test_a_killed_deletion_is_finished_or_undone(tmp_path):
    folder = trained(tmp_path, person(table(6, 14)))
    before = contents(folder)
    delete_rows(folder, [NAME])
    after = but_receipt(contents(folder))
    restored(before, folder)
    told = set()
    for number in ends(before, folder, lambda: delete_rows(folder, [NAME])):
        was_decided = (folder / COMMIT).exists()
        # Any reader finishes what was decided.
        held = opened(folder)
        told.add(NAME in held.columns.ids.values())
        last = held.receipts.last
        assert last.model == salt_digest(held.receipts.salt, held.model.digest)
        assert not was_decided or NAME not in held.columns.ids.values()
        done = delete_rows(folder, [NAME])
        assert done.rows == (NAME,) and done.receipt == opened(folder).receipts.last
        assert but_receipt(contents(folder)) == after, number
        assert set(contents(folder)) == {*FILES, RECEIPTS, SALT}
    assert told == {False, True}


def test_after_a_loss_of_power_the_folder_is_of_before_or_after(tmp_path):
    folder = trained(tmp_path, person(table(6, 14)))
    before = contents(folder)
    calls = recorded(lambda: delete_rows(folder, [NAME]))
    after, told = but_receipt(contents(folder)), set()
    for number, kept in lost(before, folder, calls, np.random.default_rng(0)):
        restored(kept, folder)
        settle(folder)
        found = opened(folder)
        is_after = NAME not in found.columns.ids.values()
        told.add(is_after)
        assert but_receipt(contents(folder)) == (after if is_after else but_receipt(before)), number
        assert found.receipts.last.number == 1 + is_after
    assert told == {False, True}
    assert not (folder / REQUEST).exists() or is_after
