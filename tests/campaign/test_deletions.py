"""The campaign against deletions sees what is left over, lost, mixed or done twice."""

from __future__ import annotations

import sys

import pytest

from leaveout import files
from leaveout.models.forest.folders import ForestFolder
from leaveout.models.train import folder

from attacks.deletions import Deletions
from attacks.kind import generator, sort_of
from attacks.workers import judged

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="calls are told apart by /proc")


def wrongs(count, **changed):
    """Return the sorts of mistakes of some cases."""
    kind = Deletions()
    found = []
    for number in range(count):
        case = kind.make(generator(0, "deletions", number))
        for step in case["steps"]:
            step.update(changed)
        found.append(judged(kind, case).wrong)
    return [sort_of(wrong) for wrong in found if wrong is not None]


def test_changes_are_whole_or_undone_and_finished_by_the_same_command():
    assert wrongs(40) == []


def test_a_folder_that_changes_file_by_file_is_seen(monkeypatch):
    def one_by_one(staged, target, gone=()):
        for each in sorted(staged.iterdir()):
            each.replace(target / each.name)
        for name in gone:
            (target / name).unlink(missing_ok=True)

    monkeypatch.setattr(folder, "commit", one_by_one)
    for how in ("process", "power"):
        assert [at for at in range(85, 100) if wrongs(3, how=how, op="delete", at=at / 100)], how


def test_a_command_that_does_not_know_itself_again_is_seen(monkeypatch):
    monkeypatch.setattr(ForestFolder, "asked_before", lambda self, request: None)
    found = set(wrongs(40, how="process", between="read"))
    assert found & {"not finished", "another forest"}


def test_names_that_are_not_synced_are_seen(monkeypatch):
    monkeypatch.setattr(files, "sync_folder", lambda path: None)
    assert wrongs(30, how="power", at=0.999)


def test_what_is_left_half_written_is_seen(monkeypatch):
    monkeypatch.setattr(files, "clear_partials", lambda path: None)
    assert "left over" in wrongs(40, how="process", at=0.5, op="delete")


def test_deletions_kept_of_the_forest_before_are_seen(monkeypatch):
    monkeypatch.setattr(folder, "_OF_ROWS", "nothing")
    assert "left over" in wrongs(30, op="delete")


def test_a_specification_that_is_kept_is_seen(monkeypatch):
    write = ForestFolder.write
    monkeypatch.setattr(
        ForestFolder,
        "write",
        lambda self, before=None, request=b"": write(self, before and "another", request),
    )
    assert "left over" in wrongs(30, op="delete")
