"""A forest's folder is of before a change or of after it, wherever the program is ended."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

from leaveout.errors import ForestError
from leaveout.files import COMMIT, settle
from leaveout.models.forest import DareForestClassifier
from leaveout.models.forest.folders import ForestFolder, add_rows, delete_rows, train_forest
from leaveout.models.train.folder import REQUEST
from leaveout.verifier.cli import run
from leaveout.verifier.guard import Guard

from support.crashes import contents, ended_at, ends, holding, lost, recorded, restored
from support.depth import IS_DEEP

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="calls are told apart by /proc")

NAME, OLDEST = "Quirinus Zampano", "97.318421"
TABLE = "patient,age,dose,ill\n" + "".join(
    f"P-{i},{20 + 7 * i % 50},{i * 37 % 100 / 100},{'ny'[i * 37 % 100 > 50]}\n" for i in range(14)
)
PERSON = f"{NAME},{OLDEST},0.5,y\n"
FOREST = DareForestClassifier(2, max_depth=3, random_state=3)
REMAINS = (NAME.encode(), OLDEST.encode(), np.float64(float(OLDEST)).tobytes())
FILES = {"forest.npz", "forest.json", "forest.spec"}
MEMORY = {"answers.sqlite", "answers.sqlite-wal", "answers.sqlite-shm"}


def trained(folder, text):
    table = folder.with_suffix(".csv")
    table.write_text(text)
    train_forest(table, folder, label="ill", identity="patient", forest=FOREST, test_share=0)
    return contents(folder)


def but_receipts(held):
    """Return what does not depend on the time and on chance."""
    return {name: text for name, text in held.items() if not name.startswith("receipts.")}


def remains(folder):
    """Return the files that say anything of the person."""
    return holding(folder, REMAINS)


def guarded_and_killed(folder):
    """Have a guard answer about the person, and end its process with its log of writes open."""
    child = os.fork()
    if not child:
        guard = Guard.load(folder, epsilon=1.0)
        guard.labels(ForestFolder.read(folder).forest.ensemble().X)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0


@pytest.fixture
def memory(tmp_path):
    """A folder in memory, where there is one: it is synced thousands of times."""
    shared = Path("/dev/shm")
    with tempfile.TemporaryDirectory(
        dir=shared if os.access(shared, os.W_OK) else tmp_path
    ) as name:
        yield Path(name)


@pytest.fixture
def clinic(memory):
    """The folder, what it holds with the person and a guard's deletions, and without both."""
    folder = memory / "clinic"
    trained(folder, TABLE + PERSON)
    guarded_and_killed(folder)
    with_person = contents(folder)
    assert set(but_receipts(with_person)) == {*FILES, "family.npz", *MEMORY}
    assert remains(folder) >= FILES
    delete_rows(folder, [NAME])
    without = but_receipts(contents(folder))
    restored(with_person, folder)
    return folder, with_person, without


def test_a_killed_deletion_is_finished_by_the_same_command(clinic, capsys, snapshot):
    folder, before, after = clinic
    command = ["forget", str(folder), NAME]
    said = set()
    for number in ends(before, folder, lambda: delete_rows(folder, [NAME]), all_of_them=IS_DEEP):
        assert run(command) == 0, number
        told = capsys.readouterr().out.splitlines()[0].partition(NAME)
        assert told[1] == NAME
        said.add(told[2])
        assert but_receipts(contents(folder)) == after, number
    assert len(said) == 2 and "" in said
    assert max(said) == snapshot
    assert but_receipts(contents(folder)) == after


READING = {
    "verify": lambda folder: ["verify", str(folder / "forest.spec"), "--time", "1"],
    "guard": lambda folder: ["guard", str(folder), "--epsilon", "1", f"{folder}.csv"],
    "other": lambda folder: ["forget", str(folder), "P-3"],
}


@pytest.mark.parametrize("name", READING)
def test_a_killed_deletion_is_finished_or_undone_by_any_command(clinic, name):
    folder, before, _ = clinic
    told = set()
    for number in ends(before, folder, lambda: delete_rows(folder, [NAME])):
        was_decided = (folder / COMMIT).exists() or "family.npz" not in contents(folder)
        assert run(READING[name](folder)) in (0, 1, 3), number
        told.add(was_decided)
        if was_decided:
            assert remains(folder) == set(), number
        assert run(["forget", str(folder), NAME]) == 0 or name == "other", number
        assert remains(folder) == set(), number
    assert told == {False, True}


