"""Stopping: nothing finished is lost, nothing is trained twice, nobody stays behind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from leaveout.errors import TrainingError
from leaveout.models.family import load_family_file
from leaveout.models.train import Recipe, TrainingInterruptedError, blocks, family_run, run
from leaveout.models.train.blocks import Blocks, differences, write_block

from support import children
from support.crashes import contents, ends
from support.inline import Halfway, trained_here

pytest.importorskip("torch")

linux = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")

# Without a __main__ guard, as a user's script may be. Once so many networks are finished, it says
# so and waits: however late the test notices, it has not gone on.
PROGRAM = """
import sys
from leaveout.errors import LeaveoutError
from leaveout.models.train import Recipe, run
data, out, count = sys.argv[1:]
count = int(count)
def hold(progress):
    global count
    if progress.finished >= count:
        count = 1000
        print("there", flush=True)
        sys.stdin.readline()
try:
    run(data, out, recipe=Recipe(layers=(20, 20), epochs=30, batch=4), block=4, workers=2,
        device="cpu", on_progress=hold)
except LeaveoutError as error:
    print(error, file=sys.stderr)
    sys.exit(error.exit_code)
"""
RECIPE = Recipe(layers=(20, 20), epochs=30, batch=4)
SHORT = Recipe(layers=(9, 5), epochs=3, batch=8)


BLOCK = 4


def start(data, out, blocks):
    """Start a run, and wait until so many blocks are finished."""
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    process = children.start([sys.executable, "-c", PROGRAM, data, out, blocks * BLOCK], **pipes)
    assert process.stdout.readline() == "there\n", process.stderr.read()
    assert len(finished(out)) >= blocks
    return process


def finished(out):
    return {path.name: path.stat().st_mtime_ns for path in (out / ".partial").glob("*.npy")}


@pytest.fixture
def whole(blobs, tmp_path):
    """Bytes of a run that was not stopped."""
    run(blobs, tmp_path / "whole", recipe=RECIPE, device="cpu")
    return {path.name: path.read_bytes() for path in (tmp_path / "whole").iterdir()}


@linux
def test_killed_at_half_and_resumed_gives_the_bytes_of_one_run(blobs, tmp_path, whole, snapshot):
    out = tmp_path / "out"
    process = start(blobs, out, 8)
    workers = children.children(process.pid)
    assert len(workers) == 2
    process.kill()
    process.wait()
    children.wait_until_gone(workers)
    kept = finished(out)
    assert sorted(path.name for path in out.iterdir()) == [".partial"]

    with pytest.raises(TrainingError) as told:
        run(blobs, out, recipe=Recipe(layers=(20, 20), epochs=150, batch=5), device="cpu")
    assert str(told.value) == snapshot
    assert finished(out) == kept

    seen = []

    def watch(progress):
        seen.append((progress.finished, finished(out)))

    run(blobs, out, recipe=RECIPE, block=7, workers=1, device="cpu", on_progress=watch)
    assert seen[0] == (sum(size(name) for name in kept), kept)
    assert all(kept.items() <= there.items() for _, there in seen)
    assert {path.name: path.read_bytes() for path in out.iterdir()} == whole


def size(name):
    first, last = map(int, name.removesuffix(".npy").split("-"))
    return last - first


@linux
def test_ctrl_c_keeps_what_is_finished_for_the_run_that_holds_the_directory(
    blobs, tmp_path, snapshot
):
    out = tmp_path / "out"
    process = start(blobs, out, 3)
    with pytest.raises(TrainingError) as told:
        run(blobs, out, recipe=RECIPE, device="cpu")
    assert str(told.value) == snapshot
    workers = children.children(process.pid)
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=children.HANGS)[1]
    assert process.returncode == 130
    assert " 62 " in said
    assert re.sub(r" \d+ ", " SOME ", said, count=1) == snapshot
    assert "Traceback" not in said
    assert len(said.splitlines()) == 1
    children.wait_until_gone(workers)
    assert len(finished(out)) >= 3


def stopped(data, out, when, **options):
    """Return what is said of a run that Ctrl-C stops at the first progress of a kind."""

    def stop(progress):
        if when(progress):
            raise KeyboardInterrupt

    with pytest.raises(TrainingInterruptedError) as caught:
        run(data, out, recipe=SHORT, device="cpu", on_progress=stop, **options)
    assert caught.value.exit_code == 130
    return str(caught.value)


def within_a_block(progress):
    return progress.work > progress.finished


@pytest.fixture
def halfway():
    """Train in this process, which says of each block when it is half done."""
    with trained_here(Halfway):
        yield


@pytest.mark.usefixtures("halfway")
def test_ctrl_c_within_the_first_block_says_that_nothing_is_kept_and_leaves_nothing(
    blobs, tmp_path, snapshot
):
    out = tmp_path / "out"
    said = stopped(blobs, out, within_a_block, workers=1, block=62)
    assert said == snapshot
    assert not out.exists()
    run(blobs, out, recipe=SHORT, device="cpu", workers=1, members=4)

    there = (out / "family.npz").read_bytes()
    said = stopped(blobs, out, within_a_block, workers=1, block=62)
    assert said == snapshot
    assert (out / "family.npz").read_bytes() == there
    assert run(blobs, out, recipe=SHORT, device="cpu", workers=1).members == 61


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("before", [False, True])
def test_ctrl_c_when_the_family_is_complete_says_so(blobs, tmp_path, monkeypatch, before, snapshot):
    out = tmp_path / "out"
    if before:
        run(blobs, out, recipe=SHORT, device="cpu", members=2)

    def report(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr("leaveout.models.train.training.report_of", report)
    with pytest.raises(TrainingInterruptedError) as told:
        run(blobs, out, recipe=SHORT, device="cpu", members=2)
    assert str(told.value) == snapshot
    assert len(load_family_file(out / "family.npz")) == 2


@linux
def test_a_worker_that_is_killed_is_an_error_and_its_siblings_end(blobs, tmp_path, snapshot):
    out = tmp_path / "out"
    process = start(blobs, out, 1)
    workers = children.children(process.pid)
    os.kill(workers[0], signal.SIGKILL)
    said = process.communicate(timeout=children.HANGS)[1]
    assert process.returncode == 2
    assert said == snapshot
    assert "Traceback" not in said
    children.wait_until_gone(workers)


def block_of(folder, first, last):
    write_block(folder, first, last, np.full((last - first, 3), first, dtype=np.float32))


def test_what_is_missing_is_cut_around_what_is_finished(tmp_path):
    blocks = Blocks(tmp_path, 3)
    assert blocks.missing_ranges(10, 4) == [range(4), range(4, 8), range(8, 10)]
    block_of(tmp_path, 3, 5)
    block_of(tmp_path, 9, 10)
    assert blocks.missing_ranges(10, 4) == [range(3), range(5, 9)]
    block_of(tmp_path, 0, 3)
    block_of(tmp_path, 5, 9)
    assert blocks.missing_ranges(10, 4) == []


def test_a_damaged_block_is_trained_again(tmp_path):
    block_of(tmp_path, 0, 5)
    path = next(tmp_path.glob("*.npy"))
    path.write_bytes(path.read_bytes()[:-4])
    assert Blocks(tmp_path, 3).missing_ranges(5, 5) == [range(5)]


def test_a_run_that_fails_before_a_block_is_finished_leaves_nothing(tmp_path):
    blocks = Blocks(tmp_path / "out" / ".partial", 3)
    with pytest.raises(RuntimeError), blocks.open_folder({"epochs": 1}):
        raise RuntimeError
    assert not (tmp_path / "out").exists()


def test_settings_of_a_run_with_no_finished_block_bind_nobody(tmp_path):
    folder = tmp_path / ".partial"
    folder.mkdir()
    (folder / "settings.json").write_text('{"epochs": 1}')
    with Blocks(folder, 3).open_folder({"epochs": 2}):
        block_of(folder, 0, 1)
    assert not folder.exists()


def test_differences_are_said_in_words(snapshot):
    assert differences({"a": 1}, {"a": 1}) == []
    assert differences({"a": 1, "data": "x"}, {"a": [2], "data": "y"}) == snapshot
    assert differences({"encoding": {}}, {}) == snapshot


def test_why_a_block_cannot_be_written_is_said(tmp_path, snapshot):
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    try:
        with pytest.raises(OSError) as told:
            write_block(tmp_path, 0, 4, np.ones((4, 1000), dtype=np.float32))
        assert str(told.value) == snapshot
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert not list(tmp_path.iterdir())


def test_a_disk_that_is_full_before_anything_is_trained_leaves_no_folder(
    tmp_path, monkeypatch, snapshot
):
    def full(path, content):
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr(blocks, "write_whole", full)
    out = tmp_path / "out"
    with pytest.raises(OSError) as told, Blocks(out / ".partial", 3).open_folder({}):
        pass
    assert str(told.value) == snapshot
    assert not out.exists()


@linux
@pytest.mark.usefixtures("here")
def test_wherever_it_is_ended_the_networks_are_of_one_run(blobs, tmp_path, monkeypatch):
    out, place = tmp_path / "out", tmp_path / "place"
    run(blobs, out, recipe=SHORT, device="cpu", members=3)
    names = ("full.onnx", "idp.spec", "family.npz")
    old = {name: (out / name).read_bytes() for name in names}
    (out / "family.npz").chmod(0o600)
    found = []

    def committed(staged, folder, commit=family_run.commit):
        new = {each.name: each.read_bytes() for each in staged.iterdir()}
        own = staged.relative_to(out)
        for _ in ends(contents(out), place, lambda: commit(place / own, place)):
            family = load_family_file(place / "family.npz")
            found.append(len(family))
            expected = old if len(family) == 3 else new
            assert {name: (place / name).read_bytes() for name in names} == expected
        commit(staged, folder)

    monkeypatch.setattr(family_run, "commit", committed)
    run(blobs, out, recipe=SHORT, device="cpu", members=5)
    assert found == sorted(found)
    assert set(found) == {3, 5}
    assert (out / "family.npz").stat().st_mode & 0o777 == 0o600
    assert sorted(each.name for each in out.iterdir()) == sorted(names)
