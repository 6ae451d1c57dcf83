"""Where ``leaveout partition`` writes: the whole, or nothing."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path

import pytest

from leaveout.files import PARTIALS, lock, settle
from leaveout.models.votes import PartitionInterruptedError, partition, partitioning, read_ballots
from leaveout.models.votes import partitioning as output

from support.crashes import contents, ends
from support.parts import invoke


def test_an_empty_directory_is_filled_where_it_is(arrays, tmp_path, capsys, monkeypatch):
    out = tmp_path / "out"
    out.mkdir()
    monkeypatch.chdir(out)
    before = out.stat().st_ino
    words = [arrays, "--learner", "GaussianNB", "--parts", 3, "--workers", 1, "-o", "."]
    assert invoke(capsys, *words)[0] == 0
    assert out.stat().st_ino == before
    names = {path.name for path in out.iterdir()}
    assert {"ballots.npz", "parts.csv", "poisoning.spec"} <= names
    assert {path.name for path in tmp_path.iterdir()} == {"out", "cancer.npz"}


def test_names_that_are_no_text_are_written_as_far_as_they_are(table, tmp_path, capsys, snapshot):
    strange = os.fsdecode(b"bad\xff")
    data, out = tmp_path / f"{strange}.csv", tmp_path / strange
    try:
        data.write_bytes(table.read_bytes())
    except OSError:
        pytest.skip("file names are text here")
    fast = ["--learner", "GaussianNB", "--no-onnx", "--parts", 3, "--workers", 1]
    words = [data, "--label", "answer", "--test-share", "0.25", *fast]
    code, stdout, stderr = invoke(capsys, *words, "-o", out)
    assert (code, stderr) == (0, "")
    assert (out / "poisoning.spec").read_text(encoding="utf-8") == snapshot
    assumptions = read_ballots(out / "ballots.npz").origin.assumptions
    assert sum("bad\ufffd.csv" in each.text for each in assumptions) == 2
    assert "bad\ufffd/ballots.npz" in stdout
    for flag in ("--hash-key", "--labels"):
        code, _, stderr = invoke(capsys, *words, flag, f"good,{strange}", "-o", tmp_path / "new")
        assert code == 2
        assert stderr == snapshot
        assert stderr.count("\n") == 1


def test_a_directory_that_cannot_be_made_is_refused_before_training(
    arrays, tmp_path, capsys, monkeypatch, snapshot
):
    monkeypatch.setattr(partitioning, "hold_election", lambda *a, **k: pytest.fail("it trained"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("mine")
    (tmp_path / "circle").symlink_to("circle")
    before = set(tmp_path.iterdir())
    for given in (
        "file/x",
        "file/x/y",
        "circle/x",
        "new/" + "x" * 300 + "/y",
        "absent/..",
        "/proc/x",
    ):
        code, stdout, stderr = invoke(capsys, arrays, "-o", given)
        assert (code, stdout) == (2, "")
        assert stderr == snapshot
        assert stderr.count("\n") == 1
    assert set(tmp_path.iterdir()) == before


def test_a_directory_without_permission_is_refused_before_training(
    arrays, tmp_path, capsys, monkeypatch, snapshot
):
    monkeypatch.setattr(partitioning, "hold_election", lambda *a, **k: pytest.fail("it trained"))
    make = os.mkdir

    def refuse(path, *arguments, **options):
        if Path(path).resolve().parent == tmp_path / "theirs":
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        make(path, *arguments, **options)

    monkeypatch.setattr(os, "mkdir", refuse)
    (tmp_path / "theirs").mkdir()
    monkeypatch.chdir(tmp_path)
    for given in ("theirs", "theirs/x", "theirs/x/y"):
        code, _, stderr = invoke(capsys, arrays, "-o", given)
        assert code == 2
        assert stderr == snapshot
        assert f"{given}" in stderr
        assert stderr.count("\n") == 1


def test_what_fails_while_writing_is_told_of_the_directory_as_given(
    arrays, tmp_path, capsys, monkeypatch, snapshot
):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device", "/somewhere/else")

    monkeypatch.chdir(tmp_path)
    words = [arrays, "--learner", "GaussianNB", "--no-onnx", "--workers", 1, "--parts", 3]
    for name in ("_parts_text", "write_ballots"):
        for made in (False, True):
            monkeypatch.setattr(output, name, full)
            if made:
                (tmp_path / "out").mkdir()
            code, _, stderr = invoke(capsys, *words, "-o", "out")
            assert code == 2
            assert stderr == snapshot
            if made:
                (tmp_path / "out").rmdir()
            assert [path.name for path in tmp_path.iterdir()] == ["cancer.npz"]
        monkeypatch.undo()
        monkeypatch.chdir(tmp_path)


def test_nothing_half_written_is_left_in_a_directory_that_was_there(arrays, tmp_path, monkeypatch):
    out = tmp_path / "out"
    out.mkdir()

    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("leaveout.files.commit", stop)
    with pytest.raises(PartitionInterruptedError):
        partition(arrays, out, workers=1, onnx=False)
    assert not list(out.iterdir())


@pytest.mark.skipif(sys.platform != "linux", reason="calls are told apart by /proc")
def test_wherever_it_is_ended_no_ballots_are_there_without_the_rest(arrays, tmp_path, monkeypatch):
    place, put, found = tmp_path / "place", output.put_folder, []

    def put_and_ended(staged, target):
        own, new = staged.relative_to(target), contents(staged)

        def put_there():
            lock(os.open(place / own, os.O_RDONLY))
            put(place / own, place)

        for _ in ends(contents(target), place, put_there):
            settle(place)
            there = {n: each for n, each in contents(place).items() if ".partial" not in n}
            assert there in ({}, new)
            found.append(bool(there))
        put(staged, target)

    monkeypatch.setattr(output, "put_folder", put_and_ended)
    (tmp_path / "out").mkdir()
    partition(arrays, tmp_path / "out", workers=1)
    assert set(found) == {False, True}
    assert (tmp_path / "out" / "models").is_dir()


def test_what_a_killed_run_left_half_written_is_no_content(arrays, tmp_path):
    (tmp_path / "out" / PARTIALS.replace("*", "abc")).mkdir(parents=True)
    partition(arrays, tmp_path / "out", workers=1, onnx=False)
    assert read_ballots(tmp_path / "out" / "ballots.npz")
    assert not list((tmp_path / "out").glob(PARTIALS))


def test_a_directory_that_holds_something_is_left_alone(arrays, tmp_path, capsys, snapshot):
    out = tmp_path / "out"
    out.mkdir()
    (out / "thesis.tex").write_text("mine")
    code, _, stderr = invoke(capsys, arrays, "-o", out)
    assert code == 2
    assert stderr == snapshot
    assert [path.name for path in out.iterdir()] == ["thesis.tex"]
    code, _, stderr = invoke(capsys, arrays, "-o", out / "thesis.tex")
    assert code == 2
    assert stderr == snapshot
    code, _, stderr = invoke(capsys, tmp_path / "absent.npz", "-o", tmp_path / "new")
    assert code == 2
    assert stderr == snapshot


@pytest.mark.parametrize("workers", [1, 2])
def test_stopped_from_the_keyboard_it_leaves_nothing(arrays, tmp_path, workers, snapshot):
    told = []

    def stop(done, members):
        told.append((done, members))
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(PartitionInterruptedError) as caught:
        partition(arrays, tmp_path / "out", workers=workers, on_progress=stop)
    assert str(caught.value) == snapshot
    assert caught.value.exit_code == 130
    assert told == [(0, 51), (1, 51), (2, 51), (3, 51)]
    assert [path.name for path in tmp_path.iterdir()] == ["cancer.npz"]


def test_stopped_while_it_still_loads_it_says_so(arrays, tmp_path, capsys, monkeypatch, snapshot):
    name = "leaveout.models.votes.recipe"

    class Stop:
        def find_spec(self, wanted, path=None, target=None):
            if wanted == name:
                raise KeyboardInterrupt

    monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setattr(sys, "meta_path", [Stop(), *sys.meta_path])
    code, stdout, stderr = invoke(capsys, arrays, "-o", tmp_path / "out")
    assert (code, stdout) == (130, "")
    assert stderr == snapshot
