"""Files that change together do so wherever a program is ended or power is lost."""

from __future__ import annotations

import errno
import itertools
import os
import stat
import sys
import threading
import time

import numpy as np
import pytest

from leaveout.errors import LeaveoutError
from leaveout.files import (
    COMMIT,
    OWNER_ONLY,
    PARTIALS,
    UnusualFileError,
    clear_partials,
    commit,
    hold_folder,
    make_folder,
    open_atomically,
    open_file,
    partial_file,
    partial_folder,
    put_folder,
    read_whole,
    settle,
    write_together,
    write_whole,
)
from leaveout.models.archive import write_archive

from support.crashes import contents, ends, lost, recorded, restored

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="calls are told apart by /proc")


def drawn(rng):
    """Draw what a folder holds, what is written into it, and what goes; what is then there."""
    names = [f"f{i}" for i in range(4)]
    before = {name: rng.bytes(5) for name in names if rng.random() < 0.6} | {"other": b"theirs"}
    new = {name: rng.bytes(int(rng.integers(300))) for name in names if rng.random() < 0.6}
    gone = {name for name in names if rng.random() < 0.5} - set(new)
    after = {name: each for name, each in {**before, **new}.items() if name not in gone}
    return before, new, gone, after


def change(folder, new, gone):
    with hold_folder(folder), partial_folder(folder) as staged:
        for name, content in new.items():
            (staged / name).write_bytes(content)
        commit(staged, folder, gone)


def is_clean(folder):
    return not [each for each in folder.iterdir() if each.name.startswith(".leaveout")]


@pytest.mark.parametrize("seed", range(6))
def test_a_change_that_is_ended_is_whole_or_undone(tmp_path, seed):
    rng, folder = np.random.default_rng(seed), tmp_path / "f"
    before, new, gone, after = drawn(rng)
    for number in ends(before, folder, lambda: change(folder, new, gone), all_of_them=True):
        was_decided = (folder / COMMIT).exists()
        settle(folder)
        found = {n: c for n, c in contents(folder).items() if ".partial" not in n}
        assert found in (before, after), number
        assert found == after or not was_decided
        with hold_folder(folder):
            assert is_clean(folder)
        assert contents(folder) == found
    assert contents(folder) == after


@pytest.mark.parametrize("seed", range(6))
def test_power_that_is_lost_takes_all_of_a_change_or_nothing(tmp_path, seed):
    rng, folder = np.random.default_rng(seed), tmp_path / "f"
    before, new, gone, after = drawn(rng)
    restored(before, folder)
    calls, seen = recorded(lambda: change(folder, new, gone)), []
    for number, kept in lost(before, folder, calls, rng):
        restored(kept, folder)
        with hold_folder(folder):
            pass
        found = contents(folder)
        assert found in (before, after), number
        assert found == after or number < len(calls)
        seen.append(found)
    assert before in seen
    assert after in seen


@pytest.mark.parametrize("over", [None, {}, {"b": b"old", "c": b"gone"}])
def test_a_folder_is_put_whole_or_not(tmp_path, over):
    place = tmp_path / "place"
    target = place / "target"
    new = {"a": b"1" * 300, "b": b"2"}
    before = {"staged": None, **{f"staged/{name}": each for name, each in new.items()}}
    if over is not None:
        before |= {"target": None, **{f"target/{name}": each for name, each in over.items()}}

    def put():
        put_folder(place / "staged", target, {"c", "d"})

    def seen():
        if not target.exists():
            return None
        with hold_folder(target):
            return contents(target)

    found = []
    for _ in ends(before, place, put, all_of_them=True):
        found.append(seen())
        assert found[-1] in (over, new)
    assert seen() == new
    restored(before, place)
    calls = recorded(put)
    for number, kept in lost(before, place, calls, np.random.default_rng(1)):
        restored(kept, place)
        found.append(seen())
        assert found[-1] in (over, new)
        assert found[-1] == new or number < len(calls)
    assert over in found
    assert new in found


def test_a_file_is_the_old_one_or_the_new_one(tmp_path):
    folder = tmp_path / "f"
    before, text = {"a": b"old"}, b"new" * 100

    def write():
        write_whole(folder / "a", text)

    for _ in ends(before, folder, write, all_of_them=True):
        assert read_whole(folder / "a", 1000) in (b"old", text)
    restored(before, folder)
    calls = recorded(write)
    for number, kept in lost(before, folder, calls, np.random.default_rng(0)):
        assert kept["a"] in ((b"old", text) if number < len(calls) else (text,))