def test_after_a_loss_of_power_the_folder_is_of_before_or_after(clinic):
    folder, before, after = clinic
    calls = recorded(lambda: delete_rows(folder, [NAME]))
    assert but_receipts(contents(folder)) == after
    rng, told = np.random.default_rng(0), set()
    for number, kept in lost(before, folder, calls, rng):
        restored(kept, folder)
        settle(folder)
        found = contents(folder)
        is_after = NAME not in ForestFolder.read(folder).columns.ids.values()
        told.add(is_after)
        expected = after if is_after else before
        assert all(found[each] == expected[each] for each in FILES), number
        assert found.get("family.npz") == expected.get("family.npz"), number
        if number == len(calls):
            assert is_after
            assert remains(folder) == set()
        delete_rows(folder, ["P-3"] if is_after else [NAME, "P-3"])
        assert remains(folder) == set(), number
    assert told == {False, True}


def test_rows_are_not_added_twice_by_the_same_command(memory):
    folder, new = memory / "clinic", memory / "new.csv"
    table = "\n".join(line.partition(",")[2] for line in TABLE.splitlines()) + "\n"
    (memory / "t.csv").write_text(table)
    train_forest(memory / "t.csv", folder, label="ill", forest=FOREST, test_share=0)
    new.write_text(table.splitlines(True)[0] + PERSON.partition(",")[2])
    before = contents(folder)
    add_rows(folder, new)
    after, finished = but_receipts(contents(folder)), set()
    for number in ends(before, folder, lambda: add_rows(folder, new)):
        done = add_rows(folder, new)
        finished.add(done.is_finished)
        assert (done.rows, done.held) == (("14",), 15)
        assert but_receipts(contents(folder)) == after, number
    assert finished == {False, True}
    # What somebody else put there since is not taken for what was added.
    restored(before, folder)
    calls = len(recorded(lambda: add_rows(folder, new)))
    restored(before, folder)
    assert ended_at(lambda: add_rows(folder, new), calls - 1)
    for name in ("forest.npz", "receipts.jsonl", "receipts.salt"):
        (folder / name).write_bytes(before[name])
    assert not add_rows(folder, new).is_finished
    # Asked for again, without any run that was ended, they are.
    assert add_rows(folder, new).rows == ("15",)


def test_a_program_that_is_ended_before_it_said_so_is_asked_again(clinic):
    folder, before, after = clinic
    for number in range(3):
        restored(before, folder)
        child = os.fork()
        if not child:
            delete_rows(folder, [NAME], tell=lambda _: os._exit(9))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
        assert remains(folder) == set()
        told = []
        assert delete_rows(folder, [NAME], check=number == 1, tell=told.append) == told[0]
        assert told[0].is_finished
        assert (told[0].retraining is None) == (number != 1)
        assert but_receipts(contents(folder)) == after


def test_a_row_that_is_gone_was_not_deleted_by_another_change(clinic, snapshot):
    folder, before, _ = clinic
    calls = len(recorded(lambda: delete_rows(folder, [NAME, "P-3"])))
    restored(before, folder)
    assert ended_at(lambda: delete_rows(folder, [NAME, "P-3"]), calls - 1)
    for rows in ([NAME], ["P-3", "P-99"], ["P-99"], []):
        with pytest.raises(ForestError) as told:
            delete_rows(folder, rows)
        assert str(told.value) == snapshot
    assert delete_rows(folder, ["P-3", NAME]).is_finished
    with pytest.raises(ForestError) as told:
        delete_rows(folder, ["P-3", NAME])
    assert str(told.value) == snapshot


@pytest.mark.parametrize(
    "name", ["fsync", "rename", "replace", "mkdir", "chmod", "rmdir", "unlink"]
)
def test_an_error_at_any_call_leaves_the_folder_whole(clinic, monkeypatch, name):
    folder, before, after = clinic
    true, told = getattr(os, name), []
    while None not in told:
        restored(before, folder)
        left = iter(range(len(told)))

        def fails(*given, left=left, **options):
            if next(left, None) is None:
                raise OSError(28, "No space left on device")
            return true(*given, **options)

        with monkeypatch.context() as patch:
            patch.setattr(os, name, fails)
            said = None
            try:
                delete_rows(folder, [NAME])
            except ForestError as error:
                said = str(error)
        told.append(said)
        if said is None:
            assert {**but_receipts(contents(folder)), REQUEST: b""} == {**after, REQUEST: b""}
        elif "the next command finishes it" in said:
            settle(folder)
            assert all(contents(folder)[each] == after[each] for each in FILES)
            assert delete_rows(folder, [NAME]).is_finished
        else:
            assert "No space left" in said
            assert contents(folder) == before, len(told)
    assert len(told) > 1