def test_files_written_together_are_all_there_or_none(tmp_path):
    place = tmp_path / "p"
    new = {"a": b"1", "b": b"2"}
    restored({}, place)
    calls = recorded(lambda: write_together(place / "x" / "y", new))
    made = {"x": None, "x/y": None, "x/y/a": b"1", "x/y/b": b"2"}
    for number, kept in lost({}, place, calls, np.random.default_rng(0)):
        restored(kept, place)
        if (place / "x" / "y").exists():
            with hold_folder(place / "x" / "y"):
                pass
        found = {name: each for name, each in contents(place).items() if each is not None}
        assert found in ({}, {name: each for name, each in made.items() if each}), number
        assert contents(place) == made or number < len(calls)


def left_over(folder, **files):
    """Leave a folder as a program does that is ended once its change is decided."""
    (folder / COMMIT).mkdir(mode=0o700)
    for name, content in files.items():
        (folder / COMMIT / name).write_text(content)


def test_whoever_opens_or_writes_a_file_finishes_the_change_first(tmp_path):
    (tmp_path / "a").write_text("old")
    left_over(tmp_path, a="new", b="more")
    with open_file(tmp_path / "a", 100) as stream:
        assert stream.read() == b"new"
    assert contents(tmp_path) == {"a": b"new", "b": b"more"}
    left_over(tmp_path, a="newer")
    write_whole(tmp_path / "a", b"newest")
    assert contents(tmp_path) == {"a": b"newest", "b": b"more"}
    left_over(tmp_path, c="of a link")
    link = tmp_path.parent / f"{tmp_path.name}-link"
    link.symlink_to(tmp_path / "c")
    assert read_whole(link, 100) == b"of a link"


def test_where_a_change_cannot_be_finished_nothing_is_read(tmp_path, snapshot):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").write_text("old")
    left_over(tmp_path, a="cannot take the place of a folder", b="new")
    with pytest.raises(UnusualFileError) as told:
        read_whole(tmp_path / "b", 100)
    assert str(told.value) == snapshot
    (tmp_path / "a").rmdir()
    assert read_whole(tmp_path / "b", 100) == b"new"


@pytest.mark.parametrize("what", ["link", "file", "of another user"])
def test_what_others_may_have_put_there_is_not_followed(tmp_path, what, snapshot):
    folder, elsewhere = tmp_path / "f", tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "a").write_text("private")
    folder.mkdir()
    (folder / "a").write_text("mine")
    if what == "link":
        (folder / COMMIT).symlink_to(elsewhere)
    elif what == "file":
        (folder / COMMIT).write_text("")
    elif os.geteuid():
        pytest.skip("only root can give a folder to somebody else")
    else:
        left_over(folder, a="theirs")
        os.chown(folder / COMMIT, 12345, 12345)
    with pytest.raises(UnusualFileError) as told:
        read_whole(folder / "a", 100)
    assert str(told.value) == snapshot
    assert (folder / "a").read_text() == "mine"
    assert (elsewhere / "a").read_text() == "private"


def test_a_link_in_the_folder_is_neither_followed_nor_replaced(tmp_path, snapshot):
    folder, elsewhere = tmp_path / "f", tmp_path / "elsewhere"
    elsewhere.write_text("private")
    folder.mkdir()
    (folder / "a").symlink_to(elsewhere)
    with pytest.raises(UnusualFileError) as told:
        change(folder, {"a": b"new"}, ())
    assert str(told.value) == snapshot
    assert contents(folder) == {"a": b"private"}
    # Whoever plants both a change and a link reaches nothing by it.
    left_over(folder, a="planted")
    assert read_whole(folder / "a", 100) == b"planted"
    assert elsewhere.read_text() == "private"


def test_what_is_being_written_is_not_cleared(tmp_path):
    handle, file = partial_file(tmp_path)
    with partial_folder(tmp_path) as folder:
        clear_partials(tmp_path)
        assert file.exists()
        assert folder.exists()
    os.close(handle)
    killed = tmp_path / PARTIALS.replace("*", "a")
    killed.mkdir()
    (killed / "file").write_text("a row")
    (tmp_path / PARTIALS.replace("*", "b")).symlink_to(tmp_path)
    clear_partials(tmp_path)
    assert contents(tmp_path) == {}


def test_a_reader_waits_for_a_program_that_is_at_it(tmp_path, snapshot):
    with hold_folder(tmp_path):
        left_over(tmp_path, a="new")
        found = []
        reader = threading.Thread(target=lambda: found.append(read_whole(tmp_path / "a", 100)))
        reader.start()
        time.sleep(0.05)
        assert found == []
        (tmp_path / COMMIT / "a").rename(tmp_path / "a")
        (tmp_path / COMMIT).rmdir()
        reader.join(60)
    assert found == [b"new"]
    with hold_folder(tmp_path), pytest.raises(BlockingIOError) as told:
        change(tmp_path, {}, ())
    assert str(told.value) == snapshot


MODES = [0o600, 0o640, 0o644, 0o400, 0o660]


@pytest.fixture(params=[0o022, 0o000, 0o077])
def mask(request):
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def writers():
    """Yield every way to write a file, with its name."""

    def archive(path):
        write_archive(path, {"x": np.zeros(3)}, LeaveoutError)

    yield "write_whole", lambda path: write_whole(path, b"new")
    yield "write_archive", archive
    yield "write_together", lambda path: write_together(path.parent, {path.name: b"new"})
    yield "commit", lambda path: change(path.parent, {path.name: b"new"}, ())


WRITERS = dict(writers())


@pytest.mark.usefixtures("mask")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", WRITERS)
def test_what_is_written_anew_keeps_its_permissions(tmp_path, name, mode):
    path = tmp_path / "file"
    path.write_text("old")
    path.chmod(mode)
    WRITERS[name](path)
    assert path.read_bytes() != b"old"
    assert stat.S_IMODE(path.stat().st_mode) == mode


@pytest.mark.parametrize("name", WRITERS)
def test_what_is_new_has_those_that_the_mask_leaves(tmp_path, mask, name):
    WRITERS[name](tmp_path / "file")
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o666 & ~mask
    write_whole(tmp_path / "state", b"", OWNER_ONLY)
    assert stat.S_IMODE((tmp_path / "state").stat().st_mode) == 0o600


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.usefixtures("mask")
def test_at_no_moment_has_anybody_else_more_of_it(tmp_path, name):
    folder = tmp_path / "f"
    restored({"file": b"old"}, folder)
    (folder / "file").chmod(0o600)
    true, seen = os.fsync, []

    def fsync(handle):
        true(handle)
        for each in folder.rglob("*"):
            is_hidden = each.parent != folder and not each.parent.stat().st_mode & 0o077
            if each.is_file() and not is_hidden:
                seen.append(stat.S_IMODE(each.stat().st_mode))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", fsync)
        WRITERS[name](folder / "file")
    assert set(seen) == {0o600}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another group")
def test_a_group_is_kept_or_its_permissions_go(tmp_path, monkeypatch):
    path = tmp_path / "file"
    path.write_text("old")
    os.chown(path, -1, 4321)
    path.chmod(0o640)
    write_whole(path, b"new")
    assert (path.stat().st_gid, stat.S_IMODE(path.stat().st_mode)) == (4321, 0o640)

    def refuse(*_):
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "chown", refuse)
    write_whole(path, b"newer")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_folder_that_is_put_over_another_keeps_its_permissions(tmp_path):
    target = tmp_path / "target"
    restored({"a": b"old"}, target)
    target.chmod(0o700)
    (target / "a").chmod(0o600)
    with partial_folder(tmp_path) as staged:
        (staged / "a").write_bytes(b"new")
        put_folder(staged, target)
    assert stat.S_IMODE(target.stat().st_mode) == 0o700
    assert stat.S_IMODE((target / "a").stat().st_mode) == 0o600
    assert contents(tmp_path) == {"target": None, "target/a": b"new"}


def test_what_fails_leaves_nothing_behind(tmp_path):
    with pytest.raises(ZeroDivisionError), open_atomically(tmp_path / "a"):
        raise ZeroDivisionError
    with pytest.raises(ZeroDivisionError), partial_folder(tmp_path):
        raise ZeroDivisionError
    assert contents(tmp_path) == {}
    make_folder(tmp_path / "x" / "y")
    make_folder(tmp_path / "x" / "y")
    assert list(itertools.chain(contents(tmp_path))) == ["x", "x/y"]
